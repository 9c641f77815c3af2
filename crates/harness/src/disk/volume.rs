//! The fake disk behind its one lock: tree, faults, counters.
//!
//! Every operation that changes something passes `change`, which refuses it after a cut, counts
//! it, and cuts the power once the armed number is reached.

use fuser::{Errno, ReplyEmpty};

use super::content::DiskFileContent;
use super::cut::power_cut;
use super::folder::{DiskFolder, Inode};
use super::tree::{NodeBody, ROOT, Rename, RenameEnd, Tree};

/// The size that a disk without a set capacity reports.
const UNBOUNDED_BYTES: u64 = 1 << 40;

/// Files are in memory, so a stray offset must not fill it.
const MAX_FILE_BYTES: u64 = 1 << 32;

pub(super) struct Volume {
    pub(super) tree: Tree,
    pub(super) cut: bool,
    pub(super) armed: Option<ScheduledCut>,
    pub(super) faults: DiskFaults,
    pub(super) counts: DiskCounts,
}

/// A power cut to come.
#[derive(Clone, Copy)]
pub(super) struct ScheduledCut {
    /// The number of the last operation that succeeds.
    pub(super) last_operation: u64,
    pub(super) seed: u64,
}

#[derive(Default)]
pub(super) struct DiskFaults {
    pub(super) read_only: bool,
    pub(super) capacity: Option<u64>,
    pub(super) failing_sync: Option<String>,
    /// Whether each sync makes all entries durable, as the journal of ext4 does.
    pub(super) entries_follow_sync: bool,
    /// Held syncs of files that wait for their reply; `None` while syncs are not held.
    pub(super) held_syncs: Option<Vec<(Inode, ReplyEmpty)>>,
}

#[derive(Default)]
pub(super) struct DiskCounts {
    pub(super) operations: u64,
    pub(super) syncs: u64,
    pub(super) bytes_written: u64,
}

impl Volume {
    pub(super) fn new() -> Volume {
        Volume {
            tree: Tree::empty(None),
            cut: false,
            armed: None,
            faults: DiskFaults::default(),
            counts: DiskCounts::default(),
        }
    }

    /// Empties the disk and clears all faults and counts.
    pub(super) fn reset(&mut self) {
        *self = Volume {
            tree: Tree::empty(Some(&self.tree)),
            ..Volume::new()
        };
    }

    pub(super) fn cut_power(&mut self, seed: u64) {
        if self.cut {
            return;
        }
        let empty = Tree::empty(Some(&self.tree));
        let tree = std::mem::replace(&mut self.tree, empty);
        self.tree = power_cut(tree, seed);
        self.cut = true;
        self.armed = None;
    }

    /// Arms a cut after this many further operations.
    pub(super) fn arm(&mut self, operations: u64, seed: u64) {
        if operations == 0 {
            return self.cut_power(seed);
        }
        self.armed = Some(ScheduledCut {
            last_operation: self.counts.operations + operations,
            seed,
        });
    }

    /// The tree for operations that change nothing.
    pub(super) fn view(&self) -> Result<&Tree, Errno> {
        if self.cut {
            Err(Errno::EIO)
        } else {
            Ok(&self.tree)
        }
    }

    pub(super) fn open(&mut self, inode: Inode, is_writing: bool) -> Result<(), Errno> {
        self.view()?;
        if is_writing && self.faults.read_only {
            return Err(Errno::EROFS);
        }
        self.tree.node_mut(inode)?.handles += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, inode: Inode) {
        // After a cut or a reset the node of a late handle no longer exists.
        if let Ok(node) = self.tree.node_mut(inode) {
            node.handles = node.handles.saturating_sub(1);
        }
    }

    pub(super) fn create(&mut self, place: RenameEnd<'_>, mode: u16) -> Result<Inode, Errno> {
        let body = NodeBody::File(DiskFileContent::default());
        let inode = self.create_node(place, mode, body)?;
        // The cut may have come with this very operation; then the handle is already stale.
        if let Ok(node) = self.tree.node_mut(inode) {
            node.handles = 1;
        }
        Ok(inode)
    }

    pub(super) fn make_folder(&mut self, place: RenameEnd<'_>, mode: u16) -> Result<Inode, Errno> {
        self.create_node(place, mode, NodeBody::Folder(DiskFolder::default()))
    }

    pub(super) fn unlink(&mut self, place: RenameEnd<'_>) -> Result<(), Errno> {
        self.change(|volume, operation| volume.tree.unlink(operation, place))
    }

    pub(super) fn remove_folder(&mut self, place: RenameEnd<'_>) -> Result<(), Errno> {
        self.change(|volume, operation| volume.tree.remove_folder(operation, place))
    }

