//! Splits a message into sections without decoding them.
//!
//! A body is never decoded. Each section occurs once, except that a body may consist
//! of several of one kind. Any order is accepted: one client writes the footer before
//! the body, another the delivery annotations at the end.

use super::code::{self, descriptor};
use super::error::{AmqpDecodeError, Result};
use super::scan::{self, EncodedValue};
use super::value::{self, AmqpValue, ItemReader};

/// The kinds of sections, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SectionKind {
    Header,
    DeliveryAnnotations,
    MessageAnnotations,
    Properties,
    ApplicationProperties,
    Data,
    Sequence,
    Value,
    Footer,
}

impl SectionKind {
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            descriptor::HEADER => Self::Header,
            descriptor::DELIVERY_ANNOTATIONS => Self::DeliveryAnnotations,
            descriptor::MESSAGE_ANNOTATIONS => Self::MessageAnnotations,
            descriptor::PROPERTIES => Self::Properties,
            descriptor::APPLICATION_PROPERTIES => Self::ApplicationProperties,
            descriptor::DATA => Self::Data,
            descriptor::SEQUENCE => Self::Sequence,
            descriptor::VALUE => Self::Value,
            descriptor::FOOTER => Self::Footer,
            _ => return None,
        })
    }

    /// The bit of this kind, and the bits of the kinds that exclude it.
    fn bits(self) -> (u16, u16) {
        let bit = |part: Self| 1u16 << part as u16;
        let excluded = match self {
            Self::Data => bit(Self::Sequence) | bit(Self::Value),
            Self::Sequence => bit(Self::Data) | bit(Self::Value),
            Self::Value => bit(Self::Data) | bit(Self::Sequence) | bit(Self::Value),
            other => bit(other),
        };
        (bit(self), excluded)
    }
}

/// One section and its range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MessageSection<'a> {
    pub part: SectionKind,
    pub start: usize,
    pub end: usize,
    pub value: EncodedValue<'a>,
}

impl<'a> MessageSection<'a> {
    /// The pairs of a section that is a map.
    pub fn map(&self) -> Result<ItemReader<'a>> {
        match self.value.value()? {
            AmqpValue::Map(items) => Ok(items),
            _ => Err(AmqpDecodeError::new("a section that should be a map")),
        }
    }

    /// The fields of a section that is a list.
    pub fn list(&self) -> Result<ItemReader<'a>> {
        match self.value.value()? {
            AmqpValue::List(items) => Ok(items),
            _ => Err(AmqpDecodeError::new("a section that should be a list")),
        }
    }

    /// The bytes of a data section; one of the clients writes null for no body.
    pub fn data(&self) -> Result<&'a [u8]> {
        match self.value.value()? {
            AmqpValue::Binary(bytes) => Ok(bytes),
            AmqpValue::Null => Ok(&[]),
            _ => Err(AmqpDecodeError::new("a data section that is not binary")),
        }
    }

    /// Checks that everything but the body can be read. All clients read these small
    /// parts, so storing a malformed one would stop every reader behind it.
    pub fn check(&self) -> Result<()> {
        match self.part {
            SectionKind::Data => self.data().map(drop),
            SectionKind::Sequence | SectionKind::Value => Ok(()),
            SectionKind::Header | SectionKind::Properties => {
                self.list()?;
                value::check(self.value)
            }
            _ => {
                self.map()?;
                value::check(self.value)
            }
        }
    }
}

/// Iterates over the sections of a message.
#[derive(Clone, Debug)]
pub struct MessageSections<'a> {
    message: &'a [u8],
    at: usize,
    /// The kinds seen so far.
    seen: u16,
}

impl<'a> MessageSections<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self {
            message,
            at: 0,
            seen: 0,
        }
    }

    #[expect(clippy::should_implement_trait, reason = "a fallible iterator")]
    pub fn next(&mut self) -> Result<Option<MessageSection<'a>>> {
        let mut rest = &self.message[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        if scan::take_byte(&mut rest)? != code::DESCRIBED {
            return Err(AmqpDecodeError::new("a section without a descriptor"));
        }
        let number = scan::descriptor(&mut rest)?.number();
        let part = number
            .and_then(SectionKind::of)
            .ok_or(AmqpDecodeError::new("an unknown section"))?;
        let (own, excluded) = part.bits();
        if self.seen & excluded != 0 {
            return Err(AmqpDecodeError::new("a section that may not come again"));
        }
        let value = scan::skip(&mut rest)?;
        let start = self.at;
        self.at = self.message.len() - rest.len();
        self.seen |= own;
        Ok(Some(MessageSection {
            part,
            start,
            end: self.at,
            value,
        }))
    }
}
