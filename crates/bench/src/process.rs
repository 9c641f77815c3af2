//! Memory, CPU time and writes of a process.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes that this process has handed to the kernel for writing so far.
///
/// Not `write_bytes` of the same file: with large folios it counts the whole folio
/// for every page that is overwritten, 64 times too much.
pub(crate) fn written_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("read /proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    let line = line.context("/proc/self/io has no wchar")?;
    Ok(line.trim().parse()?)
}

/// Resident memory of a process, in MB.
pub(crate) fn resident_mb(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.with_context(|| format!("{path} has no VmRSS"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// Waits until background work has ended, so that it does not affect the next
/// measurement; gives up after a while.
pub(crate) fn settle() -> Result<()> {
    const LOOK: Duration = Duration::from_millis(50);
    const LOOKS: u32 = 200;
    let mut before = cpu_ticks()?;
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK);
        let now = cpu_ticks()?;
        if now <= before {
            break;
        }
        before = now;
    }
    Ok(())
}

/// CPU time of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> Result<f64> {
    cpu_seconds_of("self")
}

/// CPU time of a process so far, in seconds.
pub(crate) fn cpu_seconds_of(pid: &str) -> Result<f64> {
    let per_s = rustix::param::clock_ticks_per_second();
    Ok(cpu_ticks_of(pid)? as f64 / per_s as f64)
}

/// Raises the limit of open files to the maximum: every connection is a file.
pub(crate) fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If the limit is too low, connecting reports it.
    let _ = setrlimit(Resource::Nofile, all);
}

fn cpu_ticks() -> Result<u64> {
    cpu_ticks_of("self")
}

/// CPU time of a process, in ticks of usually 10 ms.
fn cpu_ticks_of(pid: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // The name may hold spaces; the fields behind it do not.
    let (_, fields) = text
        .rsplit_once(')')
        .context("/proc/self/stat is malformed")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |index: usize| -> Result<u64> {
        let field = fields.get(index).context("/proc/self/stat is too short")?;
        Ok(field.parse()?)
    };
    Ok(field(11)? + field(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        assert!(resident_mb(std::process::id()).unwrap() > 0.1);
        written_bytes().unwrap();
        settle().unwrap();
        assert!(cpu_seconds().unwrap() >= 0.0);
    }
}
