//! The service that runs partitions of event hubs.
//!
//! A hub partition is created on first use, so an event hub of many partitions costs
//! nothing until then. A publication is one blob in the partition's stream and, except
//! for idempotent producers, no row. A closed hub partition stays closed: its event
//! hub's id is never reused.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::Stream;
use steadfast_core::limits;
use steadfast_partition::{
    Address, Answer, Halt, Head, Kind as ServiceKind, Message, Service, Turn, service_stream,
};

use crate::definition::{Retention, Terms};
use crate::error::{Error, Kind};
use crate::place::{self, SLOT, SLOTS, STREAMS, slot_key, slot_of};
use crate::producer::{self, Stamp, Verdict, Window};
use crate::retention::{self, Cut, Mark};
use crate::slot_command::{Publish, Published, SlotCommand, SlotReply};
use crate::slot_group::{checkpoint, forget_group, move_checkpoint, park, unpark};

/// The service that runs partitions of event hubs.
pub(crate) struct Slots;

/// The row of a hub partition.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct SlotRow {
    /// The number of its stream; `None` until it is first used.
    #[n(0)]
    pub(crate) stream: Option<u32>,
    #[n(1)]
    revision: u64,
    #[n(2)]
    retention: Retention,
    #[n(3)]
    pub(crate) is_closed: bool,
    #[n(4)]
    marks: Vec<Mark>,
    /// When it checks the age bound next.
    #[n(5)]
    look: Option<Timestamp>,
    #[n(6)]
    producers: Window,
}

impl SlotRow {
    fn new(terms: &Terms) -> Self {
        Self {
            stream: None,
            revision: terms.revision,
            retention: terms.retention,
            is_closed: false,
            marks: Vec::new(),
            look: None,
            producers: Window::default(),
        }
    }
}

/// The stream of a hub partition.
pub(crate) fn stream_of(index: u32) -> Option<Stream> {
    service_stream(SLOT, index)
}

/// A hub partition loaded for one turn.
struct Slot<'a, 't> {
    turn: &'a mut Turn<'t>,
    hub: u64,
    number: u32,
    key: Vec<u8>,
    row: SlotRow,
    is_changed: bool,
}

impl Service for Slots {
    type Command = SlotCommand;
    type Reply = SlotReply;

    fn kind(&self) -> ServiceKind {
        SLOT
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &SlotCommand,
    ) -> Result<Answer<SlotReply>, Halt> {
        let Some(number) = slot_of(to) else {
            return Err(
                Error::new(Kind::PartitionNotFound, format!("{to} is no hub partition")).into(),
            );
        };
        let reply = match command {
            SlotCommand::Open(terms) => {
                let mut slot = Slot::open(turn, number, terms)?;
                let stream = slot.stream()?;
                slot.save();
                SlotReply::Opened(stream)
            }
            SlotCommand::Publish(publish) => {
                let mut slot = Slot::open(turn, number, &publish.terms)?;
                let published = slot.publish(publish)?;
                slot.save();
                SlotReply::Published(published)
            }
            SlotCommand::Producer { terms, wish, fresh } => {
                let mut slot = Slot::open(turn, number, terms)?;
                let (key, window) = (slot.key.clone(), &mut slot.row.producers);
                let state = producer::open(slot.turn, &key, window, wish, *fresh)?;
                slot.is_changed = true;
                slot.save();
                SlotReply::Producer(state)
            }
            SlotCommand::Configure(terms) => configure(turn, number, terms)?,
            SlotCommand::Close { hub, groups } => close(turn, number, *hub, groups)?,
            SlotCommand::Expire(hub) => expire(turn, number, *hub)?,
            SlotCommand::Forget { hub, group } => forget_group(turn, number, *hub, group)?,
            SlotCommand::Advance(advance) => {
                check_open(turn, number, advance.hub)?;
                move_checkpoint(turn, number, advance)?
            }
            SlotCommand::Checkpoint { hub, group } => {
                SlotReply::Checkpoint(checkpoint(turn, number, *hub, group)?)
            }
            SlotCommand::Park { hub, group, parked } => {
                check_open(turn, number, *hub)?;
                park(turn, number, *hub, group, parked)?
            }
            SlotCommand::Unpark {
                hub,
                group,
                sequence,
            } => unpark(turn, number, *hub, group, *sequence)?,
        };
        Ok(Answer::Now(reply))
    }
}

