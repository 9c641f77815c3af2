//! Folders for servers, and one empty database to copy.
//!
//! A folder carries the id of its process in its name. The next process removes folders
//! of processes that have ended.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use super::programs::{command, give, output};

const PREFIX: &str = "steadfast-pg-";

/// The folder of this test process.
static HOME: OnceLock<Result<PathBuf, String>> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A new data folder with an empty database; several copies are replicas of one another.
pub(super) fn data(name: &str) -> anyhow::Result<PathBuf> {
    let home = home()?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = home.join(format!("{number}-{name}"));
    let mut copy = Command::new("cp");
    output(copy.arg("-a").arg(home.join("template")).arg(&folder))?;
    Ok(folder)
}

fn home() -> anyhow::Result<&'static Path> {
    let home = HOME.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    let home = home.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(home)
}

fn make() -> anyhow::Result<PathBuf> {
    sweep();
    let home = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
    std::fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
    give(&home)?;
    let template = home.join("template");
    let mut initdb = command("initdb")?;
    initdb.args([
        "--no-sync",
        "--data-checksums",
        "--locale=C",
        "--auth=trust",
    ]);
    initdb.args(["--username=postgres", "--encoding=UTF8", "--pgdata"]);
    output(initdb.arg(&template))?;
    let hba = template.join("pg_hba.conf");
    let rules = std::fs::read_to_string(&hba)?;
    // One user needs a password, so that a wrong one can be tried.
    let locked = "host all locked 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(&hba, format!("{locked}{rules}"))?;
    Ok(home)
}

/// Removes what killed test processes left.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another process may be sweeping, too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
