//! What is known of a blob, and what can be asked of it.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::error::{Error, Kind, Result};
use crate::place::message;

/// Names and values, in the order in which they came.
pub type Pairs = Vec<(String, String)>;

/// A container of blobs.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Container {
    /// Never given to another one, also not to one of the same name.
    #[n(0)]
    pub(crate) id: u64,
    #[n(1)]
    pub version: u64,
    #[n(2)]
    pub modified: Timestamp,
    #[n(3)]
    pub metadata: Vec<(String, String)>,
}

/// A blob without its body.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Blob {
    #[n(0)]
    pub name: String,
    /// Another one after every write, and never the same again.
    #[n(1)]
    pub version: u64,
    #[n(2)]
    pub created: Timestamp,
    #[n(3)]
    pub modified: Timestamp,
    #[n(4)]
    pub length: u64,
    #[n(5)]
    pub content_type: String,
    #[n(6)]
    pub metadata: Vec<(String, String)>,
    /// Further properties that the writer wants to have back.
    #[n(7)]
    pub properties: Vec<(String, String)>,
    /// The version whose write brought the body.
    #[n(8)]
    pub(crate) body: u64,
}

/// A blob as somebody writes it.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Put {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub body: Bytes,
    #[n(2)]
    pub content_type: String,
    #[n(3)]
    pub metadata: Vec<(String, String)>,
    #[n(4)]
    pub properties: Vec<(String, String)>,
}

/// Which versions are meant.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Match {
    /// Whatever is there.
    #[n(0)]
    Any,
    #[n(1)]
    Version(u64),
}

impl Match {
    fn fits(self, found: Option<&Blob>) -> bool {
        match (self, found) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Version(version), Some(blob)) => blob.version == version,
        }
    }
}

/// When a write or a read is permitted.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Conditions {
    /// Only this version.
    #[n(0)]
    pub only: Option<Match>,
    /// Not this version; with [`Match::Any`]: only if there is none.
    #[n(1)]
    pub not: Option<Match>,
    /// Only if it was written after this time, in whole seconds.
    #[n(2)]
    pub after: Option<Timestamp>,
    /// Only if it was not written after this time, in whole seconds.
    #[n(3)]
    pub until: Option<Timestamp>,
}

impl Conditions {
    /// Refuses what the conditions do not permit.
    pub fn check(&self, found: Option<&Blob>) -> Result<()> {
        if self.only.is_some_and(|only| !only.fits(found)) {
            let words = "the blob has another version than the one that was asked for";
            return Err(Error::new(Kind::ConditionFailed, words));
        }
        match self.not {
            Some(Match::Any) if found.is_some() => {
                return Err(Error::new(Kind::BlobExists, "the blob is there already"));
            }
            Some(not) if not.fits(found) => {
                let words = "the blob has the version that was ruled out";
                return Err(Error::new(Kind::ConditionFailed, words));
            }
            _ => {}
        }
        let written = found.map(|blob| blob.modified.0.div_euclid(1000));
        let is_after = |time: Timestamp| written.is_some_and(|own| own > time.0.div_euclid(1000));
        if self.after.is_some_and(|time| !is_after(time)) || self.until.is_some_and(is_after) {
            let words = "the blob was last written at another time than was asked for";
            return Err(Error::new(Kind::ConditionFailed, words));
        }
        Ok(())
    }
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum BlobCommand {
    #[n(0)]
    Create {
        #[n(0)]
        metadata: Vec<(String, String)>,
    },
    #[n(1)]
    Find,
    #[n(2)]
    Remove,
    #[n(3)]
    Put {
        #[n(0)]
        put: Put,
        #[n(1)]
        conditions: Conditions,
    },
    /// Replaces the metadata of a blob that is there.
    #[n(4)]
    Describe {
        #[n(0)]
        name: String,
        #[n(1)]
        metadata: Vec<(String, String)>,
        #[n(2)]
        conditions: Conditions,
    },
    #[n(5)]
    Delete {
        #[n(0)]
        name: String,
        #[n(1)]
        conditions: Conditions,
    },
    #[n(6)]
    Get {
        #[n(0)]
        name: String,
    },
    /// Removes blobs of a container that is gone.
    #[n(7)]
    Sweep {
        #[n(0)]
        container: u64,
        #[n(1)]
        names: Vec<String>,
    },
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum BlobReply {
    #[n(0)]
    Done,
    #[n(1)]
    Container(Container),
    /// The blob as it is now, and its metadata before.
    #[n(2)]
    Blob {
        #[n(0)]
        blob: Blob,
        #[n(1)]
        before: Vec<(String, String)>,
    },
}

message!(BlobCommand, BlobReply);

impl Put {
    /// Refuses what is over a limit.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        check_pairs(&self.metadata)?;
        check_pairs(&self.properties)?;
        within("a body", self.body.len(), limits::BLOB_BYTES)?;
        within(
            "a content type",
            self.content_type.len(),
            limits::BLOB_NAME_BYTES,
        )
    }
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        let words = "a blob needs a name without zero bytes; give it one";
        return Err(Error::new(Kind::BadBlob, words));
    }
    within("a name", name.len(), limits::BLOB_NAME_BYTES)
}

pub(crate) fn check_pairs(pairs: &[(String, String)]) -> Result<()> {
    let bytes = pairs.iter().map(|(name, value)| name.len() + value.len());
    within("metadata", bytes.sum(), limits::BLOB_METADATA_BYTES)
}

fn within(what: &str, bytes: usize, limit: usize) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    let words = format!("{what} of a blob has {limit} bytes at most, not {bytes}; make it smaller");
    Err(Error::new(Kind::BadBlob, words))
}
