//! The child processes that are measured.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use steadfast_core::clock::SystemClock;
use steadfast_durabletask::Context;
use steadfast_net::http;
use steadfast_net::listen::{Listener, ListenerOptions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::session::Session;
use crate::child::{wait_for_end, wait_saying};

const CONNECTIONS: usize = 1000;

/// Serves a folder with workers in this process, reports readiness on `output`, and
/// waits for its end.
pub fn serve(folder: &Path, input: impl Read, output: impl Write) -> Result<()> {
    let _session = Session::open(folder)?;
    wait_for_end(input, output)
}

/// Serves a folder by gRPC, with no worker in this process, reports its port, and waits
/// for its end.
pub fn serve_grpc(folder: &Path, input: impl Read, output: impl Write) -> Result<()> {
    let session = Session::bare(folder)?;
    let port = session.tasks.block_on(listen(&session))?;
    wait_saying(&port.to_string(), input, output)
}

async fn listen(session: &Session) -> Result<u16> {
    let stop = CancellationToken::new();
    let context = Context {
        hubs: session.hubs.clone(),
        access: None,
        clock: Arc::new(SystemClock::new()),
        leaving: stop.clone(),
        counts: Arc::default(),
    };
    let routes = steadfast_durabletask::routes(Arc::new(context));
    let listener = Listener::bind(ListenerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        tls: None,
        connections: CONNECTIONS,
    })?;
    let port = listener.address().port();
    let serving = listener.run(stop.clone(), TaskTracker::new(), move |stream, peer| {
        http::serve(stream, peer, routes.clone(), stop.clone())
    });
    tokio::spawn(serving);
    Ok(port)
}
