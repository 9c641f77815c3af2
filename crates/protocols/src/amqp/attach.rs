//! Handles an attach: a client requests a link.
//!
//! A refused client gets an attach without our terminus and a detach with the reason,
//! in one write, with no credit between them: clients take the first credit for
//! success.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::{Attach as Reading, Position, Wish};
use steadfast_wire::amqp::address::{self, Node};
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::event::{PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE};
use steadfast_wire::amqp::link::{self, Attach, Detach, Role};
use steadfast_wire::amqp::selector::{self, Start};
use steadfast_wire::amqp::write;

use super::connection::{Connection, no_session};
use super::fault::Fault;
use super::link::{Desk, Inlet, Kind, Link, Need, Offer, Opening, Replies};
use super::session::Handle;
use super::work::{self, Done};
use crate::access::Right;

const METRICS: &str = "com.microsoft:enable-receiver-runtime-metric";
const IDEMPOTENT: &str = "com.microsoft:idempotent-producer";
const EPOCH: &str = "com.microsoft:epoch";
/// Some clients use the second spelling.
const READER_NAMES: [&str; 2] = [
    "com.microsoft:receiver-name",
    "com.microsoft.com:receiver-name",
];

impl Connection {
    pub(super) fn on_attach(&mut self, channel: u16, attach: &Attach<'_>) -> Result<(), Fault> {
        let session = self.sessions.get(&channel).ok_or_else(no_session)?;
        if attach.handle > limits::AMQP_HANDLE_MAX {
            return Err(Fault::new(
                condition::NOT_ALLOWED,
                "a handle over handle-max",
            ));
        }
        if session.handles.contains_key(&attach.handle) {
            return Err(Fault::new(
                condition::HANDLE_IN_USE,
                "a handle that is in use",
            ));
        }
        let name = (attach.role, Arc::from(attach.name));
        if let Some(older) = self.names.get(&name).copied() {
            let words = format!("another link took the name '{}'", attach.name);
            self.cut(older, &Fault::new(condition::STOLEN, words));
        }
        let id = self.number();
        match self.prepare(id, attach) {
            Ok((offer, need, prepared)) => {
                self.place(id, channel, name, need);
                self.start(id, offer, prepared);
            }
            Err(fault) => self.refuse(channel, &Offer::of(attach), &fault),
        }
        Ok(())
    }

    /// Attaches and detaches at once; the handle and the name stay free.
    pub(super) fn refuse(&mut self, channel: u16, offer: &Offer, fault: &Fault) {
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
            problem: Some(fault.problem()),
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
    ) -> Result<(Offer, Option<Need>, Prepared), Fault> {
        if self.links.len() >= limits::AMQP_LINKS {
            let words = format!("a connection has {} links at most", limits::AMQP_LINKS);
            return Err(Fault::new(condition::RESOURCE_LIMIT, words));
        }
        if !self.is_proven() && self.links.len() >= limits::AMQP_UNPROVEN_LINKS {
            let words = "too many links before a token was put";
            return Err(Fault::new(condition::RESOURCE_LIMIT, words));
        }
        let terminus = match attach.role {
            Role::Sender => attach.target,
            Role::Receiver => attach.source,
        };
        let address = link::address(terminus)?.unwrap_or("");
        let path = address::path(address);
        let node = address::parse(address).ok_or_else(|| Fault::not_found(path))?;
        let offer = Offer::of(attach);
        match (attach.role, node) {
            (Role::Sender, Node::Cbs) => Ok((offer, None, Prepared::Requests(Desk::Cbs))),
            (Role::Sender, Node::Management) => {
                Ok((offer, None, Prepared::Requests(Desk::Management)))
            }
            (Role::Receiver, Node::Cbs) => prepare_replies(offer, attach, Desk::Cbs),
            (Role::Receiver, Node::Management) => prepare_replies(offer, attach, Desk::Management),
            (Role::Receiver, Node::Reader { hub, .. }) => {
                let need = self.need(path, hub, Right::Listen)?;
                self.prepare_reader(id, attach, offer, need, node)
            }
            (
                Role::Sender,
                Node::Hub(hub) | Node::Partition { hub, .. } | Node::Publisher { hub, .. },
            ) => {
                let need = self.need(path, hub, Right::Send)?;
                self.prepare_sender(id, attach, offer, need, node)
            }
            _ => Err(Fault::not_found(path)),
        }
    }

    fn need(&self, path: &str, hub: &str, right: Right) -> Result<Need, Fault> {
        let now = self.context.clock.now();
        let allowed = self.tokens.allow(path, hub, right, now);
        allowed.inspect_err(|denied| self.context.refused(denied))?;
        Ok(Need {
            path: path.to_owned(),
            hub: hub.to_owned(),
            right,
        })
    }

