//! Links: the state of each kind.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::AbortHandle;
use steadfast_core::limits;
use steadfast_events::{
    EventDataBatch, EventPublication, EventSender, PartitionReader, ProducerSequence,
};
use steadfast_net::access::Right;
use steadfast_wire::amqp::event::LastEnqueuedProperties;
use steadfast_wire::amqp::link::{self, Attach, LinkRole};
use steadfast_wire::amqp::scan::EncodedValue;

use super::session::AmqpInlet;

/// A node that answers requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ManagementNode {
    Cbs,
    Management,
}

pub(super) struct AmqpLink {
    pub(super) channel: u16,
    pub(super) handle: u32,
    pub(super) name: Arc<str>,
    /// The client's role.
    pub(super) role: LinkRole,
    /// The access that the link requires.
    pub(super) need: Option<RequiredAccess>,
    pub(super) kind: Kind,
}

impl AmqpLink {
    /// Bytes of its name and addresses.
    pub(super) fn name_bytes(&self) -> usize {
        let need = self
            .need
            .as_ref()
            .map(|need| need.path.len() + need.hub.len());
        let address = match &self.kind {
            Kind::Replies(_, address, _) => address.as_ref().map(String::len),
            _ => None,
        };
        self.name.len() + need.unwrap_or(0) + address.unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
pub(super) struct RequiredAccess {
    pub(super) path: String,
    pub(super) hub: String,
    pub(super) right: Right,
}

pub(super) enum Kind {
    /// The attach is not answered yet.
    Pending(Box<PendingLink>),
    /// The client sends events.
    Producer(Box<ProducerLink>),
    /// The client reads events.
    Consumer(Box<ConsumerLink>),
    /// The client sends requests.
    Requests(ManagementNode, AmqpInlet),
    /// The client takes replies; the address is its own.
    Replies(ManagementNode, Option<String>, Box<Replies>),
}

/// A link whose attach is not answered yet, with the frames that the client has sent
/// after it: a client may pipeline.
pub(super) struct PendingLink {
    pub(super) offer: AttachReply,
    /// Credit that was granted already.
    pub(super) outlet: AmqpOutlet,
    /// The client asked for the state of the link.
    pub(super) wants_echo: bool,
    /// Transfers, whole frames.
    pub(super) transfers: Vec<Bytes>,
    pub(super) _work: AbortGuard,
}

impl PendingLink {
    pub(super) fn new(offer: AttachReply, work: AbortGuard) -> Self {
        Self {
            offer,
            outlet: AmqpOutlet::default(),
            wants_echo: false,
            transfers: Vec::new(),
            _work: work,
        }
    }

    /// Bytes of the transfers that wait.
    pub(super) fn bytes(&self) -> usize {
        self.transfers.iter().map(Bytes::len).sum()
    }
}

/// Work that ends with its link.
#[derive(Debug)]
pub(super) struct AbortGuard(pub(super) AbortHandle);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The fields of a client's attach that the answer repeats.
#[derive(Clone, Debug)]
pub(super) struct AttachReply {
    pub(super) name: String,
    pub(super) handle: u32,
    pub(super) role: LinkRole,
    snd_settle: Option<u8>,
    source: Vec<u8>,
    target: Vec<u8>,
    desired: Vec<u8>,
    pub(super) properties: Vec<u8>,
    pub(super) offered: Vec<u8>,
    pub(super) initial_count: u32,
}

/// Which of source and target an answer includes.
#[derive(Clone, Copy)]
enum Termini {
    Both,
    /// The client's only: the link is detached at once.
    Theirs,
    None,
}

impl AttachReply {
    pub(super) fn of(attach: &Attach<'_>) -> Self {
        let mut source = Vec::new();
        if attach.source.is_null() {
            link::write_source(&mut source, None, EncodedValue::NULL)
        } else {
            link::write_known_filters(&mut source, attach.source)
        }
        let mut target = attach.target.bytes().to_vec();
        if attach.target.is_null() {
            target.clear();
            link::write_target(&mut target, None);
        }
        Self {
            name: attach.name.to_owned(),
            handle: attach.handle,
            role: attach.role,
            snd_settle: attach.snd_settle,
            source,
            target,
            desired: attach.desired.bytes().to_vec(),
            properties: attach.properties.bytes().to_vec(),
            offered: EncodedValue::NULL.bytes().to_vec(),
            initial_count: attach.initial_count.unwrap_or(0),
        }
    }

    /// The answering attach. Our deliveries are pre-settled and the receiver settles
    /// first: some clients hang in the second mode that they request.
    pub(super) fn write_answer(&self, out: &mut Vec<u8>) {
        self.write(out, Termini::Both);
    }

    /// The attach for a refused client: without source and target, which means that the
    /// link was not created. A detach with the reason follows.
    ///
    /// The Go client waits for that reason only if both are missing. If another reader is
    /// the reason, it must see a created link: it recognises a lost partition by a link
    /// that ends.
    pub(super) fn write_refusal(&self, out: &mut Vec<u8>, is_stolen: bool) {
        let ends = if is_stolen {
            Termini::Theirs
        } else {
            Termini::None
        };
        self.write(out, ends);
    }

    fn write(&self, out: &mut Vec<u8>, ends: Termini) {
        let raw = |bytes| EncodedValue::new(bytes).unwrap_or(EncodedValue::NULL);
        let client_reads = self.role == LinkRole::Receiver;
        let end = |bytes, is_ours: bool| match ends {
            Termini::Both => raw(bytes),
            Termini::Theirs if !is_ours => raw(bytes),
            Termini::Theirs | Termini::None => EncodedValue::NULL,
        };
        let answer = Attach {
            name: &self.name,
            handle: self.handle,
            role: self.role.other(),
            snd_settle: if client_reads {
                Some(1)
            } else {
                Some(self.snd_settle.unwrap_or(2))
            },
            rcv_settle: Some(0),
            source: end(&self.source, client_reads),
            target: end(&self.target, !client_reads),
            initial_count: client_reads.then_some(0),
            max_message: Some(if client_reads {
                limits::AMQP_DELIVERY_BYTES as u64
            } else {
                limits::PUBLICATION_BYTES as u64
            }),
            offered: raw(&self.offered),
            desired: raw(&self.desired),
            properties: raw(&self.properties),
        };
        answer.write(out);
    }
}

/// A link on which the client sends events.
pub(super) struct ProducerLink {
    pub(super) inlet: AmqpInlet,
    pub(super) sender: EventSender,
    /// Whether duplicates are detected.
    pub(super) is_idempotent: bool,
    /// The partition key of all events, if the address names a publisher.
    pub(super) publisher: Option<String>,
    /// Publications that wait until the previous one is submitted.
    pub(super) waiting: VecDeque<IncomingPublication>,
    pub(super) is_submitting: bool,
}

/// A publication received from the client.
pub(super) struct IncomingPublication {
    pub(super) delivery: u32,
    pub(super) settled: bool,
    pub(super) bytes: usize,
    pub(super) batch: EventDataBatch,
    pub(super) stamp: Option<ProducerSequence>,
}

/// The sending end of a link: the client's credit and a partly sent message.
#[derive(Debug, Default)]
pub(super) struct AmqpOutlet {
    pub(super) credit: u32,
    pub(super) count: u32,
    pub(super) drain: bool,
    pub(super) partial: Option<OutgoingDelivery>,
}

/// A message that spans several frames.
#[derive(Debug)]
pub(super) struct OutgoingDelivery {
    pub(super) delivery: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
}

impl AmqpOutlet {
    /// The client grants credit, counted from what it has seen.
    pub(super) fn on_flow(&mut self, seen: Option<u32>, credit: Option<u32>, drain: bool) {
        self.drain = drain;
        let Some(credit) = credit else { return };
        let limit = seen.unwrap_or(0).wrapping_add(credit);
        let left = limit.wrapping_sub(self.count);
        // A limit in the past leaves nothing.
        self.credit = if left > i32::MAX as u32 { 0 } else { left };
    }

    /// A delivery begins.
    pub(super) fn take(&mut self) {
        self.credit = self.credit.saturating_sub(1);
        self.count = self.count.wrapping_add(1);
    }

    /// Gives all credit back.
    pub(super) fn drained(&mut self) {
        self.count = self.count.wrapping_add(self.credit);
        self.credit = 0;
        self.drain = false;
    }
}

/// Replies that wait for credit.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) outlet: AmqpOutlet,
    pub(super) waiting: VecDeque<Vec<u8>>,
}

impl Replies {
    /// Bytes of the replies that wait.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.iter().map(Vec::len).sum()
    }
}

