//! Runs the vendors' tests and counts how many pass.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use super::list::{self, Id};
use super::request::Request;
use super::server::Server;
use super::{azeventhubs, durabletask_go, eventhub_python};
use crate::workspace::Workspace;
use crate::{process, tools};

/// A vendor's tests by one of its SDKs.
struct Suite {
    name: &'static str,
    list: &'static str,
    is_managed: bool,
    server: fn(&Workspace) -> Result<Server>,
    commands: fn(&Workspace, &Request<'_>) -> Result<Vec<Command>>,
    carried: Option<PackagedTests>,
}

/// Tests that a package carries.
struct PackagedTests {
    id: Id,
    ids: fn(&Workspace, &Request<'_>) -> Result<Vec<String>>,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "durabletask-python",
        list: "durabletask-python.txt",
        is_managed: false,
        server: Server::plain,
        commands: python,
        carried: None,
    },
    Suite {
        name: "durabletask-python, azuremanaged",
        list: "durabletask-python.txt",
        is_managed: true,
        server: Server::plain,
        commands: python,
        carried: None,
    },
    Suite {
        name: "durabletask-js",
        list: "durabletask-js.txt",
        is_managed: false,
        server: Server::plain,
        commands: javascript,
        carried: None,
    },
    Suite {
        name: "durabletask-go",
        list: "durabletask-go.txt",
        is_managed: false,
        server: Server::plain,
        commands: durabletask_go::commands,
        carried: Some(PackagedTests {
            id: |_, test| test.to_owned(),
            ids: durabletask_go::carried,
        }),
    },
    Suite {
        name: "azure-eventhub and its stores of checkpoints, Python",
        list: "azure-eventhub-python.txt",
        is_managed: false,
        server: |workspace| Server::encrypted(workspace, 0),
        commands: eventhub_python::commands,
        carried: Some(PackagedTests {
            id: eventhub_python::id,
            ids: eventhub_python::carried,
        }),
    },
    Suite {
        name: "azeventhubs, Go",
        list: "azeventhubs-go.txt",
        is_managed: false,
        server: |workspace| Server::encrypted(workspace, 1),
        commands: azeventhubs::commands,
        carried: Some(PackagedTests {
            id: |_, test| test.to_owned(),
            ids: azeventhubs::carried,
        }),
    },
];

fn python(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<Command>> {
    let mut command = Command::new(workspace.tools().join("python/durable/bin/python"));
    command.arg(workspace.root.join("interop/durable-python/run.py"));
    request.apply(&mut command)?;
    Ok(vec![command])
}

fn javascript(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<Command>> {
    let mut command = Command::new(workspace.tools().join("node/bin/node"));
    command.arg(workspace.tools().join("packages/durable/run.mjs"));
    request.apply(&mut command)?;
    Ok(vec![command])
}

/// Installs the SDKs, runs all suites concurrently, each with its own server, and prints
/// how many tests pass.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    install(workspace)?;
    // As other groups build it: for the binary alone, cargo would unify fewer features and
    // build all dependencies again.
    let mut build = workspace.cargo();
    build.args(["test", "--locked", "--workspace", "--no-run"]);
    process::run(build.args(["--test", "durable_clients"]))?;
    let results: Vec<_> = thread::scope(|scope| {
        let run = |suite| scope.spawn(move || run(workspace, suite));
        let running: Vec<_> = SUITES.iter().map(run).collect();
        running
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut failed = 0;
    for (suite, result) in SUITES.iter().zip(results) {
        let Ok(result) = result else {
            bail!("{}: the run panicked", suite.name);
        };
        let counts = result.with_context(|| suite.name)?;
        failed += counts.failed.len();
        let Counts {
            passed, left_out, ..
        } = counts;
        let tests = passed + counts.failed.len();
        println!(
            "{}: {passed} of {tests} tests pass, {left_out} left out",
            suite.name
        );
        for test in counts.failed {
            println!("  failed: {test}");
        }
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} tests of vendors fail"),
    }
}

pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    let sources = workspace.root.join("interop");
    let requirements = sources.join("durable-python/requirements.txt");
    tools::install_python(workspace, "durable", &requirements)?;
    tools::install_node(workspace)?;
    tools::install_packages(workspace, "durable", &sources.join("durable-node"))?;
    durabletask_go::build(workspace)?;
    azeventhubs::build(workspace)?;
    eventhub_python::install(workspace)
}

/// The results of a vendor's tests.
struct Counts {
    passed: usize,
    left_out: usize,
    failed: Vec<String>,
}

fn run(workspace: &Workspace, suite: &Suite) -> Result<Counts> {
    let list = workspace.root.join("interop/upstream").join(suite.list);
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("cannot read {}", list.display()))?;
    let id = suite.carried.as_ref().map(|carried| carried.id);
    let tests = list::parse(&text, id.unwrap_or(|_, test| test.to_owned()))?;
    let names: BTreeSet<_> = tests.values().flat_map(|test| &test.scenarios).collect();
    let server = (suite.server)(workspace)?;
    let request = Request {
        server: &server,
        is_managed: suite.is_managed,
        names: names.into_iter().cloned().collect(),
    };
    if let Some(carried) = &suite.carried {
        let listed: BTreeSet<_> = tests.values().map(|test| &test.id).collect();
        let ids = (carried.ids)(workspace, &request)?;
        if let Some(id) = ids.iter().find(|id| !listed.contains(id)) {
            bail!(
                "the package carries {id}, which {} does not name",
                suite.list
            );
        }
    }
    let printed = run_all((suite.commands)(workspace, &request)?)?;
    let good: BTreeSet<_> = printed.lines().filter_map(list::passed).collect();
    let mut counts = Counts {
        passed: 0,
        left_out: 0,
        failed: Vec::new(),
    };
    for (name, test) in &tests {
        let mut scenarios = test.scenarios.iter();
        if test.scenarios.is_empty() {
            counts.left_out += 1;
        } else if scenarios.all(|scenario| good.contains(scenario.as_str())) {
            counts.passed += 1;
        } else {
            counts.failed.push(name.clone());
        }
    }
    if !counts.failed.is_empty() {
        eprintln!("{printed}");
    }
    Ok(counts)
}

/// Runs programs one after the other and returns their output.
fn run_all(commands: Vec<Command>) -> Result<String> {
    let mut printed = String::new();
    for mut command in commands {
        let output = command.stdin(Stdio::null()).output();
        let output = output.context("cannot start the tests")?;
        printed += &String::from_utf8_lossy(&output.stdout);
        printed += &String::from_utf8_lossy(&output.stderr);
    }
    Ok(printed)
}
