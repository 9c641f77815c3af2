//! Configuration errors.

use std::fmt;

use steadfast_core::error::Code;

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
}

/// The kinds of configuration errors; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such setting.
    Unknown {
        /// Which setting.
        key: String,
        /// The layer that sets it.
        place: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The value does not fit its setting.
    Value {
        /// Which setting.
        key: String,
        /// The layer that sets it.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The file cannot be read.
    File {
        /// Which file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A region's pair is in another geography.
    OtherGeography {
        /// Which region, and where both are.
        why: String,
    },
    /// A region cannot be used.
    Region {
        /// What is wrong.
        why: String,
    },
    /// The server would be reachable without authentication or encryption.
    Exposed {
        /// What is wrong.
        why: String,
        /// What to do.
        cure: String,
    },
    /// Several errors, in the order of the layers.
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
        Code(match &self.kind {
            // Each is printed with its own.
            ErrorKind::Several(errors) => match errors.first() {
                Some(first) => return first.code(),
                None => "STF-7002",
            },
            ErrorKind::Unknown { .. } => "STF-7001",
            ErrorKind::Value { .. } => "STF-7002",
            ErrorKind::File { .. } => "STF-7003",
            ErrorKind::Exposed { .. } => "STF-7004",
            ErrorKind::OtherGeography { .. } => "STF-7030",
            ErrorKind::Region { .. } => "STF-7031",
        })
    }
}

impl fmt::Display for Error {
    /// Several errors are printed line by line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ErrorKind::Several(errors) = &self.kind {
            let lines: Vec<_> = errors.iter().map(Self::to_string).collect();
            return f.write_str(&lines.join("\n"));
        }
        write!(f, "{}: ", self.code())?;
        match &self.kind {
            ErrorKind::Several(_) => Ok(()),
            ErrorKind::Unknown {
                key,
                place,
                nearest,
            } => {
                write!(f, "there is no setting '{key}' ({place})")?;
                match nearest {
                    Some(nearest) => write!(f, ": did you mean '{nearest}'?"),
                    None => write!(f, ": `steadfast config init` lists all of them"),
                }
            }
            ErrorKind::Value { key, place, why } => write!(f, "'{key}' ({place}): {why}"),
            ErrorKind::File { file, why } => {
                write!(f, "the configuration file {file} cannot be read: {why}")
            }
            ErrorKind::OtherGeography { why } | ErrorKind::Region { why } => f.write_str(why),
            ErrorKind::Exposed { why, cure } => write!(f, "{why}: {cure}"),
        }
    }
}

impl std::error::Error for Error {}