    fn prepare_sender(
        &self,
        id: u64,
        attach: &Attach<'_>,
        mut offer: Offer,
        need: Need,
        node: Node<'_>,
    ) -> Result<(Offer, Option<Need>, Prepared), Fault> {
        let (partition, publisher) = match node {
            Node::Partition { partition, .. } => (Some(address::number(partition)), None),
            Node::Publisher { name, .. } => (None, Some(name.to_owned())),
            _ => (None, None),
        };
        let wish = match attach.desires(IDEMPOTENT) && partition.is_some() {
            true => Some(wish(attach)?),
            false => None,
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
            Done::Sender {
                link: id,
                publisher,
                result: opening.await,
            }
        });
        Ok((offer, Some(need), Prepared::Opening(work, aborted)))
    }

    fn prepare_reader(
        &self,
        id: u64,
        attach: &Attach<'_>,
        mut offer: Offer,
        need: Need,
        node: Node<'_>,
    ) -> Result<(Offer, Option<Need>, Prepared), Fault> {
        let Node::Reader {
            group, partition, ..
        } = node
        else {
            return Err(Fault::not_found(&need.path));
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
            Done::Reader {
                link: id,
                wants_tail,
                result: reader.map(Box::new).map_err(Fault::from),
            }
        });
        Ok((offer, Some(need), Prepared::Opening(work, aborted)))
    }

    /// Registers a link with a placeholder kind.
    fn place(&mut self, id: u64, channel: u16, name: (Role, Arc<str>), need: Option<Need>) {
        let link = Link {
            channel,
            handle: 0,
            name: Arc::clone(&name.1),
            role: name.0,
            need,
            kind: Kind::Requests(Desk::Cbs, Inlet::new(0, 0)),
        };
        self.links.insert(id, link);
        self.names.insert(name, id);
    }

    /// Answers the attach at once where possible, or starts the work it waits for.
    fn start(&mut self, id: u64, offer: Offer, prepared: Prepared) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let channel = link.channel;
        link.handle = offer.handle;
        if let Some(session) = self.sessions.get_mut(&channel) {
            session.handles.insert(offer.handle, Handle::Link(id));
        }
        match prepared {
            Prepared::Opening(work, aborted) => {
                link.kind = Kind::Opening(Box::new(Opening::new(offer, aborted)));
                self.work.push(work);
            }
            Prepared::Requests(desk) => {
                let inlet = Inlet::new(limits::AMQP_REQUESTS, offer.initial_count);
                link.kind = Kind::Requests(desk, inlet);
                self.out.frame(channel, |out| offer.write_answer(out));
                self.grant(id);
            }
            Prepared::Replies(desk, address) => {
                link.kind = Kind::Replies(desk, address, Box::<Replies>::default());
                self.out.frame(channel, |out| offer.write_answer(out));
            }
        }
        let name_bytes = self.links.get(&id).map_or(0, Link::name_bytes);
        self.name_bytes += name_bytes;
    }
}

/// A validated link and the work that remains before it can be answered.
enum Prepared {
    Opening(
        futures_util::future::BoxFuture<'static, Done>,
        super::link::Aborted,
    ),
    Requests(Desk),
    Replies(Desk, Option<String>),
}

fn prepare_replies(
    offer: Offer,
    attach: &Attach<'_>,
    desk: Desk,
) -> Result<(Offer, Option<Need>, Prepared), Fault> {
    let address = link::address(attach.target)?.map(str::to_owned);
    Ok((offer, None, Prepared::Replies(desk, address)))
}

fn reader_name(attach: &Attach<'_>) -> Result<String, Fault> {
    for name in READER_NAMES {
        if let Some(text) = attach.property(name)?.and_then(|value| value.as_text()) {
            return Ok(text.to_owned());
        }
    }
    Ok(attach.name.to_owned())
}

fn start(attach: &Attach<'_>) -> Result<Position, Fault> {
    let start = link::filter(attach.source).and_then(selector::start);
    let start = start.map_err(|error| Fault::new(condition::ARGUMENT, error.to_string()))?;
    Ok(match start {
        Start::Beginning => Position::Earliest,
        Start::Latest => Position::Latest,
        Start::Offset { offset, inclusive } => Position::Offset { offset, inclusive },
        Start::Sequence {
            sequence,
            inclusive,
        } => Position::Sequence {
            sequence,
            inclusive,
        },
        Start::Enqueued { ms, inclusive } => Position::Time {
            time: Timestamp(ms),
            inclusive,
        },
    })
}

/// The producer options of an idempotent producer.
fn wish(attach: &Attach<'_>) -> Result<Wish, Fault> {
    let property = |name| -> Result<Option<i64>, Fault> {
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
        (Ok(epoch), Ok(last)) => Ok(Wish {
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
fn out_of_range() -> Fault {
    let words = "Invalid range for idempotent producer state. Producer Id, Epoch, and \
                 Sequence Number must be zero or positive.";
    Fault::new(condition::OUT_OF_RANGE, words)
}
