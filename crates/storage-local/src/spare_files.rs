//! Log files that wait to be used.
//!
//! One is kept ready, made on a thread of its own, because filling a file with
//! zeros takes longer than a commit may wait. Old segments come back here.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use steadfast_storage::{Error, Result};

use crate::segment::SegmentFile;

/// More than this many bytes of spare files are given back to the disk.
const SPARE_BYTES: u64 = 64 * 1024 * 1024;

/// The store of spare files.
pub(crate) struct SpareFiles {
    folder: PathBuf,
    slot_bytes: u64,
    next_id: u64,
    ready: Vec<SegmentFile>,
    maker: Option<SpareFileMaker>,
}

/// The thread that makes them.
struct SpareFileMaker {
    orders: Sender<u64>,
    made: Receiver<Result<SegmentFile>>,
    is_busy: bool,
}

impl SpareFiles {
    /// Takes over the files that are not in use. Without `background` every file
    /// is made when it is needed, in a fixed order.
    pub(crate) fn new(
        folder: &Path,
        slot_bytes: u64,
        next_id: u64,
        ready: Vec<SegmentFile>,
        background: bool,
    ) -> Result<Self> {
        let mut spares = Self {
            folder: folder.to_path_buf(),
            slot_bytes,
            next_id,
            ready: Vec::new(),
            maker: None,
        };
        for slot in ready {
            spares.give(slot);
        }
        if background {
            spares.maker = Some(SpareFileMaker::start(folder, slot_bytes)?);
            spares.order();
        }
        Ok(spares)
    }

    /// A file with room for `bytes`.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<SegmentFile> {
        if bytes > self.slot_bytes {
            return self.make(bytes);
        }
        let mut slot = self.ready.pop();
        if let Some(maker) = self.maker.as_mut().filter(|maker| maker.is_busy) {
            // If no other file is spare, waiting is faster than making a second one.
            let made = match slot {
                Some(_) => maker.made.try_recv().ok(),
                None => maker.made.recv().ok(),
            };
            if let Some(made) = made {
                maker.is_busy = false;
                match (made, &slot) {
                    (Ok(made), None) => slot = Some(made),
                    (Ok(made), Some(_)) => self.ready.push(made),
                    (Err(error), None) => return Err(error),
                    (Err(_), Some(_)) => {}
                }
            }
        }
        let slot = match slot {
            Some(slot) => slot,
            None => self.make(self.slot_bytes)?,
        };
        self.order();
        Ok(slot)
    }

    /// Takes a file back.
    pub(crate) fn give(&mut self, slot: SegmentFile) {
        let held = self.ready.len() as u64 * self.slot_bytes;
        if slot.size == self.slot_bytes && held < SPARE_BYTES {
            self.ready.push(slot);
            return;
        }
        if let Err(error) = std::fs::remove_file(&slot.path) {
            tracing::warn!(
                event = "storage.file_kept",
                path = %slot.path.display(),
                %error,
                "could not remove a log file",
            );
        }
    }

    fn make(&mut self, bytes: u64) -> Result<SegmentFile> {
        self.next_id += 1;
        SegmentFile::create(&self.folder, self.next_id - 1, bytes)
    }

    fn order(&mut self) {
        let is_wanted = self.ready.is_empty();
        if let Some(maker) = self
            .maker
            .as_mut()
            .filter(|maker| !maker.is_busy && is_wanted)
        {
            self.next_id += 1;
            maker.is_busy = maker.orders.send(self.next_id - 1).is_ok();
        }
    }
}

impl SpareFileMaker {
    fn start(folder: &Path, slot_bytes: u64) -> Result<Self> {
        let (orders, inbox) = channel();
        let (outbox, made) = channel();
        let folder = folder.to_path_buf();
        let path = folder.clone();
        let make = move || {
            for id in inbox {
                let slot = SegmentFile::create(&folder, id, slot_bytes);
                if outbox.send(slot).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("steadfast-spare".into())
            .spawn(make)
            .map_err(|e| Error::io(&path, "start a thread for", e))?;
        Ok(Self {
            orders,
            made,
            is_busy: false,
        })
    }
}

impl Drop for SpareFileMaker {
    /// Waits for a file that is being made, so that nothing is written into the folder
    /// after its lock is gone.
    fn drop(&mut self) {
        if self.is_busy {
            let _ = self.made.recv();
        }
    }
}
