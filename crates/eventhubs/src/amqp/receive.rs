//! Receives messages and publishes their events.
//!
//! Publications of one link are submitted one after another, so they keep their
//! order; many may wait for durability at the same time.

use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_events::{
    Error, EventDataBatch, PendingPublication, ProducerSequence, PublishReceipt,
};
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::delivery::{Disposition, Outcome, Transfer};
use steadfast_wire::amqp::event::{self, BatchMessages, StoredMessage};
use steadfast_wire::amqp::link::LinkRole;

use super::condition::Condition;
use super::connection::{AmqpConnection, no_handle, no_session};
use super::link::{IncomingPublication, Kind};
use super::session::{Handle, IncomingDelivery};
use super::work::{DeliveryReceipt, WorkCompletion};

impl AmqpConnection {
    pub(super) fn on_transfer(
        &mut self,
        channel: u16,
        transfer: &Transfer<'_>,
        body: &Bytes,
        length: usize,
    ) -> Result<(), Condition> {
        let session = self.sessions.get_mut(&channel).ok_or_else(no_session)?;
        if session.on_transfer() {
            let flow = session.flow();
            self.out.frame(channel, |out| flow.write(out));
        }
        let id = match session.handles.get(&transfer.handle) {
            Some(Handle::Link(id)) => *id,
            // It was in flight when we detached the link.
            Some(Handle::Closing) => return Ok(()),
            None => return Err(no_handle(transfer.handle)),
        };
        match self
            .links
            .get_mut(&id)
            .map(|link| (link.role, &mut link.kind))
        {
            Some((LinkRole::Sender, Kind::Pending(opening))) => {
                opening.transfers.push(body.clone());
                self.partial_bytes += body.len();
                self.check_partial()
            }
            _ => self.on_link_transfer(id, transfer, &body.slice(length..)),
        }
    }

    /// A transfer of a link whose attach is answered.
    pub(super) fn on_link_transfer(
        &mut self,
        id: u64,
        transfer: &Transfer<'_>,
        payload: &Bytes,
    ) -> Result<(), Condition> {
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        let (inlet, limit) = match &mut link.kind {
            Kind::Producer(intake) => (&mut intake.inlet, limits::PUBLICATION_BYTES),
            Kind::Requests(_, inlet) => (inlet, limits::AMQP_REQUEST_BYTES),
            _ => {
                return Err(Condition::new(
                    condition::NOT_ALLOWED,
                    "a transfer to a reader",
                ));
            }
        };
        if transfer.aborted {
            if let Some(partial) = inlet.partial.take() {
                self.partial_bytes -= partial.bytes.len();
            }
            return Ok(());
        }
        if inlet.partial.is_none() && inlet.credit == 0 {
            let words = "a message without credit";
            self.detach(id, &Condition::new(condition::TRANSFER_LIMIT, words));
            return Ok(());
        }
        // Most messages fit one transfer and are used without a copy.
        if inlet.partial.is_none() && !transfer.more && payload.len() <= limit {
            let partial = begin(transfer)?;
            return self.on_message(id, &partial, Some(payload));
        }
        let mut partial = match inlet.partial.take() {
            Some(partial) => partial,
            None => begin(transfer)?,
        };
        self.partial_bytes -= partial.bytes.len();
        partial.gather(payload, limit);
        if !transfer.more {
            return self.on_message(id, &partial, None);
        }
        self.partial_bytes += partial.bytes.len();
        inlet.partial = Some(partial);
        self.check_partial()
    }

    /// Refuses a client with too many bytes in incomplete messages.
    fn check_partial(&self) -> Result<(), Condition> {
        if self.partial_bytes > limits::AMQP_PARTIAL_BYTES {
            let words = "too many unfinished messages on one connection";
            return Err(Condition::new(condition::RESOURCE_LIMIT, words));
        }
        Ok(())
    }

