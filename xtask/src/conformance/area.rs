//! Runs the tests of one area's checklist.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::list::{self, Item};
use super::results::{self, Test};
use super::verdict;
use crate::workspace::Workspace;
use crate::{clients, process, tools};

/// The checklist to run.
#[derive(Args)]
pub(crate) struct Options {
    /// The area.
    #[arg(value_parser = names())]
    area: String,
}

/// A checklist and the tests that cover it, beside unit tests.
struct Area {
    name: &'static str,
    /// Packages whose test files cover it.
    packages: &'static [&'static str],
    /// Further test files that cover it, of any package.
    files: &'static [&'static str],
}

/// The list of an area is `xtask/conformance/<name>.txt`.
const AREAS: &[Area] = &[
    Area {
        name: "storage",
        packages: &[
            "steadfast-storage",
            "steadfast-storage-local",
            "steadfast-storage-postgres",
        ],
        files: &[],
    },
    Area {
        name: "collections",
        packages: &[
            "steadfast-collections",
            "steadfast-storage-postgres",
            "steadfast-backup",
            "steadfast-server",
        ],
        files: &[],
    },
    Area {
        name: "events",
        packages: &["steadfast-events", "steadfast-wire", "steadfast-eventhubs"],
        files: &["event_hub_clients", "event_hub_processors"],
    },
    Area {
        name: "durable",
        packages: &[],
        files: &["durable", "durable_clients", "node", "server"],
    },
    Area {
        name: "jobs",
        packages: &["steadfast-jobs", "steadfast-scheduler", "steadfast-server"],
        files: &[],
    },
    Area {
        name: "realtime",
        packages: &["steadfast-realtime", "steadfast-wire", "steadfast-signalr"],
        files: &["signalr_clients"],
    },
    Area {
        name: "postgres",
        packages: &[
            "steadfast-storage-postgres",
            "steadfast-backup",
            "steadfast-server",
        ],
        files: &[],
    },
];

/// Whether every item has a test and passes.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let area = AREAS
        .iter()
        .find(|area| area.name == options.area)
        .context("no such area")?;
    let file = format!("xtask/conformance/{}.txt", area.name);
    let text = std::fs::read_to_string(workspace.root.join(&file))
        .with_context(|| format!("cannot read {file}"))?;
    let items = list::parse(&text).with_context(|| file.clone())?;
    // The items apply to every engine, PostgreSQL included.
    tools::install_postgres(workspace)?;
    if matches!(area.name, "events" | "durable" | "realtime") {
        clients::install(workspace)?;
    }
    let (tests, clean) = run_tests(workspace, area, &items)?;
    let verdict = verdict::judge(&items, &tests);
    println!("{}", verdict.text);
    if verdict.good && !clean {
        bail!("cargo test failed, though no item did");
    }
    Ok(verdict.good)
}

fn names() -> Vec<&'static str> {
    AREAS.iter().map(|area| area.name).collect()
}

/// The test files that cover an area's list.
fn files<'a>(workspace: &'a Workspace, area: &Area) -> Result<Vec<&'a str>> {
    let mut files = area.files.to_vec();
    for package in area.packages {
        let targets = workspace.package(package)?.targets.iter();
        let tests = targets.filter(|target| target.is("test"));
        files.extend(tests.map(|test| test.name.as_str()));
    }
    Ok(files)
}

/// The results of the items' tests, and whether cargo succeeded.
fn run_tests(workspace: &Workspace, area: &Area, items: &[Item]) -> Result<(Vec<Test>, bool)> {
    if items.is_empty() {
        return Ok((Vec::new(), true));
    }
    let mut command = workspace.cargo();
    // As `cargo xtask test` does it: with packages alone, cargo would unite fewer
    // features and build the dependencies once more.
    command.args(["test", "--locked", "--no-fail-fast", "--workspace", "--lib"]);
    for file in files(workspace, area)? {
        command.args(["--test", file]);
    }
    command.arg("--");
    command.args(items.iter().map(|item| format!("{}_", item.id)));
    eprintln!("$ {}", process::show(&command));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    eprint!("{text}");
    Ok((results::parse(&text), output.status.success()))
}
