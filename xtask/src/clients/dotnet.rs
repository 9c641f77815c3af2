//! The .NET clients, where a `dotnet` can restore them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// The test that runs them.
pub(super) const TEST: &str = "dotnet_clients";
/// Programs that exit by themselves. The chat app servers are run by hand.
const PROGRAMS: [&str; 2] = ["durable", "event-hubs"];

/// Builds the programs to `<tools>/dotnet/<name>`, or returns why they cannot run.
pub(super) fn build(workspace: &Workspace) -> Result<Option<String>> {
    build_with(workspace, process::on_path("dotnet"))
}

fn build_with(workspace: &Workspace, dotnet: Option<PathBuf>) -> Result<Option<String>> {
    let Some(dotnet) = dotnet else {
        return Ok(Some("there is no dotnet on the path".to_owned()));
    };
    let folder = workspace.tools().join("dotnet");
    let command = |what: &str, sources: &Path| {
        let mut command = Command::new(&dotnet);
        command
            .env("DOTNET_CLI_TELEMETRY_OPTOUT", "1")
            .env("NUGET_PACKAGES", folder.join("packages"));
        command.arg(what).arg(sources);
        command
    };
    for program in PROGRAMS {
        let sources = copied(workspace, program)?;
        if let Err(error) = process::output(&mut command("restore", &sources)) {
            let error = format!("{error:#}");
            let first = error.lines().next().unwrap_or_default();
            return Ok(Some(format!("packages cannot be restored ({first})")));
        }
        let mut build = command("build", &sources);
        build.args(["--no-restore", "--configuration", "Release", "--output"]);
        process::run(build.arg(folder.join(program)))?;
    }
    Ok(None)
}

/// Copies the sources of a program to the tools, so that build output stays out of the repository.
fn copied(workspace: &Workspace, program: &str) -> Result<PathBuf> {
    let source = workspace.root.join("interop/dotnet").join(program);
    let target = workspace.tools().join("dotnet/sources").join(program);
    fs::create_dir_all(&target)?;
    let entries =
        fs::read_dir(&source).with_context(|| format!("cannot read {}", source.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target.join(entry.file_name()))?;
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A `dotnet` that records its arguments and runs this script.
    fn fake(folder: &Path, script: &str) -> PathBuf {
        let file = folder.join("dotnet");
        let text = format!("#!/bin/sh\necho \"$1\" >> \"$0.calls\"\n{script}\n");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn without_a_dotnet_that_restores_the_clients_are_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace {
            target: folder.path().join("target"),
            ..Workspace::find().unwrap()
        };
        let why = build_with(&workspace, None).unwrap().unwrap();
        assert!(why.contains("no dotnet"), "{why}");
        let offline = fake(folder.path(), "[ $1 != restore ]");
        let why = build_with(&workspace, Some(offline)).unwrap().unwrap();
        assert!(why.contains("cannot be restored"), "{why}");
        fs::remove_file(folder.path().join("dotnet.calls")).unwrap();
        let good = fake(folder.path(), "true");
        assert_eq!(build_with(&workspace, Some(good)).unwrap(), None);
        let calls = fs::read_to_string(folder.path().join("dotnet.calls")).unwrap();
        assert_eq!(calls, "restore\nbuild\nrestore\nbuild\n");
        let copied = workspace.tools().join("dotnet/sources/durable/Program.cs");
        assert!(copied.is_file());
    }
}
