//! Performatives of a link: attach and detach.

use super::code::descriptor;
use super::condition::{AmqpError, put_raw};
use super::error::{AmqpDecodeError, Result};
use super::scan::EncodedValue;
use super::selector;
use super::value::{AmqpValue, Array, ItemReader};
use super::write;

/// The end of a link that writes a performative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkRole {
    Sender,
    Receiver,
}

impl LinkRole {
    pub(crate) fn read(fields: &mut ItemReader<'_>) -> Result<Self> {
        Ok(match fields.next_bool()? {
            Some(true) => Self::Receiver,
            Some(false) => Self::Sender,
            None => return Err(AmqpDecodeError::new("a role")),
        })
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        write::boolean(out, self == Self::Receiver);
    }

    /// The role of the other end.
    pub fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// Source, target and properties stay as received, to be echoed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attach<'a> {
    pub name: &'a str,
    pub handle: u32,
    pub role: LinkRole,
    pub snd_settle: Option<u8>,
    pub rcv_settle: Option<u8>,
    pub source: EncodedValue<'a>,
    pub target: EncodedValue<'a>,
    pub initial_count: Option<u32>,
    pub max_message: Option<u64>,
    pub offered: EncodedValue<'a>,
    pub desired: EncodedValue<'a>,
    pub properties: EncodedValue<'a>,
}

impl<'a> Attach<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        let name = fields
            .next_text()?
            .ok_or(AmqpDecodeError::new("a link's name"))?;
        let handle = fields.next_u32()?.ok_or(AmqpDecodeError::new("a handle"))?;
        let role = LinkRole::read(&mut fields)?;
        let snd_settle = settle_mode(&mut fields)?;
        let rcv_settle = settle_mode(&mut fields)?;
        let source = fields.next_raw()?;
        let target = fields.next_raw()?;
        // Unsettled deliveries are not resumed.
        fields.next_raw()?;
        fields.next_raw()?;
        Ok(Self {
            name,
            handle,
            role,
            snd_settle,
            rcv_settle,
            source,
            target,
            initial_count: fields.next_u32()?,
            max_message: fields.next_as(AmqpValue::as_u64)?,
            offered: fields.next_raw()?,
            desired: fields.next_raw()?,
            properties: fields.next_raw()?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::ATTACH);
        write::list(out, 14, |out| {
            write::string(out, self.name);
            write::uint(out, self.handle);
            self.role.write(out);
            write::optional(out, self.snd_settle, write::ubyte);
            write::optional(out, self.rcv_settle, write::ubyte);
            put_raw(out, self.source);
            put_raw(out, self.target);
            write::null(out);
            write::null(out);
            write::optional(out, self.initial_count, write::uint);
            write::optional(out, self.max_message, write::ulong);
            put_raw(out, self.offered);
            put_raw(out, self.desired);
            put_raw(out, self.properties);
        });
    }

    /// Whether the peer desires this capability.
    pub fn desires(&self, capability: &str) -> bool {
        match self.desired.value() {
            Ok(AmqpValue::Array(array)) => Array::has(array, capability),
            Ok(value) => value.as_text() == Some(capability),
            Err(_) => false,
        }
    }

    /// A property of the link.
    pub fn property(&self, name: &str) -> Result<Option<AmqpValue<'a>>> {
        match self.properties.value()? {
            AmqpValue::Map(items) => items.find(name),
            AmqpValue::Null => Ok(None),
            _ => Err(AmqpDecodeError::new("a link's properties")),
        }
    }
}

fn settle_mode(fields: &mut ItemReader<'_>) -> Result<Option<u8>> {
    match fields.next_u32()? {
        Some(mode @ 0..=2) => Ok(Some(mode as u8)),
        Some(_) => Err(AmqpDecodeError::new("a settle mode")),
        None => Ok(None),
    }
}

/// The address of a source or target, if it has one.
pub fn address<'a>(terminus: EncodedValue<'a>) -> Result<Option<&'a str>> {
    match terminus_fields(terminus)? {
        Some(mut fields) => match fields.next()? {
            AmqpValue::Null => Ok(None),
            value => match value.as_text() {
                Some(text) => Ok(Some(text)),
                None => Err(AmqpDecodeError::new("an address")),
            },
        },
        None => Ok(None),
    }
}

