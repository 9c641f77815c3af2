//! A connection that holds its permit until it closes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::governor::Admission;
use super::linger::{Linger, UnreadRequest};
use super::tls::TlsSocket;

/// A connection, encrypted or not. It holds the permit of its port until it closes, also
/// after an upgrade to a WebSocket. Before its proof it is read only within its budget.
pub struct ConnectionStream {
    connection: StreamTransport,
    place: ConnectionPermit,
    /// The turn of the last read before its proof.
    read_in: Option<usize>,
    /// How long a write may make no progress, and the deadline of a stalled one.
    write_time: Option<Duration>,
    stalled: Option<Pin<Box<Sleep>>>,
    unread: UnreadRequest,
    /// Runs after the server has closed its side.
    linger: Option<Linger>,
}

/// The permit of a connection at its port, and its admission at the governor.
pub(super) struct ConnectionPermit {
    admission: Admission,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ConnectionPermit {
    pub(super) fn new(admission: Admission, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            admission,
            _permit: permit,
        }
    }

    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.admission.leave();
    }
}

/// The TLS state is boxed: most futures hold a connection several times. Tests use a
/// pipe in place of a socket.
pub(super) type StreamTransport =
    Either<TcpStream, Either<Box<TlsStream<TlsSocket>>, DuplexStream>>;

impl ConnectionStream {
    pub(super) fn new(connection: StreamTransport, place: ConnectionPermit) -> Self {
        Self {
            connection,
            place,
            read_in: None,
            write_time: None,
            stalled: None,
            unread: UnreadRequest::default(),
            linger: None,
        }
    }

    /// Marks whether a request was answered before all of it was read. If so, the rest is
    /// dropped for a while at the end, so that the client receives the response.
    pub(crate) fn unread(&self) -> UnreadRequest {
        self.unread.clone()
    }

    /// Sets the write time-out: the connection ends when a pending write makes no progress
    /// for this long.
    pub fn limit_writes(&mut self, time: Duration) {
        self.write_time = Some(time);
    }

    fn connection(self: Pin<&mut Self>) -> Pin<&mut StreamTransport> {
        Pin::new(&mut self.get_mut().connection)
    }

    /// Reads at most this many bytes, once per turn of the task. HTTP/2 reads until the
    /// socket is empty and hands on one request at a time; requests count from then on.
    fn poll_part(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        let turn = self.place.admission.turn();
        if self.read_in == Some(turn) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let most = most.min(into.remaining());
        let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
        ready!(self.as_mut().connection().poll_read(context, &mut part))?;
        let count = part.filled().len();
        into.advance(count);
        self.read_in = Some(turn);
        Poll::Ready(Ok(()))
    }

    /// Watches a write: one that makes no progress for too long is an error.
    fn watch<T>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let this = self.get_mut();
        let (Some(time), Poll::Pending) = (this.write_time, &written) else {
            this.stalled = None;
            return written;
        };
        let stalled = this
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let admission = &self.place.admission;
        admission.wake_reader(context.waker());
        if admission.is_ended() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if admission.is_exhausted() {
            return Poll::Pending;
        }
        let before = into.filled().len();
        match admission.most_read() {
            usize::MAX => ready!(self.as_mut().connection().poll_read(context, into))?,
            most => ready!(self.as_mut().poll_part(context, into, most))?,
        }
        let count = into.filled().len() - before;
        if let Either::Right(Either::Left(tls)) = &mut self.connection {
            tls.get_mut().0.handed_on(count);
        }
        // Over the budget the connection is not read again before its proof.
        let _ = self.place.admission.charge(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().connection().poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self
            .as_mut()
            .connection()
            .poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.as_mut().connection().poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            let shut = self.as_mut().connection().poll_shutdown(context);
            ready!(self.as_mut().watch(context, shut))?;
            if !self.unread.get() {
                return Poll::Ready(Ok(()));
            }
        }
        let this = self.get_mut();
        let linger = this.linger.get_or_insert_with(Linger::new);
        linger.poll(context, &mut this.connection).map(Ok)
    }
}
