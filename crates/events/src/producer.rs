//! Producers whose repetitions are recognised.
//!
//! A producer numbers its events per partition, without gaps. What comes again is
//! accepted and not appended; what leaves a gap, or comes from an older epoch, is
//! refused. Of the producers of a slot the ones opened last are remembered.

use steadfast_collections::schema::Record;
use steadfast_core::limits;
use steadfast_partition::{Halt, Turn};

use crate::error::{Error, Kind, Result};
use crate::place::{self, PRODUCER_ORDER, PRODUCERS};

/// What a producer says about a publication.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Stamp {
    #[n(0)]
    pub id: i64,
    #[n(1)]
    pub epoch: i16,
    /// The number of the first event.
    #[n(2)]
    pub first: i32,
}

/// What somebody who wants to be a producer asks for.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Wish {
    /// To go on as this producer; otherwise a new one is made.
    #[n(0)]
    pub id: Option<i64>,
    /// At least this epoch.
    #[n(1)]
    pub epoch: Option<i16>,
    /// The number before the first event.
    #[n(2)]
    pub last: Option<i32>,
}

/// A producer as its slot knows it.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct ProducerState {
    #[n(0)]
    pub id: i64,
    #[n(1)]
    pub epoch: i16,
    /// The number of the last event that was taken in; -1 if there is none.
    #[n(2)]
    pub last: i32,
    /// Its place in the order of opening.
    #[n(3)]
    pub(crate) number: u64,
}

/// Which producers a slot remembers: numbers from `first` to before `next`.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Window {
    #[n(0)]
    pub(crate) first: u64,
    #[n(1)]
    pub(crate) next: u64,
}

/// What becomes of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is new; the producer then is at this number.
    Append(i32),
    /// It was published before.
    Repeated,
}

impl ProducerState {
    /// Judges a publication of `count` events.
    pub(crate) fn judge(&self, stamp: &Stamp, count: u32) -> Result<Verdict> {
        if stamp.epoch < self.epoch {
            let words = format!(
                "producer {} was taken over with epoch {}; epoch {} may not publish",
                self.id, self.epoch, stamp.epoch
            );
            return Err(Error::new(Kind::ProducerStolen, words));
        }
        let last = plus(stamp.first, count.saturating_sub(1));
        if stamp.epoch == self.epoch && behind(last, self.last) {
            return Ok(Verdict::Repeated);
        }
        if stamp.first == plus(self.last, 1) {
            return Ok(Verdict::Append(last));
        }
        let words = format!(
            "producer {} sent number {} after {}; send {} next",
            self.id,
            stamp.first,
            self.last,
            plus(self.last, 1)
        );
        Err(Error::new(Kind::OutOfOrder, words))
    }

    fn opened(id: i64, wish: &Wish, number: u64) -> Self {
        Self {
            id,
            epoch: wish.epoch.unwrap_or(0),
            last: wish.last.unwrap_or(-1),
            number,
        }
    }

    fn taken_over(mut self, wish: &Wish) -> Result<Self> {
        let next = self.epoch.checked_add(1).unwrap_or(0);
        let epoch = wish.epoch.unwrap_or(next).max(next);
        if wish.epoch.is_some_and(|wished| wished < self.epoch) {
            let words = format!("producer {} has epoch {} by now", self.id, self.epoch);
            return Err(Error::new(Kind::ProducerStolen, words));
        }
        self.epoch = epoch;
        self.last = wish.last.unwrap_or(self.last).max(self.last);
        Ok(self)
    }
}

/// Numbers go from 0 to the greatest and then on from 0; -1 is before the first.
fn plus(number: i32, more: u32) -> i32 {
    let wide = i64::from(number) + i64::from(more);
    (wide % (i64::from(i32::MAX) + 1)) as i32
}

/// Whether `number` is `last` or one of the many before it.
fn behind(number: i32, last: i32) -> bool {
    let distance = (i64::from(last) - i64::from(number)).rem_euclid(i64::from(i32::MAX) + 1);
    last >= 0 && distance < i64::from(i32::MAX) / 2
}

