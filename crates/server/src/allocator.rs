//! Has the allocator of a server give memory back.
//!
//! glibc gives a large allocation pages of its own, which go back to the system when
//! it is freed. But whenever one is freed that was larger than any before, it raises
//! the size from which on that is so, up to 32 MiB. After some large payloads they all
//! come from the arenas of the threads, where one small row behind them keeps them: a
//! server that used 0.4 GB held 1.4 GB. With the size set, it stays as it is.
//!
//! Smaller allocations come from arenas, of which glibc makes up to eight per processor;
//! each keeps what was freed between rows that stay. One per processor is enough.
//!
//! glibc reads the settings when a process starts, so the server starts itself anew,
//! once and under the same process id. Settings of an operator win.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The size from which on an allocation has pages of its own, and what may be free at
/// the end of an arena: both are the first values of glibc. The last one is a mark of
/// ours: glibc takes its own settings out of the environment of a program with special
/// rights, and that must not be started anew again and again.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
    ("MALLOC_SET_BY", "steadfast"),
];

/// Arenas on a machine with few processors: a server has threads beside its workers.
const FEWEST_ARENAS: usize = 2;

/// Starts this process anew with the settings, unless it has some. If that is not
/// possible, it goes on without.
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
    // This returns only if it has failed.
    let _ = command
        .args(arguments)
        .envs(SETTINGS)
        .env("MALLOC_ARENA_MAX", arenas().to_string())
        .exec();
}

/// How many arenas threads share.
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
