//! Runs other programs and reports how they ended.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Runs to the end with our output; fails unless the status is zero.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs several commands to completion, `at_once` at a time, and prints the output of each
/// when it ends. Returns their standard output; fails after all if one failed.
pub(crate) fn run_beside(commands: Vec<Command>, at_once: usize) -> Result<String> {
    let waiting = Mutex::new(commands.into_iter());
    let (failed, printed) = (Mutex::new(Vec::new()), Mutex::new(String::new()));
    let work = || {
        // The guard must not be held while the command runs.
        while let Some(mut command) = { lock(&waiting).next() } {
            match run_captured(&mut command) {
                Ok(output) => lock(&printed).push_str(&output),
                Err(error) => lock(&failed).push(format!("{error:#}")),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(printed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn run_captured(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    let mut all = io::stderr().lock();
    writeln!(all, "$ {shown}")?;
    all.write_all(&output.stderr)?;
    all.write_all(&output.stdout)?;
    if !output.status.success() {
        bail!("{shown}: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs to the end and returns what was printed; fails unless the status is zero.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{shown}: {}\n{}", output.status, complaint.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// CPU time of all programs that we have started and that have ended, with those that they
/// have waited for.
pub(crate) fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    seconds(ended_ticks(&stat).unwrap_or(0))
}

/// Waits until a program has ended, and returns the CPU time of it and of those that it has
/// waited for. It is not reaped yet.
pub(crate) fn worked_by(child: &Child) -> Duration {
    let pid = Pid::from_child(child);
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    if let Err(error) = waitid(WaitId::Pid(pid), ended) {
        eprintln!("CPU time of process {} is unknown: {error}", child.id());
        return Duration::ZERO;
    }
    let file = format!("/proc/{}/stat", child.id());
    let stat = std::fs::read_to_string(file).unwrap_or_default();
    seconds(ticks(&stat, 11).unwrap_or(0) + ended_ticks(&stat).unwrap_or(0))
}

fn seconds(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The fields `cutime` and `cstime` of `/proc/<pid>/stat`.
fn ended_ticks(stat: &str) -> Option<u64> {
    ticks(stat, 13)
}

/// Two adjacent fields of `/proc/<pid>/stat`, user and system time; `first` counts from the
/// name, which may have spaces and parentheses.
fn ticks(stat: &str, first: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(first);
    let [user, system] = [fields.next()?, fields.next()?];
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

/// The cargo that started us, or the one on the path.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where a program is on the path, if it is.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether we run as the superuser.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_command_and_its_complaint() {
        let error = output(Command::new("sh").args(["-c", "echo oh >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("sh -c") && text.contains("oh"), "{text}");
    }

    #[test]
    fn those_that_run_beside_one_another_fail_after_all() {
        let folder = tempfile::tempdir().unwrap();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder.path());
            command
        };
        // The first waits for the second.
        let commands = vec![
            shell("while [ ! -e second ]; do sleep 0.01; done"),
            shell("touch second; exit 3"),
            shell("touch third"),
        ];
        let error = run_beside(commands, 2).unwrap_err().to_string();
        assert!(
            error.contains("exit 3") && !error.contains("third"),
            "{error}"
        );
        assert!(folder.path().join("third").exists());
        assert_eq!(run_beside(vec![shell("echo so")], 2).unwrap(), "so\n");
    }

    #[test]
    fn time_of_ended_programs_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 11 12 130 14 20 0 1 0 99";
        assert_eq!(ended_ticks(stat), Some(144));
        run(Command::new("sh").args(["-c", "i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done"]))
            .unwrap();
        assert!(worked() > Duration::ZERO);
    }

    #[test]
    fn finds_programs_on_the_path() {
        assert!(on_path("sh").is_some());
        assert!(on_path("no-such-program-here").is_none());
    }
}
