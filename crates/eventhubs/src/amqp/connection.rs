//! The state machine of an open connection.
//!
//! Pure state: frames and completed work come in, bytes and new work go out. `serve`
//! does the reading, writing and timers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use steadfast_core::limits;
use steadfast_net::listen::{Admission, current};
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::connection::Close;
use steadfast_wire::amqp::frame::{Frame, Kind as FrameKind};
use steadfast_wire::amqp::link::{Detach, LinkRole};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::session::{Begin, End, Flow};
use tokio::time::Instant;

use super::condition::Condition;
use super::context::Context;
use super::frame_buffer::FrameBuffer;
use super::link::{AbortGuard, AmqpLink, Kind};
use super::permit::AmqpTokens;
use super::session::{Handle, Session};
use super::work::{PendingWork, WorkCompletion};

/// The connection reports its memory to the governor in steps of this many bytes.
const KEPT_STEP: usize = 64 * 1024;

pub(super) struct AmqpConnection {
    pub(super) context: Arc<Context>,
    pub(super) out: FrameBuffer,
    /// The largest frame that the client takes.
    pub(super) frame_bytes: usize,
    pub(super) sessions: HashMap<u16, Session>,
    pub(super) links: HashMap<u64, AmqpLink>,
    /// Links by role and name, which are unique on a connection.
    pub(super) names: HashMap<(LinkRole, Arc<str>), u64>,
    next_link: u64,
    pub(super) work: PendingWork,
    pub(super) tokens: AmqpTokens,
    /// The host name from the client's open.
    pub(super) host: Box<str>,
    /// Watches the policies that have signed tokens.
    pub(super) policies: Option<AbortGuard>,
    /// Links that may have something to deliver.
    pub(super) ready: VecDeque<u64>,
    /// Sessions with accepted deliveries whose disposition is not sent yet.
    pub(super) owing: Vec<u16>,
    /// Bytes of publications that are not durable yet.
    pub(super) taken_bytes: usize,
    /// Bytes of messages that are not complete yet.
    pub(super) partial_bytes: usize,
    /// Bytes of names and addresses of links.
    pub(super) name_bytes: usize,
    /// Bytes of replies that wait for credit.
    pub(super) reply_bytes: usize,
    /// Its admission by the governor.
    pub(super) admission: Option<Admission>,
    /// Wakes the connection's task.
    pub(super) waker: Waker,
    is_closed: bool,
}

impl AmqpConnection {
    pub(super) fn new(
        context: Arc<Context>,
        tokens: AmqpTokens,
        host: Box<str>,
        frame_bytes: usize,
    ) -> Self {
        let mut connection = Self {
            context,
            out: FrameBuffer::default(),
            frame_bytes,
            sessions: HashMap::new(),
            links: HashMap::new(),
            names: HashMap::new(),
            next_link: 0,
            work: PendingWork::new(),
            tokens,
            host,
            policies: None,
            ready: VecDeque::new(),
            owing: Vec::new(),
            taken_bytes: 0,
            partial_bytes: 0,
            name_bytes: 0,
            reply_bytes: 0,
            admission: current(),
            waker: Waker::noop().clone(),
            is_closed: false,
        };
        connection.watch_keys();
        connection
    }

    /// Whether the connection is closed: nothing is read any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether more frames may be taken now.
    pub(super) fn may_read(&self) -> bool {
        !self.is_closed
            && self.taken_bytes < limits::AMQP_TAKEN_BYTES
            && !self.should_wait()
            && if self.is_proven() {
                self.out.has_room()
            } else {
                self.out.waiting() < limits::AMQP_UNPROVEN_OUT_BYTES
            }
    }

    /// Backpressure: whether to wait for its own publications before it reads more,
    /// because all connections together use too much memory.
    fn should_wait(&self) -> bool {
        let is_crowded = self.admission.as_ref().is_some_and(Admission::is_crowded);
        is_crowded && self.taken_bytes > 0
    }

    /// Whether the client has presented a valid token or key.
    pub(super) fn is_proven(&self) -> bool {
        self.admission.as_ref().is_none_or(Admission::is_proven)
    }

    /// Checks the limits of all connections: bytes and time before authentication,
    /// bytes after it.
    pub(super) fn check(&mut self, now: Instant) {
        let Some(admission) = &self.admission else {
            return;
        };
        if self.is_closed {
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
        } else if admission.keep(self.kept()).is_err() {
            let words = "the connection holds too much; raise limits.connection_bytes, or \
                         attach fewer links";
            Condition::new(condition::RESOURCE_LIMIT, words)
        } else {
            return;
        };
        self.close(Some(&fault));
    }

    /// Approximate memory of the connection: a small one need not be counted with every
    /// frame.
    fn kept(&self) -> usize {
        let bytes = self.partial_bytes
            + self.taken_bytes
            + self.name_bytes
            + self.reply_bytes
            + self.out.waiting();
        bytes / KEPT_STEP * KEPT_STEP
    }