    pub(super) fn rename(
        &mut self,
        from: RenameEnd<'_>,
        to: RenameEnd<'_>,
        mode: Rename,
    ) -> Result<(), Errno> {
        self.change(|volume, operation| volume.tree.rename(operation, from, to, mode))
    }

    pub(super) fn write(&mut self, inode: Inode, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.change(|volume, operation| {
            volume.check_room(inode, offset + data.len() as u64)?;
            let file = volume.tree.file_mut(inode)?;
            file.write(operation, offset as usize, data);
            volume.counts.bytes_written += data.len() as u64;
            Ok(())
        })
    }

    pub(super) fn resize(&mut self, inode: Inode, size: u64) -> Result<(), Errno> {
        self.change(|volume, operation| {
            volume.check_room(inode, size)?;
            volume.tree.node_mut(inode)?.reserved = 0;
            let file = volume.tree.file_mut(inode)?;
            file.resize(operation, size as usize);
            Ok(())
        })
    }

    /// Sets space aside; extends the file unless its size is to be kept.
    pub(super) fn allocate(&mut self, inode: Inode, end: u64, extend: bool) -> Result<(), Errno> {
        self.change(|volume, operation| {
            volume.check_room(inode, end)?;
            let node = volume.tree.node_mut(inode)?;
            node.reserved = node.reserved.max(end);
            let file = volume.tree.file_mut(inode)?;
            if extend && file.size() < end as usize {
                file.resize(operation, end as usize);
            }
            Ok(())
        })
    }

    pub(super) fn zero(&mut self, inode: Inode, offset: u64, length: u64) -> Result<(), Errno> {
        self.change(|volume, operation| {
            let file = volume.tree.file_mut(inode)?;
            file.zero(operation, offset as usize, length as usize);
            Ok(())
        })
    }

    pub(super) fn sync_file(&mut self, inode: Inode) -> Result<(), Errno> {
        self.sync(inode, |tree| {
            tree.file_mut(inode)?.sync();
            Ok(())
        })
    }

    pub(super) fn sync_folder(&mut self, inode: Inode) -> Result<(), Errno> {
        self.sync(inode, |tree| tree.sync_folder(inode))
    }

    /// All bytes of the disk and those still free.
    pub(super) fn space(&self) -> (u64, u64) {
        let capacity = self.faults.capacity.unwrap_or(UNBOUNDED_BYTES);
        let used = self.tree.used_bytes();
        (capacity, capacity.saturating_sub(used))
    }

    fn create_node(
        &mut self,
        place: RenameEnd<'_>,
        mode: u16,
        body: NodeBody,
    ) -> Result<Inode, Errno> {
        self.change(|volume, operation| {
            volume.check_room(ROOT, 1)?;
            volume.tree.create(operation, place, mode, body)
        })
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Volume, u64) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.view()?;
        if self.faults.read_only {
            return Err(Errno::EROFS);
        }
        self.count(change)
    }

    fn sync(
        &mut self,
        inode: Inode,
        sync: impl FnOnce(&mut Tree) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        self.view()?;
        self.count(|volume, _| {
            volume.check_sync(inode)?;
            sync(&mut volume.tree)?;
            if volume.faults.entries_follow_sync {
                volume.tree.sync_entries();
            }
            volume.counts.syncs += 1;
            Ok(())
        })
    }

    fn count<T>(
        &mut self,
        change: impl FnOnce(&mut Volume, u64) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.counts.operations += 1;
        let operation = self.counts.operations;
        let result = change(self, operation);
        if let Some(armed) = self.armed.filter(|armed| armed.last_operation <= operation) {
            self.cut_power(armed.seed);
        }
        result
    }

    /// Refuses to let a file grow to `end` past the capacity.
    fn check_room(&self, inode: Inode, end: u64) -> Result<(), Errno> {
        if end > MAX_FILE_BYTES {
            return Err(Errno::EFBIG);
        }
        let Some(capacity) = self.faults.capacity else {
            return Ok(());
        };
        let node = self.tree.node(inode)?;
        let growth = end.saturating_sub(node.reserved.max(node.size()));
        if growth > 0 && self.tree.used_bytes() + growth > capacity {
            Err(Errno::ENOSPC)
        } else {
            Ok(())
        }
    }

    fn check_sync(&self, inode: Inode) -> Result<(), Errno> {
        let Some(failing) = &self.faults.failing_sync else {
            return Ok(());
        };
        let path = self.tree.path(inode);
        if path.to_string_lossy().contains(failing.as_str()) {
            Err(Errno::EIO)
        } else {
            Ok(())
        }
    }
}