    /// A message is complete; `whole` holds it if it came in one transfer.
    fn on_message(
        &mut self,
        id: u64,
        partial: &IncomingDelivery,
        whole: Option<&Bytes>,
    ) -> Result<(), Condition> {
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        let bytes = whole.map_or(&partial.bytes[..], |whole| &whole[..]);
        let low = match &mut link.kind {
            Kind::Producer(intake) => intake.inlet.take(),
            Kind::Requests(_, inlet) => inlet.take(),
            _ => false,
        };
        match &mut link.kind {
            // Rejected, not detached: a client that is detached in the middle of a
            // message waits for its time-out instead of reporting the error.
            _ if partial.is_too_large => {
                self.reject(id, partial.delivery, partial.settled, &too_large(partial));
            }
            Kind::Producer(intake) => {
                let cut_up = publication(bytes, partial.format, intake.publisher.as_deref());
                match cut_up {
                    Ok((batch, stamp)) => {
                        self.taken_bytes += bytes.len();
                        intake.waiting.push_back(IncomingPublication {
                            delivery: partial.delivery,
                            settled: partial.settled,
                            bytes: bytes.len(),
                            batch,
                            stamp: stamp.filter(|_| intake.is_idempotent),
                        });
                        self.submit(id);
                    }
                    Err(fault) => self.reject(id, partial.delivery, partial.settled, &fault),
                }
            }
            Kind::Requests(desk, _) => {
                let desk = *desk;
                self.on_request(id, desk, partial, bytes);
            }
            _ => {}
        }
        if low {
            self.grant(id);
        }
        Ok(())
    }

    /// Grants a link its credit.
    pub(super) fn grant(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let (channel, handle) = (link.channel, link.handle);
        let inlet = match &mut link.kind {
            Kind::Producer(intake) => &mut intake.inlet,
            Kind::Requests(_, inlet) => inlet,
            _ => return,
        };
        inlet.credit = inlet.grant;
        let (count, credit) = (inlet.count, inlet.credit);
        if let Some(session) = self.sessions.get_mut(&channel) {
            let mut flow = session.flow();
            flow.handle = Some(handle);
            flow.delivery_count = Some(count);
            flow.credit = Some(credit);
            flow.available = Some(0);
            self.out.frame(channel, |out| flow.write(out));
        }
    }

    /// Submits waiting publications one after another. Usually there is room, so the
    /// first attempt is synchronous.
    fn submit(&mut self, id: u64) {
        loop {
            let Some(Kind::Producer(intake)) = self.links.get_mut(&id).map(|link| &mut link.kind)
            else {
                return;
            };
            if intake.is_submitting {
                return;
            }
            let Some(taken) = intake.waiting.pop_front() else {
                return;
            };
            let receipt = DeliveryReceipt::of(&taken);
            let sender = intake.sender.clone();
            let mut submitting = Box::pin(async move {
                let result = sender.submit_as(taken.stamp, taken.batch).await;
                WorkCompletion::Submitted {
                    link: id,
                    taken: receipt,
                    result,
                }
            });
            let waker = self.waker.clone();
            let mut cx = TaskContext::from_waker(&waker);
            match submitting.as_mut().poll(&mut cx) {
                Poll::Ready(WorkCompletion::Submitted { result, .. }) => {
                    self.follow(id, receipt, result)
                }
                Poll::Ready(_) => {}
                Poll::Pending => {
                    intake.is_submitting = true;
                    self.work.push(submitting);
                    return;
                }
            }
        }
    }

    pub(super) fn on_submitted(
        &mut self,
        id: u64,
        receipt: DeliveryReceipt,
        result: Result<PendingPublication, Error>,
    ) {
        self.follow(id, receipt, result);
        if let Some(Kind::Producer(intake)) = self.links.get_mut(&id).map(|link| &mut link.kind) {
            intake.is_submitting = false;
            self.submit(id);
        }
    }

    /// Waits for a submitted publication to be durable.
    fn follow(
        &mut self,
        id: u64,
        receipt: DeliveryReceipt,
        result: Result<PendingPublication, Error>,
    ) {
        match result {
            Ok(submitted) => self.work.push(Box::pin(async move {
                WorkCompletion::Published {
                    link: id,
                    taken: receipt,
                    result: submitted.published().await,
                }
            })),
            Err(error) => self.on_published(id, receipt, Err(error)),
        }
    }

