//! Sorted runs of changed rows.
//!
//! A run is strictly ascending by table and key. A cleared table comes first in its
//! table and hides all its rows in older runs; a deleted row hides its older self.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes};
use steadfast_core::id::TableId;
use steadfast_storage::Result;
use steadfast_storage::body::{RowKey, table_of};

use crate::block::{BlockReader, BlockWriter};
use crate::folder::BackupFolder;
use crate::manifest_file::{FileContent, ManifestFile};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const CLEAR: u8 = 3;

/// One change of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunChange {
    /// A row; `None` deletes it.
    Row(RowKey, Option<Bytes>),
    /// A table without its older rows.
    Clear(TableId),
}

/// Writes a run.
pub(crate) struct RunWriter {
    blocks: BlockWriter,
    content: FileContent,
}

impl RunWriter {
    pub(crate) fn create(folder: &BackupFolder, name: &str, content: FileContent) -> Result<Self> {
        let blocks = folder.create(name, content)?;
        Ok(Self { blocks, content })
    }

    /// Adds a row, or its deletion.
    pub(crate) fn row(&mut self, row: &RowKey, value: Option<&Bytes>) -> Result<()> {
        self.blocks.put(|block| match value {
            Some(value) => {
                block.push(PUT);
                put_bytes(block, row);
                put_bytes(block, value);
            }
            None => {
                block.push(DELETE);
                put_bytes(block, row);
            }
        })
    }

    /// Adds that a table was cleared, before its rows.
    pub(crate) fn clear(&mut self, table: TableId) -> Result<()> {
        self.blocks.put(|block| {
            block.push(CLEAR);
            put_bytes(block, &table.0.to_be_bytes());
        })
    }

    pub(crate) fn finish(self, partition: u32) -> Result<ManifestFile> {
        self.blocks.finish(self.content, Some(partition))
    }
}

/// Reads a run.
pub(crate) struct RunReader {
    blocks: BlockReader,
    block: ByteReader,
}

impl RunReader {
    pub(crate) fn open(folder: &BackupFolder, name: &str, content: FileContent) -> Result<Self> {
        Ok(Self {
            blocks: folder.open(name, content)?,
            block: ByteReader::new(Bytes::new()),
        })
    }

    /// The next change; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<RunChange>> {
        while self.block.is_empty() {
            match self.blocks.next()? {
                Some(block) => self.block = ByteReader::new(block),
                None => return Ok(None),
            }
        }
        let step = step(&mut self.block);
        let step = step.map_err(|_| self.blocks.damaged("a row is malformed"))?;
        Ok(Some(step))
    }
}

fn step(block: &mut ByteReader) -> std::result::Result<RunChange, DecodeError> {
    let tag = block.byte()?;
    let row = block.bytes()?;
    if row.len() < 4 {
        return Err(DecodeError);
    }
    match tag {
        PUT => Ok(RunChange::Row(row, Some(block.bytes()?))),
        DELETE => Ok(RunChange::Row(row, None)),
        CLEAR => Ok(RunChange::Clear(table_of(&row))),
        _ => Err(DecodeError),
    }
}
