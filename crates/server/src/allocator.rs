//! Allocator settings that return memory to the system.
//!
//! glibc maps a large allocation separately and returns it to the system when it is freed.
//! But each time it frees one that is larger than any before, it raises the threshold for
//! separate mapping, up to 32 MiB. After some large payloads all payloads come from the
//! arenas of the threads, where one small row behind them keeps them: a server that used
//! 0.4 GB held 1.4 GB. An explicit threshold does not change.
//!
//! Smaller allocations come from arenas, of which glibc creates up to eight per processor;
//! each keeps the memory freed between live rows. One per processor is enough.
//!
//! glibc reads the settings when a process starts, so the server re-executes itself once,
//! under the same process id. Settings of an operator take precedence.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The threshold for separate mapping, and how much may be free at the end of an arena:
/// both have the initial values of glibc. The last one is our own mark: glibc removes its
/// settings from the environment of a program with special rights, which must not
/// re-execute itself endlessly.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
    ("MALLOC_SET_BY", "steadfast"),
];

/// Minimum number of arenas: a server has threads beside its workers.
const FEWEST_ARENAS: usize = 2;

/// Re-executes this process with the settings, unless it has some. On failure it continues
/// without them.
pub(crate) fn set_up() {
    let is_glibc = cfg!(all(target_os = "linux", target_env = "gnu"));
    if !is_glibc || std::env::vars_os().any(|(name, _)| is_setting(&name)) {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // `exec` returns only on failure.
    let _ = command
        .args(arguments)
        .envs(SETTINGS)
        .env("MALLOC_ARENA_MAX", arenas().to_string())
        .exec();
}

/// The number of arenas.
fn arenas() -> usize {
    let processors = std::thread::available_parallelism();
    processors
        .map_or(FEWEST_ARENAS, usize::from)
        .max(FEWEST_ARENAS)
}

/// Whether a variable is read by the allocator of glibc.
fn is_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("MALLOC_") || name == "GLIBC_TUNABLES"
}
