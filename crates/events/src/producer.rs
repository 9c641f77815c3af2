//! Idempotent producers.
//!
//! A producer numbers its events per partition, without gaps. A repeated publication is
//! accepted and not appended; one that leaves a gap, starts in the middle of an older
//! one, or has an older epoch, is rejected.
//!
//! A client that lost its connection reopens its producer with its epoch and the last
//! acknowledged number. It gets both back, although the hub partition may be further
//! on: so it numbers its in-flight events as before, and the hub partition detects the
//! duplicates. A hub partition remembers the most recently opened producers, and the
//! last publications of each.

use steadfast_collections::schema::Record;
use steadfast_core::limits;
use steadfast_partition::{Turn, TurnError};

use crate::error::{Error, ErrorKind, Result};
use crate::keys::{self, PRODUCER_ORDER, PRODUCERS};

/// The producer, epoch and first number of a publication.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Stamp", closed)]
pub struct ProducerSequence {
    #[n(0)]
    pub id: i64,
    #[n(1)]
    pub epoch: i16,
    /// The number of the first event.
    #[n(2)]
    pub first: i32,
}

/// Options for opening a producer.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Wish", closed)]
pub struct ProducerOptions {
    /// The producer to reopen; `None` creates a new one.
    #[n(0)]
    pub id: Option<i64>,
    /// The producer's current epoch to continue, a higher one to take over. `None`
    /// takes over an existing producer.
    #[n(1)]
    pub epoch: Option<i16>,
    /// The last number that the producer knows to be acknowledged: the next event has
    /// the number after it.
    #[n(2)]
    pub last: Option<i32>,
}

/// The state of an opened producer.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct ProducerState {
    #[n(0)]
    pub id: i64,
    #[n(1)]
    pub epoch: i16,
    /// The number before the next event: the requested one, or that of the last
    /// accepted event; -1 if there is none.
    #[n(2)]
    pub last: i32,
    /// Its rank in the order of opening.
    #[n(3)]
    pub(crate) number: u64,
}

/// The stored state of a producer in its hub partition.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct ProducerRecord {
    #[n(0)]
    id: i64,
    #[n(1)]
    epoch: i16,
    /// The number of the last accepted event; -1 if there is none.
    #[n(2)]
    last: i32,
    #[n(3)]
    number: u64,
    /// Its last publications, oldest first. `None` in rows of an older version.
    #[n(4)]
    recent: Option<Vec<SequenceRange>>,
}

/// The numbers of a publication's events.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct SequenceRange {
    #[n(0)]
    first: i32,
    #[n(1)]
    last: i32,
}

/// The producers that a hub partition remembers: ranks `first` to before `next`.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct ProducerWindow {
    #[n(0)]
    pub(crate) first: u64,
    #[n(1)]
    pub(crate) next: u64,
}

/// Whether a publication is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateCheck {
    /// It is new; this becomes the producer's last number.
    Append(i32),
    /// It is a duplicate.
    Repeated,
}

impl ProducerRecord {
    /// Checks a publication of `count` events for duplicates and gaps.
    pub(crate) fn judge(&self, stamp: &ProducerSequence, count: u32) -> Result<DuplicateCheck> {
        if stamp.epoch < self.epoch {
            return Err(self.stolen(stamp.epoch));
        }
        let (first, last) = (stamp.first, plus(stamp.first, count.saturating_sub(1)));
        if first == plus(self.last, 1) {
            return Ok(DuplicateCheck::Append(last));
        }
        let is_old = behind(last, self.last);
        let is_known = match self.recent.as_deref() {
            // Each epoch has its own numbering.
            _ if stamp.epoch != self.epoch => false,
            // A row of an older version lacks the starts of publications.
            None => is_old,
            Some(recent) => recent.contains(&SequenceRange { first, last }),
        };
        if is_known {
            return Ok(DuplicateCheck::Repeated);
        }
        let next = plus(self.last, 1);
        let words = if is_old {
            // Clients match this text.
            format!(
                "producer {} sent the old sequence {first} to {last}, which is no publication \
                 of its own that came last; send {next} next",
                self.id
            )
        } else {
            format!(
                "producer {} sent number {first} after {}; send {next} next",
                self.id, self.last
            )
        };
        Err(Error::new(ErrorKind::OutOfOrder, words))
    }

