//! PostgreSQL, from the system's package.
//!
//! The server refuses to run as root, so root runs it as the user `postgres`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::{marker, scratch, system};
use crate::process;
use crate::workspace::Workspace;

const VERSIONS: &str = "/usr/lib/postgresql";

/// The folder `<tools>/postgres/bin` with `initdb`, `pg_ctl` and `psql`.
pub(crate) fn install(workspace: &Workspace) -> Result<PathBuf> {
    let found = match newest() {
        Some(found) => found,
        None => {
            system::install("postgresql")?;
            newest().context("the package postgresql has no initdb")?
        }
    };
    let folder = workspace.tools().join("postgres");
    let bin = folder.join("bin");
    let what = format!("postgres {}", found.display());
    marker::once(&folder, &what, || {
        symlink(&found, &bin).context("cannot link bin")
    })?;
    Ok(bin)
}

/// Installs PostgreSQL, makes a cluster, starts it on a socket only, and asks one question.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    // Not through the link: the user `postgres` may not be able to pass the target folder.
    let bin = std::fs::canonicalize(install(workspace)?)?;
    let home = home(workspace)?;
    let data = home.path().join("data");
    create_cluster(&bin, home.path(), &data)?;
    start(&bin, home.path(), &data)?;
    let answer = ask(&bin, home.path());
    let stopped = stop(&bin, &data);
    if answer?.trim() != "1" {
        bail!("`select 1` has another answer");
    }
    stopped
}

/// The programs of the newest version that is installed.
fn newest() -> Option<PathBuf> {
    let versions = std::fs::read_dir(VERSIONS).ok()?.flatten();
    versions
        .map(|entry| entry.path())
        .filter(|folder| folder.join("bin/initdb").is_file())
        .max_by_key(|folder| version(folder))
        .map(|folder| folder.join("bin"))
}

fn version(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}

/// A folder that the server's user owns and can reach: below the target, or else the system's.
fn home(workspace: &Workspace) -> Result<TempDir> {
    let below_target = scratch::folder(workspace, "pg-")?;
    if give(below_target.path())? {
        return Ok(below_target);
    }
    let elsewhere = tempfile::Builder::new().prefix("pg-").tempdir()?;
    if give(elsewhere.path())? {
        return Ok(elsewhere);
    }
    bail!("the user `postgres` can write nowhere")
}

/// Gives a folder to the server's user; false if that user cannot reach it.
fn give(folder: &Path) -> Result<bool> {
    if process::is_root() {
        let mut chown = Command::new("chown");
        process::output(chown.arg("postgres:").arg(folder))?;
    }
    let mut test = as_user("test");
    Ok(process::output(test.arg("-w").arg(folder)).is_ok())
}

/// A command that runs as a user other than root.
fn as_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !process::is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program);
    // That user may have no access to the current folder.
    command.current_dir("/");
    command
}

fn create_cluster(bin: &Path, home: &Path, data: &Path) -> Result<()> {
    let mut initdb = as_user(bin.join("initdb"));
    initdb.args([
        "--auth=trust",
        "--username=postgres",
        "--no-sync",
        "--pgdata",
    ]);
    process::output(initdb.arg(data))?;
    let settings = format!(
        "listen_addresses = ''\nunix_socket_directories = '{}'\nfsync = off\n",
        home.display()
    );
    let file = data.join("postgresql.auto.conf");
    std::fs::write(&file, settings).with_context(|| format!("cannot write {}", file.display()))
}

fn start(bin: &Path, home: &Path, data: &Path) -> Result<()> {
    let mut start = as_user(bin.join("pg_ctl"));
    start
        .args(["start", "--wait", "--silent", "--pgdata"])
        .arg(data);
    start.arg("--log").arg(home.join("log"));
    process::output(&mut start).map(drop)
}

fn ask(bin: &Path, home: &Path) -> Result<String> {
    let mut psql = as_user(bin.join("psql"));
    psql.args(["--username=postgres", "--dbname=postgres", "--no-psqlrc"]);
    psql.args([
        "--tuples-only",
        "--no-align",
        "--command=select 1",
        "--host",
    ]);
    process::output(psql.arg(home))
}

fn stop(bin: &Path, data: &Path) -> Result<()> {
    let mut stop = as_user(bin.join("pg_ctl"));
    stop.args(["stop", "--wait", "--silent", "--mode=fast", "--pgdata"]);
    process::output(stop.arg(data)).map(drop)
}
