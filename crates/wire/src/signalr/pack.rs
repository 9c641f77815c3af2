//! A reader and writer of MessagePack.
//!
//! It has only the types that the protocols need. The reader walks over values
//! without building them; nested values are skipped without recursion.

use std::ops::Range;

use super::error::{Result, SignalRDecodeError};

/// Reads values one after another.
#[derive(Clone, Debug)]
pub struct PackReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The input ends inside a value.
const SHORT: SignalRDecodeError = SignalRDecodeError::new("MessagePack that ends too early");

/// The decoded first bytes of a value.
enum PackMarker {
    Nil,
    Bool(bool),
    /// The range covers all integers of the format.
    Int(i128),
    Float,
    Text(usize),
    Bin(usize),
    /// Its length, including the byte for its type.
    Ext(usize),
    Array(usize),
    Map(usize),
}

impl<'a> PackReader<'a> {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The number of elements of an array that begins here.
    pub fn array(&mut self) -> Result<usize> {
        match self.head()? {
            PackMarker::Array(count) => Ok(count),
            _ => Err(SignalRDecodeError::new("not an array")),
        }
    }

    /// An array, or nil, which counts as an empty one.
    pub fn array_or_nil(&mut self) -> Result<usize> {
        match self.head()? {
            PackMarker::Array(count) => Ok(count),
            PackMarker::Nil => Ok(0),
            _ => Err(SignalRDecodeError::new("not an array")),
        }
    }

    /// The number of pairs of a map that begins here; nil counts as an empty one.
    pub fn map(&mut self) -> Result<usize> {
        match self.head()? {
            PackMarker::Map(count) => Ok(count),
            PackMarker::Nil => Ok(0),
            _ => Err(SignalRDecodeError::new("not a map")),
        }
    }

    /// A whole number of any width.
    pub fn int(&mut self) -> Result<i64> {
        match self.head()? {
            PackMarker::Int(value) => {
                i64::try_from(value).map_err(|_| SignalRDecodeError::new("a large number"))
            }
            _ => Err(SignalRDecodeError::new("not a number")),
        }
    }

    /// A whole number that is not negative.
    pub fn uint(&mut self) -> Result<u64> {
        match self.head()? {
            PackMarker::Int(value) => {
                u64::try_from(value).map_err(|_| SignalRDecodeError::new("a negative number"))
            }
            _ => Err(SignalRDecodeError::new("not a number")),
        }
    }

    /// A boolean.
    pub fn bool(&mut self) -> Result<bool> {
        match self.head()? {
            PackMarker::Bool(value) => Ok(value),
            _ => Err(SignalRDecodeError::new("neither true nor false")),
        }
    }

    /// A text, or nil.
    pub fn text(&mut self) -> Result<Option<&'a str>> {
        match self.head()? {
            PackMarker::Nil => Ok(None),
            PackMarker::Text(length) => {
                let text = std::str::from_utf8(self.take(length)?);
                text.map(Some)
                    .map_err(|_| SignalRDecodeError::new("not UTF-8"))
            }
            _ => Err(SignalRDecodeError::new("not a text")),
        }
    }

    /// Bytes; a text is accepted as its bytes.
    pub fn bin(&mut self) -> Result<&'a [u8]> {
        match self.head()? {
            PackMarker::Bin(length) | PackMarker::Text(length) => self.take(length),
            PackMarker::Nil => Ok(&[]),
            _ => Err(SignalRDecodeError::new("not bytes")),
        }
    }

    /// Consumes a nil, if it is next.
    pub fn nil(&mut self) -> Result<bool> {
        let is_nil = *self.bytes.get(self.at).ok_or(SHORT)? == 0xc0;
        self.at += usize::from(is_nil);
        Ok(is_nil)
    }

    /// Skips one value and returns its range.
    pub fn skip(&mut self) -> Result<Range<usize>> {
        let start = self.at;
        let mut left: u64 = 1;
        while left > 0 {
            left -= 1;
            match self.head()? {
                PackMarker::Nil | PackMarker::Bool(_) | PackMarker::Int(_) | PackMarker::Float => {}
                PackMarker::Text(length) | PackMarker::Bin(length) | PackMarker::Ext(length) => {
                    self.take(length)?;
                }
                PackMarker::Array(count) => left += count as u64,
                PackMarker::Map(count) => left += 2 * count as u64,
            }
            // Every value has at least one byte, so larger counts are invalid.
            if left > (self.bytes.len() - self.at) as u64 {
                return Err(SHORT);
            }
        }
        Ok(start..self.at)
    }

    fn head(&mut self) -> Result<PackMarker> {
        let first = self.take(1)?[0];
        Ok(match first {
            0x00..=0x7f => PackMarker::Int(i128::from(first)),
            0xe0..=0xff => PackMarker::Int(i128::from(first as i8)),
            0x80..=0x8f => PackMarker::Map(usize::from(first & 0x0f)),
            0x90..=0x9f => PackMarker::Array(usize::from(first & 0x0f)),
            0xa0..=0xbf => PackMarker::Text(usize::from(first & 0x1f)),
            0xc0 => PackMarker::Nil,
            0xc2 => PackMarker::Bool(false),
            0xc3 => PackMarker::Bool(true),
            0xc4 => PackMarker::Bin(self.number(1)? as usize),
            0xc5 => PackMarker::Bin(self.number(2)? as usize),
            0xc6 => PackMarker::Bin(self.number(4)? as usize),
            0xc7 => PackMarker::Ext(self.number(1)? as usize + 1),
            0xc8 => PackMarker::Ext(self.number(2)? as usize + 1),
            0xc9 => PackMarker::Ext(self.number(4)? as usize + 1),
            0xca => self.take(4).map(|_| PackMarker::Float)?,
            0xcb => self.take(8).map(|_| PackMarker::Float)?,
            0xcc => PackMarker::Int(self.number(1)?.into()),
            0xcd => PackMarker::Int(self.number(2)?.into()),
            0xce => PackMarker::Int(self.number(4)?.into()),
            0xcf => PackMarker::Int(self.number(8)?.into()),
            0xd0 => PackMarker::Int((self.number(1)? as u8 as i8).into()),
            0xd1 => PackMarker::Int((self.number(2)? as u16 as i16).into()),
            0xd2 => PackMarker::Int((self.number(4)? as u32 as i32).into()),
            0xd3 => PackMarker::Int((self.number(8)? as i64).into()),
            0xd4..=0xd8 => PackMarker::Ext((1 << (first - 0xd4)) + 1),
            0xd9 => PackMarker::Text(self.number(1)? as usize),
            0xda => PackMarker::Text(self.number(2)? as usize),
            0xdb => PackMarker::Text(self.number(4)? as usize),
            0xdc => PackMarker::Array(self.number(2)? as usize),
            0xdd => PackMarker::Array(self.number(4)? as usize),
            0xde => PackMarker::Map(self.number(2)? as usize),
            0xdf => PackMarker::Map(self.number(4)? as usize),
            0xc1 => {
                return Err(SignalRDecodeError::new(
                    "a byte that MessagePack does not use",
                ));
            }
        })
    }

    fn number(&mut self, width: usize) -> Result<u64> {
        let bytes = self.take(width)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or(SHORT)?;
        self.at += length;
        Ok(taken)
    }
}

