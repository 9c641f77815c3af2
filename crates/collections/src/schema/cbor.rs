//! CBOR in and out, with bounds.
//!
//! Writing is deterministic: definite lengths, shortest numbers, fields in
//! ascending order. Reading never panics and never reserves more than the input
//! can fill. Both stop at a fixed depth, so that a recursive type cannot use up the
//! stack. A failed write is remembered and reported once, by [`CborWriter::finish`].

use std::fmt::Display;

use minicbor::data::{Tag, Type};
use minicbor::{Decoder, Encoder};
use steadfast_core::limits::RECORD_DEPTH;

use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::unknown::{Unknown, UnknownCollector, UnknownVariant};

const IN_MEMORY: &str = "writing to memory cannot fail";

/// Elements to reserve room for before any was read; a longer list grows.
const RESERVE: usize = 256;

/// Writes one value.
#[derive(Debug)]
pub struct CborWriter {
    out: Encoder<Vec<u8>>,
    version: u32,
    is_gated: bool,
    depth: usize,
    fault: Option<Error>,
}

impl CborWriter {
    /// A writer that appends to `out` and leaves out fields newer than `version`.
    pub fn new(out: Vec<u8>, version: u32) -> Self {
        Self {
            out: Encoder::new(out),
            version,
            is_gated: false,
            depth: 0,
            fault: None,
        }
    }

    /// The bytes, or the first failure.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.out.into_writer()),
        }
    }

    /// Remembers a failure; the first one counts.
    pub fn fail(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    /// Whether fields of schema version `since` are written.
    pub fn writes(&mut self, since: u32) -> bool {
        self.is_gated = true;
        self.version >= since
    }

    /// Whether the write version decided about any field.
    pub(crate) fn is_gated(&self) -> bool {
        self.is_gated
    }

    /// One level down. False if that is too deep: then nothing may be written.
    pub fn enter(&mut self) -> bool {
        if self.depth >= RECORD_DEPTH {
            self.fail(Error::new(ErrorKind::TooDeep {
                limit: RECORD_DEPTH,
            }));
            return false;
        }
        self.depth += 1;
        true
    }

    /// One level up again.
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Starts a record of `known` fields and those in `unknown`.
    pub fn record(&mut self, known: usize, unknown: &Unknown) {
        self.map(known + unknown.count());
    }

    /// Starts a map.
    pub fn map(&mut self, length: usize) {
        self.out.map(length as u64).expect(IN_MEMORY);
    }

    /// Starts a list.
    pub fn array(&mut self, length: usize) {
        self.out.array(length as u64).expect(IN_MEMORY);
    }

    /// Writes an unsigned number.
    pub fn unsigned(&mut self, value: u64) {
        self.out.u64(value).expect(IN_MEMORY);
    }

    /// Writes a number.
    pub fn signed(&mut self, value: i64) {
        self.out.i64(value).expect(IN_MEMORY);
    }

    /// Writes a float of four bytes.
    pub fn f32(&mut self, value: f32) {
        self.out.f32(value).expect(IN_MEMORY);
    }

    /// Writes a float of eight bytes.
    pub fn f64(&mut self, value: f64) {
        self.out.f64(value).expect(IN_MEMORY);
    }

    /// Writes a truth value.
    pub fn bool(&mut self, value: bool) {
        self.out.bool(value).expect(IN_MEMORY);
    }

    /// Writes null.
    pub fn null(&mut self) {
        self.out.null().expect(IN_MEMORY);
    }

    /// Writes a text.
    pub fn text(&mut self, value: &str) {
        self.out.str(value).expect(IN_MEMORY);
    }

    /// Writes a byte string.
    pub fn bytes(&mut self, value: &[u8]) {
        self.out.bytes(value).expect(IN_MEMORY);
    }

    /// Writes the tag of the item that follows.
    pub fn tag(&mut self, tag: u64) {
        self.out.tag(Tag::new(tag)).expect(IN_MEMORY);
    }

    /// Writes a variant as it was read.
    pub fn variant(&mut self, variant: &UnknownVariant) {
        self.raw(variant.raw());
    }

    /// Writes bytes that are CBOR already.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.writer_mut().extend_from_slice(bytes);
    }
}

/// For the derive: weaves unknown fields into known ones, in ascending order.
#[doc(hidden)]
pub fn weave(unknown: &Unknown) -> Weaver<'_> {
    Weaver {
        unknown,
        written: 0,
    }
}

/// For the derive: how many of the unknown fields have been written.
#[doc(hidden)]
#[derive(Debug)]
pub struct Weaver<'a> {
    unknown: &'a Unknown,
    written: usize,
}

impl Weaver<'_> {
    /// Writes the unknown fields with numbers below `number`.
    #[inline]
    pub fn before(&mut self, number: u64, to: &mut CborWriter) {
        if !self.unknown.is_none() {
            self.write(to, |unknown| unknown < number);
        }
    }

    /// Writes the rest of the unknown fields.
    #[inline]
    pub fn rest(mut self, to: &mut CborWriter) {
        if !self.unknown.is_none() {
            self.write(to, |_| true);
        }
    }

    fn write(&mut self, to: &mut CborWriter, is_due: impl Fn(u64) -> bool) {
        let left = self.unknown.fields().skip(self.written);
        for (_, field) in left.take_while(|&(number, _)| is_due(number)) {
            to.raw(field);
            self.written += 1;
        }
    }
}

/// Reads one value.
#[derive(Debug)]
pub struct CborReader<'b> {
    input: Decoder<'b>,
    depth: usize,
}

