//! Start positions of readers.

use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Offset, Sequence, StreamId};
use steadfast_partition::{ReadPosition, RemoteReader, StreamHead};

use crate::batch::EventPublication;
use crate::error::{Error, ErrorKind, Result};

/// The start position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPosition {
    /// At the oldest stored event.
    Earliest,
    /// At the next event to be published.
    Latest,
    /// After this offset, or at it; an offset between two events means the second.
    Offset { offset: i64, inclusive: bool },
    /// After this event, or at it.
    Sequence { sequence: i64, inclusive: bool },
    /// At the first event published after this time, or at it.
    Time { time: Timestamp, inclusive: bool },
}

impl EventPosition {
    /// Parses an offset as clients write it: a number, `-1` for the
    /// beginning, or `@latest`.
    pub fn at_offset(text: &str, inclusive: bool) -> Result<Self> {
        match text.trim() {
            "-1" => Ok(Self::Earliest),
            "@latest" => Ok(Self::Latest),
            text => match text.parse() {
                Ok(offset) => Ok(Self::Offset { offset, inclusive }),
                Err(_) => {
                    let words = format!(
                        "The supplied offset '{}' is invalid. It must be a number.",
                        text.escape_debug()
                    );
                    Err(Error::new(ErrorKind::PositionBeyondEnd, words))
                }
            },
        }
    }
}

/// The first event of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReaderStart {
    pub(crate) sequence: u64,
    /// Older events are skipped: the time may be in the future.
    pub(crate) not_before: Timestamp,
}

impl ReaderStart {
    fn at(sequence: u64) -> Self {
        Self {
            sequence,
            not_before: Timestamp(i64::MIN),
        }
    }
}

/// Resolves a position to the first event, or rejects one after the last event.
pub(crate) async fn resolve(
    window: &RemoteReader,
    stream: StreamId,
    position: EventPosition,
) -> Result<ReaderStart> {
    let head = window.stream(stream).await?.unwrap_or_default();
    match position {
        EventPosition::Earliest => Ok(ReaderStart::at(head.first.0)),
        EventPosition::Latest => Ok(ReaderStart::at(head.next.0)),
        EventPosition::Offset { offset, inclusive } => {
            check("offset", offset, head.end.0 as i64 - 1, inclusive)?;
            let after = if inclusive { offset - 1 } else { offset };
            by_offset(window, stream, head, after).await
        }
        EventPosition::Sequence {
            sequence,
            inclusive,
        } => {
            check(
                "sequence number",
                sequence,
                head.next.0 as i64 - 1,
                inclusive,
            )?;
            let first = if inclusive {
                sequence
            } else {
                sequence.saturating_add(1)
            };
            let first = u64::try_from(first).unwrap_or(0);
            Ok(ReaderStart::at(first.max(head.first.0)))
        }
        EventPosition::Time { time, inclusive } => {
            let time = if inclusive {
                time
            } else {
                Timestamp(time.0.saturating_add(1))
            };
            by_time(window, stream, head, time).await
        }
    }
}

/// Rejects a position after the last event. In a stream that was never written, the
/// position of its first event is valid.
fn check(what: &str, wanted: i64, last: i64, inclusive: bool) -> Result<()> {
    let is_first = last == -1 && wanted == 0 && inclusive;
    if wanted <= last || is_first {
        return Ok(());
    }
    let words = format!(
        "The supplied {what} '{wanted}' is invalid. The last {what} in the system is '{last}'"
    );
    Err(Error::new(ErrorKind::PositionBeyondEnd, words))
}

async fn by_offset(
    window: &RemoteReader,
    stream: StreamId,
    head: StreamHead,
    after: i64,
) -> Result<ReaderStart> {
    let byte = u64::try_from(after.saturating_add(1)).unwrap_or(0);
    let from = ReadPosition::Offset(Offset(byte));
    let mut found = window.batches(stream, from, 1).await?;
    if found.is_empty() {
        return Ok(ReaderStart::at(head.next.0));
    }
    let first = EventPublication::first_after(found.swap_remove(0), after)?;
    Ok(ReaderStart::at(first))
}

/// The offset of the event before number `next`; -1 if there is none.
pub(crate) async fn offset_before(
    window: &RemoteReader,
    stream: StreamId,
    next: u64,
) -> Result<i64> {
    let Some(before) = next.checked_sub(1) else {
        return Ok(-1);
    };
    let from = ReadPosition::Sequence(Sequence(before));
    let mut found = window.batches(stream, from, 1).await?;
    if found.is_empty() {
        return Ok(-1);
    }
    let mut publication = EventPublication::open(found.swap_remove(0), before)?;
    let event = publication.next_event()?;
    let event = event.filter(|event| event.sequence as u64 == before);
    Ok(event.map_or(-1, |event| event.offset))
}

async fn by_time(
    window: &RemoteReader,
    stream: StreamId,
    head: StreamHead,
    time: Timestamp,
) -> Result<ReaderStart> {
    let found = window.batches(stream, ReadPosition::Time(time), 1).await?;
    let first = found.first().map_or(head.next, |batch| batch.first);
    Ok(ReaderStart {
        sequence: first.max(Sequence(head.first.0)).0,
        not_before: time,
    })
}
