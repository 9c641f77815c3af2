//! Runs unmodified clients against the server.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{process, tools};

/// A client, and how it is run against a server program.
struct Client {
    folder: &'static str,
    run: fn(&Workspace, &Path, &Path) -> Result<()>,
}

const CLIENTS: &[Client] = &[
    Client {
        folder: "python",
        run: python,
    },
    Client {
        folder: "node",
        run: node,
    },
    Client {
        folder: "python-scheduler",
        run: scheduler,
    },
];

/// Builds the server and runs every client.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let server = server(workspace)?;
    for client in CLIENTS {
        println!("interop/{}:", client.folder);
        let folder = workspace.root.join("interop").join(client.folder);
        (client.run)(workspace, &folder, &server).with_context(|| client.folder.to_owned())?;
    }
    Ok(())
}

/// An example of the protocols: event hubs alone, on free ports.
fn server(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    process::run(cargo.args([
        "build",
        "--locked",
        "--workspace",
        "--example",
        "event_hubs",
    ]))?;
    Ok(workspace.target.join("debug/examples/event_hubs"))
}

fn python(workspace: &Workspace, folder: &Path, server: &Path) -> Result<()> {
    let python = tools::install_python(workspace, "eventhub", &folder.join("requirements.txt"))?;
    let mut command = Command::new(python);
    // No cache of compiled files in the sources.
    command.arg("-B").arg(folder.join("run.py")).arg(server);
    process::run(&mut command)
}

fn node(workspace: &Workspace, folder: &Path, server: &Path) -> Result<()> {
    let node = tools::install_node(workspace)?;
    let scripts = tools::install_packages(workspace, "event-hubs", folder)?;
    let mut command = Command::new(node);
    process::run(command.arg(scripts.join("run.mjs")).arg(server))
}

/// These tests bring up a scheduler and a target by themselves, encrypted and not.
fn scheduler(workspace: &Workspace, _: &Path, _: &Path) -> Result<()> {
    let mut cargo = workspace.cargo();
    let test = [
        "test",
        "--locked",
        "--workspace",
        "--test",
        "scheduler_clients",
    ];
    process::run(cargo.args(test))
}
