//! Runs `cargo deny`, after building it once.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

const VERSION: &str = "0.20.2";

/// The manifests with their own lock file. The fuzzer's needs settings of unstable cargo;
/// an outdated lock file is an error.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Where the advisory database is fetched from.
const DATABASE: &str = "github.com:443";

/// Checks licences, banned crates, sources and advisories against `deny.toml`.
///
/// The advisory database is on the network. Where it cannot be reached, advisories are
/// reported as not run, and an error if `STEADFAST_ADVISORIES` is set.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let program = install(workspace)?;
    let has_advisories = std::env::var_os("STEADFAST_ADVISORIES").is_some() || is_reached(DATABASE);
    if !has_advisories {
        println!("advisories: not run, {DATABASE} cannot be reached");
    }
    for manifest in MANIFESTS {
        let mut command = Command::new(&program);
        command
            .current_dir(&workspace.root)
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["--config", "deny.toml", "--manifest-path", manifest])
            .args(["--locked", "check", "bans", "licenses", "sources"]);
        if has_advisories {
            command.arg("advisories");
        }
        process::run(&mut command)?;
    }
    Ok(())
}

/// Whether a server accepts connections.
fn is_reached(server: &str) -> bool {
    let mut addresses = server.to_socket_addrs().into_iter().flatten();
    let patience = Duration::from_secs(5);
    addresses.any(|address| TcpStream::connect_timeout(&address, patience).is_ok())
}

fn install(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.tools();
    let program = tools.join("bin/cargo-deny");
    if is_current(&program) {
        return Ok(program);
    }
    // A separate folder, removed afterwards: no other build can reuse its output.
    let build = tools.join("build");
    let mut command = workspace.cargo();
    command
        .args(["install", "cargo-deny", "--version", VERSION, "--locked"])
        .arg("--root")
        .arg(&tools)
        .env("CARGO_TARGET_DIR", &build);
    process::run(&mut command)?;
    std::fs::remove_dir_all(&build)
        .with_context(|| format!("cannot remove {}", build.display()))?;
    Ok(program)
}

fn is_current(program: &Path) -> bool {
    process::output(Command::new(program).arg("--version"))
        .is_ok_and(|text| text.trim() == format!("cargo-deny {VERSION}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_is_reached_while_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(is_reached(&address));
        drop(listener);
        assert!(!is_reached(&address));
        assert!(!is_reached("no such server.invalid:443"));
    }
}
