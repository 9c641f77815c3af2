//! The service that runs partitions of event hubs.
//!
//! A hub partition is created on first use, so an event hub of many partitions costs
//! nothing until then. A publication is one blob in the partition's stream and, except
//! for idempotent producers, no row. A closed hub partition stays closed: its event
//! hub's id is never reused.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Partition, StreamId};
use steadfast_core::limits;
use steadfast_partition::{
    Address, Message, Service, ServiceKind, Space, StreamHead, Turn, TurnError, TurnOutcome,
    service_stream,
};

use crate::definition::{EventHubTerms, EventRetention};
use crate::error::{Error, ErrorKind};
use crate::hub_partition_command::{
    HubPartitionCommand, HubPartitionResponse, PublishCommand, PublishReceipt,
};
use crate::hub_partition_groups::{checkpoint, forget_group, move_checkpoint, park, unpark};
use crate::keys::{self, HUB_PARTITION, SLOTS, STREAMS, hub_partition_key, hub_partition_number};
use crate::producer::{self, DuplicateCheck, ProducerSequence, ProducerWindow};
use crate::retention::{self, RetentionMark, TrimPoint};

/// The service that runs partitions of event hubs.
pub(crate) struct HubPartitions;

/// The row of a hub partition.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct HubPartitionRecord {
    /// The number of its stream; `None` until it is first used.
    #[n(0)]
    pub(crate) stream: Option<u32>,
    #[n(1)]
    revision: u64,
    #[n(2)]
    retention: EventRetention,
    #[n(3)]
    pub(crate) is_closed: bool,
    #[n(4)]
    marks: Vec<RetentionMark>,
    /// When it checks the age bound next.
    #[n(5)]
    look: Option<Timestamp>,
    #[n(6)]
    producers: ProducerWindow,
}

impl HubPartitionRecord {
    fn new(terms: &EventHubTerms) -> Self {
        Self {
            stream: None,
            revision: terms.revision,
            retention: terms.retention,
            is_closed: false,
            marks: Vec::new(),
            look: None,
            producers: ProducerWindow::default(),
        }
    }
}

/// The stream of a hub partition.
pub(crate) fn stream_of(index: u32) -> Option<StreamId> {
    service_stream(HUB_PARTITION, index)
}

/// A hub partition loaded for one turn.
struct HubPartition<'a, 't> {
    turn: &'a mut Turn<'t>,
    hub: u64,
    number: u32,
    key: Vec<u8>,
    row: HubPartitionRecord,
    is_changed: bool,
}

impl Service for HubPartitions {
    type Command = HubPartitionCommand;
    type Response = HubPartitionResponse;

    fn kind(&self) -> ServiceKind {
        HUB_PARTITION
    }

    /// The partitions of an event hub lie side by side.
    fn partition(&self, space: &Space, to: &Address) -> Option<Partition> {
        let name = std::str::from_utf8(&to.name).ok();
        match name.zip(hub_partition_number(to)) {
            Some((name, number)) => Some(space.partition_of(HUB_PARTITION, name, number)),
            None => Some(space.partition(to)),
        }
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &HubPartitionCommand,
    ) -> Result<TurnOutcome<HubPartitionResponse>, TurnError> {
        let Some(number) = hub_partition_number(to) else {
            return Err(Error::new(
                ErrorKind::PartitionNotFound,
                format!("{to} is no hub partition"),
            )
            .into());
        };
        let reply = match command {
            HubPartitionCommand::Open(terms) => {
                let mut slot = HubPartition::open(turn, number, terms)?;
                let stream = slot.stream()?;
                slot.save();
                HubPartitionResponse::Opened(stream)
            }
            HubPartitionCommand::Publish(publish) => {
                let mut slot = HubPartition::open(turn, number, &publish.terms)?;
                let published = slot.publish(publish)?;
                slot.save();
                HubPartitionResponse::Published(published)
            }
            HubPartitionCommand::Producer { terms, wish, fresh } => {
                let mut slot = HubPartition::open(turn, number, terms)?;
                let (key, window) = (slot.key.clone(), &mut slot.row.producers);
                let state = producer::open(slot.turn, &key, window, wish, *fresh)?;
                slot.is_changed = true;
                slot.save();
                HubPartitionResponse::Producer(state)
            }
            HubPartitionCommand::Configure(terms) => configure(turn, number, terms)?,
            HubPartitionCommand::Close { hub, groups } => close(turn, number, *hub, groups)?,
            HubPartitionCommand::Expire(hub) => expire(turn, number, *hub)?,
            HubPartitionCommand::Forget { hub, group } => forget_group(turn, number, *hub, group)?,
            HubPartitionCommand::Advance(advance) => {
                check_open(turn, number, advance.hub)?;
                move_checkpoint(turn, number, advance)?
            }
            HubPartitionCommand::Checkpoint { hub, group } => {
                HubPartitionResponse::Checkpoint(checkpoint(turn, number, *hub, group)?)
            }
            HubPartitionCommand::AddDeadLetter { hub, group, parked } => {
                check_open(turn, number, *hub)?;
                park(turn, number, *hub, group, parked)?
            }
            HubPartitionCommand::RemoveDeadLetter {
                hub,
                group,
                sequence,
            } => unpark(turn, number, *hub, group, *sequence)?,
        };
        Ok(TurnOutcome::Now(reply))
    }
}

