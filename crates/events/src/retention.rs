//! Retention of a hub partition.
//!
//! A hub partition marks a few positions of its stream, at most one per 1/32 of its
//! retention bound, and trims at a mark: so retention reads no events, costs no row per
//! publication, and is the same on every engine. It keeps at least the age bound, and
//! at most 1/32 more; in bytes it never exceeds the bound, unless the newest
//! publication alone does.

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Offset, Sequence};
use steadfast_core::limits::RETENTION_STEPS;
use steadfast_partition::StreamHead;

use crate::definition::EventRetention;

/// The position and time of a publication.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct RetentionMark {
    #[n(0)]
    pub(crate) first: u64,
    #[n(1)]
    pub(crate) offset: u64,
    #[n(2)]
    pub(crate) time: Timestamp,
}

/// The new start of a trimmed stream.
pub(crate) type TrimPoint = (Sequence, Offset);

/// Marks a publication if it is far enough after the last mark.
pub(crate) fn note(
    marks: &mut Vec<RetentionMark>,
    retention: EventRetention,
    mark: RetentionMark,
) -> bool {
    if retention == EventRetention::default() {
        return false;
    }
    let is_due = marks.last().is_none_or(|last| {
        let time = mark.time.0.saturating_sub(last.time.0);
        let bytes = mark.offset.saturating_sub(last.offset);
        age_ms(retention).is_some_and(|age| time >= (age / RETENTION_STEPS as i64).max(1))
            || retention
                .bytes
                .is_some_and(|most| bytes >= most / RETENTION_STEPS)
    });
    if !is_due {
        return false;
    }
    marks.push(mark);
    if marks.len() > 4 * RETENTION_STEPS as usize {
        // Widened bounds leave too many marks: drop every other one.
        let mut index = 0;
        marks.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }
    true
}

/// Where to trim to satisfy the byte bound: at a mark, or at the newest publication
/// if even the last mark is too far back.
pub(crate) fn trim_by_size(
    marks: &[RetentionMark],
    newest: Option<&RetentionMark>,
    retention: EventRetention,
    head: StreamHead,
) -> Option<TrimPoint> {
    let most = retention.bytes?;
    if head.end.0 - head.first_offset.0 <= most {
        return None;
    }
    let fits = |mark: &&RetentionMark| head.end.0.saturating_sub(mark.offset) <= most;
    let cut = marks.iter().find(fits).or(newest).or(marks.last())?;
    (cut.first > head.first.0).then_some((Sequence(cut.first), Offset(cut.offset)))
}

/// Where to trim to satisfy the age bound.
pub(crate) fn trim_by_age(
    marks: &[RetentionMark],
    retention: EventRetention,
    head: StreamHead,
    now: Timestamp,
) -> Option<TrimPoint> {
    let age = age_ms(retention)?;
    let is_over = |time: Timestamp| time.0.saturating_add(age) <= now.0;
    if head.first == head.next {
        return None;
    }
    if is_over(head.time) {
        return Some((head.next, head.end));
    }
    // Everything before a mark is as old as the mark, or older.
    let cut = marks.iter().rev().find(|mark| is_over(mark.time))?;
    (cut.first > head.first.0).then_some((Sequence(cut.first), Offset(cut.offset)))
}

/// When to check the age bound next; `None` while no event can expire.
pub(crate) fn next_look(
    marks: &[RetentionMark],
    retention: EventRetention,
    head: StreamHead,
    now: Timestamp,
) -> Option<Timestamp> {
    let age = age_ms(retention)?;
    if head.first == head.next {
        return None;
    }
    let next = marks.iter().find(|mark| mark.first > head.first.0);
    let time = next.map_or(head.time, |mark| mark.time);
    Some(Timestamp(time.0.saturating_add(age).max(now.0 + 1)))
}

/// Drops the marks before a trim point. One at the trim point stays.
pub(crate) fn forget(marks: &mut Vec<RetentionMark>, cut: TrimPoint) {
    marks.retain(|mark| mark.first >= cut.0.0);
}

fn age_ms(retention: EventRetention) -> Option<i64> {
    let age = retention.age?;
    Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        /// Against the publications themselves: nothing is trimmed too early, and at most
        /// 1/32 is kept too long.
        #[test]
        fn bounds_are_kept(
            steps in proptest::collection::vec((0i64..50, 1u64..800), 1..300),
            age in proptest::option::of(100u64..2000), bytes in proptest::option::of(200u64..5000),
        ) {
            let retention = EventRetention { age: age.map(Duration::from_millis), bytes };
            let (mut head, mut marks, mut now) = (StreamHead::default(), Vec::new(), Timestamp(1));
            let mut kept: Vec<(u64, u64, Timestamp)> = Vec::new();
            for (pause, size) in steps {
                now.0 += pause;
                let mark = RetentionMark { first: head.next.0, offset: head.end.0, time: now };
                kept.push((mark.first, mark.offset, now));
                (head.next.0, head.end.0, head.time) = (head.next.0 + 1, head.end.0 + size, now);
                note(&mut marks, retention, mark);
                let cuts = [trim_by_size(&marks, Some(&mark), retention, head), trim_by_age(&marks, retention, head, now)];
                if let Some(cut) = cuts.into_iter().flatten().max() {
                    (head.first, head.first_offset) = cut;
                    forget(&mut marks, cut);
                }
                if let Some(most) = bytes {
                    prop_assert!(head.end.0 - head.first_offset.0 <= most.max(size));
                }
                if let Some(age) = age {
                    let oldest = kept.iter().find(|(first, ..)| *first >= head.first.0);
                    let slack = (age / 16 + 50) as i64;
                    if let Some((_, _, time)) = oldest {
                        prop_assert!(now.0 - time.0 <= age as i64 + slack, "{} > {age}", now.0 - time.0);
                    }
                    let lost = kept.iter().rev().find(|(first, ..)| *first < head.first.0);
                    if let (Some((.., time)), None) = (lost, bytes) {
                        prop_assert!(now.0 - time.0 >= age as i64, "too early");
                    }
                }
                prop_assert!(marks.len() <= 4 * RETENTION_STEPS as usize);
            }
        }
    }
}
