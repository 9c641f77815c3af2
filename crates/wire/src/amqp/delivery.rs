//! Performatives of a delivery: transfer and disposition.

use super::code::{self, descriptor};
use super::condition::AmqpError;
use super::error::{AmqpDecodeError, Result};
use super::link::LinkRole;
use super::scan::EncodedValue;
use super::value::{AmqpValue, ItemReader};
use super::write;

/// The format of a message that is one event.
pub const FORMAT_EVENT: u32 = 0;
/// The format of a message that holds a batch of messages.
pub const FORMAT_BATCH: u32 = 0x8001_3700;

/// One frame of a delivery; what follows it in the frame is payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer<'a> {
    pub handle: u32,
    pub delivery: Option<u32>,
    pub tag: Option<&'a [u8]>,
    pub format: Option<u32>,
    pub settled: Option<bool>,
    pub more: bool,
    pub aborted: bool,
}

impl<'a> Transfer<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        let handle = fields.next_u32()?.ok_or(AmqpDecodeError::new("a handle"))?;
        let delivery = fields.next_u32()?;
        let tag = match fields.next()? {
            AmqpValue::Binary(tag) => Some(tag),
            AmqpValue::Null => None,
            _ => return Err(AmqpDecodeError::new("a delivery's tag")),
        };
        let format = fields.next_u32()?;
        let settled = fields.next_bool()?;
        let more = fields.next_bool()?.unwrap_or(false);
        for _ in 0..3 {
            fields.next_raw()?;
        }
        Ok(Self {
            handle,
            delivery,
            tag,
            format,
            settled,
            more,
            aborted: fields.next_bool()?.unwrap_or(false),
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::TRANSFER);
        // All fields together stay below 256 bytes: a tag has 32 at most.
        out.push(code::LIST_8);
        let at = out.len();
        out.extend_from_slice(&[0, 11]);
        write::uint(out, self.handle);
        write::optional(out, self.delivery, write::uint);
        write::optional(out, self.tag, write::binary);
        write::optional(out, self.format, write::uint);
        write::optional(out, self.settled, write::boolean);
        write::boolean(out, self.more);
        write::null(out);
        write::null(out);
        write::boolean(out, false);
        write::boolean(out, self.aborted);
        write::boolean(out, false);
        out[at] = (out.len() - at - 1) as u8;
    }
}

/// The outcome of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<'a> {
    Accepted,
    Rejected(Option<AmqpError<'a>>),
    Released,
    Modified,
    /// Not an outcome yet, or an unknown one.
    Other,
}

impl<'a> Outcome<'a> {
    fn read(value: AmqpValue<'a>) -> Result<Option<Self>> {
        let AmqpValue::Described(kind, raw) = value else {
            return match value {
                AmqpValue::Null => Ok(None),
                _ => Err(AmqpDecodeError::new("a delivery's state")),
            };
        };
        Ok(Some(match kind.number() {
            Some(descriptor::ACCEPTED) => Self::Accepted,
            Some(descriptor::REJECTED) => Self::Rejected(Self::problem(raw)?),
            Some(descriptor::RELEASED) => Self::Released,
            Some(descriptor::MODIFIED) => Self::Modified,
            _ => Self::Other,
        }))
    }

    fn problem(raw: EncodedValue<'a>) -> Result<Option<AmqpError<'a>>> {
        match raw.value()? {
            AmqpValue::List(mut fields) => AmqpError::read_last(&mut fields),
            _ => Err(AmqpDecodeError::new("a delivery's state")),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Accepted => empty_state(out, descriptor::ACCEPTED),
            Self::Released => empty_state(out, descriptor::RELEASED),
            Self::Rejected(problem) => {
                write::descriptor(out, descriptor::REJECTED);
                write::list(out, 1, |out| {
                    AmqpError::write_optional(problem.as_ref(), out)
                });
            }
            Self::Modified => {
                write::descriptor(out, descriptor::MODIFIED);
                write::list(out, 3, |out| (0..3).for_each(|_| write::null(out)));
            }
            Self::Other => write::null(out),
        }
    }
}

/// An empty list in its eight-bit form: some readers do not know `list0`.
fn empty_state(out: &mut Vec<u8>, number: u64) {
    write::descriptor(out, number);
    out.extend_from_slice(&[code::LIST_8, 1, 0]);
}

/// The outcome of the deliveries from `first` to `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disposition<'a> {
    pub role: LinkRole,
    pub first: u32,
    pub last: Option<u32>,
    pub settled: bool,
    pub outcome: Option<Outcome<'a>>,
}

impl<'a> Disposition<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        Ok(Self {
            role: LinkRole::read(&mut fields)?,
            first: fields
                .next_u32()?
                .ok_or(AmqpDecodeError::new("a delivery"))?,
            last: fields.next_u32()?,
            settled: fields.next_bool()?.unwrap_or(false),
            outcome: Outcome::read(fields.next()?)?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::DISPOSITION);
        write::list(out, 6, |out| {
            self.role.write(out);
            write::uint(out, self.first);
            write::optional(out, self.last, write::uint);
            write::boolean(out, self.settled);
            write::optional(out, self.outcome, |out, outcome| outcome.write(out));
            write::boolean(out, false);
        });
    }
}
