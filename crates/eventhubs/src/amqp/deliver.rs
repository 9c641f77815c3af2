//! Delivers events to consumers.
//!
//! A link holds one publication and reads the next when that is delivered, so a slow
//! client costs no more than a fast one. An event that fits into a frame is written
//! straight into the frame buffer.

use std::task::{Context as TaskContext, Poll};

use steadfast_core::limits;
use steadfast_events::{Error, EventData, EventPublication, PartitionReader};
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::delivery::Transfer;
use steadfast_wire::amqp::event::{self, LastEnqueuedProperties, SystemProperties};
use steadfast_wire::amqp::frame::{self, Kind as FrameKind};

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::frame_buffer::FrameBuffer;
use super::link::{AmqpOutlet, ConsumerLink, Kind, OutgoingDelivery, ReaderState, Replies};
use super::session::Session;
use super::work::{self, WorkCompletion};

/// Bytes of a frame and a transfer in front of the payload, at most.
const HEAD_BYTES: usize = 64;

/// How much one link may write before the next one gets its turn.
const TURN_BYTES: usize = 64 * 1024;

/// Why a link pauses delivery.
enum DeliveryPause {
    /// No credit, no window or no event: another event wakes the link.
    Rest,
    /// It could continue, but yields to other links.
    Turn,
    /// Its reader has ended.
    Over(Condition),
}

impl AmqpConnection {
    /// Delivers events link by link. True if a link used up its turn.
    pub(super) fn deliver(&mut self) -> bool {
        let mut moved = false;
        while self.out.has_room() {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            moved = true;
            match self.deliver_link(id) {
                DeliveryPause::Rest => {}
                DeliveryPause::Turn => self.ready.push_back(id),
                DeliveryPause::Over(fault) => self.detach(id, &fault),
            }
        }
        moved
    }

    fn deliver_link(&mut self, id: u64) -> DeliveryPause {
        let Self {
            links,
            sessions,
            out,
            work,
            waker,
            frame_bytes,
            context,
            reply_bytes,
            ..
        } = self;
        let Some(link) = links.get_mut(&id) else {
            return DeliveryPause::Rest;
        };
        let Some(session) = sessions.get_mut(&link.channel) else {
            return DeliveryPause::Rest;
        };
        let mut lane = DeliveryWriter {
            channel: link.channel,
            handle: link.handle,
            session,
            out,
            frame_bytes: *frame_bytes,
        };
        let feed = match &mut link.kind {
            Kind::Consumer(feed) => feed,
            Kind::Replies(_, _, replies) => {
                *reply_bytes -= lane.reply(replies);
                return lane.pause();
            }
            _ => return DeliveryPause::Rest,
        };
        let start = lane.out.next().len();
        loop {
            if !lane.finish_partial(&mut feed.outlet) {
                return lane.pause();
            }
            if feed.outlet.credit == 0 {
                return DeliveryPause::Rest;
            }
            if lane.out.next().len() - start >= TURN_BYTES {
                return DeliveryPause::Turn;
            }
            let event = match next_event(feed) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let mut cx = TaskContext::from_waker(waker);
                    match look(id, feed, &mut cx, work) {
                        Ok(true) => {
                            feed.tail = tail(feed, context.clock.now().0);
                            continue;
                        }
                        Ok(false) => {
                            lane.drain(feed);
                            return DeliveryPause::Rest;
                        }
                        Err(error) => return DeliveryPause::Over(error.into()),
                    }
                }
                Err(error) => return DeliveryPause::Over(error.into()),
            };
            if lane.event(feed, &event).is_err() {
                let words = "a stored event cannot be read";
                return DeliveryPause::Over(Condition::new(condition::INTERNAL, words));
            }
        }
    }

    /// A reader has finished a fetch, with or without a publication.
    pub(super) fn on_fetched(
        &mut self,
        id: u64,
        reader: Box<PartitionReader>,
        result: Result<Option<EventPublication>, Error>,
    ) {
        let Some(Kind::Consumer(feed)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        feed.reader = ReaderState::Idle(reader);
        match result {
            Ok(Some(publication)) => {
                feed.current = Some(publication);
                feed.tail = tail(feed, self.context.clock.now().0);
                self.ready.push_back(id);
            }
            Ok(None) => {
                wait(id, feed, &mut self.work);
                // It has reached the end: a draining client gets its credit back.
                self.ready.push_back(id);
            }
            Err(error) => self.detach(id, &error.into()),
        }
    }
}

