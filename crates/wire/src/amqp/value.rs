//! Decodes one value in place.
//!
//! Nothing is copied or allocated: a list or map is a view that is read item by item,
//! so its claimed count costs nothing. Nested values are decoded only on access;
//! [`check`] walks everything, to a bounded depth.

use steadfast_core::limits;

use super::code;
use super::error::{AmqpDecodeError, Result};
use super::scan::{self, Descriptor, EncodedValue, take_array, take_byte, text};

/// A value of the type system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AmqpValue<'a> {
    Null,
    Bool(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    /// The bits, so that every value equals itself.
    Float(u32),
    /// The bits.
    Double(u64),
    /// 4, 8 or 16 bytes, as received.
    Decimal(&'a [u8]),
    Char(u32),
    /// Milliseconds since 1970.
    Timestamp(i64),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
    String(&'a str),
    Symbol(&'a str),
    List(ItemReader<'a>),
    /// Alternating keys and values.
    Map(ItemReader<'a>),
    Array(Array<'a>),
    Described(Descriptor<'a>, EncodedValue<'a>),
}

impl<'a> AmqpValue<'a> {
    /// Any integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match *self {
            Self::Ubyte(value) => value.into(),
            Self::Ushort(value) => value.into(),
            Self::Uint(value) => value.into(),
            Self::Ulong(value) => return value.try_into().ok(),
            Self::Byte(value) => value.into(),
            Self::Short(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Long(value) => value,
            _ => return None,
        })
    }

    pub fn as_u32(&self) -> Option<u32> {
        match *self {
            Self::Uint(value) => Some(value),
            _ => self.as_i64().and_then(|value| value.try_into().ok()),
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Ulong(value) => Some(value),
            _ => self.as_i64().and_then(|value| value.try_into().ok()),
        }
    }

    /// A string or a symbol.
    pub fn as_text(&self) -> Option<&'a str> {
        match *self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }
}

impl<'a> EncodedValue<'a> {
    pub fn value(self) -> Result<AmqpValue<'a>> {
        let mut rest = self.bytes();
        read(&mut rest)
    }
}

/// Takes one value from the front.
pub fn read<'a>(bytes: &mut &'a [u8]) -> Result<AmqpValue<'a>> {
    let constructor = take_byte(bytes)?;
    if constructor == code::DESCRIBED {
        let descriptor = scan::descriptor(bytes)?;
        return Ok(AmqpValue::Described(descriptor, scan::skip(bytes)?));
    }
    let payload = scan::payload(constructor, bytes)?;
    of(constructor, payload)
}

/// Walks a whole value: every constructor known, every size exact, every text valid
/// UTF-8, no deeper than the limit.
pub fn check(raw: EncodedValue<'_>) -> Result<()> {
    check_at(raw.value()?, 0)
}

fn check_at(value: AmqpValue<'_>, depth: usize) -> Result<()> {
    if depth > limits::AMQP_DEPTH {
        return Err(AmqpDecodeError::new("too deeply nested"));
    }
    match value {
        AmqpValue::List(items) => check_items(items, depth),
        AmqpValue::Map(items) if items.count() % 2 == 1 => {
            Err(AmqpDecodeError::new("a map with half a pair"))
        }
        AmqpValue::Map(items) => check_items(items, depth),
        AmqpValue::Array(array) => {
            let mut array = array;
            array.try_for_each(|item| check_at(item?, depth + 1))
        }
        AmqpValue::Described(_, raw) => check_at(raw.value()?, depth + 1),
        _ => Ok(()),
    }
}

fn check_items(mut items: ItemReader<'_>, depth: usize) -> Result<()> {
    for _ in 0..items.count() {
        check_at(items.next()?, depth + 1)?;
    }
    items.end()
}

