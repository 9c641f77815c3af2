//! The limits of the disk, on files like those of the engine.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// The bytes of one synced write of an event stream.
pub(crate) const BATCH_BYTES: usize = 256 * 1024;

const PAGE_BYTES: usize = 4096;

/// A file like one of the commit log: all its blocks are written, so a sync of it
/// writes data only.
pub(crate) struct LogFile {
    file: File,
    at: u64,
}

impl LogFile {
    const BYTES: u64 = 16 * 1024 * 1024;

    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let path = folder.join("limit.log");
        let mut file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let zeros = vec![0; BATCH_BYTES];
        for _ in 0..Self::BYTES / zeros.len() as u64 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    /// Overwrites page after page; returns the duration of each `fdatasync`.
    pub(crate) fn sync_for(&mut self, duration: Duration) -> Result<Samples> {
        let mut samples = Samples::default();
        let mut page = [0u8; PAGE_BYTES];
        let run = Stopwatch::start();
        while run.elapsed() < duration || samples.len() == 0 {
            page[0] = page[0].wrapping_add(1);
            self.file.write_all_at(&page, self.at)?;
            self.at = (self.at + PAGE_BYTES as u64) % Self::BYTES;
            let sync = Stopwatch::start();
            self.file.sync_data()?;
            samples.push(sync.elapsed());
        }
        Ok(samples)
    }
}

/// Bytes per second of appends to a file in batches, each synced.
pub(crate) fn write_batches(path: &Path, bytes: u64) -> Result<f64> {
    let mut batch = vec![0; BATCH_BYTES];
    fastrand::fill(&mut batch);
    let mut file = File::create_new(path)?;
    let run = Stopwatch::start();
    let mut written = 0;
    while written < bytes {
        file.write_all(&batch)?;
        file.sync_data()?;
        written += batch.len() as u64;
    }
    Ok(written as f64 / run.seconds())
}

/// Bytes per second of reading a file from its beginning to its end.
pub(crate) fn read_file(path: &Path) -> Result<f64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1024 * 1024];
    let run = Stopwatch::start();
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => bytes += read,
        }
    }
    Ok(bytes as f64 / run.seconds())
}

/// A new folder on the measured disk, deleted on drop.
pub(crate) fn temporary(folder: &Path) -> Result<TempDir> {
    let builder = tempfile::Builder::new()
        .prefix(".steadfast-bench-")
        .to_owned();
    let made = builder.tempdir_in(folder);
    made.with_context(|| format!("create a folder in {}", folder.display()))
}

/// Disk space of all files below a folder, in bytes.
pub(crate) fn taken_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files_below(folder)? {
        bytes += fs::metadata(path)?.blocks() * 512;
    }
    Ok(bytes)
}

/// Bytes that all processes and the file system have written so far to the disk of a
/// folder; `None` if it is not on one disk.
pub(crate) fn device_bytes(folder: &Path) -> Option<u64> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let counters = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors: u64 = counters.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

/// Evicts a file, or all files below a folder, from the page cache, so that the next
/// read comes from the disk.
pub(crate) fn forget_cached(path: &Path) -> Result<()> {
    for path in files_below(path)? {
        let file = File::open(&path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        files.extend(files_below(&entry?.path())?);
    }
    Ok(files)
}
