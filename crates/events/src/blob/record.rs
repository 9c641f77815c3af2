//! Blob records, and conditions on them.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use uuid::Uuid;

use crate::blob::lease::{self, BlobLease, LeaseState};
use crate::error::{Error, ErrorKind, Result};

/// Names and values, in the order in which they were sent.
pub type BlobPairs = Vec<(String, String)>;

/// A container of blobs.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Container {
    /// Never reused, not even for a container of the same name.
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
    /// Changes with every write, and never repeats.
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
    /// Further properties, returned as written.
    #[n(7)]
    pub properties: Vec<(String, String)>,
    /// The version whose write set the body.
    #[n(8)]
    pub(crate) body: u64,
    /// How many blocks it has; `None` if it was written as a whole.
    #[n(9)]
    pub(crate) blocks: Option<u32>,
    #[n(10)]
    pub lease: Option<BlobLease>,
}

impl Blob {
    /// The state of its lease.
    pub fn lease_state(&self, now: Timestamp) -> LeaseState {
        lease::state(self.lease.as_ref(), now)
    }
}

/// A request to write a blob.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Put", closed)]
pub struct PutBlobRequest {
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

/// A block of a blob.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Block {
    /// In base64, chosen by the writer.
    #[n(0)]
    pub id: String,
    #[n(1)]
    pub length: u64,
    #[n(2)]
    pub(crate) body: u64,
    /// When it is removed if it is not committed.
    #[n(3)]
    pub(crate) due: Option<Timestamp>,
}

/// The row of a block list.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(super) struct BlockList {
    #[n(0)]
    pub(super) blocks: Vec<Block>,
}

/// Which block an entry of a block list means.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum BlockChoice {
    /// The uncommitted one, or else the committed one.
    #[n(0)]
    Latest(String),
    #[n(1)]
    Committed(String),
    #[n(2)]
    Uncommitted(String),
}

/// An upload that no blob refers to yet.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Staged", closed)]
pub struct UploadHandle {
    #[n(0)]
    pub(crate) body: u64,
    #[n(1)]
    pub(crate) length: u64,
}

/// Which versions match.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Match", closed)]
pub enum VersionMatch {
    /// Any existing version.
    #[n(0)]
    Any,
    #[n(1)]
    Version(u64),
}

impl VersionMatch {
    fn fits(self, found: Option<&Blob>) -> bool {
        match (self, found) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Version(version), Some(blob)) => blob.version == version,
        }
    }
}

/// The conditions of a write or a read.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Conditions {
    /// Only this version.
    #[n(0)]
    pub only: Option<VersionMatch>,
    /// Not this version; with [`VersionMatch::Any`]: only if there is no blob.
    #[n(1)]
    pub not: Option<VersionMatch>,
    /// Only if it was written after this time, in whole seconds.
    #[n(2)]
    pub after: Option<Timestamp>,
    /// Only if it was not written after this time, in whole seconds.
    #[n(3)]
    pub until: Option<Timestamp>,
    /// Only if it has this lease.
    #[n(4)]
    pub lease: Option<Uuid>,
}

impl Conditions {
    /// Rejects a read that names a lease which the blob does not have.
    pub fn check_lease(&self, blob: &Blob, now: Timestamp) -> Result<()> {
        match self.lease {
            Some(given) => lease::check_read(blob.lease, given, now),
            None => Ok(()),
        }
    }

    /// Rejects a request whose conditions on versions and times fail.
    pub fn check(&self, found: Option<&Blob>) -> Result<()> {
        if self.only.is_some_and(|only| !only.fits(found)) {
            let words = "the blob has another version than the one that was asked for";
            return Err(Error::new(ErrorKind::ConditionFailed, words));
        }
        match self.not {
            Some(VersionMatch::Any) if found.is_some() => {
                return Err(Error::new(
                    ErrorKind::BlobExists,
                    "the blob is there already",
                ));
            }
            Some(not) if not.fits(found) => {
                let words = "the blob has the version that was ruled out";
                return Err(Error::new(ErrorKind::ConditionFailed, words));
            }
            _ => {}
        }
        let written = found.map(|blob| blob.modified.0.div_euclid(1000));
        let is_after = |time: Timestamp| written.is_some_and(|own| own > time.0.div_euclid(1000));
        if self.after.is_some_and(|time| !is_after(time)) || self.until.is_some_and(is_after) {
            let words = "the blob was last written at another time than was asked for";
            return Err(Error::new(ErrorKind::ConditionFailed, words));
        }
        Ok(())
    }
}

impl PutBlobRequest {
    /// Rejects a blob over a limit.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        check_pairs(&self.metadata)?;
        check_pairs(&self.properties)?;
        within("a body", self.body.len(), limits::BLOB_PUT_BYTES)?;
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
        return Err(Error::new(ErrorKind::BadBlob, words));
    }
    within("a name", name.len(), limits::BLOB_NAME_BYTES)
}

pub(crate) fn check_block_id(id: &str) -> Result<()> {
    // Base64 has four characters for three bytes.
    let most = limits::BLOB_BLOCK_ID_BYTES.div_ceil(3) * 4;
    if id.is_empty() {
        Err(Error::new(
            ErrorKind::BadBlob,
            "a block needs an id; give it one",
        ))
    } else {
        within("a block's id", id.len(), most)
    }
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
    Err(Error::new(ErrorKind::BadBlob, words))
}
