//! An event: as it is stored, and as it is delivered.
//!
//! Stored is the message from its annotations on, byte for byte: header and delivery
//! annotations are for one hop. Annotations change only if the sender wrote one that
//! is ours to write, or left out the key. Delivered is the same with our annotations
//! in front of the sender's.

use std::ops::Range;

use super::code::{self, descriptor};
use super::error::Result;
use super::message::{Part, Section, Sections};
use super::value::{Items, Value};
use super::write;

pub const SEQUENCE: &str = "x-opt-sequence-number";
pub const OFFSET: &str = "x-opt-offset";
pub const ENQUEUED: &str = "x-opt-enqueued-time";
pub const KEY: &str = "x-opt-partition-key";
pub const PRODUCER_ID: &str = "com.microsoft:producer-id";
pub const PRODUCER_EPOCH: &str = "com.microsoft:producer-epoch";
pub const PRODUCER_SEQUENCE: &str = "com.microsoft:producer-sequence-number";

/// What the annotations of a message say to the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Notes<'a> {
    pub key: Option<&'a str>,
    pub producer_id: Option<i64>,
    pub producer_epoch: Option<i64>,
    pub producer_sequence: Option<i64>,
    /// An annotation is there that only the broker writes.
    forged: bool,
}

impl<'a> Notes<'a> {
    pub fn read(mut annotations: Items<'a>) -> Result<Self> {
        let mut notes = Self::default();
        while let Some((name, raw)) = annotations.next_pair()? {
            let Some(name) = name.as_text() else { continue };
            match name {
                SEQUENCE | OFFSET | ENQUEUED => notes.forged = true,
                KEY => notes.key = raw.value()?.as_text(),
                PRODUCER_ID => notes.producer_id = raw.value()?.as_i64(),
                PRODUCER_EPOCH => notes.producer_epoch = raw.value()?.as_i64(),
                PRODUCER_SEQUENCE => notes.producer_sequence = raw.value()?.as_i64(),
                _ => {}
            }
        }
        Ok(notes)
    }
}

/// What is stored of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stored {
    /// A part of the message itself.
    Range(Range<usize>),
    /// Its annotations had to change.
    Rewritten(Vec<u8>),
}

/// Checks a message and says what is stored of it. `key` is the key of the whole
/// publication, if it has one.
pub fn store<'a>(message: &'a [u8], key: Option<&str>) -> Result<(Stored, Notes<'a>)> {
    let mut sections = Sections::new(message);
    let mut kept = message.len();
    let mut annotations = None;
    while let Some(section) = sections.next()? {
        section.check()?;
        if section.part >= Part::MessageAnnotations {
            kept = kept.min(section.start);
        }
        if section.part == Part::MessageAnnotations {
            annotations = Some(section);
        }
    }
    let notes = match &annotations {
        Some(section) => Notes::read(section.map()?)?,
        None => Notes::default(),
    };
    let key_missing = key.is_some() && notes.key != key;
    if !notes.forged && !key_missing {
        return Ok((Stored::Range(kept..message.len()), notes));
    }
    let rest = annotations.map_or(kept, |section| section.end);
    let rewritten = rewrite(annotations, key, &message[rest..])?;
    Ok((Stored::Rewritten(rewritten), notes))
}

fn rewrite(annotations: Option<Section<'_>>, key: Option<&str>, rest: &[u8]) -> Result<Vec<u8>> {
    let mut items = Vec::new();
    let mut pairs = 0;
    if let Some(key) = key {
        write::symbol(&mut items, KEY);
        write::string(&mut items, key);
        pairs += 1;
    }
    let mut old = match &annotations {
        Some(section) => section.map()?,
        None => Items::EMPTY,
    };
    loop {
        let before = old.bytes();
        let Some((name, _)) = old.next_pair()? else {
            break;
        };
        let ours = match name.as_text() {
            Some(SEQUENCE | OFFSET | ENQUEUED) => true,
            Some(KEY) => key.is_some(),
            _ => false,
        };
        if !ours {
            items.extend_from_slice(&before[..before.len() - old.bytes().len()]);
            pairs += 1;
        }
    }
    let mut out = Vec::with_capacity(items.len() + rest.len() + 16);
    write::descriptor(&mut out, descriptor::MESSAGE_ANNOTATIONS);
    write::map(&mut out, pairs, |out| out.extend_from_slice(&items));
    out.extend_from_slice(rest);
    Ok(out)
}

