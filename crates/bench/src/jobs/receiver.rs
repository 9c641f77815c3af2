//! A target that responds at once and records the time.
//!
//! It implements as little HTTP as possible, so that the sender is what is measured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::iso;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A call: when it was due and when it arrived, in milliseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct ReceivedCall {
    pub(super) due: i64,
    pub(super) came: i64,
    /// Whether it is a call of the canary.
    pub(super) is_canary: bool,
}

#[derive(Clone)]
pub(super) struct CallReceiver {
    pub(super) address: SocketAddr,
    calls: Arc<Mutex<Vec<ReceivedCall>>>,
    last: Arc<AtomicI64>,
}

impl CallReceiver {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("0.0.0.0:0").await?;
        let receiver = Self {
            address: listener.local_addr()?,
            calls: Arc::default(),
            last: Arc::default(),
        };
        let own = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = own.clone();
                // A sender that disconnects is not an error.
                tokio::spawn(async move { own.serve(stream).await.ok() });
            }
        });
        Ok(receiver)
    }

    /// The URL that a job calls. The canary has a host, and so a lane, of its own.
    pub(super) fn url(&self, is_canary: bool) -> String {
        let host = if is_canary { "127.0.0.2" } else { "127.0.0.1" };
        let path = if is_canary { "canary" } else { "job" };
        format!("http://{host}:{}/{path}", self.address.port())
    }

    pub(super) fn len(&self) -> usize {
        self.calls.lock().len()
    }

    /// Takes all calls since the last `take`.
    pub(super) fn take(&self) -> Vec<ReceivedCall> {
        std::mem::take(&mut self.calls.lock())
    }

    async fn serve(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let clock = SystemClock::new();
        let mut buffer = Vec::with_capacity(4096);
        loop {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            // Requests have no body and are not pipelined.
            if !buffer.ends_with(b"\r\n\r\n") {
                continue;
            }
            let came = clock.now().0;
            self.last.store(came, Ordering::Relaxed);
            let text = String::from_utf8_lossy(&buffer);
            if let Some(due) = due(&text) {
                let is_canary = text.starts_with("GET /canary");
                self.calls.lock().push(ReceivedCall {
                    due,
                    came,
                    is_canary,
                });
            }
            buffer.clear();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await?;
        }
    }
}

/// The time in the idempotency key of a request.
fn due(request: &str) -> Option<i64> {
    let line = request
        .lines()
        .find(|line| line.starts_with("idempotency-key:"))?;
    let (_, time) = line.rsplit_once('/')?;
    iso::parse_time(time.trim()).map(|time| time.0)
}
