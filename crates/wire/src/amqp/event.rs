//! Events as they are published, stored and delivered.
//!
//! A publication is one event, or a batch of them.
//! An event is stored as the whole message, each section byte for byte, in the order
//! of the standard, with three changes: the header loses `first-acquirer` and
//! `delivery-count`, which describe one hop; annotations reserved for the broker are
//! removed; and the key of the publication is added where it is missing. It is
//! delivered with the broker's annotations in front of the sender's.

use std::ops::Range;

use super::code::{self, descriptor};
use super::delivery::{FORMAT_BATCH, FORMAT_EVENT};
use super::error::{AmqpDecodeError, Result};
use super::message::{MessageSection, MessageSections, SectionKind};
use super::value::{AmqpValue, ItemReader};
use super::write;

pub const SEQUENCE: &str = "x-opt-sequence-number";
pub const OFFSET: &str = "x-opt-offset";
pub const ENQUEUED: &str = "x-opt-enqueued-time";
pub const KEY: &str = "x-opt-partition-key";
pub const PRODUCER_ID: &str = "com.microsoft:producer-id";
pub const PRODUCER_EPOCH: &str = "com.microsoft:producer-epoch";
pub const PRODUCER_SEQUENCE: &str = "com.microsoft:producer-sequence-number";

/// Annotations of a message that the broker reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublishAnnotations<'a> {
    pub key: Option<&'a str>,
    pub producer_id: Option<i64>,
    pub producer_epoch: Option<i64>,
    pub producer_sequence: Option<i64>,
    /// The sender has set an annotation that only the broker may write.
    forged: bool,
}

impl<'a> PublishAnnotations<'a> {
    pub fn read(mut annotations: ItemReader<'a>) -> Result<Self> {
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

/// The stored form of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredMessage {
    /// A part of the message itself.
    Range(Range<usize>),
    /// The message with changed annotations or order.
    Rewritten(Vec<u8>),
}

/// Checks a message and returns its stored form. `key` is the key of the whole
/// publication, if it has one.
pub fn store<'a>(
    message: &'a [u8],
    key: Option<&str>,
) -> Result<(StoredMessage, PublishAnnotations<'a>)> {
    let mut sections = MessageSections::new(message);
    let (mut start, mut last) = (0, None);
    let (mut header, mut annotations) = (HeaderAction::Absent, None);
    let mut is_in_order = true;
    while let Some(section) = sections.next()? {
        section.check()?;
        is_in_order &= last.is_none_or(|last| last <= section.part);
        last = Some(section.part);
        match section.part {
            SectionKind::Header => {
                header = HeaderAction::of(&section)?;
                if matches!(header, HeaderAction::Empty) && section.start == 0 {
                    start = section.end;
                }
            }
            SectionKind::MessageAnnotations => annotations = Some(section),
            _ => {}
        }
    }
    let notes = match &annotations {
        Some(section) => PublishAnnotations::read(section.map()?)?,
        None => PublishAnnotations::default(),
    };
    let key_missing = key.is_some() && notes.key != key;
    let is_kept = is_in_order && !matches!(header, HeaderAction::OneHop);
    if is_kept && !notes.forged && !key_missing {
        return Ok((StoredMessage::Range(start..message.len()), notes));
    }
    let annotations = if notes.forged || key_missing {
        rewrite(annotations, key)?
    } else {
        annotations.map_or_else(Vec::new, |own| message[own.start..own.end].to_vec())
    };
    Ok((
        StoredMessage::Rewritten(ordered(message, &annotations)?),
        notes,
    ))
}

/// What the stored form does with a header.
enum HeaderAction {
    Absent,
    /// It has no fields.
    Empty,
    Kept,
    /// It has fields that describe one hop.
    OneHop,
}

impl HeaderAction {
    fn of(section: &MessageSection<'_>) -> Result<Self> {
        let mut fields = section.list()?;
        if fields.count() == 0 {
            return Ok(Self::Empty);
        }
        for _ in 0..LASTING_FIELDS {
            fields.next_raw()?;
        }
        while fields.count() > 0 {
            if !fields.next_raw()?.is_null() {
                return Ok(Self::OneHop);
            }
        }
        Ok(Self::Kept)
    }
}

/// The fields of a header that describe the message: durable, priority and ttl.
const LASTING_FIELDS: u32 = 3;

