//! A connection in memory, admitted as one of a port is.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use steadfast_net::http;
use steadfast_net::listen::{ConnectionStream, Governor, serve_pipe};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::time::{due, settle};

/// The buffer size of a connection in each direction.
const PIPE_BYTES: usize = 64 * 1024;

/// The size of the pieces of a chopped input.
const PIECE_BYTES: usize = 7;

/// A port in memory.
pub(crate) struct MemoryPort {
    governor: Arc<Governor>,
}

impl MemoryPort {
    /// Opens a port; needs a runtime.
    pub(crate) fn new() -> Self {
        let governor: Arc<Governor> = Arc::default();
        let expiring = Arc::clone(&governor);
        tokio::spawn(async move { expiring.expire().await });
        Self { governor }
    }

    /// Opens a connection: the client's end, and the task that serves the other.
    pub(crate) fn open<F>(
        &self,
        serve: impl FnOnce(ConnectionStream, SocketAddr) -> F + Send + 'static,
    ) -> (DuplexStream, JoinHandle<()>)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (client, pipe) = tokio::io::duplex(PIPE_BYTES);
        let governor = Arc::clone(&self.governor);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let serving = async move { serve_pipe(&governor, pipe, peer, serve).await };
        (client, tokio::spawn(serving))
    }

    /// Opens a connection to routes.
    pub(crate) fn open_http(&self, routes: &Router) -> (DuplexStream, JoinHandle<()>) {
        let routes = routes.clone();
        self.open(move |stream, peer| http::serve(stream, peer, routes, CancellationToken::new()))
    }
}

/// The behaviour of a client that sends an input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientBehavior {
    /// The bytes come in small pieces.
    pub(crate) is_chopped: bool,
    /// The answers are read only at the end.
    pub(crate) is_slow: bool,
    /// How long the client stays before it disconnects.
    pub(crate) stays: std::time::Duration,
}

/// Sends an input, reads the answers, and waits until the server has ended the session.
pub(crate) async fn converse(
    client: DuplexStream,
    serving: JoinHandle<()>,
    input: &[u8],
    manners: ClientBehavior,
) {
    let (mut answers, mut out) = tokio::io::split(client);
    let sending = async {
        let size = if manners.is_chopped {
            PIECE_BYTES
        } else {
            input.len().max(1)
        };
        for piece in input.chunks(size) {
            // A server that reads no more must end the session, or the wait for it
            // times out.
            if out.write_all(piece).await.is_err() {
                return;
            }
            if manners.is_chopped {
                tokio::task::yield_now().await;
            }
        }
        settle().await;
        tokio::time::sleep(manners.stays).await;
        let _ = out.shutdown().await;
    };
    let reading = async {
        if manners.is_slow {
            tokio::time::sleep(manners.stays).await;
        }
        let mut buffer = vec![0; 4096];
        while answers.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    let ended = due("the end of a session", async {
        let (ended, (), ()) = tokio::join!(serving, sending, reading);
        ended
    });
    ended.await.expect("the session does not panic");
}