impl<'a, 't> HubPartition<'a, 't> {
    /// Loads a hub partition, or a new one; fails if it is closed.
    fn open(turn: &'a mut Turn<'t>, number: u32, terms: &EventHubTerms) -> Result<Self, TurnError> {
        let slot = Self::find(turn, number, terms.hub, || HubPartitionRecord::new(terms))?;
        if slot.row.is_closed {
            Err(Error::new(ErrorKind::HubNotFound, "the event hub was deleted").into())
        } else {
            Ok(slot)
        }
    }

    fn find(
        turn: &'a mut Turn<'t>,
        number: u32,
        hub: u64,
        otherwise: impl FnOnce() -> HubPartitionRecord,
    ) -> Result<Self, TurnError> {
        let key = hub_partition_key(hub, number);
        let row = match turn.get(SLOTS, &key)? {
            Some(row) => keys::decode(&row).map_err(|_| Error::damaged("a hub partition"))?,
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
            self.turn.put(SLOTS, &self.key, keys::encode(&self.row));
        }
    }

    /// The number of its stream, created if missing.
    fn stream(&mut self) -> Result<u32, TurnError> {
        if let Some(stream) = self.row.stream {
            return Ok(stream);
        }
        let made = self.turn.get(STREAMS, b"")?;
        let made = made.and_then(|made| made.as_ref().try_into().ok());
        let next = made.map_or(0, u32::from_be_bytes);
        if stream_of(next).is_none() {
            let words = "the partition has made all the streams it can; use another folder";
            return Err(Error::new(ErrorKind::BadDefinition, words).into());
        }
        let more = (next + 1).to_be_bytes().to_vec();
        self.turn.put(STREAMS, b"", more);
        self.row.stream = Some(next);
        self.is_changed = true;
        Ok(next)
    }

    fn head(&self) -> Option<(StreamId, StreamHead)> {
        let stream = stream_of(self.row.stream?)?;
        Some((stream, self.turn.staged_stream(stream)))
    }