impl<'a, 't> Slot<'a, 't> {
    /// Loads a hub partition, or a new one; fails if it is closed.
    fn open(turn: &'a mut Turn<'t>, number: u32, terms: &Terms) -> Result<Self, Halt> {
        let slot = Self::find(turn, number, terms.hub, || SlotRow::new(terms))?;
        match slot.row.is_closed {
            true => Err(Error::new(Kind::HubNotFound, "the event hub was deleted").into()),
            false => Ok(slot),
        }
    }

    fn find(
        turn: &'a mut Turn<'t>,
        number: u32,
        hub: u64,
        otherwise: impl FnOnce() -> SlotRow,
    ) -> Result<Self, Halt> {
        let key = slot_key(hub, number);
        let row = match turn.get(SLOTS, &key)? {
            Some(row) => place::decode(&row).map_err(|_| Error::damaged("a hub partition"))?,
            None => otherwise(),
        };
        Ok(Self {
            turn,
            hub,
            number,
            key,
            row,
            is_changed: false,
        })
    }

    fn save(self) {
        if self.is_changed {
            self.turn.put(SLOTS, &self.key, place::encode(&self.row));
        }
    }

    /// The number of its stream, created if missing.
    fn stream(&mut self) -> Result<u32, Halt> {
        if let Some(stream) = self.row.stream {
            return Ok(stream);
        }
        let made = self.turn.get(STREAMS, b"")?;
        let made = made.and_then(|made| made.as_ref().try_into().ok());
        let next = made.map_or(0, u32::from_be_bytes);
        if stream_of(next).is_none() {
            let words = "the partition has made all the streams it can; use another folder";
            return Err(Error::new(Kind::BadDefinition, words).into());
        }
        let more = (next + 1).to_be_bytes().to_vec();
        self.turn.put(STREAMS, b"", more);
        self.row.stream = Some(next);
        self.is_changed = true;
        Ok(next)
    }

    fn head(&self) -> Option<(Stream, Head)> {
        let stream = stream_of(self.row.stream?)?;
        Some((stream, self.turn.staged_stream(stream)))
    }

    fn publish(&mut self, publish: &Publish) -> Result<Published, Halt> {
        check(publish)?;
        if let Some(stamp) = &publish.stamp
            && !self.is_new(stamp, publish.count)?
        {
            return Ok(Published {
                sequence: -1,
                last_offset: -1,
                count: publish.count,
                is_repeated: true,
                partition: self.number,
            });
        }
        let number = self.stream()?;
        let stream = stream_of(number).expect("checked when it was made");
        let blob: Bytes = publish.blob.clone();
        let place = self.turn.publish(stream, publish.count, blob);
        let head = self.turn.staged_stream(stream);
        let mark = Mark {
            first: place.first.0,
            offset: place.offset.0,
            time: self.turn.time(),
        };
        self.is_changed |= retention::note(&mut self.row.marks, self.row.retention, mark);
        if let Some(cut) =
            retention::cut_by_size(&self.row.marks, Some(&mark), self.row.retention, head)
        {
            self.trim(stream, cut);
        }
        if self.row.look.is_none() {
            self.look_later();
        }
        Ok(Published {
            sequence: place.first.0 as i64,
            last_offset: head.end.0 as i64 - 1,
            count: publish.count,
            is_repeated: false,
            partition: self.number,
        })
    }

    /// Whether a publication is no duplicate; records it if so.
    fn is_new(&mut self, stamp: &Stamp, count: u32) -> Result<bool, Halt> {
        let Some(mut state) = producer::find(self.turn, &self.key, stamp.id)? else {
            let words = format!("producer {} is not known here; open it first", stamp.id);
            return Err(Error::new(Kind::UnknownProducer, words).into());
        };
        match state.judge(stamp, count)? {
            Verdict::Repeated => Ok(false),
            Verdict::Append(last) => {
                state.append(stamp, last);
                producer::put(self.turn, &self.key, &state);
                Ok(true)
            }
        }
    }

