//! Handles an attach: a client requests a link.
//!
//! The request is checked, the service opens a sender or a reader, and the answer creates
//! the link or refuses it. Then come the frames that the client has sent behind it.
//!
//! A refused client gets an attach without our terminus and a detach with the reason,
//! in one write, with no credit between them: clients take the first credit for
//! success.

use std::collections::VecDeque;
use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::{
    EventPosition, EventSender, PartitionReader, ProducerOptions, ProducerState,
    ReaderOptions as Reading,
};
use steadfast_net::access::Right;
use steadfast_wire::amqp::address::{self, NodeAddress};
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::event::{PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE};
use steadfast_wire::amqp::link::{self, Attach, Detach, LinkRole};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::selector::{self, SelectorStart};
use steadfast_wire::amqp::write;

use super::condition::Condition;
use super::connection::{AmqpConnection, no_session};
use super::link::{
    AmqpLink, AmqpOutlet, AttachReply, ConsumerLink, Kind, ManagementNode, PendingLink,
    ProducerLink, ReaderState, Replies, RequiredAccess,
};
use super::session::{AmqpInlet, Handle};
use super::work::{self, WorkCompletion};

const METRICS: &str = "com.microsoft:enable-receiver-runtime-metric";
const IDEMPOTENT: &str = "com.microsoft:idempotent-producer";
const EPOCH: &str = "com.microsoft:epoch";
/// Some clients use the second spelling.
const READER_NAMES: [&str; 2] = [
    "com.microsoft:receiver-name",
    "com.microsoft.com:receiver-name",
];

impl AmqpConnection {
    pub(super) fn on_attach(&mut self, channel: u16, attach: &Attach<'_>) -> Result<(), Condition> {
        let session = self.sessions.get(&channel).ok_or_else(no_session)?;
        if attach.handle > limits::AMQP_HANDLE_MAX {
            return Err(Condition::new(
                condition::NOT_ALLOWED,
                "a handle over handle-max",
            ));
        }
        if session.handles.contains_key(&attach.handle) {
            return Err(Condition::new(
                condition::HANDLE_IN_USE,
                "a handle that is in use",
            ));
        }
        let name = (attach.role, Arc::from(attach.name));
        if let Some(older) = self.names.get(&name).copied() {
            let words = format!("another link took the name '{}'", attach.name);
            self.detach(older, &Condition::new(condition::STOLEN, words));
        }
        let id = self.number();
        match self.prepare(id, attach) {
            Ok((offer, need, prepared)) => {
                self.place(id, channel, name, need);
                self.start(id, offer, prepared);
            }
            Err(fault) => self.refuse(channel, &AttachReply::of(attach), &fault),
        }
        Ok(())
    }

    /// Attaches and detaches at once; the handle and the name stay free.
    pub(super) fn refuse(&mut self, channel: u16, offer: &AttachReply, fault: &Condition) {
        tracing::debug!(
            event = "amqp.refused",
            link = offer.name,
            condition = fault.condition
        );
        let is_stolen = fault.condition == condition::STOLEN;
        self.out
            .frame(channel, |out| offer.write_refusal(out, is_stolen));
        let detach = Detach {
            handle: offer.handle,
            closed: true,
            error: Some(fault.problem()),
        };
        self.out.frame(channel, |out| detach.write(out));
        if let Some(session) = self.sessions.get_mut(&channel) {
            session.handles.insert(offer.handle, Handle::Closing);
        }
    }