impl<'b> CborReader<'b> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self {
            input: Decoder::new(bytes),
            depth: 0,
        }
    }

    /// Fails unless everything has been read.
    pub fn finish(self) -> Result<()> {
        let left = self.input.input().len() - self.input.position();
        if left > 0 {
            return Err(Error::malformed(format!("{left} bytes are left over")));
        }
        Ok(())
    }

    /// Runs `read` one level down.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= RECORD_DEPTH {
            return Err(Error::new(ErrorKind::TooDeep {
                limit: RECORD_DEPTH,
            }));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    #[cold]
    fn unexpected(&self, expected: &str, cause: &impl Display) -> Error {
        let at = self.input.position();
        Error::malformed(format!("expected {expected} near byte {at} ({cause})"))
    }

    /// Starts a map: how many pairs follow.
    pub fn map(&mut self) -> Result<u64> {
        match self.input.map() {
            Ok(Some(length)) => Ok(length),
            Ok(None) => Err(self.unexpected("a map", &"its length is not given")),
            Err(error) => Err(self.unexpected("a map", &error)),
        }
    }

    /// Starts a list: how many elements follow.
    pub fn array(&mut self) -> Result<u64> {
        match self.input.array() {
            Ok(Some(length)) => Ok(length),
            Ok(None) => Err(self.unexpected("a list", &"its length is not given")),
            Err(error) => Err(self.unexpected("a list", &error)),
        }
    }

    /// Room to reserve for `length` elements that may not be there.
    pub fn reserve(length: u64) -> usize {
        usize::try_from(length).unwrap_or(RESERVE).min(RESERVE)
    }

    /// The number of the next field; numbers ascend, so that none comes twice.
    pub fn number(&mut self, after: Option<u64>) -> Result<u64> {
        let number = self.unsigned()?;
        if after.is_some_and(|after| number <= after) {
            return Err(self.unexpected("field numbers that ascend", &"they do not"));
        }
        Ok(number)
    }

    /// Keeps the field whose number was just read.
    pub fn keep(&mut self, number: u64, start: usize, gather: &mut UnknownCollector) -> Result<()> {
        self.skip()?;
        gather.push(number, &self.input.input()[start..self.input.position()]);
        Ok(())
    }

    /// Reads a whole variant that this code does not know.
    pub fn variant(&mut self, number: u64, start: usize) -> Result<UnknownVariant> {
        self.input.set_position(start);
        self.skip()?;
        let raw = &self.input.input()[start..self.input.position()];
        Ok(UnknownVariant::new(number, raw))
    }

    /// Starts a variant of an enum: its number, and whether a payload follows.
    pub fn variant_number(&mut self) -> Result<(u64, bool)> {
        match self.kind()? {
            Type::Array => {
                let length = self.array()?;
                if length != 2 {
                    return Err(self.unexpected("a variant", &"a list of another length than 2"));
                }
                Ok((self.unsigned()?, true))
            }
            _ => Ok((self.unsigned()?, false)),
        }
    }

    /// Where the reader is.
    pub fn position(&self) -> usize {
        self.input.position()
    }

    /// Goes back to a place where the reader has been.
    pub fn rewind(&mut self, position: usize) {
        self.input.set_position(position);
    }

    /// Passes over one item and returns its bytes.
    pub fn skip(&mut self) -> Result<&'b [u8]> {
        let start = self.input.position();
        match self.input.skip() {
            Ok(()) => Ok(&self.input.input()[start..self.input.position()]),
            Err(error) => Err(self.unexpected("a whole item", &error)),
        }
    }

    /// What comes next.
    pub fn kind(&self) -> Result<Type> {
        self.input
            .datatype()
            .map_err(|error| self.unexpected("an item", &error))
    }

    /// Reads null if it comes next.
    pub fn take_null(&mut self) -> Result<bool> {
        let null = self.kind()? == Type::Null;
        if null {
            self.input
                .null()
                .map_err(|error| self.unexpected("null", &error))?;
        }
        Ok(null)
    }

    /// Reads an unsigned number.
    pub fn unsigned(&mut self) -> Result<u64> {
        self.input
            .u64()
            .map_err(|error| self.unexpected("an unsigned number", &error))
    }

    /// Reads a number.
    pub fn signed(&mut self) -> Result<i64> {
        self.input
            .i64()
            .map_err(|error| self.unexpected("a number", &error))
    }

    /// Reads a float of four bytes.
    pub fn f32(&mut self) -> Result<f32> {
        self.input
            .f32()
            .map_err(|error| self.unexpected("a float", &error))
    }

    /// Reads a float.
    pub fn f64(&mut self) -> Result<f64> {
        self.input
            .f64()
            .map_err(|error| self.unexpected("a float", &error))
    }

    /// Reads a truth value.
    pub fn bool(&mut self) -> Result<bool> {
        self.input
            .bool()
            .map_err(|error| self.unexpected("a truth value", &error))
    }

    /// Reads a text.
    pub fn text(&mut self) -> Result<&'b str> {
        self.input
            .str()
            .map_err(|error| self.unexpected("a text", &error))
    }

    /// Reads a byte string.
    pub fn bytes(&mut self) -> Result<&'b [u8]> {
        self.input
            .bytes()
            .map_err(|error| self.unexpected("bytes", &error))
    }

    /// Reads the tag of the item that follows.
    pub fn tag(&mut self) -> Result<u64> {
        self.input
            .tag()
            .map(|tag| tag.as_u64())
            .map_err(|error| self.unexpected("a tag", &error))
    }

    /// Reads a tag that must be `expected`.
    pub fn expect_tag(&mut self, expected: u64) -> Result<()> {
        let tag = self.tag()?;
        if tag != expected {
            let cause = format!("it is tag {tag}");
            return Err(self.unexpected(&format!("tag {expected}"), &cause));
        }
        Ok(())
    }
}
