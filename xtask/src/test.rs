//! `cargo xtask test`: runs groups and times them.
//!
//! A failing group does not stop the others. The last line counts groups.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::groups::{self, GROUPS, Group, Lane};
use crate::outcome::{Outcome, report, timed};
use crate::workspace::Workspace;
use crate::{lanes, process};

/// The groups to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only this group; may be repeated
    #[arg(long, value_name = "GROUP")]
    only: Vec<String>,
}

/// Whether all chosen groups passed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    // Running the tests may build this program again; its path stays the same.
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let groups = chosen(&options.only)?;
    let (took, outcomes) = timed(|| run_groups(workspace, &program, &groups));
    println!("\n{}", report(&outcomes, took));
    Ok(outcomes.iter().all(|outcome| outcome.passed))
}

/// Runs the groups, those of the two lanes side by side. What several of them need is
/// installed while those run that need nothing: it mostly waits for the network.
fn run_groups(workspace: &Workspace, program: &Path, groups: &[&'static Group]) -> Vec<Outcome> {
    let of_lane = |lane| -> Vec<&'static Group> {
        let groups = groups.iter().copied();
        groups.filter(|group| group.lane == lane).collect()
    };
    let first = of_lane(Lane::First);
    let (busy, waiting) = (of_lane(Lane::Busy), of_lane(Lane::Waiting));
    let is_ahead = !first.is_empty() && groups.iter().any(|group| group.needs_tools);
    let mut outcomes = thread::scope(|scope| {
        let installing = is_ahead.then(|| scope.spawn(|| groups::install(workspace)));
        let outcomes: Vec<_> = first
            .iter()
            .map(|group| run_group(workspace, group))
            .collect();
        // A group installs what is missing, and fails with the same reason.
        match installing.map(thread::ScopedJoinHandle::join) {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => println!("not installed: {error:#}"),
            Some(Err(panic)) => resume_unwind(panic),
        }
        outcomes
    });
    if busy.is_empty() || waiting.is_empty() {
        let only = busy.iter().chain(&waiting);
        outcomes.extend(only.map(|group| run_group(workspace, group)));
    } else {
        outcomes.extend(lanes::run(program, &busy, &waiting));
    }
    outcomes
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
    let worked = process::worked().saturating_sub(before);
    Outcome::new(group, took, worked, result.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