/// Decodes the value of a constructor from the bytes after it.
pub(crate) fn of(constructor: u8, payload: &[u8]) -> Result<AmqpValue<'_>> {
    let mut bytes = payload;
    let bytes = &mut bytes;
    Ok(match constructor {
        code::NULL => AmqpValue::Null,
        code::TRUE => AmqpValue::Bool(true),
        code::FALSE => AmqpValue::Bool(false),
        code::UINT_0 => AmqpValue::Uint(0),
        code::ULONG_0 => AmqpValue::Ulong(0),
        code::LIST_0 => AmqpValue::List(ItemReader::EMPTY),
        code::UBYTE => AmqpValue::Ubyte(take_byte(bytes)?),
        code::BYTE => AmqpValue::Byte(take_byte(bytes)? as i8),
        code::UINT_SMALL => AmqpValue::Uint(take_byte(bytes)?.into()),
        code::ULONG_SMALL => AmqpValue::Ulong(take_byte(bytes)?.into()),
        code::INT_SMALL => AmqpValue::Int((take_byte(bytes)? as i8).into()),
        code::LONG_SMALL => AmqpValue::Long((take_byte(bytes)? as i8).into()),
        code::BOOL => match take_byte(bytes)? {
            0 => AmqpValue::Bool(false),
            1 => AmqpValue::Bool(true),
            _ => return Err(AmqpDecodeError::new("a boolean")),
        },
        code::USHORT => AmqpValue::Ushort(u16::from_be_bytes(take_array(bytes)?)),
        code::SHORT => AmqpValue::Short(i16::from_be_bytes(take_array(bytes)?)),
        code::UINT => AmqpValue::Uint(u32::from_be_bytes(take_array(bytes)?)),
        code::INT => AmqpValue::Int(i32::from_be_bytes(take_array(bytes)?)),
        code::FLOAT => AmqpValue::Float(u32::from_be_bytes(take_array(bytes)?)),
        code::CHAR => AmqpValue::Char(u32::from_be_bytes(take_array(bytes)?)),
        code::ULONG => AmqpValue::Ulong(u64::from_be_bytes(take_array(bytes)?)),
        code::LONG => AmqpValue::Long(i64::from_be_bytes(take_array(bytes)?)),
        code::DOUBLE => AmqpValue::Double(u64::from_be_bytes(take_array(bytes)?)),
        code::TIMESTAMP => AmqpValue::Timestamp(i64::from_be_bytes(take_array(bytes)?)),
        code::DECIMAL_32 | code::DECIMAL_64 | code::DECIMAL_128 => AmqpValue::Decimal(payload),
        code::UUID => AmqpValue::Uuid(take_array(bytes)?),
        code::BINARY_8 | code::BINARY_32 => AmqpValue::Binary(payload),
        code::STRING_8 | code::STRING_32 => AmqpValue::String(text(payload)?),
        code::SYMBOL_8 | code::SYMBOL_32 => AmqpValue::Symbol(text(payload)?),
        code::LIST_8 | code::LIST_32 => {
            AmqpValue::List(ItemReader::of(constructor == code::LIST_8, payload)?)
        }
        code::MAP_8 | code::MAP_32 => {
            AmqpValue::Map(ItemReader::of(constructor == code::MAP_8, payload)?)
        }
        code::ARRAY_8 | code::ARRAY_32 => {
            AmqpValue::Array(Array::of(constructor == code::ARRAY_8, payload)?)
        }
        _ => return Err(AmqpDecodeError::new("an unknown constructor")),
    })
}