    /// A publication up to the number `last` was appended.
    pub(crate) fn append(&mut self, stamp: &ProducerSequence, last: i32) {
        if stamp.epoch != self.epoch {
            self.recent = Some(Vec::new());
        }
        (self.last, self.epoch) = (last, stamp.epoch);
        let recent = self.recent.get_or_insert_default();
        if recent.len() >= limits::PRODUCER_PUBLICATIONS {
            recent.remove(0);
        }
        let first = stamp.first;
        recent.push(SequenceRange { first, last });
    }

    fn opened(id: i64, wish: &ProducerOptions, number: u64) -> Self {
        Self {
            id,
            epoch: wish.epoch.unwrap_or(0),
            last: wish.last.unwrap_or(-1),
            number,
            recent: Some(Vec::new()),
        }
    }

    /// The producer continues, or another client takes it over.
    fn reopened(mut self, wish: &ProducerOptions) -> Result<Self> {
        let epoch = match wish.epoch {
            Some(epoch) if epoch < self.epoch => return Err(self.stolen(epoch)),
            Some(epoch) => epoch,
            None => self.epoch.checked_add(1).unwrap_or(0),
        };
        // A takeover with its own number may skip numbers, and repeats no earlier event;
        // without one it continues, and may repeat events that were in flight.
        if epoch > self.epoch
            && let Some(last) = wish.last
            && last != self.last
        {
            self.last = last.max(self.last);
            self.recent = Some(Vec::new());
        }
        self.epoch = epoch;
        Ok(self)
    }

    /// The state returned to the client that opened the producer.
    fn state(&self, wish: &ProducerOptions) -> ProducerState {
        ProducerState {
            id: self.id,
            epoch: self.epoch,
            last: wish.last.unwrap_or(self.last),
            number: self.number,
        }
    }

    fn stolen(&self, epoch: i16) -> Error {
        // Clients match the last line.
        let words = format!(
            "producer {} was taken over with a higher epoch: open it with that one to go on. \
             Received:{epoch} Current:{}",
            self.id, self.epoch
        );
        Error::new(ErrorKind::ProducerStolen, words)
    }
}

/// Numbers wrap from the maximum to 0; -1 is before the first.
fn plus(number: i32, more: u32) -> i32 {
    let wide = i64::from(number) + i64::from(more);
    (wide % (i64::from(i32::MAX) + 1)) as i32
}

/// Whether `number` is `last` or before it, modulo wrapping.
fn behind(number: i32, last: i32) -> bool {
    let distance = (i64::from(last) - i64::from(number)).rem_euclid(i64::from(i32::MAX) + 1);
    last >= 0 && distance < i64::from(i32::MAX) / 2
}

/// Finds a producer of a hub partition.
pub(crate) fn find(
    turn: &mut Turn<'_>,
    slot: &[u8],
    id: i64,
) -> std::result::Result<Option<ProducerRecord>, TurnError> {
    match turn.get(PRODUCERS, &key(slot, id))? {
        Some(row) => match keys::decode(&row) {
            Ok(record) => Ok(Some(record)),
            Err(_) => Err(Error::damaged("a producer").into()),
        },
        None => Ok(None),
    }
}

pub(crate) fn put(turn: &mut Turn<'_>, slot: &[u8], record: &ProducerRecord) {
    turn.put(PRODUCERS, &key(slot, record.id), keys::encode(record));
}

