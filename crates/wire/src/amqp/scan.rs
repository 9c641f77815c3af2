//! Finds the end of a value without decoding it.

use steadfast_core::limits;

use super::code;
use super::error::{AmqpDecodeError, Result};

/// The descriptor of a described value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptor<'a> {
    Code(u64),
    Symbol(&'a str),
    /// Any other value: applications may use any descriptor.
    Other(EncodedValue<'a>),
}

impl Descriptor<'_> {
    /// The number, also if its well-known symbol was sent.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Code(number) => Some(number),
            Self::Symbol(symbol) => code::descriptor::of_symbol(symbol),
            Self::Other(_) => None,
        }
    }
}

/// The bytes of exactly one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodedValue<'a>(&'a [u8]);

impl<'a> EncodedValue<'a> {
    /// The encoded null.
    pub const NULL: EncodedValue<'static> = EncodedValue(&[code::NULL]);

    /// Bytes that hold one value and nothing else.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut rest = bytes;
        let raw = skip(&mut rest)?;
        if !rest.is_empty() {
            return Err(AmqpDecodeError::new("bytes after a value"));
        }
        Ok(raw)
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub fn is_null(self) -> bool {
        self.0 == [code::NULL]
    }
}

/// Takes one value from the front without decoding it.
pub fn skip<'a>(bytes: &mut &'a [u8]) -> Result<EncodedValue<'a>> {
    skip_at(bytes, 0)
}

fn skip_at<'a>(bytes: &mut &'a [u8], mut depth: usize) -> Result<EncodedValue<'a>> {
    let start = *bytes;
    let mut constructor = take_byte(bytes)?;
    while constructor == code::DESCRIBED {
        depth += 1;
        if depth > limits::AMQP_DEPTH {
            return Err(AmqpDecodeError::new("too deeply nested"));
        }
        descriptor_at(bytes, depth)?;
        constructor = take_byte(bytes)?;
    }
    payload(constructor, bytes)?;
    Ok(EncodedValue(&start[..start.len() - bytes.len()]))
}

/// Reads a descriptor: the protocol's own are numbers and symbols, those of
/// applications any value, even a described one.
pub(crate) fn descriptor<'a>(bytes: &mut &'a [u8]) -> Result<Descriptor<'a>> {
    descriptor_at(bytes, 0)
}

fn descriptor_at<'a>(bytes: &mut &'a [u8], depth: usize) -> Result<Descriptor<'a>> {
    let start = *bytes;
    Ok(match take_byte(bytes)? {
        code::ULONG_0 => Descriptor::Code(0),
        code::ULONG_SMALL => Descriptor::Code(take_byte(bytes)?.into()),
        code::ULONG => Descriptor::Code(u64::from_be_bytes(take_array(bytes)?)),
        constructor @ (code::SYMBOL_8 | code::SYMBOL_32) => {
            Descriptor::Symbol(text(payload(constructor, bytes)?)?)
        }
        _ => {
            *bytes = start;
            Descriptor::Other(skip_at(bytes, depth + 1)?)
        }
    })
}

/// Takes the bytes after a constructor, which determines their width or length.
pub(crate) fn payload<'a>(constructor: u8, bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = match constructor >> 4 {
        0x4 => 0,
        0x5 => 1,
        0x6 => 2,
        0x7 => 4,
        0x8 => 8,
        0x9 => 16,
        0xa | 0xc | 0xe => take_byte(bytes)? as usize,
        0xb | 0xd | 0xf => u32::from_be_bytes(take_array(bytes)?) as usize,
        _ => return Err(AmqpDecodeError::new("an unknown constructor")),
    };
    take(bytes, length)
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| AmqpDecodeError::new("text that is not UTF-8"))
}

pub(crate) fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    match bytes.split_at_checked(length) {
        Some((front, rest)) => {
            *bytes = rest;
            Ok(front)
        }
        None => Err(AmqpDecodeError::new("a value that is cut short")),
    }
}

pub(crate) fn take_byte(bytes: &mut &[u8]) -> Result<u8> {
    match bytes.split_first() {
        Some((&first, rest)) => {
            *bytes = rest;
            Ok(first)
        }
        None => Err(AmqpDecodeError::new("a value that is cut short")),
    }
}

pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    match bytes.split_first_chunk::<N>() {
        Some((front, rest)) => {
            *bytes = rest;
            Ok(*front)
        }
        None => Err(AmqpDecodeError::new("a value that is cut short")),
    }
}
