//! Drives one connection: reads, writes and timers.
//!
//! It decides when the connection takes more frames, and dispatches them, and completed
//! work, to what the connection does with them.

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
use steadfast_wire::amqp::frame::{self, Frame, Kind as FrameKind};
use steadfast_wire::amqp::performative::{self, Performative};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::context::Context;
use super::handshake;
use super::work::WorkCompletion;

/// The connection reports its memory to the governor in steps of this many bytes.
const KEPT_STEP: usize = 64 * 1024;

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
            check(&mut self.connection, Instant::now());
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
        if self.is_stopping || !may_read(&self.connection) {
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
        while may_read(&self.connection) {
            match frame::take(&mut self.buffer) {
                Ok(Some(frame)) => on_frame(&mut self.connection, &frame),
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
            on_completion(&mut self.connection, done);
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
                check(&mut self.connection, now);
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

/// Whether more frames may be taken now.
fn may_read(connection: &AmqpConnection) -> bool {
    !connection.is_closed()
        && connection.taken_bytes < limits::AMQP_TAKEN_BYTES
        && !should_wait(connection)
        && if connection.is_proven() {
            connection.out.has_room()
        } else {
            connection.out.waiting() < limits::AMQP_UNPROVEN_OUT_BYTES
        }
}

/// Backpressure: whether to wait for its own publications before it reads more,
/// because all connections together use too much memory.
fn should_wait(connection: &AmqpConnection) -> bool {
    let is_crowded = connection
        .admission
        .as_ref()
        .is_some_and(Admission::is_crowded);
    is_crowded && connection.taken_bytes > 0
}

/// Checks the limits of all connections: bytes and time before authentication,
/// bytes after it.
fn check(connection: &mut AmqpConnection, now: Instant) {
    let Some(admission) = &connection.admission else {
        return;
    };
    if connection.is_closed() {
        return;
    }
    let fault = if !admission.is_proven() {
        match (admission.is_exhausted(), admission.due() <= now) {
            (true, _) => Condition::new(
                condition::RESOURCE_LIMIT,
                "too many bytes came before a token was put",
            ),
            (_, true) => Condition::new(
                condition::UNAUTHORIZED,
                "no token was put in time; put one on $cbs after the open",
            ),
            _ => return,
        }
    } else if admission.closed_for().is_some() {
        let words = "all connections together hold too much, and this one most; raise \
                     limits.connections_bytes, or send less at a time";
        Condition::new(condition::RESOURCE_LIMIT, words)
    } else if admission.keep(kept(connection)).is_err() {
        let words = "the connection holds too much; raise limits.connection_bytes, or \
                     attach fewer links";
        Condition::new(condition::RESOURCE_LIMIT, words)
    } else {
        return;
    };
    connection.close(Some(&fault));
}

/// Approximate memory of the connection: a small one need not be counted with every
/// frame.
fn kept(connection: &AmqpConnection) -> usize {
    let bytes = connection.partial_bytes
        + connection.taken_bytes
        + connection.name_bytes
        + connection.reply_bytes
        + connection.out.waiting();
    bytes / KEPT_STEP * KEPT_STEP
}

/// Handles a frame; an error closes the connection.
fn on_frame(connection: &mut AmqpConnection, frame: &Frame) {
    if connection.is_closed() || (frame.kind == FrameKind::Amqp && frame.body.is_empty()) {
        return;
    }
    if let Err(fault) = try_frame(connection, frame) {
        connection.close(Some(&fault));
    }
}

/// Dispatches a frame by its performative.
fn try_frame(connection: &mut AmqpConnection, frame: &Frame) -> Result<(), Condition> {
    if frame.kind != FrameKind::Amqp {
        return Err(Condition::new(
            condition::FRAMING,
            "a frame of another kind",
        ));
    }
    let channel = frame.channel;
    let (performative, length) = performative::read(&frame.body)?;
    match performative {
        Performative::Open(_) => Err(Condition::new(condition::NOT_ALLOWED, "a second open")),
        Performative::Begin(begin) => connection.on_begin(channel, &begin),
        Performative::Attach(attach) => connection.on_attach(channel, &attach),
        Performative::Flow(flow) => connection.on_flow(channel, &flow),
        Performative::Transfer(transfer) => {
            connection.on_transfer(channel, &transfer, &frame.body, length)
        }
        // All our deliveries are pre-settled.
        Performative::Disposition(_) => Ok(()),
        Performative::Detach(detach) => connection.on_detach(channel, &detach),
        Performative::End(_) => connection.on_end(channel),
        Performative::Close(_) => {
            connection.close(None);
            Ok(())
        }
    }
}

/// Continues after completed work.
fn on_completion(connection: &mut AmqpConnection, done: WorkCompletion) {
    if connection.is_closed() {
        return;
    }
    match done {
        WorkCompletion::Sender {
            link,
            publisher,
            result,
        } => connection.on_sender(link, publisher, result),
        WorkCompletion::Reader {
            link,
            wants_tail,
            result,
        } => connection.on_reader(link, wants_tail, result),
        WorkCompletion::Submitted {
            link,
            taken,
            result,
        } => connection.on_submitted(link, taken, result),
        WorkCompletion::Published {
            link,
            taken,
            result,
        } => connection.on_published(link, taken, result),
        WorkCompletion::Fetched {
            link,
            reader,
            result,
        } => connection.on_fetched(link, reader, result),
        WorkCompletion::Waited {
            link,
            reader,
            result,
        } => connection.on_fetched(link, reader, result.map(Some)),
        WorkCompletion::Cut { link, why } => connection.detach(link, &why.into()),
        WorkCompletion::Token {
            request,
            audience,
            result,
        } => connection.on_token(&request, &audience, result),
        WorkCompletion::Answer { request, message } => connection.on_answer(&request, message),
        WorkCompletion::Keys(rings) => connection.on_keys(rings),
        WorkCompletion::Policies { found, revisions } => connection.on_policies(&found, revisions),
        WorkCompletion::Cancelled => {}
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
