//! The fake disk that tests mount, cut off and restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, anyhow};
use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::UnmountFlags;

use super::kernel::{self, KernelServer};
use super::volume::Volume;

const PREFIX: &str = "steadfast-disk";

/// A disk in memory, mounted as a folder until it is dropped.
///
/// Content is durable after `fsync` or `fdatasync` of its file, an entry after `fsync` of its
/// folder. What is not durable survives a power cut in part, block by block, as the seed decides.
pub struct FakeDisk {
    path: PathBuf,
    volume: Arc<Mutex<Volume>>,
    session: Option<BackgroundSession>,
}

impl FakeDisk {
    /// Mounts an empty disk on a new folder for temporary files.
    pub fn mount() -> anyhow::Result<FakeDisk> {
        static MOUNTED: AtomicU32 = AtomicU32::new(0);
        sweep_mounts();
        let number = MOUNTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        let volume = Arc::new(Mutex::new(Volume::new()));
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(PREFIX.to_owned()),
            MountOption::NoAtime,
            MountOption::NoDev,
        ];
        let session = fuser::spawn_mount(KernelServer::new(volume.clone()), &path, &config)
            .context("mount the fake disk: run as root with /dev/fuse, or install `fuse3`")?;
        Ok(FakeDisk {
            path,
            volume,
            session: Some(session),
        })
    }

    /// The folder on which the disk is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Empties the disk and clears all faults, counts and an armed cut.
    pub fn reset(&self) {
        self.lock().reset();
    }

    /// Cuts the power after this many further operations that change something.
    ///
    /// These are: write, sync, create, remove, rename, change of size, space allocation. The last
    /// of them still succeeds; from then on all fail with EIO, until `restart`.
    pub fn cut_after(&self, operations: u64, seed: u64) {
        self.lock().arm(operations, seed);
    }

    /// Cuts the power now.
    pub fn cut_now(&self, seed: u64) {
        self.lock().cut_power(seed);
    }

    /// Whether the power is off.
    pub fn is_cut(&self) -> bool {
        self.lock().cut
    }

    /// Switches the power on again and disarms a pending cut.
    ///
    /// After a cut the disk holds what survived it, all durable; handles opened before it stay
    /// broken.
    pub fn restart(&self) {
        let mut volume = self.lock();
        volume.cut = false;
        volume.armed = None;
    }

    /// The number of operations so far that change something.
    pub fn operations(&self) -> u64 {
        self.lock().counts.operations
    }

    /// How many syncs of files and folders succeeded.
    pub fn syncs(&self) -> u64 {
        self.lock().counts.syncs
    }

    /// How many bytes were written.
    pub fn bytes_written(&self) -> u64 {
        self.lock().counts.bytes_written
    }

    /// Fails syncs of files and folders whose path, relative to the disk, contains the text.
    pub fn fail_sync(&self, path_part: Option<&str>) {
        self.lock().faults.failing_sync = path_part.map(str::to_owned);
    }

    /// Holds syncs of files, or releases them.
    pub fn hold_syncs(&self, hold: bool) {
        let mut volume = self.lock();
        let held = volume.faults.held_syncs.take().unwrap_or_default();
        if hold {
            volume.faults.held_syncs = Some(held);
            return;
        }
        for (inode, reply) in held {
            kernel::sync_file(&mut volume, inode, reply);
        }
    }

    /// The number of held syncs.
    pub fn held_syncs(&self) -> usize {
        self.lock().faults.held_syncs.as_ref().map_or(0, Vec::len)
    }

    /// Bounds the bytes that all files take up; more fail with ENOSPC.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().faults.capacity = bytes;
    }

    /// Fails all changes with EROFS.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().faults.read_only = read_only;
    }

    /// Makes each sync make all entries durable, as the journal of ext4 does; off by
    /// default.
    pub fn set_entries_follow_sync(&self, follow: bool) {
        self.lock().faults.entries_follow_sync = follow;
    }

    /// Flips a bit of a stored byte; the path is relative to the disk.
    pub fn flip_bit(&self, path: &Path, offset: u64) -> anyhow::Result<()> {
        let mut volume = self.lock();
        let found = volume.tree.find(path);
        let file = found.and_then(|inode| volume.tree.file_mut(inode));
        let file = file.map_err(|error| anyhow!("{}: {error:?}", path.display()))?;
        if file.flip(offset as usize) {
            Ok(())
        } else {
            Err(anyhow!("{} ends before {offset}", path.display()))
        }
    }

    fn lock(&self) -> MutexGuard<'_, Volume> {
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeDisk {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        if unmount(&self.path).is_ok() {
            // No caller is left to handle errors of an ending session.
            let _ = session.umount_and_join();
        }
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Unmounts at once, or as soon as the last open file is closed; an error in the latter case.
fn unmount(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
            Err(error.into())
        }
    }
}

/// Unmounts disks that killed processes left behind.
fn sweep_mounts() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(owner);
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = rustix::mount::unmount(entry.path(), UnmountFlags::DETACH);
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The process that mounted a folder of this name.
fn owner(name: &str) -> Option<&str> {
    let (process, _) = name
        .strip_prefix(PREFIX)?
        .strip_prefix('-')?
        .split_once('-')?;
    Some(process)
}
