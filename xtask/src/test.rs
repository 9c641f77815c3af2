//! `cargo xtask test`: runs groups and times them.
//!
//! A failing group does not stop the ones after it. The last line counts groups.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::groups::{self, GROUPS, Group};
use crate::process;
use crate::workspace::Workspace;

/// The groups to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only this group; may be repeated
    #[arg(long, value_name = "GROUP")]
    only: Vec<String>,
}

struct Outcome {
    group: &'static str,
    took: Duration,
    /// CPU time of the programs that have ended.
    worked: Duration,
    passed: bool,
}

/// Whether all chosen groups passed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let outcomes = run_groups(workspace, &chosen(&options.only)?);
    println!("\n{}", report(&outcomes));
    Ok(outcomes.iter().all(|outcome| outcome.passed))
}

/// Runs the groups. What several of them need is installed while those run that need
/// nothing: it mostly waits for the network.
fn run_groups(workspace: &Workspace, groups: &[&'static Group]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let is_ahead = groups.first().is_some_and(|group| !group.needs_tools)
            && groups.iter().any(|group| group.needs_tools);
        let mut installing = is_ahead.then(|| scope.spawn(|| groups::install(workspace)));
        let run = |group: &&'static Group| {
            if group.needs_tools
                && let Some(installing) = installing.take()
            {
                // The group installs what is missing, and fails with the same reason.
                match installing.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => println!("not installed: {error:#}"),
                    Err(panic) => resume_unwind(panic),
                }
            }
            run_group(workspace, group)
        };
        groups.iter().map(run).collect()
    })
}

/// The groups to run, in the order of the table.
fn chosen(only: &[String]) -> Result<Vec<&'static Group>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| GROUPS.iter().all(|group| group.name != **name))
    {
        let names: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
        bail!("no group {unknown}; there are {}", names.join(", "));
    }
    let wanted = |group: &&Group| only.is_empty() || only.iter().any(|name| name == group.name);
    Ok(GROUPS.iter().filter(wanted).collect())
}

fn run_group(workspace: &Workspace, group: &'static Group) -> Outcome {
    println!("\n== {}: {}", group.name, group.purpose);
    let before = process::worked();
    let (took, result) = timed(|| (group.run)(workspace));
    if let Err(error) = &result {
        println!("group {} failed: {error:#}", group.name);
    }
    Outcome {
        group: group.name,
        took,
        worked: process::worked().saturating_sub(before),
        passed: result.is_ok(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "seconds of real programs are measured"
)]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = std::time::Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// The table of seconds, elapsed and of CPU time, the failed groups, and the count as the last line.
fn report(outcomes: &[Outcome]) -> String {
    let mut lines = vec![format!(
        "{:<12} {:>8} {:>8}  result",
        "group", "seconds", "CPU"
    )];
    for outcome in outcomes {
        let result = if outcome.passed { "passed" } else { "FAILED" };
        let seconds = outcome.took.as_secs_f64();
        let worked = outcome.worked.as_secs_f64();
        lines.push(format!(
            "{:<12} {seconds:>8.1} {worked:>8.1}  {result}",
            outcome.group
        ));
    }
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| !outcome.passed)
        .map(|outcome| outcome.group)
        .collect();
    if !failed.is_empty() {
        lines.push(format!("failed: {}", failed.join(", ")));
    }
    let passed = outcomes.len() - failed.len();
    lines.push(format!("{passed} passed, {} failed", failed.len()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(group: &'static str, passed: bool) -> Outcome {
        Outcome {
            group,
            took: Duration::from_millis(1234),
            worked: Duration::from_millis(567),
            passed,
        }
    }

    #[test]
    fn report_ends_with_the_count() {
        let text = report(&[outcome("format", true), outcome("unit", false)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "format            1.2      0.6  passed");
        assert_eq!(lines[3], "failed: unit");
        assert_eq!(lines[4], "1 passed, 1 failed");
    }

    #[test]
    fn groups_run_in_the_order_of_the_table() {
        let only = ["house".to_owned(), "format".to_owned()];
        let names: Vec<_> = chosen(&only).unwrap().iter().map(|g| g.name).collect();
        assert_eq!(names, ["format", "house"]);
        assert_eq!(chosen(&[]).unwrap().len(), GROUPS.len());
    }

    #[test]
    fn unknown_group_is_refused_with_the_known_ones() {
        let error = chosen(&["nothing".to_owned()]).err().unwrap().to_string();
        assert!(
            error.contains("no group nothing; there are format, "),
            "{error}"
        );
    }
}
