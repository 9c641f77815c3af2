//! Runs the groups of two lanes side by side.
//!
//! A group in a lane is a process of its own, so that its output stays in one piece and its
//! CPU time can be told from that of the other lane. The busy lane has the lower priority:
//! what waits in the other one gets a CPU as soon as its lease, timer or response is there.
//! Priorities count between the processes of one session, so no group may start a new one.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::groups::Group;
use crate::outcome::{Outcome, timed};
use crate::process;

/// How much the busy lane yields: it gets about a tenth of a CPU that both lanes want.
const NICENESS: i32 = 10;

/// Runs each lane's groups in order; `program` runs one group when given `test --only`.
pub(crate) fn run(
    program: &Path,
    busy: &[&'static Group],
    waiting: &[&'static Group],
) -> Vec<Outcome> {
    let lane = |groups: &[&'static Group]| -> Vec<Outcome> {
        groups
            .iter()
            .map(|group| run_apart(program, group))
            .collect()
    };
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            yield_to_others();
            lane(busy)
        });
        let mut outcomes = lane(waiting);
        match busy.join() {
            Ok(of_busy) => outcomes.extend(of_busy),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        outcomes
    })
}

/// Lowers the priority of this thread and of the processes that it starts.
fn yield_to_others() {
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        eprintln!("the busy lane keeps its priority: {error}");
    }
}

fn run_apart(program: &Path, group: &'static Group) -> Outcome {
    let mut command = Command::new(program);
    command.args(["test", "--only", group.name]);
    let (took, (worked, result)) = timed(|| capture(&mut command));
    if let Err(error) = &result {
        eprintln!("group {} failed: {error:#}", group.name);
    }
    Outcome::new(group, took, worked, result.is_ok())
}

/// Runs to the end, then prints all output in one piece; returns the CPU time, also of a
/// failure.
fn capture(command: &mut Command) -> (Duration, Result<()>) {
    let mut worked = Duration::ZERO;
    let result = captured(command, &mut worked);
    (worked, result)
}

fn captured(command: &mut Command, worked: &mut Duration) -> Result<()> {
    let shown = process::show(command);
    let mut printed = tempfile::tempfile().context("no file for the output")?;
    let clone = |file: &File| file.try_clone().context("no file for the output");
    command.stdout(clone(&printed)?).stderr(clone(&printed)?);
    let started = command.spawn();
    let mut child = started.with_context(|| format!("cannot start {shown}"))?;
    *worked = process::worked_by(&child);
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for {shown}"))?;
    print_all(&mut printed).context("cannot print the output")?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

fn print_all(file: &mut File) -> io::Result<()> {
    file.rewind()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_busy_lane_starts_has_a_lower_priority() {
        let niceness = || process::output(&mut Command::new("nice")).unwrap();
        let outside = niceness();
        let inside = thread::scope(|scope| {
            let lane = scope.spawn(|| {
                yield_to_others();
                niceness()
            });
            lane.join().unwrap()
        });
        assert_eq!(inside.trim(), "10");
        // The tests themselves may run in the busy lane.
        assert_eq!(niceness(), outside);
    }

    #[test]
    fn a_group_apart_is_timed_and_its_failure_seen() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let work = "i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done";
        let (worked, result) = capture(&mut shell(work));
        assert!(result.is_ok() && worked > Duration::ZERO, "{worked:?}");
        let (worked, result) = capture(&mut shell(&format!("{work}; exit 3")));
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("exit 3") && worked > Duration::ZERO,
            "{error}"
        );
    }
}
