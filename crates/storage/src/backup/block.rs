//! Files of checksummed blocks.
//!
//! A file is a header, blocks, and an end mark. Each block's checksum covers its
//! place among the blocks, so blocks cannot be swapped; the end mark tells a whole
//! file from one that was cut between two blocks. Reading answers `DamagedBackup`
//! with file and place, never bytes that do not have their checksum.
//!
//! ```text
//! header   "STFB", format u32, content u32
//! block    length u32, CRC32C u32 (of place, length and bytes), bytes
//! end      a block of length 0
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use steadfast_core::limits;
use xxhash_rust::xxh3::Xxh3;

use super::saved::{Content, FORMAT, SavedFile, damaged, unreadable};
use crate::error::{Error, Kind, Result};
use crate::private;

const MAGIC: [u8; 4] = *b"STFB";
const HEADER_BYTES: usize = 12;

/// No block is larger: one row or batch of the largest kind fits.
const MAX_BLOCK_BYTES: usize =
    limits::TRANSACTION_BYTES + limits::KEY_BYTES + 2 * limits::BACKUP_BLOCK_BYTES;

/// Writes a file, block by block.
pub(super) struct BlockWriter {
    path: PathBuf,
    file: File,
    hash: Xxh3,
    bytes: u64,
    blocks: u64,
    /// What the next block holds so far.
    block: Vec<u8>,
}

impl BlockWriter {
    /// Begins a new file.
    pub(super) fn create(path: &Path, content: Content) -> Result<Self> {
        let file = private::create_new(path).map_err(|e| Error::io(path, "create", e))?;
        let mut writer = Self {
            path: path.to_path_buf(),
            file,
            hash: Xxh3::new(),
            bytes: 0,
            blocks: 0,
            block: Vec::with_capacity(limits::BACKUP_BLOCK_BYTES),
        };
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&(content as u32).to_le_bytes());
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds one item; `put` appends it to the block that it is given.
    pub(super) fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put(&mut self.block);
        if self.block.len() > MAX_BLOCK_BYTES {
            return Err(Error::new(Kind::TooLarge {
                what: "an item of a backup",
                bytes: self.block.len(),
                limit: MAX_BLOCK_BYTES,
            }));
        }
        if self.block.len() >= limits::BACKUP_BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    /// Ends the file and makes it durable; its name is not yet.
    pub(super) fn finish(mut self, content: Content, partition: Option<u32>) -> Result<SavedFile> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.end_block()?;
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io(&self.path, "sync", e))?;
        let name = self.path.file_name().unwrap_or_default();
        Ok(SavedFile {
            name: name.to_string_lossy().into_owned(),
            content,
            partition,
            bytes: self.bytes,
            digest: format!("{:032x}", self.hash.digest128()),
        })
    }

    fn end_block(&mut self) -> Result<()> {
        let block = std::mem::take(&mut self.block);
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(block.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&checksum(self.blocks, &block).to_le_bytes());
        self.write(&head)?;
        self.write(&block)?;
        self.blocks += 1;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        let written = self.file.write_all(bytes);
        written.map_err(|e| Error::io(&self.path, "write", e))
    }
}

/// Reads a file, block by block.
pub(super) struct BlockReader {
    path: PathBuf,
    file: File,
    at: u64,
    blocks: u64,
    has_ended: bool,
}

impl BlockReader {
    /// Opens a file that should hold such content.
    pub(super) fn open(path: &Path, content: Content) -> Result<Self> {
        let file = File::open(path).map_err(|e| unreadable(path, e))?;
        let mut reader = Self {
            path: path.to_path_buf(),
            file,
            at: 0,
            blocks: 0,
            has_ended: false,
        };
        let mut header = [0; HEADER_BYTES];
        reader.read(&mut header)?;
        let number = |at: usize| header[at..].first_chunk().copied().map(u32::from_le_bytes);
        if header[..4] != MAGIC || number(8) != Some(content as u32) {
            return Err(reader.damaged("it does not begin as it should"));
        }
        match number(4) {
            Some(found) if found > FORMAT => Err(Error::new(Kind::NewerBackup {
                path: path.to_path_buf(),
                found,
                known: FORMAT,
            })),
            _ => Ok(reader),
        }
    }

    /// The next block; `None` at the end mark.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>> {
        if self.has_ended {
            return Ok(None);
        }
        let mut head = [0; 8];
        self.read(&mut head)?;
        let number = |at: usize| head[at..].first_chunk().copied().map(u32::from_le_bytes);
        let (length, expected) = (number(0).unwrap_or(0) as usize, number(4));
        if length > MAX_BLOCK_BYTES {
            return Err(self.damaged("a block has an impossible length"));
        }
        let mut block = vec![0; length];
        self.read(&mut block)?;
        if Some(checksum(self.blocks, &block)) != expected {
            return Err(self.damaged("a block does not have its checksum"));
        }
        self.blocks += 1;
        if length > 0 {
            return Ok(Some(block.into()));
        }
        self.has_ended = true;
        Ok(None)
    }

    /// Damage at the place that has been reached.
    pub(super) fn damaged(&self, what: &str) -> Error {
        damaged(&self.path, format!("{what}, before byte {}", self.at))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact(into);
        self.at += into.len() as u64;
        read.map_err(|e| unreadable(&self.path, e))
    }
}

fn checksum(place: u64, block: &[u8]) -> u32 {
    let mut head = [0; 12];
    head[..8].copy_from_slice(&place.to_le_bytes());
    head[8..].copy_from_slice(&(block.len() as u32).to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&head), block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(path: &Path) -> Result<Vec<u8>> {
        let mut reader = BlockReader::open(path, Content::Rows)?;
        let mut all = Vec::new();
        while let Some(block) = reader.next()? {
            all.extend_from_slice(&block);
        }
        Ok(all)
    }

    #[test]
    fn no_changed_byte_and_no_cut_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut writer = BlockWriter::create(&path, Content::Rows).unwrap();
        let items: [usize; 4] = [3, limits::BACKUP_BLOCK_BYTES, 70_000, 1];
        let mut expected = Vec::new();
        for (number, length) in items.into_iter().enumerate() {
            let item = vec![number as u8 + 1; length];
            writer.put(|block| block.extend_from_slice(&item)).unwrap();
            expected.extend(item);
        }
        let saved = writer.finish(Content::Rows, None).unwrap();
        assert_eq!(read_all(&path).unwrap(), expected);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(saved.bytes, whole.len() as u64);
        let last = whole.len() - 1;
        for at in (0..40).chain([limits::BACKUP_BLOCK_BYTES, last - 8, last]) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            assert!(read_all(&path).is_err(), "byte {at} was changed");
            std::fs::write(&path, &whole[..at]).unwrap();
            let error = read_all(&path).unwrap_err();
            assert_eq!(error.code().0, "STF-2053", "cut at {at}: {error}");
        }
    }
}
