//! Drives one connection: reads, writes and timers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::StreamExt as _;
use steadfast_core::limits;
use steadfast_net::listen::Admission;
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::frame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::context::Context;
use super::handshake;

/// How long a connection keeps memory that it needed under load.
const QUIET: Duration = Duration::from_secs(1);

/// Serves a connection until its end. On `stop` it reads no more, finishes the work in
/// flight and closes.
pub async fn serve<S>(mut stream: S, context: Arc<Context>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = BytesMut::new();
    let greeting = handshake::greet(&mut stream, &mut buffer, &context);
    let limit = context.idle.min(limits::AMQP_HANDSHAKE);
    let greeting = tokio::select! {
        greeting = tokio::time::timeout(limit, greeting) => greeting,
        () = stop.cancelled() => return,
    };
    let Ok(Ok(Some(greeting))) = greeting else {
        let _ = stream.shutdown().await;
        return;
    };
    let _served = context.served.token();
    let connection = AmqpConnection::new(
        context,
        greeting.tokens,
        greeting.host,
        greeting.frame_bytes,
    );
    let now = Instant::now();
    let mut pump = ConnectionDriver {
        stream,
        buffer,
        chunk: limits::AMQP_QUIET_BYTES,
        connection,
        idle: greeting.idle,
        heard: now,
        spoke: now,
        lapses: None,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        stop: Box::pin(stop.cancelled_owned()),
        is_stopping: false,
        needs_flush: false,
        stuck: None,
    };
    pump.take_frames();
    let ended = std::future::poll_fn(|cx| pump.poll(cx)).await;
    if let Err(error) = ended {
        tracing::debug!(event = "amqp.connection_failed", %error);
    }
    let goodbye = pump.stream.shutdown();
    let _ = tokio::time::timeout(limits::AMQP_HANDSHAKE, goodbye).await;
}

struct ConnectionDriver<S> {
    stream: S,
    buffer: BytesMut,
    /// The read size, which adapts to the traffic.
    chunk: usize,
    connection: AmqpConnection,
    /// The client's idle time-out.
    idle: Option<Duration>,
    /// When a frame last came, and when something was last written.
    heard: Instant,
    spoke: Instant,
    /// The next expiry of a token.
    lapses: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    is_stopping: bool,
    needs_flush: bool,
    /// Since when writes make no progress.
    stuck: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ConnectionDriver<S> {
    /// Loops until nothing makes progress. Ready at the end of the connection.
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if !self.connection.waker.will_wake(cx.waker()) {
            self.connection.waker = cx.waker().clone();
        }
        self.poll_stop(cx);
        loop {
            self.connection.check(Instant::now());
            let mut moved = self.poll_read(cx)?;
            moved |= self.poll_work(cx);
            // Work that starts here must be polled before the task sleeps.
            moved |= self.connection.deliver();
            self.connection.flush_accepted();
            moved |= self.poll_write(cx)?;
            if self.connection.is_closed() && self.connection.out.is_empty() && !self.needs_flush {
                return Poll::Ready(Ok(()));
            }
            moved |= self.poll_timer(cx)?;
            if !moved {
                return Poll::Pending;
            }
        }
    }

    fn poll_stop(&mut self, cx: &mut TaskContext<'_>) {
        if !self.is_stopping && self.stop.as_mut().poll(cx).is_ready() {
            self.is_stopping = true;
        }
        if self.is_stopping && self.connection.taken_bytes == 0 {
            let fault =
                Condition::new(condition::FORCED, "the server is going away; connect again");
            self.connection.close(Some(&fault));
        }
    }

    /// Reads and handles frames. An end of stream without a close also ends it.
    fn poll_read(&mut self, cx: &mut TaskContext<'_>) -> io::Result<bool> {
        if self.is_stopping || !self.connection.may_read() {
            return Ok(false);
        }
        // Frames may be left over from when the connection could take no more.
        if self.take_frames() {
            return Ok(true);
        }
        if !self.connection.is_proven() {
            self.chunk = limits::AMQP_UNPROVEN_READ_BYTES;
        }
        let room = self.chunk.max(frame::missing(&self.buffer));
        self.buffer.reserve(room);
        let count = match read_some(&mut self.stream, &mut self.buffer, cx) {
            Poll::Ready(count) => count?,
            Poll::Pending => return Ok(false),
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if count >= room {
            self.chunk = (room * 2).min(limits::AMQP_READ_BYTES);
        } else if count * 4 < self.chunk {
            self.chunk = (self.chunk / 2).max(limits::AMQP_QUIET_BYTES);
        }
        self.take_frames();
        Ok(true)
    }

    /// Handles complete frames. Incomplete frames do not count as activity for the idle
    /// time-out.
    fn take_frames(&mut self) -> bool {
        let mut moved = false;
        while self.connection.may_read() {
            match frame::take(&mut self.buffer) {
                Ok(Some(frame)) => self.connection.on_frame(&frame),
                Ok(None) => break,
                Err(error) => {
                    let fault = Condition::new(condition::FRAMING, error.to_string());
                    self.connection.close(Some(&fault));
                }
            }
            moved = true;
        }
        if moved {
            self.heard = Instant::now();
        }
        moved
    }

    fn poll_work(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some(done)) = self.connection.work.poll_next_unpin(cx) {
            self.connection.on_completion(done);
            moved = true;
        }
        if moved && self.is_stopping && self.connection.taken_bytes == 0 {
            self.poll_stop(cx);
        }
        moved
    }

