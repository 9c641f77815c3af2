//! Bytes that sort as what they mean.
//!
//! A key is a row of elements, each a tag and its content. Tags say the type, so
//! that a tool can show a key without knowing its Rust type. Integers of every
//! width share one form. Absent fields at the end are not written at all, so a key
//! type may gain optional fields; in the middle they are a null. Reading accepts
//! exactly the bytes that writing produces.

use steadfast_core::limits::KEY_BYTES;

use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::unknown::Unknown;

/// Ends a nested row; sorts before every element.
const END: u8 = 0x00;
const NULL: u8 = 0x01;
const FALSE: u8 = 0x02;
const TRUE: u8 = 0x03;
/// Zero; the tags around it are integers of 1 to 8 bytes.
const ZERO: u8 = 0x20;
const TEXT: u8 = 0x40;
const BYTES: u8 = 0x41;
const UUID: u8 = 0x50;
const TIME: u8 = 0x51;
const DURATION: u8 = 0x52;
const ROW: u8 = 0x60;

/// After a zero inside a text: it is content and not the end.
const ESCAPED: u8 = 0xff;

/// Nested rows of a key; key types nest by their definition, bytes need a bound.
const DEPTH: usize = 16;

/// Writes one key.
#[derive(Debug, Default)]
pub struct KeyWriter {
    out: Vec<u8>,
    /// Absent elements that are written only if another one follows.
    absent: usize,
    depth: usize,
    is_too_deep: bool,
}

impl KeyWriter {
    /// An empty key.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty key in a buffer that was used before.
    pub fn reusing(mut out: Vec<u8>) -> Self {
        out.clear();
        Self {
            out,
            ..Self::default()
        }
    }

    /// The bytes of the key.
    pub fn finish(self) -> Result<Vec<u8>> {
        if self.is_too_deep {
            return Err(Error::new(ErrorKind::TooDeep { limit: DEPTH }));
        }
        if self.out.len() > KEY_BYTES {
            return Err(Error::new(ErrorKind::TooLarge {
                what: "key",
                bytes: self.out.len(),
                limit: KEY_BYTES,
            }));
        }
        Ok(self.out)
    }

    fn tag(&mut self, tag: u8) {
        for _ in 0..std::mem::take(&mut self.absent) {
            self.out.push(NULL);
        }
        self.out.push(tag);
    }

    /// An absent element.
    pub fn absent(&mut self) {
        self.absent += 1;
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) {
        self.tag(if value { TRUE } else { FALSE });
    }

    /// An integer that is not negative.
    pub fn unsigned(&mut self, value: u64) {
        let length = 8 - value.leading_zeros() as usize / 8;
        self.tag(ZERO + length as u8);
        self.out
            .extend_from_slice(&value.to_be_bytes()[8 - length..]);
    }

    /// An integer.
    pub fn signed(&mut self, value: i64) {
        if value >= 0 {
            return self.unsigned(value as u64);
        }
        // The larger the absolute value the smaller the number: fewer bytes have a
        // higher tag, and the content is inverted.
        let magnitude = value.unsigned_abs();
        let length = 8 - magnitude.leading_zeros() as usize / 8;
        self.tag(ZERO - length as u8);
        self.out
            .extend_from_slice(&(!magnitude).to_be_bytes()[8 - length..]);
    }

    /// A text.
    pub fn text(&mut self, value: &str) {
        self.tag(TEXT);
        self.escaped(value.as_bytes());
    }