/// Opens or takes over a producer; evicts the oldest if there are too many.
pub(crate) fn open(
    turn: &mut Turn<'_>,
    slot: &[u8],
    window: &mut ProducerWindow,
    wish: &ProducerOptions,
    fresh: i64,
) -> std::result::Result<ProducerState, TurnError> {
    let id = wish.id.unwrap_or(fresh);
    if let Some(found) = find(turn, slot, id)? {
        let record = found.reopened(wish)?;
        put(turn, slot, &record);
        return Ok(record.state(wish));
    }
    if window.next - window.first >= limits::PRODUCERS {
        forget(turn, slot, window.first)?;
        window.first += 1;
    }
    let record = ProducerRecord::opened(id, wish, window.next);
    turn.put(
        PRODUCER_ORDER,
        &order_key(slot, record.number),
        id.to_be_bytes().to_vec(),
    );
    window.next += 1;
    put(turn, slot, &record);
    Ok(record.state(wish))
}

/// Evicts the producer with this rank.
pub(crate) fn forget(
    turn: &mut Turn<'_>,
    slot: &[u8],
    number: u64,
) -> std::result::Result<(), TurnError> {
    let order = order_key(slot, number);
    let id = turn.get(PRODUCER_ORDER, &order)?;
    let id = id.and_then(|id| id.as_ref().try_into().ok());
    if let Some(id) = id.map(i64::from_be_bytes) {
        turn.delete(PRODUCERS, &key(slot, id));
    }
    turn.delete(PRODUCER_ORDER, &order);
    Ok(())
}

fn key(slot: &[u8], id: i64) -> Vec<u8> {
    [slot, &id.to_be_bytes()].concat()
}

