//! Installs system packages, where permitted.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Installs a Debian package as root; other users get an error with its name.
pub(crate) fn install(package: &str) -> Result<()> {
    if !process::is_root() || process::on_path("apt-get").is_none() {
        bail!("install the system package `{package}`");
    }
    let missing = || format!("the system package `{package}` is missing");
    process::run(&mut apt(&["update", "--quiet"])).with_context(missing)?;
    let mut install = apt(&["install", "--yes", "--quiet", "--no-install-recommends"]);
    process::run(install.arg(package)).with_context(missing)
}

/// `systemd-analyze`, which reads unit files as systemd does. Nothing is started.
pub(crate) fn install_systemd() -> Result<()> {
    match process::on_path("systemd-analyze") {
        Some(_) => Ok(()),
        None => install("systemd"),
    }
}

/// The headers of OpenSSL, which the SignalR client for Rust is built with.
pub(crate) fn install_openssl() -> Result<()> {
    if process::on_path("pkg-config").is_none() {
        install("pkg-config")?;
    }
    let found = process::output(Command::new("pkg-config").args(["--modversion", "openssl"]));
    match found {
        Ok(_) => Ok(()),
        Err(_) => install("libssl-dev"),
    }
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}