    /// Validates the attach without changing any state.
    fn prepare(
        &self,
        id: u64,
        attach: &Attach<'_>,
    ) -> Result<(AttachReply, Option<RequiredAccess>, AttachPlan), Condition> {
        if self.links.len() >= limits::AMQP_LINKS {
            let words = format!("a connection has {} links at most", limits::AMQP_LINKS);
            return Err(Condition::new(condition::RESOURCE_LIMIT, words));
        }
        if !self.is_proven() && self.links.len() >= limits::AMQP_UNPROVEN_LINKS {
            let words = "too many links before a token was put";
            return Err(Condition::new(condition::RESOURCE_LIMIT, words));
        }
        let terminus = match attach.role {
            LinkRole::Sender => attach.target,
            LinkRole::Receiver => attach.source,
        };
        let address = link::address(terminus)?.unwrap_or("");
        let path = address::path(address);
        let node = address::parse(address).ok_or_else(|| Condition::not_found(path))?;
        let offer = AttachReply::of(attach);
        match (attach.role, node) {
            (LinkRole::Sender, NodeAddress::Cbs) => {
                Ok((offer, None, AttachPlan::Requests(ManagementNode::Cbs)))
            }
            (LinkRole::Sender, NodeAddress::Management) => Ok((
                offer,
                None,
                AttachPlan::Requests(ManagementNode::Management),
            )),
            (LinkRole::Receiver, NodeAddress::Cbs) => {
                prepare_replies(offer, attach, ManagementNode::Cbs)
            }
            (LinkRole::Receiver, NodeAddress::Management) => {
                prepare_replies(offer, attach, ManagementNode::Management)
            }
            (LinkRole::Receiver, NodeAddress::Reader { hub, .. }) => {
                let need = self.need(path, hub, Right::Listen)?;
                self.prepare_reader(id, attach, offer, need, node)
            }
            (
                LinkRole::Sender,
                NodeAddress::Hub(hub)
                | NodeAddress::Partition { hub, .. }
                | NodeAddress::Publisher { hub, .. },
            ) => {
                let need = self.need(path, hub, Right::Send)?;
                self.prepare_sender(id, attach, offer, need, node)
            }
            _ => Err(Condition::not_found(path)),
        }
    }

    fn need(&self, path: &str, hub: &str, right: Right) -> Result<RequiredAccess, Condition> {
        let now = self.context.clock.now();
        let allowed = self.tokens.allow(path, hub, right, now);
        allowed.inspect_err(|denied| self.context.refused(denied))?;
        Ok(RequiredAccess {
            path: path.to_owned(),
            hub: hub.to_owned(),
            right,
        })
    }

    fn prepare_sender(
        &self,
        id: u64,
        attach: &Attach<'_>,
        mut offer: AttachReply,
        need: RequiredAccess,
        node: NodeAddress<'_>,
    ) -> Result<(AttachReply, Option<RequiredAccess>, AttachPlan), Condition> {
        let (partition, publisher) = match node {
            NodeAddress::Partition { partition, .. } => (Some(address::number(partition)), None),
            NodeAddress::Publisher { name, .. } => (None, Some(name.to_owned())),
            _ => (None, None),
        };
        let wish = if attach.desires(IDEMPOTENT) && partition.is_some() {
            Some(wish(attach)?)
        } else {
            None
        };
        if wish.is_some() {
            offer.offered.clear();
            write::array_of_symbols(&mut offer.offered, [IDEMPOTENT].into_iter());
        }
        let (hubs, hub) = (self.context.hubs.clone(), need.hub.clone());
        let opening = async move {
            let sender = hubs.sender(&hub, partition).await?;
            let producer = match wish {
                Some(wish) => Some(sender.producer(wish).await?),
                None => None,
            };
            Ok((sender, producer))
        };
        let (work, aborted) = work::bound(async move {
            WorkCompletion::Sender {
                link: id,
                publisher,
                result: opening.await,
            }
        });
        Ok((offer, Some(need), AttachPlan::Opening(work, aborted)))
    }

    fn prepare_reader(
        &self,
        id: u64,
        attach: &Attach<'_>,
        mut offer: AttachReply,
        need: RequiredAccess,
        node: NodeAddress<'_>,
    ) -> Result<(AttachReply, Option<RequiredAccess>, AttachPlan), Condition> {
        let NodeAddress::Reader {
            group, partition, ..
        } = node
        else {
            return Err(Condition::not_found(&need.path));
        };
        let partition = address::number(partition);
        let mut reading = Reading::at(start(attach)?).named(reader_name(attach)?);
        if let Some(epoch) = attach.property(EPOCH)?.and_then(|epoch| epoch.as_i64()) {
            reading = reading.epoch(epoch);
        }
        let wants_tail = attach.desires(METRICS);
        if wants_tail {
            offer.offered.clear();
            write::array_of_symbols(&mut offer.offered, [METRICS].into_iter());
        }
        let (hubs, hub, group) = (
            self.context.hubs.clone(),
            need.hub.clone(),
            group.to_owned(),
        );
        let (work, aborted) = work::bound(async move {
            let reader = hubs.reader(&hub, &group, partition, reading).await;
            WorkCompletion::Reader {
                link: id,
                wants_tail,
                result: reader.map(Box::new).map_err(Condition::from),
            }
        });
        Ok((offer, Some(need), AttachPlan::Opening(work, aborted)))
    }