fn order_key(slot: &[u8], number: u64) -> Vec<u8> {
    [slot, &number.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A producer that has published `spans`.
    fn record(epoch: i16, spans: &[(i32, i32)]) -> ProducerRecord {
        let mut record = ProducerRecord::opened(7, &ProducerOptions::default(), 0);
        record.epoch = epoch;
        for &(first, last) in spans {
            let id = record.id;
            record.append(&ProducerSequence { id, epoch, first }, last);
        }
        record
    }

    fn judge(
        record: &ProducerRecord,
        epoch: i16,
        first: i32,
        count: u32,
    ) -> Result<DuplicateCheck> {
        let id = record.id;
        record.judge(&ProducerSequence { id, epoch, first }, count)
    }

    #[test]
    fn what_comes_next_is_appended_and_what_comes_again_is_not() {
        let new = record(0, &[]);
        assert_eq!(judge(&new, 0, 0, 5).unwrap(), DuplicateCheck::Append(4));
        let used = record(0, &[(0, 4), (5, 5)]);
        assert_eq!(judge(&used, 0, 6, 1).unwrap(), DuplicateCheck::Append(6));
        assert_eq!(judge(&used, 0, 0, 5).unwrap(), DuplicateCheck::Repeated);
        assert_eq!(judge(&used, 0, 5, 1).unwrap(), DuplicateCheck::Repeated);
    }

    #[test]
    fn gaps_and_parts_of_older_publications_are_out_of_order() {
        let used = record(0, &[(0, 4)]);
        for (first, count) in [(6, 1), (3, 5), (100, 1), (3, 1), (0, 4)] {
            let error = judge(&used, 0, first, count).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfOrder);
        }
        let old = judge(&used, 0, 3, 1).unwrap_err();
        assert!(old.message().contains("old sequence"), "{old}");
    }

    #[test]
    fn the_last_publications_are_remembered_and_no_more() {
        let spans: Vec<_> = (0..40).map(|number| (number, number)).collect();
        let used = record(0, &spans);
        let oldest = 40 - limits::PRODUCER_PUBLICATIONS as i32;
        assert_eq!(
            judge(&used, 0, oldest, 1).unwrap(),
            DuplicateCheck::Repeated
        );
        assert!(judge(&used, 0, oldest - 1, 1).is_err());
    }

    #[test]
    fn a_row_of_an_older_version_takes_everything_before_its_end_for_a_repetition() {
        let mut old = record(0, &[(0, 4)]);
        old.recent = None;
        assert_eq!(judge(&old, 0, 3, 1).unwrap(), DuplicateCheck::Repeated);
        assert_eq!(judge(&old, 0, 5, 1).unwrap(), DuplicateCheck::Append(5));
        let stored = keys::encode(&ProducerState {
            id: 7,
            epoch: 0,
            last: 4,
            number: 0,
        });
        assert_eq!(keys::decode::<ProducerRecord>(&stored).unwrap(), old);
    }

    #[test]
    fn an_older_epoch_is_refused_and_a_newer_one_goes_on() {
        let used = record(2, &[(0, 4)]);
        let late = judge(&used, 1, 5, 1).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::ProducerStolen);
        assert!(late.message().ends_with("Received:1 Current:2"), "{late}");
        let wish = ProducerOptions {
            id: Some(7),
            ..ProducerOptions::default()
        };
        let next = used.clone().reopened(&wish).unwrap().state(&wish);
        assert_eq!((next.epoch, next.last), (3, 4));
        let old = ProducerOptions {
            epoch: Some(1),
            ..wish
        };
        let kind = used.reopened(&old).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::ProducerStolen);
    }

    #[test]
    fn a_producer_that_comes_back_is_told_its_own_number_and_what_it_repeats_is_known() {
        // Its last acknowledgement was lost on the way.
        let used = record(0, &[(1, 5), (6, 6)]);
        let wish = ProducerOptions {
            id: Some(7),
            epoch: Some(0),
            last: Some(5),
        };
        let used = used.reopened(&wish).unwrap();
        let told = used.state(&wish);
        assert_eq!((told.epoch, told.last), (0, 5));
        assert_eq!(judge(&used, 0, 6, 1).unwrap(), DuplicateCheck::Repeated);
        assert_eq!(judge(&used, 0, 7, 1).unwrap(), DuplicateCheck::Append(7));
    }

    #[test]
    fn no_event_of_a_producer_that_takes_over_is_taken_for_a_repetition() {
        let used = record(0, &[(1, 1), (2, 2), (3, 3)]);
        let wish = ProducerOptions {
            id: Some(7),
            epoch: Some(1),
            last: Some(0),
        };
        let taken = used.clone().reopened(&wish).unwrap();
        let old = judge(&taken, 1, 1, 1).unwrap_err();
        assert!(old.message().contains("old sequence"), "{old}");
        assert_eq!(judge(&taken, 1, 4, 1).unwrap(), DuplicateCheck::Append(4));
        let wish = ProducerOptions { last: None, ..wish };
        let going_on = used.clone().reopened(&wish).unwrap();
        assert_eq!(judge(&going_on, 1, 3, 1).unwrap(), DuplicateCheck::Repeated);
        // Without a reopen the numbers continue.
        let error = judge(&used, 1, 1, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfOrder);
        assert_eq!(judge(&used, 1, 4, 1).unwrap(), DuplicateCheck::Append(4));
    }

    #[test]
    fn numbers_begin_again_behind_the_greatest() {
        let end = record(0, &[(i32::MAX, i32::MAX)]);
        assert_eq!(judge(&end, 0, 0, 2).unwrap(), DuplicateCheck::Append(1));
        assert_eq!(
            judge(&end, 0, i32::MAX, 1).unwrap(),
            DuplicateCheck::Repeated
        );
        let past = record(0, &[(i32::MAX, i32::MAX), (0, 1)]);
        assert_eq!(
            judge(&past, 0, i32::MAX, 1).unwrap(),
            DuplicateCheck::Repeated
        );
        let before = record(0, &[(i32::MAX - 1, i32::MAX - 1)]);
        assert_eq!(
            judge(&before, 0, i32::MAX, 3).unwrap(),
            DuplicateCheck::Append(1)
        );
    }
}
