//! The history of attempts.
//!
//! Items are numbered per job; the row's key holds the inverted number, so that a scan
//! returns the newest first. A job keeps a bounded number of items, none older than
//! sixty days; the bound shrinks with many jobs in a partition.

use steadfast_collections::schema::Record;
use steadfast_core::limits;
use steadfast_partition::{Turn, TurnError};

use crate::rows::{self, HISTORY};
use crate::status::{JobStatus, RunPhase};

/// The outcome of an attempt.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Verdict", closed)]
pub enum JobHistoryStatus {
    #[n(0)]
    Completed,
    #[n(1)]
    Failed,
    /// The occurrence waits for the previous one.
    #[n(2)]
    Postponed,
}

/// One attempt, or one postponement. Times are milliseconds since 1970.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Item", closed)]
pub struct JobHistoryItem {
    /// Counts the items of a job.
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub started: i64,
    #[n(2)]
    pub ended: i64,
    /// When the occurrence was due.
    #[n(3)]
    pub expected: i64,
    #[n(4)]
    pub phase: RunPhase,
    #[n(5)]
    pub verdict: JobHistoryStatus,
    #[n(6)]
    pub message: String,
    /// The attempt, from 0.
    #[n(7)]
    pub retry: u32,
    /// The number of the occurrence, from 1.
    #[n(8)]
    pub repeat: u64,
}

/// Adds an item and removes items over the bounds.
pub(crate) fn add(
    turn: &mut Turn<'_>,
    key: &[u8],
    status: &mut JobStatus,
    mut item: JobHistoryItem,
) -> Result<(), TurnError> {
    item.number = status.history.next;
    truncate(&mut item.message, limits::HISTORY_MESSAGE_BYTES);
    let is_first = status.history.first == status.history.next;
    if is_first {
        status.history.oldest = item.started;
    }
    turn.put(
        HISTORY,
        &rows::history_key(key, item.number),
        rows::encode(&item),
    );
    status.history.next += 1;
    let keep = items_per_job(rows::job_count(turn)?);
    // Two at a time, so that a smaller bound is reached step by step.
    for _ in 0..2 {
        let span = status.history;
        let is_old = span.oldest < turn.time().0 - limits::HISTORY_AGE.as_millis() as i64;
        let has_others = span.next - span.first > 1;
        if !has_others || !(is_old || span.next - span.first > keep) {
            break;
        }
        turn.delete(HISTORY, &rows::history_key(key, span.first));
        status.history.first += 1;
        if is_old {
            let next = turn.get(HISTORY, &rows::history_key(key, span.first + 1))?;
            let next = next.and_then(|row| rows::decode::<JobHistoryItem>(&row));
            status.history.oldest = next.map_or(turn.time().0, |item| item.started);
        }
    }
    Ok(())
}

/// Removes all items of a job.
pub(crate) fn clear(turn: &mut Turn<'_>, key: &[u8], status: &JobStatus) {
    for number in status.history.first..status.history.next {
        turn.delete(HISTORY, &rows::history_key(key, number));
    }
}

fn items_per_job(jobs: u64) -> u64 {
    let fair = limits::PARTITION_HISTORY_ITEMS / jobs.max(1);
    fair.clamp(limits::FEWEST_HISTORY_ITEMS, limits::HISTORY_ITEMS)
}

/// Truncates a text at a character boundary.
pub(crate) fn truncate(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_jobs_keep_fewer_items_each() {
        assert_eq!(items_per_job(1), 1000);
        assert_eq!(items_per_job(655), 100);
        assert_eq!(items_per_job(1_000_000), 10);
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let mut text = "aüb".to_string();
        truncate(&mut text, 2);
        assert_eq!(text, "a");
    }
}