/// The filter of a source: alternating names and filters.
pub fn filter<'a>(source: EncodedValue<'a>) -> Result<ItemReader<'a>> {
    let Some(mut fields) = terminus_fields(source)? else {
        return Ok(ItemReader::EMPTY);
    };
    for _ in 0..FILTER_FIELD {
        fields.next_raw()?;
    }
    match fields.next()? {
        AmqpValue::Map(filter) => Ok(filter),
        AmqpValue::Null => Ok(ItemReader::EMPTY),
        _ => Err(AmqpDecodeError::new("a filter")),
    }
}

fn terminus_fields<'a>(terminus: EncodedValue<'a>) -> Result<Option<ItemReader<'a>>> {
    match terminus.value()? {
        AmqpValue::Described(_, raw) => match raw.value()? {
            AmqpValue::List(fields) => Ok(Some(fields)),
            _ => Err(AmqpDecodeError::new("a source or target")),
        },
        AmqpValue::Null => Ok(None),
        _ => Err(AmqpDecodeError::new("a source or target")),
    }
}

/// Writes a source with all its fields; `filter` must be null or a map.
pub fn write_source(out: &mut Vec<u8>, address: Option<&str>, filter: EncodedValue<'_>) {
    write::descriptor(out, descriptor::SOURCE);
    write::list(out, 11, |out| {
        write::optional(out, address, write::string);
        for _ in 0..6 {
            write::null(out);
        }
        put_raw(out, filter);
        for _ in 0..3 {
            write::null(out);
        }
    });
}

/// Writes a source as received, without filters that are not applied: the echoed
/// filters are in force.
pub fn write_known_filters(out: &mut Vec<u8>, source: EncodedValue<'_>) {
    match known_filters(source) {
        Ok(Some(rewritten)) => out.extend_from_slice(&rewritten),
        _ => put_raw(out, source),
    }
}

/// The source without unknown filters; `None` if it has none.
fn known_filters(source: EncodedValue<'_>) -> Result<Option<Vec<u8>>> {
    let (mut known, mut pairs, mut total) = (Vec::new(), 0, 0);
    let mut filters = filter(source)?;
    loop {
        let before = filters.bytes();
        let Some((name, raw)) = filters.next_pair()? else {
            break;
        };
        total += 1;
        if selector::is_selector(&name, raw)? {
            known.extend_from_slice(&before[..before.len() - filters.bytes().len()]);
            pairs += 1;
        }
    }
    let Some(mut fields) = terminus_fields(source)?.filter(|_| pairs < total) else {
        return Ok(None);
    };
    let count = fields.count();
    let mut out = Vec::new();
    write::descriptor(&mut out, descriptor::SOURCE);
    let mut items = Vec::new();
    for index in 0..count {
        let raw = fields.next_raw()?;
        match (index, pairs) {
            (FILTER_FIELD, 0) => write::null(&mut items),
            (FILTER_FIELD, pairs) => write::map(&mut items, pairs, |out| {
                out.extend_from_slice(&known);
            }),
            _ => put_raw(&mut items, raw),
        }
    }
    write::list(&mut out, count, |out| out.extend_from_slice(&items));
    Ok(Some(out))
}

/// The place of the filter among the fields of a source.
const FILTER_FIELD: u32 = 7;

/// Writes a target with all its fields.
pub fn write_target(out: &mut Vec<u8>, address: Option<&str>) {
    write::descriptor(out, descriptor::TARGET);
    write::list(out, 7, |out| {
        write::optional(out, address, write::string);
        for _ in 0..6 {
            write::null(out);
        }
    });
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach<'a> {
    pub handle: u32,
    pub closed: bool,
    pub error: Option<AmqpError<'a>>,
}

impl<'a> Detach<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        Ok(Self {
            handle: fields.next_u32()?.ok_or(AmqpDecodeError::new("a handle"))?,
            closed: fields.next_bool()?.unwrap_or(false),
            error: AmqpError::read_last(&mut fields)?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::DETACH);
        write::list(out, 3, |out| {
            write::uint(out, self.handle);
            write::boolean(out, self.closed);
            AmqpError::write_optional(self.error.as_ref(), out);
        });
    }
}