/// The next event of the current publication, if the reader may still deliver.
fn next_event(feed: &mut ConsumerLink) -> Result<Option<EventData>, Error> {
    let Some(publication) = &mut feed.current else {
        return Ok(None);
    };
    if let ReaderState::Idle(reader) = &feed.reader {
        reader.check()?;
    }
    let event = publication.next_event()?;
    if event.is_none() {
        feed.current = None;
    }
    Ok(event)
}

/// Takes the next publication if it is buffered; otherwise starts an asynchronous fetch.
fn look(
    id: u64,
    feed: &mut ConsumerLink,
    cx: &mut TaskContext<'_>,
    work: &mut work::PendingWork,
) -> Result<bool, Error> {
    let ReaderState::Idle(_) = feed.reader else {
        return Ok(false);
    };
    let (mut looking, aborted) = {
        let ReaderState::Idle(mut reader) =
            std::mem::replace(&mut feed.reader, ReaderState::Moving)
        else {
            return Ok(false);
        };
        work::bound(async move {
            let result = reader.try_next().await;
            WorkCompletion::Fetched {
                link: id,
                reader,
                result,
            }
        })
    };
    match looking.as_mut().poll(cx) {
        Poll::Ready(WorkCompletion::Fetched { reader, result, .. }) => {
            feed.reader = ReaderState::Idle(reader);
            feed.current = result?;
            if feed.current.is_none() {
                wait(id, feed, work);
            }
            Ok(feed.current.is_some())
        }
        Poll::Ready(_) => Ok(false),
        Poll::Pending => {
            feed.reader = ReaderState::Fetching(aborted);
            work.push(looking);
            Ok(false)
        }
    }
}

/// The reader waits at the end of the partition for new events.
fn wait(id: u64, feed: &mut ConsumerLink, work: &mut work::PendingWork) {
    let ReaderState::Idle(mut reader) = std::mem::replace(&mut feed.reader, ReaderState::Moving)
    else {
        return;
    };
    let (waiting, aborted) = work::bound(async move {
        let result = reader.next().await;
        WorkCompletion::Waited {
            link: id,
            reader,
            result,
        }
    });
    work.push(waiting);
    feed.reader = ReaderState::Waiting(aborted);
}

/// The end of the partition, for clients that request it.
fn tail(feed: &ConsumerLink, now_ms: i64) -> Option<LastEnqueuedProperties> {
    let ReaderState::Idle(reader) = &feed.reader else {
        return None;
    };
    let (sequence, offset, time) = reader.end().ok().filter(|_| feed.wants_tail)?;
    Some(LastEnqueuedProperties {
        last: SystemProperties {
            sequence,
            offset,
            enqueued_ms: time.0,
        },
        retrieved_ms: now_ms,
    })
}

/// Writes deliveries of one link into the frame buffer.
pub(super) struct DeliveryWriter<'a> {
    pub(super) channel: u16,
    pub(super) handle: u32,
    pub(super) session: &'a mut Session,
    pub(super) out: &'a mut FrameBuffer,
    pub(super) frame_bytes: usize,
}

