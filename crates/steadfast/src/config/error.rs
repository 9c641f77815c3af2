//! Configuration errors.

use std::fmt;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
}

/// The kinds of configuration errors; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such setting.
    #[error(
        "STF-7001",
        "there is no setting '{key}' ({place}){}",
        hint(nearest.as_deref())
    )]
    Unknown {
        /// Which setting.
        key: String,
        /// The layer that sets it.
        place: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The value does not fit its setting.
    #[error("STF-7002", "'{key}' ({place}): {why}")]
    Value {
        /// Which setting.
        key: String,
        /// The layer that sets it.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The setting belongs to a feature that is not compiled in.
    #[error(
        "STF-7007",
        "'{key}' ({place}): this program was built without the feature '{feature}': build it \
         with the feature, or remove the setting"
    )]
    Feature {
        /// Which setting or list.
        key: String,
        /// The layer that sets it.
        place: String,
        /// Which feature.
        feature: &'static str,
    },
    /// The file cannot be read.
    #[error("STF-7003", "the configuration file {file} cannot be read: {why}")]
    File {
        /// Which file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A region's pair is in another geography.
    #[error("STF-7030", "{why}")]
    OtherGeography {
        /// Which region, and where both are.
        why: String,
    },
    /// A region cannot be used.
    #[error("STF-7031", "{why}")]
    Region {
        /// What is wrong.
        why: String,
    },
    /// The server would be reachable without authentication or encryption.
    #[error("STF-7004", "{why}: {cure}")]
    Exposed {
        /// What is wrong.
        why: String,
        /// What to do.
        cure: String,
    },
    /// Several errors, in the order of the layers.
    #[error(_, lines(_0))]
    Several(Vec<Error>),
}

impl Error {
    /// Combines errors; `None` if there are none.
    pub(crate) fn combined(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::new(ErrorKind::Several(errors))),
        }
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind }
    }

    pub(crate) fn value(key: &str, place: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Value {
            key: key.to_owned(),
            place: place.to_string(),
            why: why.to_string(),
        })
    }

    /// Whether the error of a region mentions this name.
    pub(super) fn names(&self, region: &str) -> bool {
        match &self.kind {
            ErrorKind::OtherGeography { why } | ErrorKind::Region { why } => why.contains(region),
            _ => false,
        }
    }

    /// The error of a region, with the place of its declaration or setting.
    pub(super) fn at(mut self, place: &str) -> Self {
        if let ErrorKind::OtherGeography { why } | ErrorKind::Region { why } = &mut self.kind {
            *why = format!("{why} ({place})");
        }
        self
    }

    /// The stable code of the error, or of the first of several; the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match &self.kind {
            // Each is printed with its own.
            ErrorKind::Several(errors) => errors.first().map(Self::code),
            kind => kind.own_code(),
        }
        .unwrap_or(Code("STF-7002"))
    }
}

impl fmt::Display for Error {
    /// Several errors are printed line by line, each with its own code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Several(_) => self.kind.fmt(f),
            kind => write!(f, "{}: {kind}", self.code()),
        }
    }
}

fn lines(errors: &[Error]) -> String {
    let lines: Vec<_> = errors.iter().map(Error::to_string).collect();
    lines.join("\n")
}

/// What to do about an unknown setting.
fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!(": did you mean '{nearest}'?"),
        None => ": `steadfast config init` lists all of them".to_owned(),
    }
}

impl std::error::Error for Error {}