    /// Bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.tag(BYTES);
        self.escaped(value);
    }

    fn escaped(&mut self, value: &[u8]) {
        for (index, part) in value.split(|&byte| byte == 0).enumerate() {
            if index > 0 {
                self.out.extend_from_slice(&[0, ESCAPED]);
            }
            self.out.extend_from_slice(part);
        }
        self.out.push(END);
    }

    /// A UUID.
    pub fn uuid(&mut self, value: &[u8; 16]) {
        self.tag(UUID);
        self.out.extend_from_slice(value);
    }

    /// A time in milliseconds since 1970.
    pub fn time(&mut self, millis: i64) {
        self.tag(TIME);
        // Moved up by 2^63, so that times before 1970 sort first.
        let moved = (millis as u64) ^ (1 << 63);
        self.out.extend_from_slice(&moved.to_be_bytes());
    }

    /// A duration.
    pub fn duration(&mut self, seconds: u64, nanos: u32) {
        self.tag(DURATION);
        self.out.extend_from_slice(&seconds.to_be_bytes());
        self.out.extend_from_slice(&nanos.to_be_bytes());
    }

    /// A nested row. Too deep down nothing is written and [`Self::finish`] fails.
    pub fn row(&mut self, write: impl FnOnce(&mut Self)) {
        if self.depth >= DEPTH {
            self.is_too_deep = true;
            return;
        }
        self.tag(ROW);
        self.depth += 1;
        write(self);
        self.depth -= 1;
        self.absent = 0;
        self.out.push(END);
    }

    /// Elements that this code does not know, as they were read.
    pub fn unknown(&mut self, unknown: &Unknown) {
        if let Some((&first, rest)) = unknown.raw().split_first() {
            self.tag(first);
            self.out.extend_from_slice(rest);
        }
    }
}

/// An element of a key without its Rust type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// An absent element with others behind it.
    Absent,
    /// A truth value.
    Bool(bool),
    /// An integer; its range is that of `u64` and `i64` together.
    Integer(i128),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A UUID.
    Uuid([u8; 16]),
    /// Milliseconds since 1970.
    Time(i64),
    /// Seconds and nanoseconds.
    Duration(u64, u32),
    /// A nested row.
    Row(Vec<Element>),
}

/// Reads one key.
#[derive(Debug)]
pub struct KeyReader<'b> {
    rest: &'b [u8],
    depth: usize,
    /// Whether the element before was absent: then another one must follow.
    absent: bool,
}