    pub(super) fn on_published(
        &mut self,
        id: u64,
        receipt: DeliveryReceipt,
        result: Result<PublishReceipt, Error>,
    ) {
        self.taken_bytes -= receipt.bytes;
        match result {
            Ok(_) => self.settle(id, receipt.delivery, receipt.settled),
            Err(error) => self.reject(id, receipt.delivery, receipt.settled, &error.into()),
        }
    }

    /// Accepts a delivery; adjacent deliveries share one disposition.
    pub(super) fn settle(&mut self, id: u64, delivery: u32, settled: bool) {
        let Some(link) = self.links.get(&id).filter(|_| !settled) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&link.channel)
            && session.accept(delivery)
        {
            self.owing.push(link.channel);
        }
    }

    /// Sends dispositions for the deliveries accepted since the last call.
    pub(super) fn flush_accepted(&mut self) {
        for channel in std::mem::take(&mut self.owing) {
            if let Some(session) = self.sessions.get_mut(&channel) {
                session.flush_accepted(&mut self.out);
            }
        }
    }

    fn reject(&mut self, id: u64, delivery: u32, settled: bool, fault: &Condition) {
        let Some(link) = self.links.get(&id).filter(|_| !settled) else {
            return;
        };
        let disposition = Disposition {
            role: LinkRole::Receiver,
            first: delivery,
            last: Some(delivery),
            settled: true,
            outcome: Some(Outcome::Rejected(Some(fault.problem()))),
        };
        self.out.frame(link.channel, |out| disposition.write(out));
    }
}

/// A new delivery, still without bytes.
fn begin(transfer: &Transfer<'_>) -> Result<IncomingDelivery, Condition> {
    let delivery = transfer.delivery.ok_or_else(|| {
        Condition::new(condition::INVALID_FIELD, "a delivery without a delivery-id")
    })?;
    Ok(IncomingDelivery {
        delivery,
        format: transfer.format.unwrap_or(0),
        settled: transfer.settled.unwrap_or(false),
        bytes: Vec::new(),
        size: 0,
        is_too_large: false,
    })
}

/// With the text that clients match.
fn too_large(partial: &IncomingDelivery) -> Condition {
    let words = format!(
        "The received message (delivery-id:{}, size:{} bytes) exceeds the limit ({} bytes) \
         currently allowed on the link. ({})",
        partial.delivery,
        partial.size,
        limits::PUBLICATION_BYTES,
        condition::TOO_LARGE
    );
    Condition::new(condition::TOO_LARGE, words)
}

/// Splits a message into the events of a publication.
fn publication(
    message: &[u8],
    format: u32,
    publisher: Option<&str>,
) -> Result<(EventDataBatch, Option<ProducerSequence>), Condition> {
    let mut messages = BatchMessages::open(message, format)?;
    let key = publisher.or(messages.notes().key);
    let mut batch = match key {
        Some(key) => EventDataBatch::keyed(key)?,
        None => EventDataBatch::new(),
    };
    batch.reserve(message.len());
    let mut stamp = None;
    while let Some(event) = messages.next()? {
        let (stored, notes) = event::store(event, key)?;
        match &stored {
            StoredMessage::Range(range) => batch.push(&event[range.clone()])?,
            StoredMessage::Rewritten(bytes) => batch.push(bytes)?,
        }
        if batch.count() == 1 {
            stamp = stamp_of(&notes);
        }
    }
    Ok((batch, stamp))
}

/// The number of an idempotent producer, if the first event has one.
fn stamp_of(notes: &event::PublishAnnotations<'_>) -> Option<ProducerSequence> {
    Some(ProducerSequence {
        id: notes.producer_id?,
        epoch: notes.producer_epoch?.try_into().ok()?,
        first: notes.producer_sequence?.try_into().ok()?,
    })
}
