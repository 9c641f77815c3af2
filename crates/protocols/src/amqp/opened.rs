//! The service has answered: a link is there, or refused.

use steadfast_core::limits;
use steadfast_events::{ProducerState, Reader, Sender};
use steadfast_wire::amqp::event::{PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE};
use steadfast_wire::amqp::write;

use super::connection::Connection;
use super::fault::Fault;
use super::link::{Feed, Held, Inlet, Intake, Kind, Offer, Outlet};
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
        self.answer(id, channel, &offer, Kind::Intake(Box::new(intake)));
        self.grant(id);
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
            outlet: Outlet::default(),
            reader: Held::Here(reader),
            current: None,
            wants_tail,
            tail: None,
            _cut: aborted,
        };
        self.answer(id, channel, &offer, Kind::Feed(Box::new(feed)));
    }

    /// The offer of a link that waits for its answer.
    fn offer(&mut self, id: u64) -> Option<(u16, Offer)> {
        let link = self.links.get_mut(&id)?;
        match &link.kind {
            Kind::Opening(offer, _) => Some((link.channel, Offer::clone(offer))),
            _ => None,
        }
    }

    fn answer(&mut self, id: u64, channel: u16, offer: &Offer, kind: Kind) {
        self.out.frame(channel, |out| offer.write_answer(out));
        if let Some(link) = self.links.get_mut(&id) {
            link.kind = kind;
        }
    }

    fn turn_away(&mut self, id: u64, channel: u16, offer: &Offer, fault: &Fault) {
        self.forget(id);
        self.refuse(channel, offer, fault);
    }
}

/// What an idempotent producer must know, each with the type that clients expect.
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