    pub(super) fn on_frame(&mut self, frame: &Frame) {
        if self.is_closed || (frame.kind == FrameKind::Amqp && frame.body.is_empty()) {
            return;
        }
        if let Err(fault) = self.try_frame(frame) {
            self.close(Some(&fault));
        }
    }

    fn try_frame(&mut self, frame: &Frame) -> Result<(), Condition> {
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
            Performative::Begin(begin) => self.on_begin(channel, &begin),
            Performative::Attach(attach) => self.on_attach(channel, &attach),
            Performative::Flow(flow) => self.on_flow(channel, &flow),
            Performative::Transfer(transfer) => {
                self.on_transfer(channel, &transfer, &frame.body, length)
            }
            // All our deliveries are pre-settled.
            Performative::Disposition(_) => Ok(()),
            Performative::Detach(detach) => self.on_detach(channel, &detach),
            Performative::End(_) => self.on_end(channel),
            Performative::Close(_) => {
                self.close(None);
                Ok(())
            }
        }
    }

    /// Sends a close; buffered frames are still written.
    pub(super) fn close(&mut self, fault: Option<&Condition>) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        let problem = fault.map(Condition::problem);
        if let Some(fault) = fault {
            tracing::debug!(
                event = "amqp.closed",
                condition = fault.condition,
                why = fault.description
            );
        }
        self.out.frame(0, |out| Close { error: problem }.write(out));
        self.links.clear();
        self.names.clear();
        self.sessions.clear();
        (self.name_bytes, self.reply_bytes) = (0, 0);
    }

    fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<(), Condition> {
        if channel > limits::AMQP_CHANNEL_MAX {
            return Err(Condition::new(
                condition::FRAMING,
                "a channel over channel-max",
            ));
        }
        if self.sessions.contains_key(&channel) {
            return Err(Condition::new(
                condition::FRAMING,
                "a channel that is in use",
            ));
        }
        if !self.is_proven() && self.sessions.len() >= limits::AMQP_UNPROVEN_SESSIONS {
            let words = "too many sessions before a token was put";
            return Err(Condition::new(condition::RESOURCE_LIMIT, words));
        }
        let session = Session::new(channel, begin);
        let answer = session.answer();
        self.out.frame(channel, |out| answer.write(out));
        self.sessions.insert(channel, session);
        Ok(())
    }

    fn on_end(&mut self, channel: u16) -> Result<(), Condition> {
        let Some(session) = self.sessions.remove(&channel) else {
            return Err(no_session());
        };
        for handle in session.handles.into_values() {
            if let Handle::Link(link) = handle {
                self.forget(link);
            }
        }
        self.out
            .frame(channel, |out| End { error: None }.write(out));
        Ok(())
    }

    fn on_flow(&mut self, channel: u16, flow: &Flow) -> Result<(), Condition> {
        let session = self.sessions.get_mut(&channel).ok_or_else(no_session)?;
        if session.on_flow(flow) {
            let links = session.handles.values().filter_map(|handle| match handle {
                Handle::Link(link) => Some(*link),
                Handle::Closing => None,
            });
            self.ready.extend(links);
        }
        let link = match flow.handle {
            Some(handle) => match session.handles.get(&handle) {
                Some(Handle::Link(link)) => Some(*link),
                Some(Handle::Closing) => return Ok(()),
                None => return Err(no_handle(handle)),
            },
            None => None,
        };
        if let Some(id) = link
            && let Some(link) = self.links.get_mut(&id)
        {
            let outlet = match &mut link.kind {
                Kind::Consumer(feed) => Some(&mut feed.outlet),
                Kind::Replies(_, _, replies) => Some(&mut replies.outlet),
                Kind::Pending(opening) => {
                    opening.wants_echo |= flow.echo;
                    let outlet = &mut opening.outlet;
                    outlet.on_flow(flow.delivery_count, flow.credit, flow.drain);
                    // The link has no state to report before its attach is answered.
                    return Ok(());
                }
                Kind::Producer(_) | Kind::Requests(..) => None,
            };
            if let Some(outlet) = outlet {
                outlet.on_flow(flow.delivery_count, flow.credit, flow.drain);
                self.ready.push_back(id);
            }
        }
        if flow.echo {
            self.send_flow(channel, flow.handle);
        }
        Ok(())
    }

    /// Sends a flow with the state of a session and of one of its links.
    pub(super) fn send_flow(&mut self, channel: u16, handle: Option<u32>) {
        let Some(session) = self.sessions.get_mut(&channel) else {
            return;
        };
        let mut answer = session.flow();
        let link = handle.and_then(|handle| match session.handles.get(&handle) {
            Some(Handle::Link(link)) => self.links.get(link),
            _ => None,
        });
        let state = link.and_then(|link| match &link.kind {
            Kind::Consumer(feed) => Some((feed.outlet.count, feed.outlet.credit)),
            Kind::Replies(_, _, replies) => Some((replies.outlet.count, replies.outlet.credit)),
            Kind::Producer(intake) => Some((intake.inlet.count, intake.inlet.credit)),
            Kind::Requests(_, inlet) => Some((inlet.count, inlet.credit)),
            Kind::Pending(_) => None,
        });
        if let Some((count, credit)) = state {
            answer.handle = handle;
            (answer.delivery_count, answer.credit) = (Some(count), Some(credit));
        }
        self.out.frame(channel, |out| answer.write(out));
    }

    fn on_detach(&mut self, channel: u16, detach: &Detach<'_>) -> Result<(), Condition> {
        let session = self.sessions.get_mut(&channel).ok_or_else(no_session)?;
        match session.handles.remove(&detach.handle) {
            Some(Handle::Link(link)) => {
                let link = self.forget(link);
                // The detach overtook the answer to the attach: both are answered.
                if let Some(Kind::Pending(opening)) = link.map(|link| link.kind) {
                    self.out
                        .frame(channel, |out| opening.offer.write_refusal(out, false));
                }
                let answer = Detach {
                    handle: detach.handle,
                    closed: detach.closed,
                    error: None,
                };
                self.out.frame(channel, |out| answer.write(out));
                Ok(())
            }
            Some(Handle::Closing) => Ok(()),
            None => Err(no_handle(detach.handle)),
        }
    }

    /// A number for a new link.
    pub(super) fn number(&mut self) -> u64 {
        self.next_link += 1;
        self.next_link
    }

    /// Drops a link and its work. The caller frees its handle.
    pub(super) fn forget(&mut self, id: u64) -> Option<AmqpLink> {
        let link = self.links.remove(&id)?;
        self.name_bytes -= link.name_bytes();
        let name = (link.role, Arc::clone(&link.name));
        if self.names.get(&name) == Some(&id) {
            self.names.remove(&name);
        }
        let inlet = match &link.kind {
            Kind::Producer(intake) => {
                self.taken_bytes -= intake
                    .waiting
                    .iter()
                    .map(|taken| taken.bytes)
                    .sum::<usize>();
                Some(&intake.inlet)
            }
            Kind::Requests(_, inlet) => Some(inlet),
            Kind::Pending(opening) => {
                self.partial_bytes -= opening.bytes();
                None
            }
            Kind::Replies(_, _, replies) => {
                self.reply_bytes -= replies.bytes();
                None
            }
            Kind::Consumer(_) => None,
        };
        if let Some(partial) = inlet.and_then(|inlet| inlet.partial.as_ref()) {
            self.partial_bytes -= partial.bytes.len();
        }
        Some(link)
    }

    /// Detaches a link with an error; its handle stays reserved until the client answers.
    pub(super) fn detach(&mut self, id: u64, fault: &Condition) {
        let Some(link) = self.forget(id) else { return };
        if let Kind::Pending(opening) = &link.kind {
            return self.refuse(link.channel, &opening.offer, fault);
        }
        if let Some(session) = self.sessions.get_mut(&link.channel) {
            session.handles.insert(link.handle, Handle::Closing);
        }
        let detach = Detach {
            handle: link.handle,
            closed: true,
            error: Some(fault.problem()),
        };
        self.out.frame(link.channel, |out| detach.write(out));
    }

    /// Continues after completed work.
    pub(super) fn on_completion(&mut self, done: WorkCompletion) {
        if self.is_closed {
            return;
        }
        match done {
            WorkCompletion::Sender {
                link,
                publisher,
                result,
            } => self.on_sender(link, publisher, result),
            WorkCompletion::Reader {
                link,
                wants_tail,
                result,
            } => self.on_reader(link, wants_tail, result),
            WorkCompletion::Submitted {
                link,
                taken,
                result,
            } => self.on_submitted(link, taken, result),
            WorkCompletion::Published {
                link,
                taken,
                result,
            } => self.on_published(link, taken, result),
            WorkCompletion::Fetched {
                link,
                reader,
                result,
            } => self.on_fetched(link, reader, result),
            WorkCompletion::Waited {
                link,
                reader,
                result,
            } => self.on_fetched(link, reader, result.map(Some)),
            WorkCompletion::Cut { link, why } => self.detach(link, &why.into()),
            WorkCompletion::Token {
                request,
                audience,
                result,
            } => self.on_token(&request, &audience, result),
            WorkCompletion::Answer { request, message } => self.on_answer(&request, message),
            WorkCompletion::Keys(rings) => self.on_keys(rings),
            WorkCompletion::Policies { found, revisions } => self.on_policies(&found, revisions),
            WorkCompletion::Cancelled => {}
        }
    }
}

pub(super) fn no_session() -> Condition {
    Condition::new(condition::FRAMING, "a channel without a session")
}

pub(super) fn no_handle(handle: u32) -> Condition {
    let words = format!("handle {handle} is not attached");
    Condition::new(condition::UNATTACHED, words)
}