/// The sections of a message in the order of the standard, with other annotations.
fn ordered(message: &[u8], annotations: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(message.len() + annotations.len());
    for part in ORDER {
        if part == SectionKind::MessageAnnotations {
            out.extend_from_slice(annotations);
            continue;
        }
        let mut sections = MessageSections::new(message);
        while let Some(section) = sections.next()? {
            if section.part != part {
                continue;
            }
            match section.part {
                SectionKind::Header => write_header(&mut out, &section)?,
                _ => out.extend_from_slice(&message[section.start..section.end]),
            }
        }
    }
    Ok(out)
}

const ORDER: [SectionKind; 9] = [
    SectionKind::Header,
    SectionKind::DeliveryAnnotations,
    SectionKind::MessageAnnotations,
    SectionKind::Properties,
    SectionKind::ApplicationProperties,
    SectionKind::Data,
    SectionKind::Sequence,
    SectionKind::Value,
    SectionKind::Footer,
];

fn write_header(out: &mut Vec<u8>, section: &MessageSection<'_>) -> Result<()> {
    let mut fields = section.list()?;
    if fields.count() == 0 {
        return Ok(());
    }
    let count = fields.count().min(LASTING_FIELDS);
    let mut kept = Vec::new();
    for _ in 0..count {
        kept.extend_from_slice(fields.next_raw()?.bytes());
    }
    write::descriptor(out, descriptor::HEADER);
    write::list(out, count, |out| out.extend_from_slice(&kept));
    Ok(())
}

/// The sender's annotations without those reserved for the broker, and with the key
/// of the publication.
fn rewrite(annotations: Option<MessageSection<'_>>, key: Option<&str>) -> Result<Vec<u8>> {
    let mut items = Vec::new();
    let mut pairs = 0;
    if let Some(key) = key {
        write::symbol(&mut items, KEY);
        write::string(&mut items, key);
        pairs += 1;
    }
    let mut old = match &annotations {
        Some(section) => section.map()?,
        None => ItemReader::EMPTY,
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
    let mut out = Vec::with_capacity(items.len() + 16);
    write::descriptor(&mut out, descriptor::MESSAGE_ANNOTATIONS);
    write::map(&mut out, pairs, |out| out.extend_from_slice(&items));
    Ok(out)
}

/// The position and time that the broker assigns to an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemProperties {
    pub sequence: i64,
    pub offset: i64,
    pub enqueued_ms: i64,
}

/// The last event of the partition, as of a point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastEnqueuedProperties {
    pub last: SystemProperties,
    pub retrieved_ms: i64,
}

/// Maximum bytes that [`deliver`] adds to a stored event.
pub const STAMP_BYTES: usize = 336;

/// Appends the event in its delivered form.
pub fn deliver(
    out: &mut Vec<u8>,
    stored: &[u8],
    stamp: &SystemProperties,
    tail: Option<&LastEnqueuedProperties>,
) -> Result<()> {
    let front = LeadingSections::of(stored)?;
    out.extend_from_slice(front.header);
    match (tail, front.delivery) {
        (Some(tail), theirs) => {
            let theirs = match theirs {
                Some(section) => section.map()?,
                None => ItemReader::EMPTY,
            };
            write_tail(out, tail, theirs);
        }
        (None, Some(section)) => out.extend_from_slice(&stored[section.start..section.end]),
        (None, None) => {}
    }
    let theirs = match front.message {
        Some(section) => section.map()?,
        None => ItemReader::EMPTY,
    };
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, 0x72, code::MAP_32]);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(6 + theirs.count()).to_be_bytes());
    write_stamp(out, stamp, [SEQUENCE, OFFSET, ENQUEUED]);
    out.extend_from_slice(theirs.bytes());
    let size = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
    out.extend_from_slice(front.rest);
    Ok(())
}

/// The sections in front of a stored event's properties, and everything behind them.
struct LeadingSections<'a> {
    header: &'a [u8],
    delivery: Option<MessageSection<'a>>,
    message: Option<MessageSection<'a>>,
    rest: &'a [u8],
}

impl<'a> LeadingSections<'a> {
    fn of(stored: &'a [u8]) -> Result<Self> {
        let mut front = Self {
            header: &[],
            delivery: None,
            message: None,
            rest: stored,
        };
        let mut sections = MessageSections::new(stored);
        while let Some(section) = sections.next()? {
            match section.part {
                SectionKind::Header => front.header = &stored[..section.end],
                SectionKind::DeliveryAnnotations => front.delivery = Some(section),
                SectionKind::MessageAnnotations => front.message = Some(section),
                _ => break,
            }
            front.rest = &stored[section.end..];
        }
        Ok(front)
    }
}

