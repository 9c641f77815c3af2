//! What a failed statement means for what it wrote.
//!
//! The question is whether it may have taken effect. If that is unknown, it may have:
//! a missing answer proves nothing.

use std::fmt;
use std::time::Duration;

use steadfast_core::id::Partition;
use steadfast_storage::{Error, ErrorKind as StorageKind};
use tokio_postgres::error::DbError;

use crate::error::{ErrorKind, is_unsafe};

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum StatementError {
    /// Nothing happened, and trying again may help.
    Repeat(StatementCause),
    /// Nothing happened: out of room, memory or connections.
    Full(StatementCause),
    /// It may have happened.
    Unknown(StatementCause),
    /// Nothing happened, and nothing will.
    Refused(StatementCause),
    /// What is stored is damaged.
    Damaged(String),
    /// An error of this crate, passed on unchanged.
    Ours(Error),
}

/// The server's SQLSTATE and message.
#[derive(Debug)]
pub(crate) struct StatementCause {
    pub(crate) state: String,
    text: String,
}

impl fmt::Display for StatementCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{} {}", self.state, self.text)
        }
    }
}

impl std::error::Error for StatementCause {}

/// The state of a table whose segment does not exist yet.
pub(crate) const NO_SEGMENT: &str = "23514";
/// The state of a row that exists already.
pub(crate) const DUPLICATE: &str = "23505";

impl StatementError {
    /// No answer within the deadline.
    pub(crate) fn late(after: Duration) -> Self {
        Self::unknown(format!("no answer within {after:?}"))
    }

    /// It may have happened, for a reason that the server did not name.
    pub(crate) fn unknown(text: impl Into<String>) -> Self {
        Self::Unknown(StatementCause {
            state: String::new(),
            text: text.into(),
        })
    }

    /// A server that cannot be trusted, that would receive secrets in the clear, or
    /// that rejects the client certificate, is not retried.
    pub(crate) fn of_connect(error: tokio_postgres::Error, host: &str) -> Self {
        let text = describe(&error);
        let what = if text.contains("invalid peer certificate") {
            format!(
                "{host} shows a certificate that is not trusted ({text}): name its authority by \
                 sslrootcert=FILE"
            )
        } else if text.contains("server does not support TLS") {
            format!("{host} offers no TLS; if its network can be trusted, add sslmode=disable")
        } else if rejects_certificate(&text) {
            let state = String::new();
            return Self::Refused(StatementCause { state, text });
        } else {
            return error.into();
        };
        Self::Ours(Error::new(ErrorKind::BadAddress { what }))
    }

    /// Nothing happened yet, and the next attempt will go better.
    pub(crate) fn again(text: impl Into<String>) -> Self {
        Self::Repeat(StatementCause {
            state: String::new(),
            text: text.into(),
        })
    }

    /// Whether the connection must not be used any more.
    pub(crate) fn breaks_connection(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether the error is transient, so that a repeatable statement should be retried.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Repeat(_) => true,
            Self::Ours(error) => is_unsafe(error),
            _ => false,
        }
    }

    /// The fault as callers of the seam see it.
    pub(crate) fn into_error(self, doing: &'static str) -> Error {
        match self {
            Self::Ours(error) => error,
            Self::Full(cause) => Error::caused(ErrorKind::DatabaseFull { doing }, cause),
            Self::Unknown(cause) => Error::caused(StorageKind::Interrupted { doing }, cause),
            Self::Repeat(cause) | Self::Refused(cause) => {
                Error::caused(ErrorKind::Database { doing }, cause)
            }
            Self::Damaged(what) => {
                let cause = StatementCause {
                    state: String::new(),
                    text: what,
                };
                Error::caused(ErrorKind::Database { doing }, cause)
            }
        }
    }

    /// As [`StatementError::into_error`]; damage is the partition's.
    pub(crate) fn of(self, partition: Partition, doing: &'static str) -> Error {
        match self {
            Self::Damaged(what) => Error::new(StorageKind::Damaged { partition, what }),
            other => other.into_error(doing),
        }
    }
}

impl From<Error> for StatementError {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(answer) = error.as_db_error() else {
            let text = describe(&error);
            let is_refused = text.starts_with("invalid configuration")
                || text.starts_with("authentication error");
            let state = String::new();
            return if is_refused {
                Self::Refused(StatementCause { state, text })
            } else {
                Self::unknown(text)
            };
        };
        let cause = StatementCause {
            state: answer.code().code().to_string(),
            text: answer.message().to_string(),
        };
        sort(answer, cause)
    }
}

/// Whether the server rejects the client certificate.
fn rejects_certificate(text: &str) -> bool {
    const ALERTS: [&str; 6] = [
        "UnknownCA",
        "BadCertificate",
        "CertificateUnknown",
        "CertificateExpired",
        "CertificateRevoked",
        "CertificateRequired",
    ];
    let alert = text.split("received fatal alert: ").nth(1);
    alert.is_some_and(|alert| ALERTS.iter().any(|name| alert.starts_with(name)))
}

fn sort(answer: &DbError, cause: StatementCause) -> StatementError {
    match answer.code().code() {
        "40001" | "40P01" | "55P03" => StatementError::Repeat(cause),
        "XX001" | "XX002" => StatementError::Damaged(cause.to_string()),
        "25006" => StatementError::Unknown(cause),
        state => match &state[..2] {
            "53" => StatementError::Full(cause),
            "08" | "57" | "58" | "XX" => StatementError::Unknown(cause),
            _ => StatementError::Refused(cause),
        },
    }
}

/// The whole chain of causes: the library's own texts say little.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