    fn trim(&mut self, stream: Stream, cut: Cut) {
        self.turn.trim(stream, cut.0, cut.1);
        retention::forget(&mut self.row.marks, cut);
        self.is_changed = true;
    }

    /// Sets the timer for the next events that exceed the age bound.
    fn look_later(&mut self) {
        let Some((_, head)) = self.head() else {
            return;
        };
        let now = self.turn.time();
        let due = retention::next_look(&self.row.marks, self.row.retention, head, now);
        if due == self.row.look {
            return;
        }
        if let Some(old) = self.row.look {
            self.turn.cancel(old, self.hub);
        }
        if let Some(due) = due {
            let body = Message::encode(&SlotCommand::Expire(self.hub));
            self.turn.schedule(due, self.hub, body);
        }
        self.row.look = due;
        self.is_changed = true;
    }

    /// Trims events outside the retention bounds.
    fn retain(&mut self) {
        let Some((stream, head)) = self.head() else {
            return;
        };
        let (retention, now) = (self.row.retention, self.turn.time());
        let by_age = retention::cut_by_age(&self.row.marks, retention, head, now);
        let by_size = retention::cut_by_size(&self.row.marks, None, retention, head);
        if let Some(cut) = by_age.max(by_size) {
            self.trim(stream, cut);
        }
        self.look_later();
    }
}

/// Rejects writes for a deleted event hub.
fn check_open(turn: &mut Turn<'_>, number: u32, hub: u64) -> Result<(), Halt> {
    Slot::open(turn, number, &no_terms(hub)).map(drop)
}

/// Default settings, for callers that know only the event hub's id.
fn no_terms(hub: u64) -> Terms {
    Terms {
        hub,
        revision: 0,
        retention: Retention::default(),
    }
}

/// Rejects publications outside the limits of a batch.
fn check(publish: &Publish) -> Result<(), Error> {
    let slack = limits::PARTITION_KEY_BYTES + 16 + 4 * publish.count as usize;
    if publish.blob.len() > limits::PUBLICATION_BYTES + slack {
        return Err(Error::new(Kind::TooLarge, "the publication is too large"));
    }
    match publish.count {
        0 => Err(Error::new(
            Kind::BadPublication,
            "the publication holds no events",
        )),
        _ => Ok(()),
    }
}

fn configure(turn: &mut Turn<'_>, number: u32, terms: &Terms) -> Result<SlotReply, Halt> {
    let mut slot = Slot::find(turn, number, terms.hub, || SlotRow::new(terms))?;
    if slot.row.is_closed {
        return Ok(SlotReply::Done);
    }
    if slot.row.revision < terms.revision {
        (slot.row.revision, slot.row.retention) = (terms.revision, terms.retention);
        slot.retain();
    }
    // Also a new one: a later caller may have an older definition.
    slot.is_changed = true;
    slot.save();
    Ok(SlotReply::Done)
}

fn close(turn: &mut Turn<'_>, number: u32, hub: u64, groups: &[String]) -> Result<SlotReply, Halt> {
    let mut slot = Slot::find(turn, number, hub, || SlotRow::new(&no_terms(hub)))?;
    for opened in slot.row.producers.first..slot.row.producers.next {
        let key = slot.key.clone();
        producer::forget(slot.turn, &key, opened)?;
    }
    slot.row.producers = Window::default();
    slot.row.retention = Retention::default();
    if let Some((stream, head)) = slot.head()
        && head.next > head.first
    {
        slot.trim(stream, (head.next, head.end));
    }
    slot.look_later();
    slot.row.is_closed = true;
    slot.is_changed = true;
    slot.save();
    for group in groups {
        forget_group(turn, number, hub, group)?;
    }
    Ok(SlotReply::Done)
}

fn expire(turn: &mut Turn<'_>, number: u32, hub: u64) -> Result<SlotReply, Halt> {
    let mut slot = Slot::find(turn, number, hub, || SlotRow::new(&no_terms(hub)))?;
    // This was the timer.
    slot.is_changed = slot.row.look.take().is_some();
    if !slot.row.is_closed {
        slot.retain();
    }
    slot.save();
    Ok(SlotReply::Done)
}
