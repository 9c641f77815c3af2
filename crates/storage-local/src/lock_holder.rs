//! The process that has a data folder open.
//!
//! The kernel lists every lock with the process that took it, and the device and inode of
//! its file. Nothing is opened, so nothing changes in the folder. A process of another
//! container is not listed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The file that is locked while a folder is open.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// The id of the process that has the data folder open; `None` if none has, or if the
/// kernel does not list it.
pub fn lock_holder(root: &Path) -> Option<u32> {
    let file = fs::metadata(root.join(LOCK_FILE)).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    holder(&locks, file.dev(), file.ino())
}

/// The holder of a lock on a file, among the lines of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`.
fn holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let of_line = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        // A waiting process has `->` here.
        let is_lock = columns.next()? == "FLOCK";
        let pid = columns.nth(2)?.parse().ok().filter(|pid| *pid > 0);
        pid.filter(|_| is_lock && columns.next() == Some(&*file))
    };
    locks.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_processes_and_locks_on_other_files_do_not_count() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 08:01:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 08:01:8 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 08:01:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 12 08:01:7 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 13 08:01:7 0 EOF\n";
        assert_eq!(holder(locks, 0x801, 7), Some(12));
        assert_eq!(holder(locks, 0x801, 9), None);
        assert_eq!(
            holder("4: -> FLOCK  ADVISORY  WRITE 13 08:01:7 0 EOF", 0x801, 7),
            None
        );
    }
}
