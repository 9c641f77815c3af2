//! The machine that a bench ran on.
//!
//! Unavailable facts are shown as `unknown`: no report fails because of them.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// The facts about a machine that matter when reports are compared.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Threads that can run at once.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Main memory.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The file system of the folder that was used.
    pub file_system: String,
}

impl Machine {
    /// Inspects this machine and the file system of `folder`.
    pub(crate) fn look(folder: &Path) -> Self {
        let unknown = || "unknown".to_string();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor().unwrap_or_else(unknown),
            memory_bytes: memory().unwrap_or_default(),
            kernel: kernel().unwrap_or_else(unknown),
            file_system: file_system(folder).unwrap_or_else(unknown),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        let (cores, processor) = (self.cores, &self.processor);
        let (kernel, file_system) = (&self.kernel, &self.file_system);
        write!(
            f,
            "{cores} cores of {processor}, {gib:.1} GiB, Linux {kernel}, {file_system}"
        )
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn kernel() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim().to_string())
}

/// The type of the mount with the longest path above the folder.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(path, _)| folder.starts_with(path));
    // Of two mounts on one path the later one is on top; `max_by_key` takes it.
    let (_, kind) = above.max_by_key(|(path, _)| path.len())?;
    Some(kind.to_string())
}
