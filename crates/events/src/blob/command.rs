//! Commands and responses of the blob service.

use bytes::Bytes;
use steadfast_collections::schema::Record;

use crate::blob::lease::LeaseAction;
use crate::blob::record::{
    Blob, Block, BlockChoice, Conditions, Container, PutBlobRequest, UploadHandle,
};
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
}

message!(BlobCommand, BlobResponse);