    /// Writes buffered frames. True if that made room for more.
    fn poll_write(&mut self, cx: &mut TaskContext<'_>) -> io::Result<bool> {
        let mut moved = false;
        while !self.connection.out.is_empty() {
            let bytes = self.connection.out.next();
            let Poll::Ready(count) = Pin::new(&mut self.stream).poll_write(cx, bytes) else {
                break;
            };
            let count = count?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.connection.out.written(count);
            self.needs_flush = true;
            moved = true;
        }
        if moved {
            self.spoke = Instant::now();
            self.stuck = None;
        }
        if !self.connection.out.is_empty() && self.stuck.is_none() {
            self.stuck = Some(Instant::now());
        }
        if self.needs_flush && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.needs_flush = false;
        }
        Ok(moved)
    }

    /// Handles timers: heartbeats, idle time-out and expiry of tokens.
    fn poll_timer(&mut self, cx: &mut TaskContext<'_>) -> io::Result<bool> {
        let mut moved = false;
        loop {
            let now = Instant::now();
            let idle = self.connection.context.idle;
            if self.lapses.is_some_and(|end| end <= now) {
                self.connection.detach_expired();
                moved = true;
            }
            self.lapses = self.next_lapse(now);
            if self.stuck.is_some_and(|since| now >= since + idle) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if now >= self.heard + idle && !self.connection.is_closed() {
                let words = "nothing was heard for longer than the idle time-out";
                let fault = Condition::new(condition::RESOURCE_LIMIT, words);
                self.connection.close(Some(&fault));
                moved = true;
            }
            let is_due = |every: Duration| now >= self.spoke + every / 2;
            if self.idle.is_some_and(is_due) && self.connection.out.is_empty() {
                self.connection.out.frame(0, |_| {});
                self.spoke = now;
                moved = true;
            }
            if self.proof_due().is_some_and(|due| due <= now) {
                self.connection.check(now);
                moved = true;
            }
            moved |= self.rest(now);
            let next = self.next_time();
            if self.timer.deadline() != next {
                self.timer.as_mut().reset(next);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Ok(moved);
            }
        }
    }

    /// Frees the memory used under load after a quiet period. True if the connection
    /// must be polled again.
    fn rest(&mut self, now: Instant) -> bool {
        if !self.is_swollen() || now < self.heard.max(self.spoke) + QUIET {
            return false;
        }
        self.connection.out.release_memory();
        self.buffer = BytesMut::new();
        self.chunk = limits::AMQP_QUIET_BYTES;
        true
    }

    /// Whether the connection holds more memory than an idle one needs.
    fn is_swollen(&self) -> bool {
        self.buffer.is_empty()
            && self.connection.out.is_empty()
            && (self.buffer.capacity() > limits::AMQP_QUIET_BYTES || self.connection.out.is_large())
    }

    fn next_lapse(&self, now: Instant) -> Option<Instant> {
        let end = self.connection.next_expiry()?;
        let left = end.0.saturating_sub(self.connection.context.clock.now().0);
        Some(now + Duration::from_millis(left.max(0) as u64))
    }

    /// The deadline for authentication, if the client has not authenticated.
    fn proof_due(&self) -> Option<Instant> {
        let is_open = !self.connection.is_closed() && !self.connection.is_proven();
        let admission = self.connection.admission.as_ref().filter(|_| is_open);
        admission.map(Admission::due)
    }

    /// The next timer.
    fn next_time(&self) -> Instant {
        let limit = self.connection.context.idle;
        let times = [
            self.idle.map(|idle| self.spoke + idle / 2),
            self.stuck.map(|since| since + limit),
            self.is_swollen()
                .then(|| self.heard.max(self.spoke) + QUIET),
            self.lapses,
            self.proof_due(),
        ];
        let first = times.into_iter().flatten().min();
        first.map_or(self.heard + limit, |first| first.min(self.heard + limit))
    }
}

/// One read into the free space of the buffer.
fn read_some<S>(
    stream: &mut S,
    buffer: &mut BytesMut,
    cx: &mut TaskContext<'_>,
) -> Poll<io::Result<usize>>
where
    S: AsyncRead + Unpin,
{
    let reading = std::pin::pin!(stream.read_buf(buffer));
    reading.poll(cx)
}
