//! AMQP errors: a condition and a description.

use super::code::descriptor;
use super::error::{AmqpDecodeError, Result};
use super::scan::EncodedValue;
use super::value::{AmqpValue, ItemReader};
use super::write;

pub const NOT_FOUND: &str = "amqp:not-found";
pub const UNAUTHORIZED: &str = "amqp:unauthorized-access";
pub const DECODE_ERROR: &str = "amqp:decode-error";
pub const RESOURCE_LIMIT: &str = "amqp:resource-limit-exceeded";
pub const NOT_ALLOWED: &str = "amqp:not-allowed";
pub const INVALID_FIELD: &str = "amqp:invalid-field";
pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
pub const INTERNAL: &str = "amqp:internal-error";
pub const FORCED: &str = "amqp:connection:forced";
pub const FRAMING: &str = "amqp:connection:framing-error";
pub const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
pub const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
pub const UNATTACHED: &str = "amqp:session:unattached-handle";
pub const STOLEN: &str = "amqp:link:stolen";
pub const DETACH_FORCED: &str = "amqp:link:detach-forced";
pub const TRANSFER_LIMIT: &str = "amqp:link:transfer-limit-exceeded";
pub const TOO_LARGE: &str = "amqp:link:message-size-exceeded";
pub const SERVER_BUSY: &str = "com.microsoft:server-busy";
pub const ARGUMENT: &str = "com.microsoft:argument-error";
pub const OUT_OF_RANGE: &str = "com.microsoft:argument-out-of-range";
pub const TIMEOUT: &str = "com.microsoft:timeout";
pub const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
pub const OUT_OF_ORDER: &str = "com.microsoft:out-of-order-sequence";
pub const PRODUCER_STOLEN: &str = "com.microsoft:producer-epoch-stolen";

/// The reason why a link, session or connection ends, or a message is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmqpError<'a> {
    pub condition: &'a str,
    pub description: &'a str,
}

impl<'a> AmqpError<'a> {
    /// Reads the field of a performative; null means no error.
    pub(crate) fn read(value: AmqpValue<'a>) -> Result<Option<Self>> {
        let AmqpValue::Described(kind, raw) = value else {
            return match value {
                AmqpValue::Null => Ok(None),
                _ => Err(AmqpDecodeError::new("an error")),
            };
        };
        match (kind.number(), raw.value()?) {
            (Some(descriptor::ERROR), AmqpValue::List(mut fields)) => Ok(Some(Self {
                condition: fields.next_text()?.unwrap_or(""),
                description: fields.next_text()?.unwrap_or(""),
            })),
            _ => Err(AmqpDecodeError::new("an error")),
        }
    }

    /// Reads the error after all other fields were read.
    pub(crate) fn read_last(fields: &mut ItemReader<'a>) -> Result<Option<Self>> {
        Self::read(fields.next()?)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::ERROR);
        write::list(out, 3, |out| {
            write::symbol(out, self.condition);
            write::string(out, self.description);
            write::null(out);
        });
    }

    pub(crate) fn write_optional(problem: Option<&Self>, out: &mut Vec<u8>) {
        write::optional(out, problem, |out, problem| problem.write(out));
    }
}

/// Writes a field as it was received.
pub(crate) fn put_raw(out: &mut Vec<u8>, raw: EncodedValue<'_>) {
    out.extend_from_slice(raw.bytes());
}
