//! Programs in Go, with their modules below the tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{marker, system};
use crate::process;
use crate::workspace::Workspace;

const FILES: [&str; 2] = ["go.mod", "go.sum"];

/// A `go` that keeps modules and what it builds below the tools, takes the modules of
/// `go.sum` and no others, and fetches no other `go`.
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

/// Asks for the version of Go, and builds and runs the smallest program.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let program = super::scratch::folder(workspace, "go-")?;
    let source = program.path().join("main.go");
    std::fs::write(&source, "package main\n\nfunc main() { println(6 * 7) }\n")?;
    let built = program.path().join("smallest");
    let mut go = command(workspace)?;
    process::run(go.arg("build").arg("-o").arg(&built).arg(&source))?;
    let output = Command::new(&built).output()?;
    if output.stderr != b"42\n" {
        bail!("the smallest program of Go printed something else");
    }
    Ok(())
}
