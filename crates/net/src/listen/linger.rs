//! The end of a connection with unread bytes.
//!
//! TCP resets a connection that is closed with unread bytes, and the reset may overtake
//! the answer. A connection whose last request was answered before its end is therefore
//! closed in two steps: the server ends its own side, and drops what still comes until
//! the client has ended the other one. Bytes and time are bounded.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use steadfast_core::limits;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Sleep;

/// Bytes of one read.
const PART_BYTES: usize = 8 * 1024;

/// Whether the last request of a connection was answered before all of it was read.
/// Clones are the same connection.
#[derive(Clone, Default)]
pub(crate) struct UnreadRequest(Arc<AtomicBool>);

impl UnreadRequest {
    pub(crate) fn set(&self, is_unread: bool) {
        self.0.store(is_unread, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The last step of a connection: incoming bytes are read and dropped.
pub(super) struct Linger {
    left: usize,
    end: Pin<Box<Sleep>>,
}

impl Linger {
    pub(super) fn new() -> Self {
        Self {
            left: limits::LINGER_BYTES,
            end: Box::pin(tokio::time::sleep(limits::LINGER_TIME)),
        }
    }

    /// Reads until the client has ended its side, or the bounds are reached.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        connection: &mut (impl AsyncRead + Unpin),
    ) -> Poll<()> {
        let mut part = [MaybeUninit::uninit(); PART_BYTES];
        while self.left > 0 && self.end.as_mut().poll(context).is_pending() {
            let mut part = ReadBuf::uninit(&mut part);
            let read = ready!(Pin::new(&mut *connection).poll_read(context, &mut part));
            let count = part.filled().len();
            if read.is_err() || count == 0 {
                break;
            }
            self.left = self.left.saturating_sub(count);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;
    use tokio::time::Instant;

    use super::*;

    async fn linger(connection: &mut (impl AsyncRead + Unpin)) {
        let mut linger = Linger::new();
        poll_fn(|context| linger.poll(context, connection)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_is_not_waited_for() {
        let (mut client, mut server) = tokio::io::duplex(1024);
        let began = Instant::now();
        let sending = async {
            client.write_all(&[7; 100_000]).await.unwrap();
            client.shutdown().await.unwrap();
        };
        tokio::join!(sending, linger(&mut server));
        assert_eq!(began.elapsed(), std::time::Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stays_is_left_in_time() {
        let (_client, mut server) = tokio::io::duplex(1024);
        let began = Instant::now();
        linger(&mut server).await;
        assert_eq!(began.elapsed(), limits::LINGER_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_on_is_left_after_so_many_bytes() {
        let (mut client, mut server) = tokio::io::duplex(1024);
        let mut sent = 0;
        let sending = async {
            while client.write_all(&[7; 1024]).await.is_ok() {
                sent += 1024;
            }
        };
        let reading = async {
            linger(&mut server).await;
            drop(server);
        };
        tokio::join!(sending, reading);
        let most = limits::LINGER_BYTES + PART_BYTES + 1024;
        assert!((limits::LINGER_BYTES..=most).contains(&sent), "{sent}");
    }
}
