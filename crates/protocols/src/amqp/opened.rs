//! Answers an attach: the link is created or refused.

use steadfast_core::limits;
use steadfast_events::{ProducerState, Reader, Sender};
use steadfast_wire::amqp::event::{PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::write;

use super::connection::Connection;
use super::fault::Fault;
use super::link::{Feed, Held, Inlet, Intake, Kind, Offer, Opening, Outlet};
use super::work::{self, Done};

impl Connection {
    pub(super) fn on_sender(
        &mut self,
        id: u64,
        publisher: Option<String>,
        result: Result<(Sender, Option<ProducerState>), Fault>,
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
        let intake = Intake {
            inlet: Inlet::new(limits::AMQP_CREDIT, offer.initial_count),
            sender,
            is_idempotent: producer.is_some(),
            publisher,
            waiting: std::collections::VecDeque::new(),
            is_submitting: false,
        };
        let early = self.answer(id, channel, &offer, Kind::Intake(Box::new(intake)));
        self.grant(id);
        self.catch_up(id, channel, early);
    }

    pub(super) fn on_reader(
        &mut self,
        id: u64,
        wants_tail: bool,
        result: Result<Box<Reader>, Fault>,
    ) {
        let Some((channel, offer)) = self.offer(id) else {
            return;
        };
        let reader = match result {
            Ok(reader) => reader,
            Err(fault) => return self.turn_away(id, channel, &offer, &fault),
        };
        let cut = reader.cut();
        let (work, aborted) = work::bound(async move {
            Done::Cut {
                link: id,
                why: cut.await,
            }
        });
        self.work.push(work);
        let feed = Feed {
            outlet: self.early_credit(id),
            reader: Held::Here(reader),
            current: None,
            wants_tail,
            tail: None,
            _cut: aborted,
        };
        let early = self.answer(id, channel, &offer, Kind::Feed(Box::new(feed)));
        self.catch_up(id, channel, early);
        self.ready.push_back(id);
    }

    /// The prepared answer of a pending link.
    fn offer(&mut self, id: u64) -> Option<(u16, Offer)> {
        let link = self.links.get_mut(&id)?;
        match &link.kind {
            Kind::Opening(opening) => Some((link.channel, opening.offer.clone())),
            _ => None,
        }
    }

    /// The credit that the client granted while the reader was opened.
    fn early_credit(&mut self, id: u64) -> Outlet {
        match self.links.get_mut(&id).map(|link| &mut link.kind) {
            Some(Kind::Opening(opening)) => std::mem::take(&mut opening.outlet),
            _ => Outlet::default(),
        }
    }

    /// Answers an attach and sets the kind of the link; returns the frames that arrived
    /// while it was opened.
    fn answer(&mut self, id: u64, channel: u16, offer: &Offer, kind: Kind) -> Option<Box<Opening>> {
        self.out.frame(channel, |out| offer.write_answer(out));
        let link = self.links.get_mut(&id)?;
        match std::mem::replace(&mut link.kind, kind) {
            Kind::Opening(opening) => {
                self.partial_bytes -= opening.bytes();
                Some(opening)
            }
            _ => None,
        }
    }

    /// Handles the frames that arrived while the link was opened.
    fn catch_up(&mut self, id: u64, channel: u16, early: Option<Box<Opening>>) {
        let Some(early) = early else { return };
        if early.wants_echo {
            self.tell_state(channel, Some(early.offer.handle));
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

    fn turn_away(&mut self, id: u64, channel: u16, offer: &Offer, fault: &Fault) {
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
