//! Files of checksummed blocks.
//!
//! A file is a header, blocks, and an end mark. Each block's checksum covers its
//! place among the blocks, so blocks cannot be swapped; the end mark tells a whole
//! file from one that was cut between two blocks. Reading answers `DamagedBackup`
//! with file and place, never bytes that do not have their checksum.
//!
//! In a sealed backup the bytes of a block are sealed, and so is the end mark. A block
//! that has its checksum and does not open was altered, not damaged: `AlteredBackup`.
//!
//! ```text
//! header   "STFB", format u32, content u32
//! block    length u32, CRC32C u32 (of place, length and bytes), bytes
//! end      format 1: a block of length 0; format 2: a block that holds nothing
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_storage::{Error, ErrorKind as StorageKind, Result, private};
use xxhash_rust::xxh3::Xxh3;

use crate::error::ErrorKind;
use crate::manifest_file::{
    FileContent, ManifestFile, PLAIN_FORMAT, SEALED_FORMAT, altered, damaged, unreadable,
};
use crate::seal::{FileKey, TAG_BYTES};

const MAGIC: [u8; 4] = *b"STFB";
const HEADER_BYTES: usize = 12;

/// No block is larger: one row or batch of the largest kind fits.
const MAX_BLOCK_BYTES: usize =
    limits::TRANSACTION_BYTES + limits::KEY_BYTES + 2 * limits::BACKUP_BLOCK_BYTES;

/// Writes a file, block by block.
pub(crate) struct BlockWriter {
    path: PathBuf,
    file: File,
    key: Option<FileKey>,
    hash: Xxh3,
    bytes: u64,
    blocks: u64,
    /// What the next block holds so far.
    block: Vec<u8>,
}

impl BlockWriter {
    /// Begins a new file; with a key a sealed one.
    pub(crate) fn create(path: &Path, content: FileContent, key: Option<FileKey>) -> Result<Self> {
        let file = private::create_new(path).map_err(|e| Error::io(path, "create", e))?;
        let mut writer = Self {
            path: path.to_path_buf(),
            file,
            key,
            hash: Xxh3::new(),
            bytes: 0,
            blocks: 0,
            block: Vec::with_capacity(limits::BACKUP_BLOCK_BYTES),
        };
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&format(writer.key.as_ref()).to_le_bytes());
        header.extend_from_slice(&(content as u32).to_le_bytes());
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds one item; `put` appends it to the block that it is given.
    pub(crate) fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put(&mut self.block);
        if self.block.len() > MAX_BLOCK_BYTES {
            return Err(Error::new(StorageKind::TooLarge {
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
    pub(crate) fn finish(
        mut self,
        content: FileContent,
        partition: Option<u32>,
    ) -> Result<ManifestFile> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.end_block()?;
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io(&self.path, "sync", e))?;
        let name = self.path.file_name().unwrap_or_default();
        Ok(ManifestFile {
            name: name.to_string_lossy().into_owned(),
            content,
            partition,
            bytes: self.bytes,
            digest: format!("{:032x}", self.hash.digest128()),
        })
    }

    fn end_block(&mut self) -> Result<()> {
        let mut block = std::mem::take(&mut self.block);
        if let Some(key) = &self.key {
            key.seal(self.blocks, &mut block);
        }
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
pub(crate) struct BlockReader {
    path: PathBuf,
    file: File,
    key: Option<FileKey>,
    /// Digest of all bytes so far, if they are verified.
    hash: Option<Xxh3>,
    at: u64,
    blocks: u64,
    has_ended: bool,
}

impl BlockReader {
    /// Opens a file that should hold such content, sealed if there is a key.
    pub(crate) fn open(path: &Path, content: FileContent, key: Option<FileKey>) -> Result<Self> {
        let mut reader = Self::on(path, key)?;
        reader.read_header(content)?;
        Ok(reader)
    }

    /// Reads a whole file; answers its length and the digest of its bytes.
    pub(crate) fn verify(
        path: &Path,
        content: FileContent,
        key: Option<FileKey>,
    ) -> Result<(u64, String)> {
        let mut reader = Self::on(path, key)?;
        reader.hash = Some(Xxh3::new());
        reader.read_header(content)?;
        while reader.next()?.is_some() {}
        let hash = reader.hash.unwrap_or_default();
        Ok((reader.at, format!("{:032x}", hash.digest128())))
    }

    fn on(path: &Path, key: Option<FileKey>) -> Result<Self> {
        let file = File::open(path).map_err(|e| unreadable(path, e))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            key,
            hash: None,
            at: 0,
            blocks: 0,
            has_ended: false,
        })
    }

    fn read_header(&mut self, content: FileContent) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.read(&mut header)?;
        let number = |at: usize| header[at..].first_chunk().copied().map(u32::from_le_bytes);
        if header[..4] != MAGIC || number(8) != Some(content as u32) {
            return Err(self.damaged("it does not begin as it should"));
        }
        match number(4) {
            Some(found) if found > SEALED_FORMAT => Err(Error::new(ErrorKind::NewerBackup {
                path: self.path.clone(),
                found,
                known: SEALED_FORMAT,
            })),
            Some(found) if found != format(self.key.as_ref()) => {
                Err(self.damaged("it has another format than its manifest"))
            }
            _ => Ok(()),
        }
    }

    /// The next block; `None` at the end mark.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>> {
        if self.has_ended {
            return Ok(None);
        }
        let mut head = [0; 8];
        self.read(&mut head)?;
        let number = |at: usize| head[at..].first_chunk().copied().map(u32::from_le_bytes);
        let (length, expected) = (number(0).unwrap_or(0) as usize, number(4));
        if length > MAX_BLOCK_BYTES + TAG_BYTES {
            return Err(self.damaged("a block has an impossible length"));
        }
        let mut block = vec![0; length];
        self.read(&mut block)?;
        if Some(checksum(self.blocks, &block)) != expected {
            return Err(self.damaged("a block does not have its checksum"));
        }
        let block = match &self.key {
            Some(key) => key.open(self.blocks, block).ok_or_else(|| self.altered())?,
            None => block,
        };
        self.blocks += 1;
        if !block.is_empty() {
            return Ok(Some(block.into()));
        }
        self.has_ended = true;
        Ok(None)
    }

