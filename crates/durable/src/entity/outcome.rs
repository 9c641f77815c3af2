//! The outcome of an operation.

use steadfast_collections::schema::Record;

use crate::failure::FailureDetails;

/// The outcome of an operation.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Outcome {
    #[n(0)]
    Success(Option<String>),
    #[n(1)]
    Failure(FailureDetails),
}

impl Outcome {
    /// The output, or the failure.
    pub fn into_result(self) -> Result<Option<String>, FailureDetails> {
        match self {
            Self::Success(output) => Ok(output),
            Self::Failure(failure) => Err(failure),
        }
    }
}

impl From<Result<Option<String>, FailureDetails>> for Outcome {
    fn from(result: Result<Option<String>, FailureDetails>) -> Self {
        match result {
            Ok(output) => Self::Success(output),
            Err(failure) => Self::Failure(failure),
        }
    }
}