/// Writes nil.
pub fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Writes a boolean.
pub fn bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { 0xc3 } else { 0xc2 });
}

/// Writes a number in its shortest form.
pub fn uint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0x7f => out.push(value as u8),
        0x80..=0xff => out.extend([0xcc, value as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((value as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend(value.to_be_bytes());
        }
    }
}

/// Writes a text.
pub fn text(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ 0..=31 => out.push(0xa0 | length as u8),
        length @ 32..=0xff => out.extend([0xd9, length as u8]),
        length @ 0x100..=0xffff => {
            out.push(0xda);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(0xdb);
            out.extend((length as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// Writes a text, or nil.
pub fn text_or_nil(out: &mut Vec<u8>, own: Option<&str>) {
    match own {
        Some(own) => text(out, own),
        None => nil(out),
    }
}

/// Writes bytes.
pub fn bin(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..=0xff => out.extend([0xc4, length as u8]),
        length @ 0x100..=0xffff => {
            out.push(0xc5);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(0xc6);
            out.extend((length as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// Begins an array.
pub fn array(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=15 => out.push(0x90 | count as u8),
        16..=0xffff => {
            out.push(0xdc);
            out.extend((count as u16).to_be_bytes());
        }
        _ => {
            out.push(0xdd);
            out.extend((count as u32).to_be_bytes());
        }
    }
}

/// Begins a map with `count` pairs.
pub fn map(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=15 => out.push(0x80 | count as u8),
        16..=0xffff => {
            out.push(0xde);
            out.extend((count as u16).to_be_bytes());
        }
        _ => {
            out.push(0xdf);
            out.extend((count as u32).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_are_read() {
        for value in [
            0,
            1,
            127,
            128,
            255,
            256,
            65_535,
            65_536,
            u64::from(u32::MAX) + 1,
        ] {
            let mut out = Vec::new();
            uint(&mut out, value);
            assert_eq!(PackReader::new(&out).uint(), Ok(value));
        }
        assert_eq!(PackReader::new(&[0xff]).int(), Ok(-1));
        assert_eq!(PackReader::new(&[0xd1, 0xff, 0x00]).int(), Ok(-256));
        assert_eq!(
            PackReader::new(&[0xd3, 0, 0, 0, 0, 0, 0, 0, 5]).int(),
            Ok(5)
        );
    }

    #[test]
    fn a_nested_value_is_skipped_whole() {
        // [nil, {1: [true, "ab"]}, ext 1 byte, 1.5], then 7
        let bytes = [
            0x94, 0xc0, 0x81, 0x01, 0x92, 0xc3, 0xa2, b'a', b'b', 0xd4, 0x05, 0x00, 0xca, 0x3f,
            0xc0, 0, 0, 0x07,
        ];
        let mut reader = PackReader::new(&bytes);
        assert_eq!(reader.skip(), Ok(0..bytes.len() - 1));
        assert_eq!(reader.int(), Ok(7));
        assert!(reader.is_at_end());
    }

    #[test]
    fn an_array_that_claims_more_than_there_is_ends_early() {
        let bytes = [0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0];
        assert!(PackReader::new(&bytes).skip().is_err());
        let deep = [0x91; 100_000];
        assert!(PackReader::new(&deep).skip().is_err());
    }
}
