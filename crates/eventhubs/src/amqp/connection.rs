//! The state of an open connection: sessions, links, tokens.
//!
//! Pure state: frames and completed work come in, bytes and new work go out. `serve`
//! does the reading, writing and timers.
//!
//! A token ends when it expires, when its key is revoked, or when its key loses the right
//! that a link needs. Its links are detached, and the connection stays: its client may put
//! a new token.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use futures_util::future::BoxFuture;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::ErrorKind;
use steadfast_net::access::{AccessError, KeyRing};
use steadfast_net::listen::{Admission, current};
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::connection::Close;
use steadfast_wire::amqp::link::{Detach, LinkRole};
use steadfast_wire::amqp::session::{Begin, End, Flow};
use tokio::sync::watch;

use super::condition::Condition;
use super::context::Context;
use super::frame_buffer::FrameBuffer;
use super::link::{AbortGuard, AmqpLink, Kind};
use super::permit::{AmqpTokens, CurrentHub, TokenPermit};
use super::session::{Handle, Session};
use super::work::{self, PendingWork, WorkCompletion};

/// The kind of the revoked resource in the audit log.
const KIND: &str = "AMQP link";

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

    /// Whether the client has presented a valid token or key.
    pub(super) fn is_proven(&self) -> bool {
        self.admission.as_ref().is_none_or(Admission::is_proven)
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

    pub(super) fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<(), Condition> {
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

    pub(super) fn on_end(&mut self, channel: u16) -> Result<(), Condition> {
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

    pub(super) fn on_flow(&mut self, channel: u16, flow: &Flow) -> Result<(), Condition> {
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

    pub(super) fn on_detach(&mut self, channel: u16, detach: &Detach<'_>) -> Result<(), Condition> {
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

    /// The next expiry of a token.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.context.access.as_ref()?;
        self.tokens.next_end(self.context.clock.now())
    }

    /// Detaches links whose token has expired without a renewal.
    pub(super) fn detach_expired(&mut self) {
        self.cut_denied();
    }

    /// Detaches links without a valid token; returns their paths and the reasons.
    fn cut_denied(&mut self) -> Vec<(String, AccessError)> {
        let now = self.context.clock.now();
        let denied: Vec<_> = self
            .links
            .iter()
            .filter_map(|(id, link)| {
                let need = link.need.as_ref()?;
                let allowed = self.tokens.allow(&need.path, &need.hub, need.right, now);
                let denied = allowed.err()?;
                Some((*id, need.path.clone(), denied))
            })
            .collect();
        let mut cut = Vec::new();
        for (id, path, denied) in denied {
            self.detach(id, &Condition::from(denied.clone()));
            cut.push((path, denied));
        }
        cut
    }

    /// Watches the keys of the server for as long as the connection lasts.
    pub(super) fn watch_keys(&mut self) {
        let Some(access) = &self.context.access else {
            return;
        };
        let mut rings = access.rings();
        // Tokens verified before this are checked once more.
        rings.mark_changed();
        self.work.push(changed(rings));
    }

    /// The keys of the server have changed.
    pub(super) fn on_keys(&mut self, mut rings: watch::Receiver<Arc<KeyRing>>) {
        let ring = Arc::clone(&rings.borrow_and_update());
        let ended = self.tokens.renew(&ring);
        self.revoke(&ended);
        self.work.push(changed(rings));
    }

    /// Watches the policies that have signed tokens, from a revision on; without a
    /// revision they are checked at once.
    pub(super) fn watch_policies(&mut self, since: Option<watch::Receiver<u64>>) {
        let hubs = self.tokens.policy_hubs();
        if hubs.is_empty() {
            self.policies = None;
            return;
        }
        let mut revisions = since.unwrap_or_else(|| {
            let mut revisions = self.context.hubs.revisions();
            revisions.mark_changed();
            revisions
        });
        let context = Arc::clone(&self.context);
        let (work, aborted) = work::bound(async move {
            let changed = revisions.changed();
            // Other nodes change policies without a notification.
            let _ = if context.hubs.is_shared() {
                tokio::time::timeout(limits::POLICY_LOOK, changed)
                    .await
                    .is_ok()
            } else {
                changed.await.is_ok()
            };
            let found = look(&context, hubs).await;
            WorkCompletion::Policies { found, revisions }
        });
        self.policies = Some(aborted);
        self.work.push(work);
    }

    /// The policies of event hubs were read again.
    pub(super) fn on_policies(&mut self, found: &[CurrentHub], revisions: watch::Receiver<u64>) {
        let ended = self.tokens.renew_policies(found);
        self.revoke(&ended);
        self.watch_policies(Some(revisions));
    }

    /// Detaches links whose key was revoked or has lost the right.
    fn revoke(&mut self, ended: &[(String, AccessError)]) {
        let cut = self.cut_denied();
        let Some(access) = &self.context.access else {
            return;
        };
        for (holder, denied) in ended {
            access.audit().revoked(KIND, holder, denied);
        }
        for (path, denied) in &cut {
            if let Some(holder) = self.tokens.holder(path) {
                access.audit().revoked(KIND, holder, denied);
            }
        }
    }

    /// Re-checks a verified permit against the current keys.
    pub(super) fn current(&self, permit: TokenPermit) -> Result<TokenPermit, AccessError> {
        match &self.context.access {
            Some(access) => permit.renewed(&access.ring()),
            None => Ok(permit),
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

/// Waits for a change of keys.
fn changed(mut rings: watch::Receiver<Arc<KeyRing>>) -> BoxFuture<'static, WorkCompletion> {
    Box::pin(async move {
        match rings.changed().await {
            Ok(()) => WorkCompletion::Keys(rings),
            Err(_) => WorkCompletion::Cancelled,
        }
    })
}

/// The current event hubs. One that cannot be read is left out.
async fn look(context: &Context, hubs: Vec<String>) -> Vec<CurrentHub> {
    let mut found = Vec::new();
    for hub in hubs {
        match context.hubs.fresh(&hub).await {
            Ok(now) => found.push((hub, Some(now))),
            Err(error) if error.kind() == ErrorKind::HubNotFound => found.push((hub, None)),
            Err(_) => {}
        }
    }
    found
}