/// A link on which the client reads events.
pub(super) struct ConsumerLink {
    pub(super) outlet: AmqpOutlet,
    pub(super) reader: ReaderState,
    /// The publication that is being delivered.
    pub(super) current: Option<EventPublication>,
    /// Whether deliveries carry the end of the partition, and that end.
    pub(super) wants_tail: bool,
    pub(super) tail: Option<LastEnqueuedProperties>,
    /// Watches for the reader to lose its partition.
    pub(super) _cut: AbortGuard,
}

/// What the reader does.
pub(super) enum ReaderState {
    Idle(Box<PartitionReader>),
    /// It fetches the next publication.
    Fetching(#[expect(dead_code, reason = "ends the work with the link")] AbortGuard),
    /// A placeholder while it is moved.
    Moving,
    /// It waits at the end of the partition.
    Waiting(#[expect(dead_code, reason = "ends the work with the link")] AbortGuard),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_25_credit_is_counted_from_what_the_client_has_seen() {
        let mut outlet = AmqpOutlet::default();
        outlet.on_flow(Some(0), Some(3), false);
        outlet.take();
        outlet.take();
        assert_eq!(outlet.credit, 1);
        outlet.on_flow(Some(1), Some(3), false);
        assert_eq!(outlet.credit, 2);
        // The client takes back credit.
        outlet.on_flow(Some(1), Some(0), false);
        assert_eq!(outlet.credit, 0);
        outlet.on_flow(Some(2), Some(10), true);
        outlet.drained();
        assert_eq!((outlet.credit, outlet.count), (0, 12));
    }
}
