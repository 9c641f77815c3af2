//! Bytes in and out: varints and length-prefixed slices.
//!
//! Writing appends to a `Vec<u8>`; reading takes slices of a shared [`Bytes`], so
//! that decoding a record copies nothing. Reading never panics on bad input: it
//! returns [`DecodeError`], and the caller says where the bytes came from.

use std::fmt;

use bytes::Bytes;

/// The bytes end too early, or do not mean what they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError;

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are malformed")
    }
}

impl std::error::Error for DecodeError {}

/// Appends a number as 1 to 10 bytes, small numbers short.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes` as a varint, then the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from the front of shared bytes.
#[derive(Debug)]
pub struct ByteReader {
    rest: Bytes,
}

impl ByteReader {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next `length` bytes, without copying them.
    pub fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.rest.len() {
            return Err(DecodeError);
        }
        Ok(self.rest.split_to(length))
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.rest.first().ok_or(DecodeError)?;
        bytes::Buf::advance(&mut self.rest, 1);
        Ok(byte)
    }

    /// Reads a number written by [`put_varint`].
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            let part = u64::from(byte & 0x7f);
            if index == 9 && part > 1 {
                return Err(DecodeError);
            }
            value |= part << (7 * index);
            if byte < 0x80 {
                bytes::Buf::advance(&mut self.rest, index + 1);
                return Ok(value);
            }
        }
        Err(DecodeError)
    }

    /// Reads a number that must fit into 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError)
    }

    /// Reads bytes written by [`put_bytes`], without copying them.
    pub fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| DecodeError)?;
        self.take(length)
    }

    /// Reads four bytes, little-endian.
    pub fn u32_le(&mut self) -> Result<u32, DecodeError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(
            bytes[..].try_into().map_err(|_| DecodeError)?,
        ))
    }

    /// Reads eight bytes, little-endian.
    pub fn u64_le(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(
            bytes[..].try_into().map_err(|_| DecodeError)?,
        ))
    }

    /// Reads sixteen bytes, little-endian.
    pub fn u128_le(&mut self) -> Result<u128, DecodeError> {
        let bytes = self.take(16)?;
        Ok(u128::from_le_bytes(
            bytes[..].try_into().map_err(|_| DecodeError)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_written() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = ByteReader::new(out.into());
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn bad_input_is_refused() {
        let overlong = Bytes::from_static(&[0xff; 11]);
        assert_eq!(ByteReader::new(overlong).varint(), Err(DecodeError));
        let short = Bytes::from_static(&[5, 1, 2]);
        assert_eq!(ByteReader::new(short).bytes(), Err(DecodeError));
        assert_eq!(ByteReader::new(Bytes::new()).byte(), Err(DecodeError));
        let too_big = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(ByteReader::new(too_big).varint_u32(), Err(DecodeError));
    }
}
