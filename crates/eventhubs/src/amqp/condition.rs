//! Maps errors to AMQP conditions, in one table.

use steadfast_events::{Error, ErrorKind};
use steadfast_net::access::AccessError;
use steadfast_wire::amqp::condition::{self, AmqpError};
use steadfast_wire::amqp::error::AmqpDecodeError;

/// An AMQP error condition with its description.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) condition: &'static str,
    pub(super) description: String,
}

impl Condition {
    pub(super) fn new(condition: &'static str, description: impl Into<String>) -> Self {
        Self {
            condition,
            description: description.into(),
        }
    }

    /// With the text that clients match.
    pub(super) fn not_found(path: &str) -> Self {
        let words = format!("The messaging entity '{path}' could not be found.");
        Self::new(condition::NOT_FOUND, words)
    }

    pub(super) fn problem(&self) -> AmqpError<'_> {
        AmqpError {
            condition: self.condition,
            description: &self.description,
        }
    }

    /// The equivalent status code of a reply.
    pub(super) fn status(&self) -> i32 {
        match self.condition {
            condition::ARGUMENT
            | condition::OUT_OF_RANGE
            | condition::DECODE_ERROR
            | condition::NOT_IMPLEMENTED => 400,
            condition::UNAUTHORIZED => 401,
            condition::RESOURCE_LIMIT => 403,
            condition::NOT_FOUND => 404,
            condition::STOLEN => 410,
            condition::SERVER_BUSY => 503,
            _ => 500,
        }
    }
}

impl From<Error> for Condition {
    fn from(error: Error) -> Self {
        let condition = match error.kind() {
            ErrorKind::HubNotFound | ErrorKind::GroupNotFound => condition::NOT_FOUND,
            ErrorKind::PartitionNotFound => condition::OUT_OF_RANGE,
            ErrorKind::TooLarge => condition::TOO_LARGE,
            ErrorKind::PositionBeyondEnd | ErrorKind::BadPublication => condition::ARGUMENT,
            ErrorKind::Displaced | ErrorKind::LowerEpoch | ErrorKind::EpochRequired => {
                condition::STOLEN
            }
            ErrorKind::TooManyReaders => condition::RESOURCE_LIMIT,
            ErrorKind::OutOfOrder => condition::OUT_OF_ORDER,
            ErrorKind::ProducerStolen | ErrorKind::UnknownProducer => condition::PRODUCER_STOLEN,
            ErrorKind::Unavailable => condition::SERVER_BUSY,
            _ => condition::INTERNAL,
        };
        let description = match error.kind() {
            // Clients compare the beginning of this text.
            ErrorKind::HubNotFound | ErrorKind::GroupNotFound | ErrorKind::PartitionNotFound => {
                error.message().to_owned()
            }
            _ => format!("{} ({})", error.message(), error.code()),
        };
        Self::new(condition, description)
    }
}

impl From<AmqpDecodeError> for Condition {
    fn from(error: AmqpDecodeError) -> Self {
        Self::new(condition::DECODE_ERROR, error.to_string())
    }
}

impl From<AccessError> for Condition {
    fn from(denied: AccessError) -> Self {
        Self::new(condition::UNAUTHORIZED, denied.to_string())
    }
}
