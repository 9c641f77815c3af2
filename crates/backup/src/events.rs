//! Event batches in a backup's files.
//!
//! The batches of one stream stand in their order, those of different streams as
//! they come. Each keeps its numbers, offset and time, and its own checksum.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{Offset, Sequence, StreamId};
use steadfast_storage::Result;
use steadfast_storage::engine::EventBatch;

use crate::block::{BlockReader, BlockWriter};
use crate::folder::BackupFolder;
use crate::manifest_file::{FileContent, ManifestFile};

/// Writes batches; the file is made with the first one.
pub(crate) struct EventWriter {
    folder: BackupFolder,
    name: String,
    content: FileContent,
    blocks: Option<BlockWriter>,
    pub(crate) events: u64,
}

impl EventWriter {
    pub(crate) fn new(folder: &BackupFolder, name: String, content: FileContent) -> Self {
        Self {
            folder: folder.clone(),
            name,
            content,
            blocks: None,
            events: 0,
        }
    }

    /// Adds a batch.
    pub(crate) fn batch(&mut self, batch: &EventBatch) -> Result<()> {
        self.events += u64::from(batch.count);
        let blocks = match &mut self.blocks {
            Some(blocks) => blocks,
            None => {
                let blocks = self.folder.create(&self.name, self.content)?;
                self.blocks.insert(blocks)
            }
        };
        blocks.put(|block| {
            put_varint(block, u64::from(batch.stream.0));
            put_varint(block, batch.first.0);
            put_varint(block, batch.offset.0);
            put_varint(block, u64::from(batch.count));
            put_varint(block, batch.time.0.max(0) as u64);
            block.extend_from_slice(&batch.checksum().to_le_bytes());
            put_bytes(block, &batch.bytes);
        })
    }

    /// The file, if there was a batch.
    pub(crate) fn finish(self, partition: u32) -> Result<Option<ManifestFile>> {
        let content = self.content;
        let blocks = self.blocks;
        blocks
            .map(|blocks| blocks.finish(content, Some(partition)))
            .transpose()
    }
}

/// A file of batches.
pub(crate) struct EventFile {
    pub(crate) folder: BackupFolder,
    pub(crate) name: String,
    pub(crate) content: FileContent,
}

/// Reads batches from one file after the other.
pub(crate) struct EventReader {
    /// Files that are not open yet, the next one last.
    files: Vec<EventFile>,
    blocks: Option<BlockReader>,
    block: ByteReader,
}

impl EventReader {
    /// Reads files in this order.
    pub(crate) fn new(mut files: Vec<EventFile>) -> Self {
        files.reverse();
        Self {
            files,
            blocks: None,
            block: ByteReader::new(Bytes::new()),
        }
    }

    /// The next batch; `None` at the end of the last file.
    pub(crate) fn next(&mut self) -> Result<Option<EventBatch>> {
        loop {
            if !self.block.is_empty() {
                return self.batch().map(Some);
            }
            let block = match &mut self.blocks {
                Some(blocks) => blocks.next()?,
                None => None,
            };
            match (block, self.files.pop()) {
                (Some(block), next) => {
                    self.block = ByteReader::new(block);
                    self.files.extend(next);
                }
                (None, Some(file)) => {
                    self.blocks = Some(file.folder.open(&file.name, file.content)?);
                }
                (None, None) => return Ok(None),
            }
        }
    }

    fn batch(&mut self) -> Result<EventBatch> {
        let batch = decode(&mut self.block);
        let blocks = self.blocks.as_ref().expect("a block was read from it");
        batch.map_err(|_| blocks.damaged("an event batch is malformed"))
    }
}

fn decode(block: &mut ByteReader) -> std::result::Result<EventBatch, DecodeError> {
    let stream = StreamId(block.varint_u32()?);
    let first = Sequence(block.varint()?);
    let offset = Offset(block.varint()?);
    let count = block.varint_u32()?;
    let time = Timestamp(i64::try_from(block.varint()?).map_err(|_| DecodeError)?);
    let checksum = block.u32_le()?;
    let batch = EventBatch::new(stream, first, offset, count, time, block.bytes()?);
    if batch.checksum() == checksum {
        Ok(batch)
    } else {
        Err(DecodeError)
    }
}