/// Finds a producer of a slot.
pub(crate) fn find(
    turn: &mut Turn<'_>,
    slot: &[u8],
    id: i64,
) -> std::result::Result<Option<ProducerState>, Halt> {
    match turn.get(PRODUCERS, &key(slot, id))? {
        Some(row) => match place::decode(&row) {
            Ok(state) => Ok(Some(state)),
            Err(_) => Err(Error::damaged("a producer").into()),
        },
        None => Ok(None),
    }
}

pub(crate) fn put(turn: &mut Turn<'_>, slot: &[u8], state: &ProducerState) {
    turn.put(PRODUCERS, &key(slot, state.id), place::encode(state));
}

/// Opens or takes over a producer; forgets the oldest if there are too many.
pub(crate) fn open(
    turn: &mut Turn<'_>,
    slot: &[u8],
    window: &mut Window,
    wish: &Wish,
    fresh: i64,
) -> std::result::Result<ProducerState, Halt> {
    let id = wish.id.unwrap_or(fresh);
    if let Some(found) = find(turn, slot, id)? {
        let state = found.taken_over(wish)?;
        put(turn, slot, &state);
        return Ok(state);
    }
    if window.next - window.first >= limits::PRODUCERS {
        forget(turn, slot, window.first)?;
        window.first += 1;
    }
    let state = ProducerState::opened(id, wish, window.next);
    turn.put(
        PRODUCER_ORDER,
        &order_key(slot, state.number),
        id.to_be_bytes().to_vec(),
    );
    window.next += 1;
    put(turn, slot, &state);
    Ok(state)
}

/// Forgets the producer that was opened as this number.
pub(crate) fn forget(
    turn: &mut Turn<'_>,
    slot: &[u8],
    number: u64,
) -> std::result::Result<(), Halt> {
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

    fn state(epoch: i16, last: i32) -> ProducerState {
        let (id, number) = (7, 0);
        ProducerState {
            id,
            epoch,
            last,
            number,
        }
    }

    fn judge(state: ProducerState, epoch: i16, first: i32, count: u32) -> Result<Verdict> {
        state.judge(
            &Stamp {
                id: 7,
                epoch,
                first,
            },
            count,
        )
    }

    #[test]
    fn what_comes_next_is_appended_and_what_comes_again_is_not() {
        assert_eq!(judge(state(0, -1), 0, 0, 5).unwrap(), Verdict::Append(4));
        assert_eq!(judge(state(0, 4), 0, 5, 1).unwrap(), Verdict::Append(5));
        assert_eq!(judge(state(0, 4), 0, 0, 5).unwrap(), Verdict::Repeated);
        assert_eq!(judge(state(0, 4), 0, 3, 1).unwrap(), Verdict::Repeated);
    }

    #[test]
    fn gaps_and_overlaps_are_out_of_order() {
        for (first, count) in [(6, 1), (3, 5), (100, 1)] {
            let error = judge(state(0, 4), 0, first, count).unwrap_err();
            assert_eq!(error.kind(), Kind::OutOfOrder);
        }
    }

    #[test]
    fn an_older_epoch_is_refused_and_a_newer_one_goes_on() {
        assert_eq!(
            judge(state(2, 4), 1, 5, 1).unwrap_err().kind(),
            Kind::ProducerStolen
        );
        let wish = Wish {
            id: Some(7),
            ..Wish::default()
        };
        let next = state(2, 4).taken_over(&wish).unwrap();
        assert_eq!((next.epoch, next.last), (3, 4));
        let old = Wish {
            epoch: Some(1),
            ..wish
        };
        assert_eq!(
            state(2, 4).taken_over(&old).unwrap_err().kind(),
            Kind::ProducerStolen
        );
    }

    #[test]
    fn numbers_begin_again_behind_the_greatest() {
        let end = state(0, i32::MAX);
        assert_eq!(judge(end, 0, 0, 2).unwrap(), Verdict::Append(1));
        assert_eq!(judge(end, 0, i32::MAX, 1).unwrap(), Verdict::Repeated);
        assert_eq!(
            judge(state(0, 1), 0, i32::MAX, 1).unwrap(),
            Verdict::Repeated
        );
        assert_eq!(
            judge(state(0, i32::MAX - 1), 0, i32::MAX, 3).unwrap(),
            Verdict::Append(1)
        );
    }
}