impl<'b> KeyReader<'b> {
    /// A reader at the start of a key.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self {
            rest: bytes,
            depth: 0,
            absent: false,
        }
    }

    /// Whether another element of this row follows.
    pub fn more(&self) -> bool {
        self.rest.first().is_some_and(|&tag| tag != END)
    }

    /// Fails unless the key ends here.
    pub fn finish(self) -> Result<()> {
        if !self.rest.is_empty() {
            let left = self.rest.len();
            return Err(Error::malformed(format!("{left} bytes follow the key")));
        }
        self.check_end()
    }

    fn check_end(&self) -> Result<()> {
        if self.absent {
            return Err(Error::malformed("the key ends with an absent element"));
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Error::malformed("the key ends too early")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn tag(&mut self) -> Result<u8> {
        self.absent = false;
        Ok(self.take(1)?[0])
    }

    fn expect(&mut self, expected: u8, name: &str) -> Result<()> {
        match self.tag()? {
            tag if tag == expected => Ok(()),
            tag => Err(unexpected(name, tag)),
        }
    }

    /// Reads an absent element if it comes next.
    pub fn take_absent(&mut self) -> bool {
        let absent = self.rest.first() == Some(&NULL);
        if absent {
            self.rest = &self.rest[1..];
            self.absent = true;
        }
        absent
    }

    /// Reads a truth value.
    pub fn bool(&mut self) -> Result<bool> {
        match self.tag()? {
            FALSE => Ok(false),
            TRUE => Ok(true),
            tag => Err(unexpected("a truth value", tag)),
        }
    }

    /// Reads an integer.
    pub fn integer(&mut self) -> Result<i128> {
        let tag = self.tag()?;
        let (length, negative) = match tag {
            0x20..=0x28 => (usize::from(tag - ZERO), false),
            0x18..=0x1f => (usize::from(ZERO - tag), true),
            _ => return Err(unexpected("an integer", tag)),
        };
        let fill = if negative { 0xff } else { 0 };
        let mut bytes = [fill; 8];
        bytes[8 - length..].copy_from_slice(self.take(length)?);
        if length > 0 && bytes[8 - length] == fill {
            return Err(Error::malformed("an integer is longer than it must be"));
        }
        let value = u64::from_be_bytes(bytes);
        let value = if negative {
            -i128::from(!value)
        } else {
            i128::from(value)
        };
        if value < i128::from(i64::MIN) {
            return Err(Error::malformed("an integer is out of range"));
        }
        Ok(value)
    }

    /// Reads a text.
    pub fn text(&mut self) -> Result<String> {
        self.expect(TEXT, "a text")?;
        String::from_utf8(self.escaped()?).map_err(|_| Error::malformed("a text is not UTF-8"))
    }

    /// Reads bytes.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        self.expect(BYTES, "bytes")?;
        self.escaped()
    }

    fn escaped(&mut self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            let zero = self
                .rest
                .iter()
                .position(|&byte| byte == 0)
                .ok_or_else(|| Error::malformed("a text in the key does not end"))?;
            value.extend_from_slice(self.take(zero)?);
            self.take(1)?;
            if self.rest.first() != Some(&ESCAPED) {
                return Ok(value);
            }
            self.take(1)?;
            value.push(0);
        }
    }

    /// Reads a UUID.
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        self.expect(UUID, "a UUID")?;
        self.array()
    }

    /// Reads a time.
    pub fn time(&mut self) -> Result<i64> {
        self.expect(TIME, "a time")?;
        Ok((u64::from_be_bytes(self.array()?) ^ (1 << 63)) as i64)
    }

    /// Reads a duration.
    pub fn duration(&mut self) -> Result<(u64, u32)> {
        self.expect(DURATION, "a duration")?;
        let seconds = u64::from_be_bytes(self.array()?);
        let nanos = u32::from_be_bytes(self.array()?);
        if nanos >= 1_000_000_000 {
            return Err(Error::malformed("the nanoseconds are out of range"));
        }
        Ok((seconds, nanos))
    }

    /// Reads a nested row.
    pub fn row<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.expect(ROW, "a row")?;
        if self.depth >= DEPTH {
            return Err(Error::new(ErrorKind::TooDeep { limit: DEPTH }));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        self.check_end()?;
        self.expect(END, "the end of a row")?;
        Ok(value)
    }

    /// Reads any element.
    pub fn element(&mut self) -> Result<Element> {
        let &tag = self
            .rest
            .first()
            .ok_or_else(|| Error::malformed("the key ends too early"))?;
        Ok(match tag {
            NULL => {
                self.take_absent();
                Element::Absent
            }
            FALSE | TRUE => Element::Bool(self.bool()?),
            0x18..=0x28 => Element::Integer(self.integer()?),
            TEXT => Element::Text(self.text()?),
            BYTES => Element::Bytes(self.bytes()?),
            UUID => Element::Uuid(self.uuid()?),
            TIME => Element::Time(self.time()?),
            DURATION => {
                let (seconds, nanos) = self.duration()?;
                Element::Duration(seconds, nanos)
            }
            ROW => Element::Row(self.row(Self::elements)?),
            _ => return Err(unexpected("an element of a key", tag)),
        })
    }

    /// Reads the rest of this row, whatever it is.
    pub fn elements(&mut self) -> Result<Vec<Element>> {
        let mut elements = Vec::new();
        while self.more() {
            elements.push(self.element()?);
        }
        Ok(elements)
    }

    /// Keeps the rest of this row as it is.
    pub fn unknown(&mut self) -> Result<Unknown> {
        let start = self.rest;
        while self.more() {
            self.element()?;
        }
        Ok(Unknown::of_key(&start[..start.len() - self.rest.len()]))
    }
}

#[cold]
fn unexpected(expected: &str, tag: u8) -> Error {
    Error::malformed(format!(
        "expected {expected} in the key, found tag {tag:#04x}"
    ))
}
