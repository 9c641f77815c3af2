//! Maps errors to AMQP conditions, in one table.

use steadfast_events::{Error, Kind};
use steadfast_wire::amqp::condition::{self, Problem};
use steadfast_wire::amqp::error::Malformed;

use crate::access::Denied;

/// An AMQP error condition with its description.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) condition: &'static str,
    pub(super) description: String,
}

impl Fault {
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

    pub(super) fn problem(&self) -> Problem<'_> {
        Problem {
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

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let condition = match error.kind() {
            Kind::HubNotFound | Kind::GroupNotFound => condition::NOT_FOUND,
            Kind::PartitionNotFound => condition::OUT_OF_RANGE,
            Kind::TooLarge => condition::TOO_LARGE,
            Kind::PositionBeyondEnd | Kind::BadPublication => condition::ARGUMENT,
            Kind::Displaced | Kind::LowerEpoch | Kind::EpochRequired => condition::STOLEN,
            Kind::TooManyReaders => condition::RESOURCE_LIMIT,
            Kind::OutOfOrder => condition::OUT_OF_ORDER,
            Kind::ProducerStolen | Kind::UnknownProducer => condition::PRODUCER_STOLEN,
            Kind::Unavailable => condition::SERVER_BUSY,
            _ => condition::INTERNAL,
        };
        let description = match error.kind() {
            // Clients compare the beginning of this text.
            Kind::HubNotFound | Kind::GroupNotFound | Kind::PartitionNotFound => {
                error.message().to_owned()
            }
            _ => format!("{} ({})", error.message(), error.code()),
        };
        Self::new(condition, description)
    }
}

impl From<Malformed> for Fault {
    fn from(error: Malformed) -> Self {
        Self::new(condition::DECODE_ERROR, error.to_string())
    }
}

impl From<Denied> for Fault {
    fn from(denied: Denied) -> Self {
        Self::new(condition::UNAUTHORIZED, denied.to_string())
    }
}