impl DeliveryWriter<'_> {
    /// Whether a new delivery may begin; finishes the one in progress first.
    pub(super) fn finish_partial(&mut self, outlet: &mut AmqpOutlet) -> bool {
        while let Some(outgoing) = &mut outlet.partial {
            if !self.is_open() {
                return false;
            }
            if self.piece(outgoing) {
                outlet.partial = None;
            }
        }
        self.is_open()
    }

    /// A link stays ready if the frame buffer is full: nothing else would wake it.
    fn pause(&self) -> DeliveryPause {
        if self.out.has_room() {
            DeliveryPause::Rest
        } else {
            DeliveryPause::Turn
        }
    }

    fn is_open(&self) -> bool {
        self.session.window > 0 && self.out.has_room()
    }

    /// Writes the next frame of a message. True after the last.
    fn piece(&mut self, outgoing: &mut OutgoingDelivery) -> bool {
        let left = &outgoing.bytes[outgoing.at..];
        let size = left.len().min(self.frame_bytes - HEAD_BYTES);
        let more = size < left.len();
        let tag = outgoing.delivery.to_be_bytes();
        let transfer = transfer(self.handle, outgoing.delivery, &tag, more);
        self.out.frame(self.channel, |out| {
            transfer.write(out);
            out.extend_from_slice(&left[..size]);
        });
        outgoing.at += size;
        self.session.sent();
        !more
    }

    /// Delivers a complete message.
    pub(super) fn message(&mut self, outlet: &mut AmqpOutlet, bytes: Vec<u8>) {
        outlet.take();
        outlet.partial = Some(OutgoingDelivery {
            delivery: self.session.begin_delivery(),
            bytes,
            at: 0,
        });
        self.finish_partial(outlet);
    }

    fn event(
        &mut self,
        feed: &mut ConsumerLink,
        event: &EventData,
    ) -> Result<(), steadfast_wire::amqp::error::AmqpDecodeError> {
        let stamp = SystemProperties {
            sequence: event.sequence,
            offset: event.offset,
            enqueued_ms: event.time.0,
        };
        let size = event.body.len() + event::STAMP_BYTES;
        if size + HEAD_BYTES > self.frame_bytes {
            let mut bytes = Vec::with_capacity(size);
            event::deliver(&mut bytes, &event.body, &stamp, feed.tail.as_ref())?;
            self.message(&mut feed.outlet, bytes);
            return Ok(());
        }
        let delivery = self.session.begin_delivery();
        let tag = delivery.to_be_bytes();
        let out = self.out.bytes();
        let start = frame::begin(out, FrameKind::Amqp, self.channel);
        transfer(self.handle, delivery, &tag, false).write(out);
        event::deliver(out, &event.body, &stamp, feed.tail.as_ref())?;
        frame::finish(out, start);
        self.session.sent();
        feed.outlet.take();
        Ok(())
    }

    /// Nothing to deliver: a draining client gets its credit back.
    fn drain(&mut self, feed: &mut ConsumerLink) {
        if !feed.outlet.drain || !matches!(feed.reader, ReaderState::Waiting(_)) {
            return;
        }
        feed.outlet.drained();
        let mut flow = self.session.flow();
        flow.handle = Some(self.handle);
        flow.delivery_count = Some(feed.outlet.count);
        flow.credit = Some(0);
        flow.available = Some(0);
        flow.drain = true;
        self.out.frame(self.channel, |out| flow.write(out));
    }

    /// Sends replies while there is credit; returns the number of bytes released.
    pub(super) fn reply(&mut self, replies: &mut Replies) -> usize {
        let mut sent = 0;
        while self.finish_partial(&mut replies.outlet) && replies.outlet.credit > 0 {
            let Some(message) = replies.waiting.pop_front() else {
                break;
            };
            sent += message.len();
            self.message(&mut replies.outlet, message);
        }
        sent
    }
}

/// All deliveries are pre-settled: consumers send no dispositions.
fn transfer(handle: u32, delivery: u32, tag: &[u8], more: bool) -> Transfer<'_> {
    Transfer {
        handle,
        delivery: Some(delivery),
        tag: Some(tag),
        format: Some(0),
        settled: Some(true),
        more,
        aborted: false,
    }
}

const _: () = assert!(TURN_BYTES <= limits::AMQP_OUT_BYTES);
