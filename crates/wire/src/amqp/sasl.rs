//! The SASL layer: mechanisms, init, outcome.

use super::code::descriptor;
use super::error::{AmqpDecodeError, Result};
use super::performative::described_list;
use super::value::AmqpValue;
use super::write;

/// Mechanisms, in the order in which they are offered.
pub const MECHANISMS: [&str; 4] = ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"];

/// Codes of an outcome.
pub const OK: u8 = 0;
pub const REFUSED: u8 = 1;

/// The mechanism that a client selects, and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaslInit<'a> {
    pub mechanism: &'a str,
    pub response: &'a [u8],
}

/// Reads the sasl-init frame.
pub fn read_init(body: &[u8]) -> Result<SaslInit<'_>> {
    let mut rest = body;
    let (number, mut fields) = described_list(&mut rest)?;
    if number != descriptor::INIT {
        return Err(AmqpDecodeError::new("not a sasl-init"));
    }
    let mechanism = fields
        .next_text()?
        .ok_or(AmqpDecodeError::new("a mechanism"))?;
    let response = match fields.next()? {
        AmqpValue::Binary(response) => response,
        AmqpValue::Null => &[],
        _ => return Err(AmqpDecodeError::new("an initial response")),
    };
    Ok(SaslInit {
        mechanism,
        response,
    })
}

/// User name and password of the mechanism PLAIN.
pub fn plain(response: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(response).ok()?;
    let mut parts = text.split('\0');
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((user, password))
}

pub fn write_mechanisms(out: &mut Vec<u8>) {
    write::descriptor(out, descriptor::MECHANISMS);
    write::list(out, 1, |out| {
        write::array_of_symbols(out, MECHANISMS.into_iter());
    });
}

pub fn write_init(out: &mut Vec<u8>, init: &SaslInit<'_>) {
    write::descriptor(out, descriptor::INIT);
    write::list(out, 3, |out| {
        write::symbol(out, init.mechanism);
        write::binary(out, init.response);
        write::null(out);
    });
}

pub fn write_outcome(out: &mut Vec<u8>, code: u8) {
    write::descriptor(out, descriptor::OUTCOME);
    write::list(out, 2, |out| {
        write::ubyte(out, code);
        write::null(out);
    });
}

/// The code of an outcome.
pub fn read_outcome(body: &[u8]) -> Result<u8> {
    let mut rest = body;
    let (number, mut fields) = described_list(&mut rest)?;
    match (number, fields.next_u32()?) {
        (descriptor::OUTCOME, Some(code)) => {
            u8::try_from(code).map_err(|_| AmqpDecodeError::new("an outcome"))
        }
        _ => Err(AmqpDecodeError::new("not a sasl-outcome")),
    }
}
