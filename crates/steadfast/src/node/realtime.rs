//! Hubs: what hosts them, and their port.

use std::sync::Arc;

use steadfast_protocols::http::{Frame, serve};
use steadfast_protocols::listen::{Bind, Certificate, Listener};
use steadfast_protocols::realtime::{self, Context, Routes};
use steadfast_realtime::{Hub, HubOptions, Realtime, Result as HubsResult};

use super::address::Address;
use super::error::Result;
use super::inner::Inner;
use crate::config::Config;

/// Hosts one hub, when the node starts.
type Hosting = Box<dyn FnOnce(&Realtime) -> HubsResult<()> + Send>;

/// The hubs of a node, before it starts.
#[derive(Default)]
pub(super) struct Hubs {
    hostings: Vec<Hosting>,
    /// Paths, and the hubs behind them.
    paths: Vec<(String, String)>,
}

/// The hubs of a node.
pub(super) struct Hosted {
    pub(super) realtime: Realtime,
    paths: Vec<(String, String)>,
}

impl Hubs {
    /// Adds a hub; its name is the last part of its path.
    pub(super) fn add<H: Hub>(&mut self, path: &str, hub: H, options: HubOptions) {
        let path = format!("/{}", path.trim_matches('/'));
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        self.paths.push((path, name.clone()));
        self.hostings.push(Box::new(move |realtime| {
            realtime.host(&name, hub, options).map(drop)
        }));
    }

    /// Hosts them all.
    pub(super) fn open(self, server: &str) -> Result<Hosted> {
        let realtime = Realtime::new(server);
        for hosting in self.hostings {
            hosting(&realtime)?;
        }
        Ok(Hosted {
            realtime,
            paths: self.paths,
        })
    }
}

/// Opens the port of clients.
pub(super) fn bind(config: &Config, certificate: Option<&Arc<Certificate>>) -> Result<Listener> {
    Ok(Listener::bind(Bind {
        address: config.address(config.realtime_port),
        tls: certificate.map(|certificate| certificate.server(&["h2", "http/1.1"])),
        connections: config.connections,
    })?)
}

/// The routes of clients, which are the same on every port.
pub(super) fn routes(inner: &Inner) -> Routes {
    let context = Context {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.clock),
    };
    realtime::routes(&Arc::new(context), &inner.hosted.paths)
}

/// Serves the port until the node stops.
pub(super) fn start(inner: &Arc<Inner>, listener: Listener, frame: &Frame) {
    let routes = frame.around(routes(inner));
    let scheme = match listener.is_encrypted() {
        true => "https",
        false => "http",
    };
    inner.own.addresses.write().push(listener.address());
    inner.addresses.lock().push(Address {
        name: "realtime",
        url: format!("{scheme}://{}", listener.address()),
    });
    let connections = inner.stop.clone();
    let serving = listener.run(
        inner.stop.clone(),
        inner.tasks.clone(),
        move |stream, peer| serve(stream, peer, routes.clone(), connections.clone()),
    );
    inner.tasks.spawn(serving);
}
