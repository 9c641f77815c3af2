//! Errors of encoding and decoding values.
//!
//! Every kind has a stable code and a page in `docs/errors/`. Errors are one
//! pointer wide, because decoding returns one per field.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: its kind and its cause.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not what the type expects.
    #[error(
        "STF-3040",
        "stored bytes of {} cannot be read: {what}",
        PathDisplay(path)
    )]
    Malformed { path: String, what: String },
    /// A field that has no default is not in the bytes.
    #[error(
        "STF-3041",
        "field `{field}` of {} is not in the stored bytes; a field added later must be an `Option` or have `#[record(default)]`",
        PathDisplay(path)
    )]
    MissingField { path: String, field: &'static str },
    /// A closed type met an unknown field or variant.
    #[error(
        "STF-3042",
        "{} is closed and cannot keep {found}; run the version that wrote it, or give the type a place for what it does not know",
        PathDisplay(path)
    )]
    Closed { path: String, found: String },
    /// The value has a format that this version does not know.
    #[error(
        "STF-3043",
        "the value has format {found}, this version knows up to {known}; run a newer version"
    )]
    NewerFormat { found: u8, known: u8 },
    /// The value is nested more deeply than a record may be.
    #[error("STF-3044", "the value is nested more than {limit} levels deep")]
    TooDeep { limit: usize },
    /// The key or value is over its limit.
    #[error("STF-3045", "the {what} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// Stored keys no longer sort or encode as they did when they were written.
    #[error(
        "STF-3046",
        "keys of type `{type_name}` changed their meaning: {how}; restore the former `Ord` and fields of the key type"
    )]
    KeyContractChanged { type_name: String, how: String },
    /// The serde adaptor could not encode or decode.
    #[error("STF-3047", "`{type_name}` failed while {doing} MessagePack")]
    Adaptor {
        type_name: &'static str,
        doing: &'static str,
    },
    /// The JSON cannot be a key.
    #[error(
        "STF-3048",
        "{what} cannot be a key; use a string, an integer, a truth value, or a list of these"
    )]
    JsonKey { what: String },
}

impl Error {
    /// An error without a cause underneath.
    #[cold]
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, source: None }))
    }

    /// An error caused by another.
    #[cold]
    pub fn caused(kind: ErrorKind, source: impl StdError + Send + Sync + 'static) -> Self {
        let source = Some(Arc::new(source) as Arc<dyn StdError + Send + Sync>);
        Self(Box::new(Inner { kind, source }))
    }

    /// Bytes that are not what was expected.
    #[cold]
    pub fn malformed(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed {
            path: String::new(),
            what: what.into(),
        })
    }

    /// The same error, one step further out: in field `step` of what is read.
    #[cold]
    #[must_use]
    pub fn within(mut self, step: &str) -> Self {
        if let ErrorKind::Malformed { path, .. }
        | ErrorKind::MissingField { path, .. }
        | ErrorKind::Closed { path, .. } = &mut self.0.kind
        {
            let inner = std::mem::take(path);
            path.push_str(step);
            if !inner.is_empty() {
                path.push('.');
                path.push_str(&inner);
            }
        }
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        self.0.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.0.kind)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

/// A path as a reader wants to see it; the value itself has none.
struct PathDisplay<'a>(&'a str);

impl fmt::Display for PathDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            f.write_str("the value")
        } else {
            write!(f, "`{}`", self.0)
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_ref()
            .map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}
