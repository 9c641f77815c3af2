//! Programs in Go, with their modules below the tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{marker, system};
use crate::process;
use crate::workspace::Workspace;

const FILES: [&str; 2] = ["go.mod", "go.sum"];

/// A `go` that keeps modules and build output below the tools, uses only the modules of
/// `go.sum`, and downloads no other toolchain.
pub(crate) fn command(workspace: &Workspace) -> Result<Command> {
    let program = match process::on_path("go") {
        Some(program) => program,
        None => {
            system::install("golang-go")?;
            process::on_path("go").context("the package golang-go has no go")?
        }
    };
    let mut go = Command::new(program);
    let folder = workspace.tools().join("go-modules");
    go.env("GOMODCACHE", folder.join("modules"))
        .env("GOCACHE", folder.join("built"))
        .env("GOFLAGS", "-mod=readonly -buildvcs=false -modcacherw")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .env_remove("GOPATH");
    Ok(go)
}

/// Builds the program in `source` to `<tools>/go/clients`.
pub(crate) fn build(workspace: &Workspace, source: &Path) -> Result<PathBuf> {
    download(workspace, source)?;
    let program = workspace.tools().join("go/clients");
    let mut go = command(workspace)?;
    go.args(["build", "-o"]).arg(&program).arg(".");
    process::run(go.current_dir(source))?;
    Ok(program)
}

/// Fetches the modules of a program, once per set of versions.
fn download(workspace: &Workspace, source: &Path) -> Result<()> {
    let mut text = String::new();
    for name in FILES {
        let file = source.join(name);
        text += &std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
    }
    let what = format!("modules of Go {}", marker::digest(&text));
    let folder = workspace.tools().join("go-modules");
    marker::once(&folder, &what, || {
        let mut go = command(workspace)?;
        process::run(go.args(["mod", "download"]).current_dir(source))
    })
}

/// Builds the clients, which shows whether this `go` is new enough for their modules.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let program = build(workspace, &workspace.root.join("interop/go"))?;
    if !program.is_file() {
        bail!("Go left no program");
    }
    Ok(())
}
