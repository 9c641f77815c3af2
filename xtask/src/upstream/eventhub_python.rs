//! The tests that Python packages of event hubs carry.
//!
//! Source distributions contain them, wheels do not. `conftest.py`, which creates resources
//! in Azure, is replaced by one of ours; the tests stay unmodified.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::request::Request;
use crate::workspace::Workspace;
use crate::{process, tools};

/// Packages, and the folders in which their tests are.
const PACKAGES: [&str; 3] = [
    "azure-eventhub",
    "azure-eventhub-checkpointstoreblob",
    "azure-eventhub-checkpointstoreblob-aio",
];
/// The folders of the tests that need a service.
const TESTS: [&str; 5] = [
    "azure-eventhub/livetest",
    "azure-eventhub/pyamqp_tests/synctests",
    "azure-eventhub/pyamqp_tests/asynctests",
    "azure-eventhub-checkpointstoreblob",
    "azure-eventhub-checkpointstoreblob-aio",
];
const SETUP: &str = "conftest.py";

/// Installs the SDK, and unpacks the tests.
pub(super) fn install(workspace: &Workspace) -> Result<()> {
    let source = workspace.root.join("interop/upstream/eventhub-python");
    let requirements = source.join("requirements.txt");
    let python = tools::install_python(workspace, "eventhub-tests", &requirements)?;
    let folder = tools::unpack_tests(workspace, &python, &requirements, &PACKAGES)?;
    for package in PACKAGES {
        let theirs = folder.join(package).join(SETUP);
        if theirs.exists() {
            std::fs::remove_file(theirs)?;
        }
    }
    let ours = source.join(SETUP);
    let copied = std::fs::copy(&ours, folder.join(SETUP));
    copied.with_context(|| format!("cannot copy {}", ours.display()))?;
    Ok(())
}

pub(super) fn id(file: &str, test: &str) -> String {
    format!("{file}::{test}")
}

fn pytest(workspace: &Workspace, request: &Request<'_>) -> Result<Command> {
    let python = PathBuf::from("python/eventhub-tests/bin/python");
    let certificate = request.server.certificate();
    let mut command = Command::new(workspace.tools().join(python));
    command
        .args(["-m", "pytest", "-q", "-s", "--rootdir=.", "--tb=short"])
        .args(["-p", "no:cacheprovider"])
        .current_dir(tools::tests_folder(workspace))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SSL_CERT_FILE", &certificate)
        .env("REQUESTS_CA_BUNDLE", &certificate)
        .env(
            "STEADFAST_SERVER",
            request.server.description()?.to_string(),
        );
    Ok(command)
}

/// Tests with parameters count once.
pub(super) fn carried(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<String>> {
    let mut command = pytest(workspace, request)?;
    let text = process::output(command.arg("--collect-only").args(TESTS))?;
    let lines = text.lines().filter(|line| line.contains("::"));
    let mut names: Vec<_> = lines
        .filter_map(|line| line.split('[').next())
        .map(str::to_owned)
        .collect();
    names.dedup();
    Ok(names)
}

pub(super) fn commands(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<Command>> {
    let mut command = pytest(workspace, request)?;
    command.args(&request.names);
    Ok(vec![command])
}
