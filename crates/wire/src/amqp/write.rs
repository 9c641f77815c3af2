//! Writes values, each in its shortest form.
//!
//! Two forms are never written: `list0` and the two-byte form of booleans, because
//! readers that index fields by position fail on the first. Lists of performatives
//! are always written with all of their fields.

use super::code;

pub fn null(out: &mut Vec<u8>) {
    out.push(code::NULL);
}

pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { code::TRUE } else { code::FALSE });
}

pub fn ubyte(out: &mut Vec<u8>, value: u8) {
    out.extend_from_slice(&[code::UBYTE, value]);
}

pub fn ushort(out: &mut Vec<u8>, value: u16) {
    out.push(code::USHORT);
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn uint(out: &mut Vec<u8>, value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::UINT_0),
        Ok(small) => out.extend_from_slice(&[code::UINT_SMALL, small]),
        Err(_) => {
            out.push(code::UINT);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

pub fn ulong(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::ULONG_0),
        Ok(small) => out.extend_from_slice(&[code::ULONG_SMALL, small]),
        Err(_) => {
            out.push(code::ULONG);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

pub fn byte(out: &mut Vec<u8>, value: i8) {
    out.extend_from_slice(&[code::BYTE, value as u8]);
}

pub fn short(out: &mut Vec<u8>, value: i16) {
    out.push(code::SHORT);
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn int(out: &mut Vec<u8>, value: i32) {
    match i8::try_from(value) {
        Ok(small) => out.extend_from_slice(&[code::INT_SMALL, small as u8]),
        Err(_) => {
            out.push(code::INT);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

pub fn long(out: &mut Vec<u8>, value: i64) {
    match i8::try_from(value) {
        Ok(small) => out.extend_from_slice(&[code::LONG_SMALL, small as u8]),
        Err(_) => {
            out.push(code::LONG);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

pub fn float(out: &mut Vec<u8>, bits: u32) {
    out.push(code::FLOAT);
    out.extend_from_slice(&bits.to_be_bytes());
}

pub fn double(out: &mut Vec<u8>, bits: u64) {
    out.push(code::DOUBLE);
    out.extend_from_slice(&bits.to_be_bytes());
}

pub fn char(out: &mut Vec<u8>, value: u32) {
    out.push(code::CHAR);
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn timestamp(out: &mut Vec<u8>, ms: i64) {
    out.push(code::TIMESTAMP);
    out.extend_from_slice(&ms.to_be_bytes());
}

pub fn uuid(out: &mut Vec<u8>, bytes: &[u8; 16]) {
    out.push(code::UUID);
    out.extend_from_slice(bytes);
}

pub fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    variable(out, code::BINARY_8, bytes);
}

pub fn string(out: &mut Vec<u8>, text: &str) {
    variable(out, code::STRING_8, text.as_bytes());
}

pub fn symbol(out: &mut Vec<u8>, text: &str) {
    variable(out, code::SYMBOL_8, text.as_bytes());
}

/// The long form of a variable-width constructor is the short one plus 0x10.
fn variable(out: &mut Vec<u8>, short: u8, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend_from_slice(&[short, length]),
        Err(_) => {
            out.push(short + 0x10);
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// A list of `count` items, which `items` writes.
pub fn list(out: &mut Vec<u8>, count: u32, items: impl FnOnce(&mut Vec<u8>)) {
    compound(out, code::LIST_32, count, items);
}

/// A map of `pairs` pairs, which `items` writes as alternating keys and values.
pub fn map(out: &mut Vec<u8>, pairs: u32, items: impl FnOnce(&mut Vec<u8>)) {
    compound(out, code::MAP_32, pairs * 2, items);
}

pub fn array_of_strings<'a>(out: &mut Vec<u8>, texts: impl ExactSizeIterator<Item = &'a str>) {
    array(out, code::STRING_32, texts);
}

pub fn array_of_symbols<'a>(out: &mut Vec<u8>, texts: impl ExactSizeIterator<Item = &'a str>) {
    array(out, code::SYMBOL_32, texts);
}

fn array<'a>(out: &mut Vec<u8>, element: u8, texts: impl ExactSizeIterator<Item = &'a str>) {
    compound(out, code::ARRAY_32, texts.len() as u32, |out| {
        out.push(element);
        for text in texts {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    });
}

/// A descriptor with a numeric code.
pub fn descriptor(out: &mut Vec<u8>, number: u64) {
    out.push(code::DESCRIBED);
    match u8::try_from(number) {
        Ok(small) => out.extend_from_slice(&[code::ULONG_SMALL, small]),
        Err(_) => {
            out.push(code::ULONG);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// Runs `write`, then inserts the size of its output in front.
fn compound(out: &mut Vec<u8>, constructor: u8, count: u32, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(constructor);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&count.to_be_bytes());
    write(out);
    let size = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

/// A value, or null.
pub(crate) fn optional<T>(
    out: &mut Vec<u8>,
    value: Option<T>,
    write: impl FnOnce(&mut Vec<u8>, T),
) {
    match value {
        Some(value) => write(out, value),
        None => null(out),
    }
}
