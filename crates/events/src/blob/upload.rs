//! The API of uploads and blocks.

use bytes::Bytes;

use crate::blob::command::{BlobCommand, BlobResponse};
use crate::blob::record::{Blob, Block, BlockChoice, Conditions, PutBlobRequest, UploadHandle};
use crate::blob::store::Blobs;
use crate::error::{Error, Result};

/// The blocks of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLists {
    /// `None` if no block list was committed yet.
    pub blob: Option<Blob>,
    pub committed: Vec<Block>,
    pub uncommitted: Vec<Block>,
}

impl Blobs {
    /// Starts an upload. Every part but the last has a whole number of pieces
    /// (`limits::BLOB_PIECE_BYTES`). An upload that is neither written nor discarded is
    /// removed after an hour.
    pub async fn stage(&self, container: &str, bytes: Bytes) -> Result<UploadHandle> {
        self.staged(container, BlobCommand::Stage(bytes)).await
    }

    /// Appends to an upload.
    pub async fn append(
        &self,
        container: &str,
        staged: UploadHandle,
        bytes: Bytes,
    ) -> Result<UploadHandle> {
        let command = BlobCommand::Append { staged, bytes };
        self.staged(container, command).await
    }

    /// Discards an upload.
    pub async fn discard(&self, container: &str, staged: UploadHandle) -> Result<()> {
        let body = staged.body;
        let command = BlobCommand::Discard { body };
        self.call(container, command).await.map(drop)
    }

    /// Writes a blob whose body is an upload; the body of `put` is ignored.
    pub async fn put_staged(
        &self,
        container: &str,
        put: PutBlobRequest,
        staged: UploadHandle,
        conditions: Conditions,
    ) -> Result<Blob> {
        let name = put.name.clone();
        let command = BlobCommand::PutStaged {
            put,
            staged,
            conditions,
        };
        self.write(container, &name, command).await
    }

    /// Turns an upload into an uncommitted block, which is removed after a week unless
    /// a block list names it. Of the conditions only the lease counts.
    pub async fn put_block(
        &self,
        container: &str,
        name: &str,
        id: &str,
        staged: UploadHandle,
        conditions: Conditions,
    ) -> Result<()> {
        let command = BlobCommand::PutBlock {
            name: name.to_owned(),
            id: id.to_owned(),
            staged,
            conditions,
        };
        self.call(container, command).await.map(drop)
    }

    /// Writes a blob whose body is these blocks; the body of `put` is ignored.
    pub async fn put_blocks(
        &self,
        container: &str,
        put: PutBlobRequest,
        choices: Vec<BlockChoice>,
        conditions: Conditions,
    ) -> Result<Blob> {
        let name = put.name.clone();
        let command = BlobCommand::PutBlocks {
            put,
            choices,
            conditions,
        };
        self.write(container, &name, command).await
    }

    /// The blocks of a blob.
    pub async fn blocks(&self, container: &str, name: &str) -> Result<BlockLists> {
        let name = name.to_owned();
        match self.call(container, BlobCommand::Blocks { name }).await? {
            BlobResponse::Blocks {
                blob,
                committed,
                uncommitted,
            } => Ok(BlockLists {
                blob,
                committed,
                uncommitted,
            }),
            _ => Err(Error::damaged("a reply")),
        }
    }

    async fn staged(&self, container: &str, command: BlobCommand) -> Result<UploadHandle> {
        match self.call(container, command).await? {
            BlobResponse::Staged(staged) => Ok(staged),
            _ => Err(Error::damaged("a reply")),
        }
    }
}