/// The remaining items of a list or map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemReader<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> ItemReader<'a> {
    pub const EMPTY: ItemReader<'static> = ItemReader {
        count: 0,
        bytes: &[],
    };

    pub(crate) fn of(short: bool, payload: &'a [u8]) -> Result<Self> {
        let mut bytes = payload;
        let count = if short {
            take_byte(&mut bytes)?.into()
        } else {
            u32::from_be_bytes(take_array(&mut bytes)?)
        };
        Ok(Self { count, bytes })
    }

    /// The claimed number of remaining items.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The bytes of the remaining items.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next item; null after the last, because writers omit trailing nulls.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> Result<AmqpValue<'a>> {
        if !self.step() {
            return Ok(AmqpValue::Null);
        }
        read(&mut self.bytes)
    }

    /// The bytes of the next item, or of null.
    pub fn next_raw(&mut self) -> Result<EncodedValue<'a>> {
        if !self.step() {
            return Ok(EncodedValue::NULL);
        }
        scan::skip(&mut self.bytes)
    }

    /// The next key and value of a map.
    pub fn next_pair(&mut self) -> Result<Option<(AmqpValue<'a>, EncodedValue<'a>)>> {
        match self.count {
            0 => Ok(None),
            1 => Err(AmqpDecodeError::new("a map with half a pair")),
            _ => Ok(Some((self.next()?, self.next_raw()?))),
        }
    }

    /// The value of a map's text key.
    pub fn find(mut self, key: &str) -> Result<Option<AmqpValue<'a>>> {
        while let Some((name, raw)) = self.next_pair()? {
            if name.as_text() == Some(key) {
                return raw.value().map(Some);
            }
        }
        Ok(None)
    }

    /// Checks that no bytes remain after the last item.
    pub fn end(&self) -> Result<()> {
        if self.count == 0 && self.bytes.is_empty() {
            Ok(())
        } else {
            Err(AmqpDecodeError::new("a size that does not fit its items"))
        }
    }

    fn step(&mut self) -> bool {
        let more = self.count > 0;
        self.count = self.count.saturating_sub(1);
        more
    }

    pub(crate) fn next_u32(&mut self) -> Result<Option<u32>> {
        self.next_as(AmqpValue::as_u32)
    }

    pub(crate) fn next_bool(&mut self) -> Result<Option<bool>> {
        self.next_as(AmqpValue::as_bool)
    }

    pub(crate) fn next_text(&mut self) -> Result<Option<&'a str>> {
        self.next_as(AmqpValue::as_text)
    }

    /// A field of one type, or none; another type is an error.
    pub(crate) fn next_as<T>(
        &mut self,
        take: impl Fn(&AmqpValue<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.next()? {
            AmqpValue::Null => Ok(None),
            value => match take(&value) {
                Some(taken) => Ok(Some(taken)),
                None => Err(AmqpDecodeError::new("a field of another type")),
            },
        }
    }
}

/// An array's elements, which share one constructor.
///
/// The descriptor of a described constructor is skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array<'a> {
    count: u32,
    constructor: u8,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    pub(crate) fn of(short: bool, payload: &'a [u8]) -> Result<Self> {
        let mut bytes = payload;
        let count = if short {
            take_byte(&mut bytes)?.into()
        } else {
            u32::from_be_bytes(take_array(&mut bytes)?)
        };
        let mut constructor = take_byte(&mut bytes)?;
        let mut depth = 0;
        while constructor == code::DESCRIBED {
            depth += 1;
            if depth > limits::AMQP_DEPTH {
                return Err(AmqpDecodeError::new("too deeply nested"));
            }
            scan::descriptor(&mut bytes)?;
            constructor = take_byte(&mut bytes)?;
        }
        let array = Self {
            count,
            constructor,
            bytes,
        };
        // Elements without bytes could be claimed in any number.
        let empty = constructor >> 4 == 0x4;
        if (empty && count > limits::AMQP_EMPTY_ELEMENTS)
            || (!empty && count as usize > bytes.len())
        {
            return Err(AmqpDecodeError::new("more elements than fit"));
        }
        Ok(array)
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether a text is among the elements.
    pub fn has(mut self, text: &str) -> bool {
        self.any(|element| element.is_ok_and(|element| element.as_text() == Some(text)))
    }
}

impl<'a> Iterator for Array<'a> {
    type Item = Result<AmqpValue<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        self.count -= 1;
        let constructor = self.constructor;
        let element = scan::payload(constructor, &mut self.bytes)
            .and_then(|payload| of(constructor, payload));
        if element.is_err() {
            self.count = 0;
        }
        Some(element)
    }
}
