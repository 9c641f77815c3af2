//! Files of the commit log: zero-filled once, then recycled.
//!
//! A sync of a file whose blocks are all written needs no journal commit of the
//! file system, so every file is filled with zeros before its first use and used
//! again when its groups are flushed. Which segment a file holds is written in its
//! records, so recycling needs no rename.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use steadfast_storage::{Error, Result, private};

use crate::folders::sync_folder;

/// A log file that is ready to be written.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
}

/// A log file in one of its uses. A reader of its bytes holds a reference; the file is
/// recycled when no references are left.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) slot: SegmentFile,
    pub(crate) number: u64,
}

/// A range of bytes in the log.
#[derive(Clone, Debug)]
pub(crate) struct LogRange {
    pub(crate) segment: Arc<Segment>,
    pub(crate) at: u64,
    pub(crate) length: u32,
}

impl SegmentFile {
    /// Creates a file of zeros, durable with its name.
    pub(crate) fn create(folder: &Path, id: u64, size: u64) -> Result<Self> {
        let path = folder.join(format!("{id:06}.log"));
        let fill = || -> io::Result<File> {
            let file = private::create_new(&path)?;
            let zeros = vec![0; 256 * 1024];
            let mut at = 0;
            while at < size {
                let part = zeros.len().min((size - at) as usize);
                file.write_all_at(&zeros[..part], at)?;
                at += part as u64;
            }
            file.sync_all()?;
            Ok(file)
        };
        let file = fill().map_err(|e| {
            // A partial file is useless; free its space.
            let _ = std::fs::remove_file(&path);
            Error::io(&path, "create", e)
        })?;
        sync_folder(folder)?;
        Ok(Self { file, path, size })
    }

    /// Opens an existing file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let open = || -> io::Result<(File, u64)> {
            let file = File::options().read(true).write(true).open(path)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        };
        let (file, size) = open().map_err(|e| Error::io(path, "open", e))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            size,
        })
    }

    /// Reads bytes, which must exist.
    pub(crate) fn read(&self, at: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(|e| Error::io(&self.path, "read", e))?;
        Ok(bytes.into())
    }
}

impl LogRange {
    /// Reads the range.
    pub(crate) fn read(&self) -> Result<Bytes> {
        self.segment.slot.read(self.at, self.length as usize)
    }
}
