//! Runs unmodified clients against the server.

use anyhow::Result;

use super::scenarios::Results;
use super::{dotnet, page};
use crate::workspace::Workspace;
use crate::{process, tools};

/// Tests of third-party clients. They start their own servers.
pub(crate) const TESTS: &[&str] = &[
    "blob_clients",
    "durable_clients",
    "event_hub_clients",
    "event_hub_languages",
    "event_hub_processors",
    "scheduler_clients",
    "signalr_clients",
    dotnet::TEST,
];

/// Client and server mostly wait for each other; two tests use all cores.
const AT_ONCE: usize = 2;

/// Installs what the clients need, runs them all, and compares the page with what has passed.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    install(workspace)?;
    let left_out = dotnet::build(workspace)?;
    let is_run = |test: &&&str| left_out.is_none() || **test != dotnet::TEST;
    let tests: Vec<_> = TESTS.iter().filter(is_run).copied().collect();
    let test = |tests: &[&str]| {
        let mut cargo = workspace.cargo();
        cargo.args(["test", "--locked", "--no-fail-fast", "--workspace"]);
        for test in tests {
            cargo.args(["--test", test]);
        }
        cargo
    };
    process::run(test(&tests).arg("--no-run"))?;
    let each = tests.iter().map(|name| {
        let mut command = test(&[name]);
        // Scenarios are printed by name.
        command.args(["--", "--show-output"]);
        command
    });
    let output = process::run_beside(each.collect(), AT_ONCE)?;
    let results = Results::read(&output);
    println!("{} scenarios passed", results.count());
    if let Some(why) = left_out {
        println!("not run: .NET, because {why}");
    }
    page::compare(workspace, &results)
}

/// Client libraries of Event Hubs, Durable Task and SignalR, for Python, for Node, for
/// Java, for Go, for Rust and for a browser.
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    let sources = workspace.root.join("interop");
    tools::install_python(
        workspace,
        "eventhub",
        &sources.join("python/requirements.txt"),
    )?;
    tools::install_python(
        workspace,
        "durable",
        &sources.join("durable-python/requirements.txt"),
    )?;
    tools::install_node(workspace)?;
    tools::install_packages(workspace, "event-hubs", &sources.join("node"))?;
    tools::install_packages(workspace, "durable", &sources.join("durable-node"))?;
    let requirements = sources.join("python-scheduler/requirements.txt");
    tools::install_python(workspace, "scheduler", &requirements)?;
    tools::install_packages(workspace, "signalr", &sources.join("signalr-node"))?;
    let requirements = sources.join("signalr-python/requirements.txt");
    tools::install_python(workspace, "signalr", &requirements)?;
    tools::install_browser(workspace)?;
    tools::install_java(workspace, &sources.join("java"))?;
    tools::build_go(workspace, &sources.join("go"))?;
    tools::build_program(workspace, &sources.join("rust/clients"))?;
    tools::build_program(workspace, &sources.join("rust/processor"))?;
    tools::install_openssl()?;
    tools::build_program(workspace, &sources.join("rust/signalr"))
}
