//! Links: the state of each kind.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::AbortHandle;
use steadfast_core::limits;
use steadfast_events::{Batch, Publication, Reader, Sender, Stamp};
use steadfast_wire::amqp::event::Tail;
use steadfast_wire::amqp::link::{self, Attach, Role};
use steadfast_wire::amqp::scan::Raw;

use crate::access::Right;

/// A node that answers requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Desk {
    Cbs,
    Management,
}

pub(super) struct Link {
    pub(super) channel: u16,
    pub(super) handle: u32,
    pub(super) name: Arc<str>,
    /// The client's role.
    pub(super) role: Role,
    /// The access that the link requires.
    pub(super) need: Option<Need>,
    pub(super) kind: Kind,
}

impl Link {
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
pub(super) struct Need {
    pub(super) path: String,
    pub(super) hub: String,
    pub(super) right: Right,
}

pub(super) enum Kind {
    /// The attach is not answered yet.
    Opening(Box<Opening>),
    /// The client sends events.
    Intake(Box<Intake>),
    /// The client reads events.
    Feed(Box<Feed>),
    /// The client sends requests.
    Requests(Desk, Inlet),
    /// The client takes replies; the address is its own.
    Replies(Desk, Option<String>, Box<Replies>),
}

/// A link whose attach is not answered yet, with the frames that the client has sent
/// after it: a client may pipeline.
pub(super) struct Opening {
    pub(super) offer: Offer,
    /// Credit that was granted already.
    pub(super) outlet: Outlet,
    /// The client asked for the state of the link.
    pub(super) wants_echo: bool,
    /// Transfers, whole frames.
    pub(super) transfers: Vec<Bytes>,
    pub(super) _work: Aborted,
}

impl Opening {
    pub(super) fn new(offer: Offer, work: Aborted) -> Self {
        Self {
            offer,
            outlet: Outlet::default(),
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
pub(super) struct Aborted(pub(super) AbortHandle);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The fields of a client's attach that the answer repeats.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) handle: u32,
    pub(super) role: Role,
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
enum Ends {
    Both,
    /// The client's only: the link is detached at once.
    Theirs,
    None,
}

impl Offer {
    pub(super) fn of(attach: &Attach<'_>) -> Self {
        let mut source = Vec::new();
        match attach.source.is_null() {
            true => link::write_source(&mut source, None, Raw::NULL),
            false => link::write_known_filters(&mut source, attach.source),
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
            offered: Raw::NULL.bytes().to_vec(),
            initial_count: attach.initial_count.unwrap_or(0),
        }
    }

    /// The answering attach. Our deliveries are pre-settled and the receiver settles
    /// first: some clients hang in the second mode that they request.
    pub(super) fn write_answer(&self, out: &mut Vec<u8>) {
        self.write(out, Ends::Both);
    }

    /// The attach for a refused client: without source and target, which means that the
    /// link was not created. A detach with the reason follows.
    ///
    /// The Go client waits for that reason only if both are missing. If another reader is
    /// the reason, it must see a created link: it recognises a lost partition by a link
    /// that ends.
    pub(super) fn write_refusal(&self, out: &mut Vec<u8>, is_stolen: bool) {
        let ends = match is_stolen {
            true => Ends::Theirs,
            false => Ends::None,
        };
        self.write(out, ends);
    }

    fn write(&self, out: &mut Vec<u8>, ends: Ends) {
        let raw = |bytes| Raw::new(bytes).unwrap_or(Raw::NULL);
        let client_reads = self.role == Role::Receiver;
        let end = |bytes, is_ours: bool| match ends {
            Ends::Both => raw(bytes),
            Ends::Theirs if !is_ours => raw(bytes),
            Ends::Theirs | Ends::None => Raw::NULL,
        };
        let answer = Attach {
            name: &self.name,
            handle: self.handle,
            role: self.role.other(),
            snd_settle: match client_reads {
                true => Some(1),
                false => Some(self.snd_settle.unwrap_or(2)),
            },
            rcv_settle: Some(0),
            source: end(&self.source, client_reads),
            target: end(&self.target, !client_reads),
            initial_count: client_reads.then_some(0),
            max_message: Some(match client_reads {
                true => limits::AMQP_DELIVERY_BYTES as u64,
                false => limits::PUBLICATION_BYTES as u64,
            }),
            offered: raw(&self.offered),
            desired: raw(&self.desired),
            properties: raw(&self.properties),
        };
        answer.write(out);
    }
}

/// The receiving end of a link: the credit that we grant and an incomplete message.
#[derive(Debug)]
pub(super) struct Inlet {
    pub(super) grant: u32,
    pub(super) credit: u32,
    pub(super) count: u32,
    pub(super) partial: Option<Partial>,
}

/// An incomplete message.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) delivery: u32,
    pub(super) format: u32,
    pub(super) settled: bool,
    pub(super) bytes: Vec<u8>,
    /// How many bytes were received.
    pub(super) size: usize,
    /// Too large: the rest is discarded and the delivery will be rejected.
    pub(super) is_too_large: bool,
}

impl Inlet {
    pub(super) fn new(grant: u32, initial_count: u32) -> Self {
        Self {
            grant,
            credit: grant,
            count: initial_count,
            partial: None,
        }
    }

    /// A delivery is complete. True if it is time to grant credit again.
    pub(super) fn take(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        self.credit <= self.grant / 2
    }
}

/// A link on which the client sends events.
pub(super) struct Intake {
    pub(super) inlet: Inlet,
    pub(super) sender: Sender,
    /// Whether duplicates are detected.
    pub(super) is_idempotent: bool,
    /// The partition key of all events, if the address names a publisher.
    pub(super) publisher: Option<String>,
    /// Publications that wait until the previous one is submitted.
    pub(super) waiting: VecDeque<Taken>,
    pub(super) is_submitting: bool,
}

/// A publication received from the client.
pub(super) struct Taken {
    pub(super) delivery: u32,
    pub(super) settled: bool,
    pub(super) bytes: usize,
    pub(super) batch: Batch,
    pub(super) stamp: Option<Stamp>,
}

/// The sending end of a link: the client's credit and a partly sent message.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    pub(super) credit: u32,
    pub(super) count: u32,
    pub(super) drain: bool,
    pub(super) partial: Option<Outgoing>,
}

/// A message that spans several frames.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) delivery: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
}

impl Outlet {
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
    pub(super) outlet: Outlet,
    pub(super) waiting: VecDeque<Vec<u8>>,
}

impl Replies {
    /// Bytes of the replies that wait.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.iter().map(Vec::len).sum()
    }
}

/// A link on which the client reads events.
pub(super) struct Feed {
    pub(super) outlet: Outlet,
    pub(super) reader: Held,
    /// The publication that is being delivered.
    pub(super) current: Option<Publication>,
    /// Whether deliveries carry the end of the partition, and that end.
    pub(super) wants_tail: bool,
    pub(super) tail: Option<Tail>,
    /// Watches for the reader to lose its partition.
    pub(super) _cut: Aborted,
}

/// What the reader does.
pub(super) enum Held {
    Here(Box<Reader>),
    /// It fetches the next publication.
    Looking(#[expect(dead_code, reason = "ends the work with the link")] Aborted),
    /// A placeholder while it is moved.
    Gone,
    /// It waits at the end of the partition.
    Waiting(#[expect(dead_code, reason = "ends the work with the link")] Aborted),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_25_credit_is_counted_from_what_the_client_has_seen() {
        let mut outlet = Outlet::default();
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