/// What the broker says about an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub sequence: i64,
    pub offset: i64,
    pub enqueued_ms: i64,
}

/// What the broker says about the end of the partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    pub last: Stamp,
    pub retrieved_ms: i64,
}

/// Bytes that [`deliver`] adds to a stored event at most.
pub const STAMP_BYTES: usize = 320;

/// Appends the event as its readers get it.
pub fn deliver(out: &mut Vec<u8>, stored: &[u8], stamp: &Stamp, tail: Option<&Tail>) -> Result<()> {
    if let Some(tail) = tail {
        write_tail(out, tail);
    }
    let (theirs, rest) = split(stored)?;
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, 0x72, code::MAP_32]);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(6 + theirs.count()).to_be_bytes());
    write_stamp(out, stamp, [SEQUENCE, OFFSET, ENQUEUED]);
    out.extend_from_slice(theirs.bytes());
    let size = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
    out.extend_from_slice(rest);
    Ok(())
}

/// The sender's annotations and everything after them.
fn split(stored: &[u8]) -> Result<(Items<'_>, &[u8])> {
    match Sections::new(stored).next()? {
        Some(section) if section.part == Part::MessageAnnotations => {
            Ok((section.map()?, &stored[section.end..]))
        }
        _ => Ok((Items::EMPTY, stored)),
    }
}

fn write_stamp(out: &mut Vec<u8>, stamp: &Stamp, names: [&str; 3]) {
    write::symbol(out, names[0]);
    // Always in full: the size then depends on the offset only.
    out.push(code::LONG);
    out.extend_from_slice(&stamp.sequence.to_be_bytes());
    write::symbol(out, names[1]);
    write_decimal(out, stamp.offset);
    write::symbol(out, names[2]);
    write::timestamp(out, stamp.enqueued_ms);
}

fn write_tail(out: &mut Vec<u8>, tail: &Tail) {
    write::descriptor(out, descriptor::DELIVERY_ANNOTATIONS);
    write::map(out, 4, |out| {
        write_stamp(
            out,
            &tail.last,
            [
                "last_enqueued_sequence_number",
                "last_enqueued_offset",
                "last_enqueued_time_utc",
            ],
        );
        write::symbol(out, "runtime_info_retrieval_time_utc");
        write::timestamp(out, tail.retrieved_ms);
    });
}

/// A number as a string, without a detour over the heap.
fn write_decimal(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&[code::STRING_8, (digits.len() - at) as u8]);
    out.extend_from_slice(&digits[at..]);
}

/// The stamp of a delivered event, as a client reads it.
pub fn read_stamp(delivered: &[u8]) -> Result<Option<Stamp>> {
    let mut sections = Sections::new(delivered);
    while let Some(section) = sections.next()? {
        if section.part != Part::MessageAnnotations {
            continue;
        }
        let map = section.map()?;
        let (sequence, offset) = (map.find(SEQUENCE)?, map.find(OFFSET)?);
        let enqueued = map.find(ENQUEUED)?;
        if let (
            Some(Value::Long(sequence)),
            Some(Value::String(offset)),
            Some(Value::Timestamp(enqueued_ms)),
        ) = (sequence, offset, enqueued)
        {
            return Ok(offset.parse().ok().map(|offset| Stamp {
                sequence,
                offset,
                enqueued_ms,
            }));
        }
    }
    Ok(None)
}
