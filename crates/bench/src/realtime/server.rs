//! The child process that serves clients.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_net::access::{AccessControl, Grant, Key, KeyRing, Secret};
use steadfast_net::http;
use steadfast_net::listen::{Listener, ListenerOptions};
use steadfast_realtime::{HubOptions, Realtime};
use steadfast_signalr::Context;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::hub::{EchoHub, OWN, SECRET};
use crate::child::{Child, wait_saying};
use crate::process::allow_files;

const CONNECTIONS: usize = 100_000;

/// A service in a process of its own.
pub(super) struct RealtimeServer {
    pub(super) process: Child,
    pub(super) address: SocketAddr,
}

impl RealtimeServer {
    pub(super) fn start(executable: &Path) -> Result<Self> {
        let (process, port) = Child::start_saying(executable, ["realtime-child"])?;
        let port: u16 = port.parse().context("the child said no port")?;
        Ok(Self {
            process,
            address: ([127, 0, 0, 1], port).into(),
        })
    }
}

/// Serves hubs, reports its port, and waits for its end.
pub fn serve(input: impl Read, output: impl Write) -> Result<()> {
    allow_files();
    let tasks = tokio::runtime::Runtime::new()?;
    let port = tasks.block_on(async { start() })?;
    wait_saying(&port.to_string(), input, output)
}

fn start() -> Result<u16> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let realtime = Realtime::new("bench");
    let options = HubOptions {
        is_open: true,
        ..HubOptions::default()
    };
    realtime.host(OWN, EchoHub, options)?;
    let mut ring = KeyRing::new();
    ring.add(Key {
        name: "bench".to_owned(),
        grants: vec![Grant::everything()],
        primary: Secret::new(SECRET),
        secondary: None,
    });
    let context = Context {
        realtime,
        access: Arc::new(AccessControl::new(ring, Arc::clone(&clock))),
        clock,
    };
    let paths = [(format!("/{OWN}"), OWN.to_owned())];
    let routes = steadfast_signalr::routes(&Arc::new(context), &paths);
    let listener = Listener::bind(ListenerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        tls: None,
        connections: CONNECTIONS,
    })?;
    let port = listener.address().port();
    let stop = CancellationToken::new();
    let serving = listener.run(stop.clone(), TaskTracker::new(), move |stream, peer| {
        http::serve(stream, peer, routes.clone(), stop.clone())
    });
    tokio::spawn(serving);
    Ok(port)
}