    fn publish(&mut self, publish: &PublishCommand) -> Result<PublishReceipt, TurnError> {
        check(publish)?;
        if let Some(stamp) = &publish.stamp
            && !self.is_new(stamp, publish.count)?
        {
            return Ok(PublishReceipt {
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
        let mark = RetentionMark {
            first: place.first.0,
            offset: place.offset.0,
            time: self.turn.time(),
        };
        self.is_changed |= retention::note(&mut self.row.marks, self.row.retention, mark);
        if let Some(cut) =
            retention::trim_by_size(&self.row.marks, Some(&mark), self.row.retention, head)
        {
            self.trim(stream, cut);
        }
        if self.row.look.is_none() {
            self.look_later();
        }
        Ok(PublishReceipt {
            sequence: place.first.0 as i64,
            last_offset: head.end.0 as i64 - 1,
            count: publish.count,
            is_repeated: false,
            partition: self.number,
        })
    }

    /// Whether a publication is no duplicate; records it if so.
    fn is_new(&mut self, stamp: &ProducerSequence, count: u32) -> Result<bool, TurnError> {
        let Some(mut state) = producer::find(self.turn, &self.key, stamp.id)? else {
            let words = format!("producer {} is not known here; open it first", stamp.id);
            return Err(Error::new(ErrorKind::UnknownProducer, words).into());
        };
        match state.judge(stamp, count)? {
            DuplicateCheck::Repeated => Ok(false),
            DuplicateCheck::Append(last) => {
                state.append(stamp, last);
                producer::put(self.turn, &self.key, &state);
                Ok(true)
            }
        }
    }

    fn trim(&mut self, stream: StreamId, cut: TrimPoint) {
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
            let body = Message::encode(&HubPartitionCommand::Expire(self.hub));
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
        let by_age = retention::trim_by_age(&self.row.marks, retention, head, now);
        let by_size = retention::trim_by_size(&self.row.marks, None, retention, head);
        if let Some(cut) = by_age.max(by_size) {
            self.trim(stream, cut);
        }
        self.look_later();
    }
}

/// Rejects writes for a deleted event hub.
fn check_open(turn: &mut Turn<'_>, number: u32, hub: u64) -> Result<(), TurnError> {
    HubPartition::open(turn, number, &no_terms(hub)).map(drop)
}

/// Default settings, for callers that know only the event hub's id.
fn no_terms(hub: u64) -> EventHubTerms {
    EventHubTerms {
        hub,
        revision: 0,
        retention: EventRetention::default(),
    }
}

/// Rejects publications outside the limits of a batch.
fn check(publish: &PublishCommand) -> Result<(), Error> {
    let slack = limits::PARTITION_KEY_BYTES + 16 + 4 * publish.count as usize;
    if publish.blob.len() > limits::PUBLICATION_BYTES + slack {
        return Err(Error::new(
            ErrorKind::TooLarge,
            "the publication is too large",
        ));
    }
    match publish.count {
        0 => Err(Error::new(
            ErrorKind::BadPublication,
            "the publication holds no events",
        )),
        _ => Ok(()),
    }
}

fn configure(
    turn: &mut Turn<'_>,
    number: u32,
    terms: &EventHubTerms,
) -> Result<HubPartitionResponse, TurnError> {
    let mut slot = HubPartition::find(turn, number, terms.hub, || HubPartitionRecord::new(terms))?;
    if slot.row.is_closed {
        return Ok(HubPartitionResponse::Done);
    }
    if slot.row.revision < terms.revision {
        (slot.row.revision, slot.row.retention) = (terms.revision, terms.retention);
        slot.retain();
    }
    // Also a new one: a later caller may have an older definition.
    slot.is_changed = true;
    slot.save();
    Ok(HubPartitionResponse::Done)
}

fn close(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    groups: &[String],
) -> Result<HubPartitionResponse, TurnError> {
    let mut slot = HubPartition::find(turn, number, hub, || {
        HubPartitionRecord::new(&no_terms(hub))
    })?;
    for opened in slot.row.producers.first..slot.row.producers.next {
        let key = slot.key.clone();
        producer::forget(slot.turn, &key, opened)?;
    }
    slot.row.producers = ProducerWindow::default();
    slot.row.retention = EventRetention::default();
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
    Ok(HubPartitionResponse::Done)
}

fn expire(turn: &mut Turn<'_>, number: u32, hub: u64) -> Result<HubPartitionResponse, TurnError> {
    let mut slot = HubPartition::find(turn, number, hub, || {
        HubPartitionRecord::new(&no_terms(hub))
    })?;
    // The timer has fired: its time is cleared.
    slot.is_changed = slot.row.look.take().is_some();
    if !slot.row.is_closed {
        slot.retain();
    }
    slot.save();
    Ok(HubPartitionResponse::Done)
}
