//! Start position of a reader, from a selector filter.

use super::code::descriptor;
use super::error::{AmqpDecodeError, Result};
use super::scan::EncodedValue;
use super::value::{AmqpValue, ItemReader};

/// The name of the filter in a source.
pub const NAME: &str = "apache.org:selector-filter:string";

/// A position in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelectorStart {
    Beginning,
    /// Events enqueued from now on.
    Latest,
    Offset {
        offset: i64,
        inclusive: bool,
    },
    Sequence {
        sequence: i64,
        inclusive: bool,
    },
    Enqueued {
        ms: i64,
        inclusive: bool,
    },
}

/// Finds the selector in a source's filter; without one a reader starts at the
/// beginning.
pub fn start(mut filter: ItemReader<'_>) -> Result<SelectorStart> {
    while let Some((name, raw)) = filter.next_pair()? {
        if is_selector(&name, raw)? {
            let value = match raw.value()? {
                AmqpValue::Described(_, raw) => raw.value()?,
                other => other,
            };
            let text = value.as_text().ok_or(AmqpDecodeError::new("a selector"))?;
            return parse(text);
        }
    }
    Ok(SelectorStart::Beginning)
}

/// Whether an entry of a filter is the selector, by its name or its descriptor.
pub(crate) fn is_selector(name: &AmqpValue<'_>, filter: EncodedValue<'_>) -> Result<bool> {
    let kind = match filter.value()? {
        AmqpValue::Described(kind, _) => kind.number(),
        _ => None,
    };
    Ok(kind == Some(descriptor::SELECTOR) || name.as_text() == Some(NAME))
}

/// Parses `amqp.annotation.x-opt-offset > '42'` and its variants. White space around
/// the operator is optional, and so are the quotes.
pub fn parse(text: &str) -> Result<SelectorStart> {
    let (name, rest) = text
        .split_once('>')
        .ok_or(AmqpDecodeError::new("a selector's operator"))?;
    let (inclusive, rest) = match rest.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let value = rest.trim();
    let value = match value.strip_prefix('\'') {
        Some(open) => open
            .strip_suffix('\'')
            .ok_or(AmqpDecodeError::new("a selector's quotes"))?,
        None => value,
    };
    if value == "@latest" {
        return Ok(SelectorStart::Latest);
    }
    let number = value
        .parse()
        .map_err(|_| AmqpDecodeError::new("a selector's value"));
    match name.trim() {
        "amqp.annotation.x-opt-offset" => Ok(match number? {
            ..0 => SelectorStart::Beginning,
            offset => SelectorStart::Offset { offset, inclusive },
        }),
        "amqp.annotation.x-opt-sequence-number" => Ok(match number? {
            ..0 => SelectorStart::Beginning,
            sequence => SelectorStart::Sequence {
                sequence,
                inclusive,
            },
        }),
        "amqp.annotation.x-opt-enqueued-time" => Ok(SelectorStart::Enqueued {
            ms: number?,
            inclusive,
        }),
        _ => Err(AmqpDecodeError::new("a selector of something unknown")),
    }
}