    /// Registers a link with a placeholder kind.
    fn place(
        &mut self,
        id: u64,
        channel: u16,
        name: (LinkRole, Arc<str>),
        need: Option<RequiredAccess>,
    ) {
        let link = AmqpLink {
            channel,
            handle: 0,
            name: Arc::clone(&name.1),
            role: name.0,
            need,
            kind: Kind::Requests(ManagementNode::Cbs, AmqpInlet::new(0, 0)),
        };
        self.links.insert(id, link);
        self.names.insert(name, id);
    }

    /// Answers the attach at once where possible, or starts the work it waits for.
    fn start(&mut self, id: u64, offer: AttachReply, prepared: AttachPlan) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let channel = link.channel;
        link.handle = offer.handle;
        if let Some(session) = self.sessions.get_mut(&channel) {
            session.handles.insert(offer.handle, Handle::Link(id));
        }
        match prepared {
            AttachPlan::Opening(work, aborted) => {
                link.kind = Kind::Pending(Box::new(PendingLink::new(offer, aborted)));
                self.work.push(work);
            }
            AttachPlan::Requests(desk) => {
                let inlet = AmqpInlet::new(limits::AMQP_REQUESTS, offer.initial_count);
                link.kind = Kind::Requests(desk, inlet);
                self.out.frame(channel, |out| offer.write_answer(out));
                self.grant(id);
            }
            AttachPlan::Replies(desk, address) => {
                link.kind = Kind::Replies(desk, address, Box::<Replies>::default());
                self.out.frame(channel, |out| offer.write_answer(out));
            }
        }
        let name_bytes = self.links.get(&id).map_or(0, AmqpLink::name_bytes);
        self.name_bytes += name_bytes;
    }

    pub(super) fn on_sender(
        &mut self,
        id: u64,
        publisher: Option<String>,
        result: Result<(EventSender, Option<ProducerState>), Condition>,
    ) {
        let Some((channel, mut offer)) = self.offer(id) else {
            return;
        };
        let (sender, producer) = match result {
            Ok(opened) => opened,
            Err(fault) => return self.turn_away(id, channel, &offer, &fault),
        };
        if let Some(producer) = producer {
            offer.properties = producer_properties(&producer);
        }
        let intake = ProducerLink {
            inlet: AmqpInlet::new(limits::AMQP_CREDIT, offer.initial_count),
            sender,
            is_idempotent: producer.is_some(),
            publisher,
            waiting: VecDeque::new(),
            is_submitting: false,
        };
        let early = self.answer(id, channel, &offer, Kind::Producer(Box::new(intake)));
        self.grant(id);
        self.catch_up(id, channel, early);
    }

    pub(super) fn on_reader(
        &mut self,
        id: u64,
        wants_tail: bool,
        result: Result<Box<PartitionReader>, Condition>,
    ) {
        let Some((channel, offer)) = self.offer(id) else {
            return;
        };
        let reader = match result {
            Ok(reader) => reader,
            Err(fault) => return self.turn_away(id, channel, &offer, &fault),
        };
        let cut = reader.disconnected();
        let (work, aborted) = work::bound(async move {
            WorkCompletion::Cut {
                link: id,
                why: cut.await,
            }
        });
        self.work.push(work);
        let feed = ConsumerLink {
            outlet: self.early_credit(id),
            reader: ReaderState::Idle(reader),
            current: None,
            wants_tail,
            tail: None,
            _cut: aborted,
        };
        let early = self.answer(id, channel, &offer, Kind::Consumer(Box::new(feed)));
        self.catch_up(id, channel, early);
        self.ready.push_back(id);
    }

    /// The prepared answer of a pending link.
    fn offer(&mut self, id: u64) -> Option<(u16, AttachReply)> {
        let link = self.links.get_mut(&id)?;
        match &link.kind {
            Kind::Pending(opening) => Some((link.channel, opening.offer.clone())),
            _ => None,
        }
    }

    /// The credit that the client granted while the reader was opened.
    fn early_credit(&mut self, id: u64) -> AmqpOutlet {
        match self.links.get_mut(&id).map(|link| &mut link.kind) {
            Some(Kind::Pending(opening)) => std::mem::take(&mut opening.outlet),
            _ => AmqpOutlet::default(),
        }
    }

    /// Answers an attach and sets the kind of the link; returns the frames that arrived
    /// while it was opened.
    fn answer(
        &mut self,
        id: u64,
        channel: u16,
        offer: &AttachReply,
        kind: Kind,
    ) -> Option<Box<PendingLink>> {
        self.out.frame(channel, |out| offer.write_answer(out));
        let link = self.links.get_mut(&id)?;
        match std::mem::replace(&mut link.kind, kind) {
            Kind::Pending(opening) => {
                self.partial_bytes -= opening.bytes();
                Some(opening)
            }
            _ => None,
        }
    }

    /// Handles the frames that arrived while the link was opened.
    fn catch_up(&mut self, id: u64, channel: u16, early: Option<Box<PendingLink>>) {
        let Some(early) = early else { return };
        if early.wants_echo {
            self.send_flow(channel, Some(early.offer.handle));
        }
        for body in early.transfers {
            let Ok((Performative::Transfer(transfer), length)) = performative::read(&body) else {
                continue;
            };
            let payload = body.slice(length..);
            if let Err(fault) = self.on_link_transfer(id, &transfer, &payload) {
                return self.close(Some(&fault));
            }
        }
    }

    fn turn_away(&mut self, id: u64, channel: u16, offer: &AttachReply, fault: &Condition) {
        self.forget(id);
        self.refuse(channel, offer, fault);
    }
}