    /// Damage at the place that has been reached.
    pub(crate) fn damaged(&self, what: &str) -> Error {
        damaged(&self.path, format!("{what}, before byte {}", self.at))
    }

    /// A block that is not the one that was sealed in this place.
    fn altered(&self) -> Error {
        let (number, at) = (self.blocks, self.at);
        let what = format!(
            "block {number}, before byte {at}, is not the one that was sealed in this place"
        );
        altered(&self.path, what)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact(into);
        read.map_err(|e| unreadable(&self.path, e))?;
        self.at += into.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(into);
        }
        Ok(())
    }
}

/// The format of a file.
fn format(key: Option<&FileKey>) -> u32 {
    match key {
        Some(_) => SEALED_FORMAT,
        None => PLAIN_FORMAT,
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
    use crate::seal::{BackupKey, DataKey};

    const ITEMS: [usize; 4] = [3, limits::BACKUP_BLOCK_BYTES, 70_000, 1];

    fn data_key() -> DataKey {
        DataKey::draw("a backup", &BackupKey::new("a key for tests")).0
    }

    fn write(path: &Path, key: Option<FileKey>, items: &[usize]) -> (Vec<u8>, ManifestFile) {
        let mut writer = BlockWriter::create(path, FileContent::Rows, key).unwrap();
        let mut expected = Vec::new();
        for (number, length) in items.iter().enumerate() {
            let item = vec![number as u8 + 1; *length];
            writer.put(|block| block.extend_from_slice(&item)).unwrap();
            expected.extend(item);
        }
        (expected, writer.finish(FileContent::Rows, None).unwrap())
    }

    fn read_all(path: &Path, key: Option<FileKey>) -> Result<Vec<u8>> {
        let mut reader = BlockReader::open(path, FileContent::Rows, key)?;
        let mut all = Vec::new();
        while let Some(block) = reader.next()? {
            all.extend_from_slice(&block);
        }
        Ok(all)
    }

    #[test]
    fn no_changed_byte_and_no_cut_is_read() {
        for data_key in [None, Some(data_key())] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let key = || {
                data_key
                    .as_ref()
                    .map(|key| key.file("file", FileContent::Rows))
            };
            let (expected, saved) = write(&path, key(), &ITEMS);
            assert_eq!(read_all(&path, key()).unwrap(), expected);
            let verified = BlockReader::verify(&path, FileContent::Rows, key()).unwrap();
            assert_eq!(verified, (saved.bytes, saved.digest));
            let whole = std::fs::read(&path).unwrap();
            assert_eq!(saved.bytes, whole.len() as u64);
            let last = whole.len() - 1;
            let places = (0..40).chain([limits::BACKUP_BLOCK_BYTES]);
            for at in places.chain(last - 40..=last) {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x10;
                std::fs::write(&path, &bytes).unwrap();
                assert!(read_all(&path, key()).is_err(), "byte {at} was changed");
                std::fs::write(&path, &whole[..at]).unwrap();
                let error = read_all(&path, key()).unwrap_err();
                assert_eq!(error.code().0, "STF-2053", "cut at {at}: {error}");
            }
        }
    }

    /// The header of a file, and its blocks with the end mark.
    fn split(file: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (header, mut rest) = file.split_at(HEADER_BYTES);
        let mut blocks = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let (block, after) = after[4..].split_at(u32::from_le_bytes(*length) as usize);
            blocks.push(block.to_vec());
            rest = after;
        }
        (header.to_vec(), blocks)
    }

    /// A file of these blocks, with the checksums that they need.
    fn join(header: &[u8], blocks: &[Vec<u8>]) -> Vec<u8> {
        let mut file = header.to_vec();
        for (number, block) in blocks.iter().enumerate() {
            file.extend_from_slice(&(block.len() as u32).to_le_bytes());
            file.extend_from_slice(&checksum(number as u64, block).to_le_bytes());
            file.extend_from_slice(block);
        }
        file
    }

    /// An attacker gives an altered file the checksums that it needs.
    #[test]
    fn blocks_are_not_altered_swapped_repeated_dropped_or_taken_from_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (own, other) = (data_key(), data_key());
        let key = || Some(own.file("file", FileContent::Rows));
        let large = [limits::BACKUP_BLOCK_BYTES; 3];
        write(&path, key(), &large);
        let same = Some(own.file("same", FileContent::Rows));
        write(&folder.path().join("same"), same, &large);
        let foreign = Some(other.file("file", FileContent::Rows));
        write(&folder.path().join("other"), foreign, &large);
        let file = std::fs::read(&path).unwrap();
        let (header, blocks) = split(&file);
        assert_eq!(join(&header, &blocks), file);
        assert_eq!(blocks.len(), 4, "three blocks and the end mark");
        let foreign = |name: &str| split(&std::fs::read(folder.path().join(name)).unwrap()).1;
        let mut cases: Vec<(&str, Vec<Vec<u8>>)> = Vec::new();
        let mut case = |what, change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut blocks = blocks.clone();
            change(&mut blocks);
            cases.push((what, blocks));
        };
        case("swapped", &|blocks| blocks.swap(0, 1));
        case("repeated", &|blocks| blocks.insert(0, blocks[0].clone()));
        case("the first dropped", &|blocks| drop(blocks.remove(0)));
        case("the last dropped", &|blocks| drop(blocks.remove(2)));
        case("ended early", &|blocks| blocks.insert(1, blocks[3].clone()));
        case("an end mark of nothing", &|blocks| blocks[1].clear());
        case("altered", &|blocks| blocks[1][5] ^= 1);
        case("a shorter block", &|blocks| blocks[1].truncate(1000));
        case("a block of the file beside it", &|blocks| {
            blocks[1] = foreign("same")[1].clone()
        });
        case("a block of another backup", &|blocks| {
            blocks[1] = foreign("other")[1].clone()
        });
        case("a whole file of another backup", &|blocks| {
            *blocks = foreign("other")
        });
        for (what, blocks) in cases {
            std::fs::write(&path, join(&header, &blocks)).unwrap();
            let error = read_all(&path, key()).unwrap_err();
            assert_eq!(error.code().0, "STF-2063", "{what}: {error}");
        }
        // Nor does it become one of plain text.
        let mut header = header;
        header[4] = PLAIN_FORMAT as u8;
        std::fs::write(&path, join(&header, &blocks)).unwrap();
        assert_eq!(read_all(&path, key()).unwrap_err().code().0, "STF-2053");
    }
}
