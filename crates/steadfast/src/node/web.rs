//! The port of REST, health and metrics.

use std::sync::Arc;

use steadfast_core::task::named;
use steadfast_protocols::amqp::Context as Events;
use steadfast_protocols::durabletask;
use steadfast_protocols::http::{
    Bodies, Cors, Frame, Hosts, Landing, Page, Proxies, Registry, serve,
};
use steadfast_protocols::listen::{Bind, Caps, Governor, Listener};
use steadfast_protocols::publish;
use steadfast_protocols::rest::{self, Collections, Interface, Operator};
use steadfast_protocols::scheduler::{self, Auth, Keeping, NoInternal, Settings};

use super::address::Address;
use super::collections::Shelves;
use super::durable;
use super::error::Result;
use super::inner::Inner;
use super::inside::Inside;
use super::readings::readings;
use crate::config::Config;

/// A port that is open but not served yet.
pub(super) struct Port {
    listener: Listener,
}

/// Opens the port before any state, so that a port in use is reported at once.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<steadfast_protocols::listen::Certificate>>,
) -> Result<Port> {
    let listener = Listener::bind(Bind {
        address: config.address(config.http_port),
        tls: certificate.map(|certificate| certificate.server(&["h2", "http/1.1"])),
        connections: config.connections,
    })?;
    Ok(Port { listener })
}

/// Bounds the connections of clients on all ports. Many may come from one proxy.
pub(super) fn governor(config: &Config) -> Governor {
    let proxies = proxies(config);
    let caps = Caps {
        unproven: config.unproven_connections,
        connection_bytes: config.connection_bytes as usize,
        bytes: config.connections_bytes as usize,
    };
    Governor::new(caps, move |peer| proxies.trusts(peer))
}

fn proxies(config: &Config) -> Proxies {
    let proxies = config.trusted_proxies.iter().map(String::as_str);
    Proxies::new(proxies).expect("the configuration was checked")
}

/// The middleware of all routes of this node.
pub(super) fn frame(inner: &Arc<Inner>) -> Frame {
    let metrics = Arc::new(Registry::new(Arc::clone(&inner.clock)));
    let weak = Arc::downgrade(inner);
    metrics.read(move || {
        weak.upgrade()
            .map(|inner| readings(&inner))
            .unwrap_or_default()
    });
    let cors = Cors::new(inner.config.cors_origins.iter().cloned());
    Frame {
        bodies: Bodies::new(),
        // In development keys are well-known or not required: web pages may not call the node.
        cors: Arc::new(match inner.is_development {
            true => cors.with_loopback(),
            false => cors,
        }),
        hosts: Arc::new(match (&inner.config.hosts[..], inner.is_development) {
            ([], false) => Hosts::Any,
            (names, _) => Hosts::new(names.iter().cloned()),
        }),
        proxies: Arc::new(proxies(&inner.config)),
        metrics,
    }
}

/// The context of the scheduler's REST interface.
pub(super) fn jobs(inner: &Inner, is_encrypted: bool) -> scheduler::Context {
    scheduler::Context {
        keeping: match &inner.paired {
            Some(paired) => Keeping::Pair(paired.pair()),
            None => Keeping::Alone(inner.own.jobs.clone()),
        },
        clock: Arc::clone(&inner.clock),
        auth: Auth::Keys(Arc::clone(&inner.access)),
        key: inner.own.secret.clone(),
        egress: inner.own.egress.clone(),
        // Services of one region cannot be targets of jobs that both regions run.
        internal: match inner.paired {
            Some(_) => Arc::new(NoInternal),
            None => Arc::new(Inside {
                hubs: inner.own.hubs.clone(),
            }),
        },
        atlas: inner.config.regions.atlas.clone(),
        settings: Settings {
            enforce_quotas: inner.config.jobs_quotas,
            allow_seconds: inner.config.jobs_allow_seconds,
            min_retry_interval: inner.config.jobs_min_retry_interval,
            scheme: if is_encrypted { "https" } else { "http" },
            ..Settings::default()
        },
    }
}

/// The landing page at `/`.
fn landing(inner: &Arc<Inner>, scheme: &'static str) -> Landing {
    let weak = Arc::downgrade(inner);
    Landing::new(scheme, move || {
        let inner = weak.upgrade();
        let inner = inner.as_deref();
        let development = inner.filter(|inner| inner.is_development);
        Page {
            addresses: inner.map(Operator::addresses).unwrap_or_default(),
            strings: development.map(Inner::connection_strings),
        }
    })
}

/// Serves the port until the node stops.
pub(super) fn start(inner: &Arc<Inner>, port: Port, frame: &Frame, events: &Arc<Events>) {
    let operator = Arc::clone(inner) as Arc<dyn Operator>;
    let interface = rest::routes(Interface::new(Arc::clone(&inner.access)), &operator);
    let interface = rest::identity_routes(interface, &operator);
    let interface = rest::audit_routes(interface);
    let interface = rest::care_routes(interface, &operator);
    let interface = rest::cluster_routes(interface, &operator);
    let interface = rest::region_routes(interface, &operator);
    let shelves = Arc::new(Shelves(Arc::clone(inner))) as Arc<dyn Collections>;
    let interface = rest::state_routes(interface, &shelves);
    let hubs = Arc::new(rest::Hubs {
        hubs: inner.own.hubs.clone(),
        blobs: inner.own.blobs.clone(),
        operator: Arc::clone(&operator),
        leaving: inner.leaving.clone(),
    });
    let interface = rest::event_routes(interface, &hubs);
    let scheme = match port.listener.is_encrypted() {
        true => "https",
        false => "http",
    };
    let rest_hubs = durable::rest_context(inner);
    let desk = rest::HubDesk {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.clock),
    };
    let interface = rest::hub_routes(interface, &desk);
    let routes = interface
        .routes()
        .merge(durabletask::routes(durable::context(inner)))
        .merge(durabletask::rest::routes(rest_hubs, scheme))
        .merge(Arc::clone(&inner.health).routes())
        .merge(landing(inner, scheme).routes())
        .merge(steadfast_protocols::amqp::routes(
            Arc::clone(events),
            inner.leaving.clone(),
        ))
        .merge(publish::routes(Arc::clone(events)))
        .merge(scheduler::routes(Arc::new(jobs(
            inner,
            port.listener.is_encrypted(),
        ))))
        .merge(super::realtime::routes(inner))
        .merge(Arc::clone(&frame.metrics).routes())
        .fallback(rest::no_route)
        .method_not_allowed_fallback(rest::no_method);
    let routes = frame.around(routes);
    let listener = port.listener.governed(&inner.governor);
    inner.own.addresses.write().push(listener.address());
    inner.addresses.lock().push(Address {
        name: "http",
        url: format!("{scheme}://{}", listener.address()),
    });
    let stop = inner.stop.clone();
    let connections = inner.stop.clone();
    let running = listener.run(stop, inner.tasks.clone(), move |stream, peer| {
        named(serve(stream, peer, routes.clone(), connections.clone()))
    });
    inner.tasks.spawn(running);
}