/// A validated link and the work that remains before it can be answered.
enum AttachPlan {
    Opening(
        futures_util::future::BoxFuture<'static, WorkCompletion>,
        super::link::AbortGuard,
    ),
    Requests(ManagementNode),
    Replies(ManagementNode, Option<String>),
}

fn prepare_replies(
    offer: AttachReply,
    attach: &Attach<'_>,
    desk: ManagementNode,
) -> Result<(AttachReply, Option<RequiredAccess>, AttachPlan), Condition> {
    let address = link::address(attach.target)?.map(str::to_owned);
    Ok((offer, None, AttachPlan::Replies(desk, address)))
}

fn reader_name(attach: &Attach<'_>) -> Result<String, Condition> {
    for name in READER_NAMES {
        if let Some(text) = attach.property(name)?.and_then(|value| value.as_text()) {
            return Ok(text.to_owned());
        }
    }
    Ok(attach.name.to_owned())
}

fn start(attach: &Attach<'_>) -> Result<EventPosition, Condition> {
    let start = link::filter(attach.source).and_then(selector::start);
    let start = start.map_err(|error| Condition::new(condition::ARGUMENT, error.to_string()))?;
    Ok(match start {
        SelectorStart::Beginning => EventPosition::Earliest,
        SelectorStart::Latest => EventPosition::Latest,
        SelectorStart::Offset { offset, inclusive } => EventPosition::Offset { offset, inclusive },
        SelectorStart::Sequence {
            sequence,
            inclusive,
        } => EventPosition::Sequence {
            sequence,
            inclusive,
        },
        SelectorStart::Enqueued { ms, inclusive } => EventPosition::Time {
            time: Timestamp(ms),
            inclusive,
        },
    })
}

/// The producer options of an idempotent producer.
fn wish(attach: &Attach<'_>) -> Result<ProducerOptions, Condition> {
    let property = |name| -> Result<Option<i64>, Condition> {
        let number = attach.property(name)?.and_then(|value| value.as_i64());
        match number {
            Some(..-1) => Err(out_of_range()),
            number => Ok(number),
        }
    };
    let (id, epoch) = (property(PRODUCER_ID)?, property(PRODUCER_EPOCH)?);
    // A producer that has sent no event has the number -1.
    if id == Some(-1) || epoch == Some(-1) {
        return Err(out_of_range());
    }
    let epoch = epoch.map(i16::try_from).transpose();
    let last = property(PRODUCER_SEQUENCE)?.map(i32::try_from).transpose();
    match (epoch, last) {
        (Ok(epoch), Ok(last)) => Ok(ProducerOptions {
            id,
            epoch,
            // The first event of a new producer has the number 1: clients return the
            // number they received, which must not be negative.
            last: last.or(id.is_none().then_some(0)),
        }),
        _ => Err(out_of_range()),
    }
}

/// With the text that clients match.
fn out_of_range() -> Condition {
    let words = "Invalid range for idempotent producer state. Producer Id, Epoch, and \
                 Sequence Number must be zero or positive.";
    Condition::new(condition::OUT_OF_RANGE, words)
}

/// The state of an idempotent producer, with the types that clients expect.
fn producer_properties(producer: &ProducerState) -> Vec<u8> {
    let mut out = Vec::new();
    write::map(&mut out, 3, |out| {
        write::symbol(out, PRODUCER_ID);
        write::long(out, producer.id);
        write::symbol(out, PRODUCER_EPOCH);
        write::short(out, producer.epoch);
        write::symbol(out, PRODUCER_SEQUENCE);
        write::int(out, producer.last);
    });
    out
}
