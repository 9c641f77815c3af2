//! A connection, which counts until it is gone.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// A connection, encrypted or not. It has its place among the connections of its port
/// also when HTTP has handed it on, as it does with WebSockets.
pub struct Stream {
    connection: Connection,
    _place: OwnedSemaphorePermit,
}

pub(super) type Connection = Either<TcpStream, TlsStream<TcpStream>>;

impl Stream {
    pub(super) fn new(connection: Connection, place: OwnedSemaphorePermit) -> Self {
        Self {
            connection,
            _place: place,
        }
    }

    fn connection(self: Pin<&mut Self>) -> Pin<&mut Connection> {
        Pin::new(&mut self.get_mut().connection)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.connection().poll_read(context, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.connection().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection().poll_shutdown(context)
    }
}