fn write_stamp(out: &mut Vec<u8>, stamp: &SystemProperties, names: [&str; 3]) {
    write::symbol(out, names[0]);
    // Always in full, so that the size depends on the offset only.
    out.push(code::LONG);
    out.extend_from_slice(&stamp.sequence.to_be_bytes());
    write::symbol(out, names[1]);
    write_decimal(out, stamp.offset);
    write::symbol(out, names[2]);
    write::timestamp(out, stamp.enqueued_ms);
}

/// Annotations that describe the end of the partition to a reader.
const LAST: [&str; 3] = [
    "last_enqueued_sequence_number",
    "last_enqueued_offset",
    "last_enqueued_time_utc",
];
const RETRIEVED: &str = "runtime_info_retrieval_time_utc";

/// Writes the broker's delivery annotations, and the sender's unless they have the
/// same names.
fn write_tail(out: &mut Vec<u8>, tail: &LastEnqueuedProperties, mut theirs: ItemReader<'_>) {
    let (mut kept, mut pairs) = (Vec::new(), 4);
    loop {
        let before = theirs.bytes();
        let Ok(Some((name, _))) = theirs.next_pair() else {
            break;
        };
        let is_ours = name
            .as_text()
            .is_some_and(|name| name == RETRIEVED || LAST.contains(&name));
        if !is_ours {
            kept.extend_from_slice(&before[..before.len() - theirs.bytes().len()]);
            pairs += 1;
        }
    }
    write::descriptor(out, descriptor::DELIVERY_ANNOTATIONS);
    write::map(out, pairs, |out| {
        write_stamp(out, &tail.last, LAST);
        write::symbol(out, RETRIEVED);
        write::timestamp(out, tail.retrieved_ms);
        out.extend_from_slice(&kept);
    });
}

/// Writes a number as a string, without a heap allocation.
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

/// The position and time of a delivered event, as a client reads them.
pub fn read_stamp(delivered: &[u8]) -> Result<Option<SystemProperties>> {
    let mut sections = MessageSections::new(delivered);
    while let Some(section) = sections.next()? {
        if section.part != SectionKind::MessageAnnotations {
            continue;
        }
        let map = section.map()?;
        let (sequence, offset) = (map.find(SEQUENCE)?, map.find(OFFSET)?);
        let enqueued = map.find(ENQUEUED)?;
        if let (
            Some(AmqpValue::Long(sequence)),
            Some(AmqpValue::String(offset)),
            Some(AmqpValue::Timestamp(enqueued_ms)),
        ) = (sequence, offset, enqueued)
        {
            return Ok(offset.parse().ok().map(|offset| SystemProperties {
                sequence,
                offset,
                enqueued_ms,
            }));
        }
    }
    Ok(None)
}

/// Iterates over the messages of a publication.
#[derive(Clone, Debug)]
pub struct BatchMessages<'a> {
    outer: &'a [u8],
    notes: PublishAnnotations<'a>,
    source: MessageSource<'a>,
}

#[derive(Clone, Debug)]
enum MessageSource<'a> {
    Single(bool),
    Batch(MessageSections<'a>),
}

impl<'a> BatchMessages<'a> {
    /// A message of one of the two formats.
    pub fn open(message: &'a [u8], format: u32) -> Result<Self> {
        let mut sections = MessageSections::new(message);
        let mut notes = PublishAnnotations::default();
        while let Some(section) = sections.next()? {
            if section.part == SectionKind::MessageAnnotations {
                notes = PublishAnnotations::read(section.map()?)?;
                break;
            }
        }
        let source = match format {
            FORMAT_EVENT => MessageSource::Single(false),
            FORMAT_BATCH => MessageSource::Batch(MessageSections::new(message)),
            _ => return Err(AmqpDecodeError::new("an unknown message format")),
        };
        Ok(Self {
            outer: message,
            notes,
            source,
        })
    }

    /// The annotations of the whole publication.
    pub fn notes(&self) -> PublishAnnotations<'a> {
        self.notes
    }

    /// The next message, all its sections.
    #[expect(clippy::should_implement_trait, reason = "a fallible iterator")]
    pub fn next(&mut self) -> Result<Option<&'a [u8]>> {
        match &mut self.source {
            MessageSource::Single(done) => {
                let first = !std::mem::replace(done, true);
                Ok(first.then_some(self.outer))
            }
            MessageSource::Batch(sections) => {
                while let Some(section) = sections.next()? {
                    match section.part {
                        SectionKind::Data => return section.data().map(Some),
                        SectionKind::Sequence | SectionKind::Value => {
                            return Err(AmqpDecodeError::new(
                                "a batch of something else than data",
                            ));
                        }
                        _ => {}
                    }
                }
                Ok(None)
            }
        }
    }
}
