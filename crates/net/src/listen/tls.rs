//! A socket below TLS: bytes count until TLS hands them on.

use std::cmp::Ordering;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use steadfast_core::limits;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::governor::Admission;

/// The socket below TLS. TLS buffers what it has read until a handshake or a record is
/// complete, and the content until it is read.
pub(super) struct TlsSocket {
    connection: TcpStream,
    admission: Admission,
    /// Bytes that TLS has buffered and not handed on.
    held: usize,
    /// Maximum that TLS buffers.
    most: usize,
}

impl TlsSocket {
    pub(super) fn new(connection: TcpStream, admission: Admission) -> Self {
        Self {
            connection,
            admission,
            held: 0,
            most: limits::TLS_HANDSHAKE_BYTES,
        }
    }

    /// The handshake is done.
    pub(super) fn agreed(&mut self) {
        self.most = limits::TLS_RECORD_BYTES;
        self.hold(0);
    }

    /// TLS has handed on this many bytes.
    pub(super) fn handed_on(&mut self, bytes: usize) {
        self.hold(self.held.saturating_sub(bytes));
    }

    fn hold(&mut self, bytes: usize) {
        match bytes.cmp(&self.held) {
            // The governor closes a connection that holds too much.
            Ordering::Greater => drop(self.admission.hold(bytes - self.held)),
            Ordering::Less => self.admission.release(self.held - bytes),
            Ordering::Equal => {}
        }
        self.held = bytes;
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.connection).poll_read(context, into))?;
        let count = into.filled().len() - before;
        let held = (self.held + count).min(self.most);
        self.hold(held);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
