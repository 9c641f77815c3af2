//! A connection in memory, admitted as one of a port is.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use steadfast_protocols::listen::{Admission, Governor};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf,
};
use tokio::task::JoinHandle;

use crate::time::{due, settle};

/// What a connection holds on its way, each way.
const PIPE_BYTES: usize = 64 * 1024;

/// How small the pieces of a chopped input are.
const PIECE_BYTES: usize = 7;

/// The server's end: what is read before the proof is charged.
pub(crate) struct Charged {
    pipe: DuplexStream,
    admission: Admission,
}

impl AsyncRead for Charged {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.admission.is_exhausted() {
            return Poll::Pending;
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(context, into))?;
        let _ = self.admission.charge(into.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Charged {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

/// Opens a connection to a server: the client's end, and the task that serves the other.
pub(crate) fn open<F>(
    governor: &Arc<Governor>,
    serve: impl FnOnce(Charged) -> F,
) -> (DuplexStream, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (client, pipe) = tokio::io::duplex(PIPE_BYTES);
    let admission = governor.admit(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
    let charged = Charged {
        pipe,
        admission: admission.clone(),
    };
    let serving = admission.clone().serve(serve(charged));
    let task = tokio::spawn(async move {
        tokio::select! {
            () = serving => {}
            () = admission.closed() => {}
        }
    });
    (client, task)
}

/// How a client behaves that sends an input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// The bytes come in small pieces.
    pub(crate) is_chopped: bool,
    /// The answers are read only at the end.
    pub(crate) is_slow: bool,
    /// The client waits so long before it goes.
    pub(crate) stays: std::time::Duration,
}

/// Sends an input, reads the answers, and waits until the server has ended the session.
pub(crate) async fn converse(
    client: DuplexStream,
    serving: JoinHandle<()>,
    input: &[u8],
    manners: Manners,
) {
    let (mut answers, mut out) = tokio::io::split(client);
    let sending = async {
        let size = match manners.is_chopped {
            true => PIECE_BYTES,
            false => input.len().max(1),
        };
        for piece in input.chunks(size) {
            // A server that takes no more ends the session, or is waited for in vain.
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
