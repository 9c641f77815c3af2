//! Where PostgreSQL's programs are, and who runs them.
//!
//! The server refuses to run as root, so root runs it as the user `postgres`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Where Debian puts its versions.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The folder with `initdb` and `postgres`: the installed tool, or Debian's newest.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    let tools = std::env::var_os("STEADFAST_TOOLS").map(PathBuf::from);
    let installed = tools.map(|tools| tools.join("postgres/bin"));
    if let Some(bin) = installed.filter(|bin| bin.join("initdb").is_file()) {
        // Not through the link: the user `postgres` may not pass the folder above.
        return Ok(std::fs::canonicalize(bin)?);
    }
    let versions = std::fs::read_dir(VERSIONS).context("PostgreSQL is not installed")?;
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").is_file())
        .max_by_key(|path| version(path))
        .map(|path| path.join("bin"))
        .context("PostgreSQL has no initdb")
}

/// A program of PostgreSQL's, as its user; it ends when the thread that starts it does.
pub(super) fn command(program: &str) -> anyhow::Result<Command> {
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.arg("--pdeathsig=KILL");
    command.arg(folder()?.join(program)).current_dir("/");
    Ok(command)
}

/// Runs a command to its end and returns its output.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {:?}", command.get_program()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{}", output.status, complaint.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Gives a folder and all in it to the server's user.
pub(super) fn give(folder: &Path) -> anyhow::Result<()> {
    if is_root() {
        let mut chown = Command::new("chown");
        output(chown.args(["-R", "postgres:"]).arg(folder))?;
    }
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
