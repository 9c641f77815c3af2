//! Answers an attach: the link is created or refused.

use steadfast_core::limits;
use steadfast_events::{EventSender, PartitionReader, ProducerState};
use steadfast_wire::amqp::event::{PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::write;

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::link::{
    AmqpInlet, AmqpOutlet, AttachReply, ConsumerLink, Kind, PendingLink, ProducerLink, ReaderState,
};
use super::work::{self, WorkCompletion};

impl AmqpConnection {
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
            waiting: std::collections::VecDeque::new(),
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
