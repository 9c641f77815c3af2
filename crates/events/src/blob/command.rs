//! Commands and responses of the blob service.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::limits::BLOB_ENTRY_BYTES;

use crate::blob::lease::LeaseAction;
use crate::blob::record::{
    Blob, Block, BlockChoice, Conditions, Container, PutBlobRequest, UploadHandle,
};
use crate::blob::usage_record::{AccountRecord, Allowance, CountedContainer, PartitionAllowance};
use crate::keys::message;

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
        put: PutBlobRequest,
        #[n(1)]
        conditions: Conditions,
    },
    /// Replaces the metadata of an existing blob.
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
    /// Removes blobs, and blocks of blobs, of a deleted container.
    #[n(7)]
    Sweep {
        #[n(0)]
        container: u64,
        #[n(1)]
        names: Vec<String>,
    },
    /// Starts an upload with its first bytes.
    #[n(8)]
    Stage(Bytes),
    /// Adds bytes to an upload.
    #[n(9)]
    Append {
        #[n(0)]
        staged: UploadHandle,
        #[n(1)]
        bytes: Bytes,
    },
    /// Discards an upload. A timer sends it, too.
    #[n(10)]
    Discard {
        #[n(0)]
        body: u64,
    },
    /// Writes a blob whose body is an upload.
    #[n(11)]
    PutStaged {
        #[n(0)]
        put: PutBlobRequest,
        #[n(1)]
        staged: UploadHandle,
        #[n(2)]
        conditions: Conditions,
    },
    /// Turns an upload into a block of a blob.
    #[n(12)]
    PutBlock {
        #[n(0)]
        name: String,
        #[n(1)]
        id: String,
        #[n(2)]
        staged: UploadHandle,
        #[n(3)]
        conditions: Conditions,
    },
    /// Writes a blob whose body is a list of blocks.
    #[n(13)]
    PutBlocks {
        #[n(0)]
        put: PutBlobRequest,
        #[n(1)]
        choices: Vec<BlockChoice>,
        #[n(2)]
        conditions: Conditions,
    },
    /// The blocks of a blob.
    #[n(14)]
    Blocks {
        #[n(0)]
        name: String,
    },
    /// A timer: a block was not committed in time.
    #[n(15)]
    ExpireBlock {
        #[n(0)]
        container: u64,
        #[n(1)]
        name: String,
        #[n(2)]
        body: u64,
    },
    #[n(16)]
    Lease {
        #[n(0)]
        name: String,
        #[n(1)]
        action: LeaseAction,
        #[n(2)]
        conditions: Conditions,
    },
    /// Whether the account has room for a body.
    #[n(17)]
    CheckRoom {
        #[n(0)]
        name: String,
        /// The body is this block of the blob; otherwise it replaces the blob.
        #[n(1)]
        block: Option<String>,
        #[n(2)]
        length: u64,
        /// How much of it is uploaded already.
        #[n(3)]
        uploaded: u64,
    },
    /// Sets the counts of a partition that has none.
    #[n(18)]
    SetCounts {
        /// The changes that the counts include.
        #[n(0)]
        changes: u64,
        #[n(1)]
        containers: Vec<CountedContainer>,
    },
    /// To a partition: gives up the part of an account's allowance that it does not use.
    #[n(19)]
    WithdrawAllowance {
        /// The last version that the account's home knows.
        #[n(0)]
        version: u64,
    },
    /// To an account's home: gives a partition a larger allowance.
    #[n(20)]
    ClaimAllowance {
        #[n(0)]
        partition: u32,
        #[n(1)]
        bytes: u64,
        /// Allowances of partitions, after they withdrew what they do not use.
        #[n(2)]
        withdrawn: Vec<PartitionAllowance>,
        /// Whether all partitions that have blobs of the account are among them.
        #[n(3)]
        is_complete: bool,
    },
    /// The limit of every account.
    #[n(22)]
    Limit,
    /// To a partition: its new allowance.
    #[n(21)]
    SetAllowance {
        #[n(0)]
        allowance: Allowance,
    },
}

impl BlobCommand {
    /// How much more the account of the container may take afterwards, at most.
    pub(super) fn growth(&self) -> u64 {
        match self {
            Self::Put { put, .. } => BLOB_ENTRY_BYTES + put.body.len() as u64,
            Self::PutStaged { staged, .. } | Self::PutBlock { staged, .. } => {
                BLOB_ENTRY_BYTES + staged.length
            }
            Self::PutBlocks { choices, .. } => BLOB_ENTRY_BYTES * (1 + choices.len() as u64),
            Self::CheckRoom { length, .. } => BLOB_ENTRY_BYTES + length,
            _ => 0,
        }
    }

    /// Whether it may be refused for want of room, or of counts.
    pub(super) fn needs_room(&self) -> bool {
        matches!(self, Self::Stage(_) | Self::Append { .. }) || self.growth() > 0
    }
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum BlobResponse {
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
    #[n(3)]
    Staged(UploadHandle),
    #[n(4)]
    Blocks {
        /// `None` if there are only uncommitted blocks.
        #[n(0)]
        blob: Option<Blob>,
        #[n(1)]
        committed: Vec<Block>,
        #[n(2)]
        uncommitted: Vec<Block>,
    },
    /// What an account takes in a partition, and its allowance.
    #[n(5)]
    Account(AccountRecord),
    /// The allowances of an account's limit; none if its home does not know them yet.
    #[n(6)]
    Allowances(Option<Vec<PartitionAllowance>>),
    #[n(7)]
    Limit(u64),
}

message!(BlobCommand, BlobResponse);
