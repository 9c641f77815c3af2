//! Folders and files for their owner only.
//!
//! Everything that is stored is created with modes that give others nothing, whatever
//! the umask is. What an earlier version left open is closed when it is opened again.
//! Only what belongs to the user of the process is changed, and no link is followed. A
//! file system without modes is no reason to refuse: the folder above must be closed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of folders, and that of files.
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// What others may do to a file or folder.
const OTHERS: u32 = 0o077;

/// Creates a folder and those above it that are missing.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// Creates a folder that does not exist.
pub fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER).create(path)
}

/// Options for opening a file that may be created.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Creates a file, or empties an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Creates a file that does not exist.
pub fn create_new(path: &Path) -> io::Result<File> {
    options().read(true).write(true).create_new(true).open(path)
}

/// The outcome of restricting a folder to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionReport {
    /// Files and folders that were open to others.
    pub closed: u64,
    /// Those of them that could not be closed.
    pub failed: u64,
}

impl PermissionReport {
    /// Logs what was found, if anything.
    pub fn log(self, folder: &Path) {
        let (folder, closed, failed) = (folder.display(), self.closed, self.failed);
        if closed > failed {
            tracing::info!(event = "storage.closed_to_others", %folder, count = closed - failed);
        }
        if failed > 0 {
            tracing::warn!(event = "storage.open_to_others", %folder, count = failed);
        }
    }
}

/// Takes from others what they may do to a file, or to a folder and all in it. The folder
/// comes last, so that a crash leaves one that is closed anew.
pub fn close(path: &Path) -> PermissionReport {
    let mut done = PermissionReport::default();
    walk(path, &mut done);
    done
}

fn walk(path: &Path, done: &mut PermissionReport) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            walk(&entry.path(), done);
        }
    }
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    let mode = metadata.mode();
    if !is_ours || metadata.is_symlink() || mode & OTHERS == 0 {
        return;
    }
    done.closed += 1;
    let closed = fs::Permissions::from_mode(mode & 0o7777 & !OTHERS);
    if fs::set_permissions(path, closed).is_err() {
        done.failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_was_open_to_others_is_closed_and_links_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("a")).unwrap();
        for file in [root.join("a/b"), outside.clone()] {
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        }
        for open in [root.clone(), root.join("a")] {
            fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let done = close(&root);
        assert_eq!((done.closed, done.failed), (3, 0));
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&root.join("a")), 0o700);
        assert_eq!(mode(&root.join("a/b")), 0o600);
        assert_eq!(mode(&outside), 0o664, "it is not in the folder");
        assert_eq!(close(&root), PermissionReport::default());
    }

    #[test]
    fn new_files_and_folders_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        create_dir_all(&deep).unwrap();
        create_dir(&deep.join("c")).unwrap();
        create(&deep.join("d")).unwrap();
        create_new(&deep.join("e")).unwrap();
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        assert_eq!(mode(&deep.join("c")), 0o700);
        assert_eq!(mode(&deep.join("d")), 0o600);
        assert_eq!(mode(&deep.join("e")), 0o600);
    }
}
