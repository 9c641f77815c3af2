//! `steadfast doctor`: checks of this machine.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use steadfast::clock::{Clock, SystemClock};
use steadfast::config::{Config, EngineKind};
use steadfast::net::listen::{PortHolder, holder_of};
use steadfast::storage::local::lock_holder;

use crate::config::Settings;
use crate::output::{OutputFormat, Table};

/// Free disk space below which the check warns.
const LITTLE_SPACE: u64 = 1 << 30;

/// A slower sync makes every commit slow.
const SLOW_SYNC: Duration = Duration::from_millis(20);

/// The number of syncs to measure.
const SYNCS: usize = 50;

/// Files open beside connections.
const OTHER_FILES: u64 = 256;

#[derive(Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    settings: Settings,
}

/// The result of one check.
struct DoctorFinding {
    subject: &'static str,
    health: FindingLevel,
    what: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FindingLevel {
    Well,
    Doubtful,
    Ill,
}

fn finding(subject: &'static str, health: FindingLevel, what: impl Into<String>) -> DoctorFinding {
    let what = what.into();
    DoctorFinding {
        subject,
        health,
        what,
    }
}

/// Runs all checks; fails if a server could not run.
pub(crate) fn run(arguments: &DoctorArguments, output: OutputFormat) -> Result<()> {
    let config = arguments.settings.config()?;
    let mut findings = Vec::new();
    let mut server = None;
    if config.engine == EngineKind::Local {
        server = lock_holder(&config.data);
        findings.extend(folder(&config.data));
        findings.extend(server.map(|pid| {
            let what = format!("{} is {}", config.data.display(), held(pid));
            finding("folder", FindingLevel::Well, what)
        }));
    }
    findings.push(clock());
    findings.push(files(&config));
    findings.push(memory(&config));
    findings.extend(ports(&config, server));
    let mut table = Table::new("findings", &["subject", "health", "what"]);
    for found in &findings {
        let health = match found.health {
            FindingLevel::Well => "ok",
            FindingLevel::Doubtful => "warn",
            FindingLevel::Ill => "bad",
        };
        table.row(json!({"subject": found.subject, "health": health, "what": found.what}));
    }
    table.print(output)?;
    let ill = findings
        .iter()
        .filter(|found| found.health == FindingLevel::Ill);
    match ill.count() {
        0 => Ok(()),
        1 => bail!("one thing would keep a server from running"),
        count => bail!("{count} things would keep a server from running"),
    }
}

/// Whether the folder can be written, has room, and syncs quickly.
fn folder(data: &Path) -> Vec<DoctorFinding> {
    // For a missing folder, check the one that will contain it.
    let place = data.ancestors().find(|place| place.is_dir());
    let place = place.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let probe = place.join(format!(".steadfast-doctor-{}", std::process::id()));
    let shown = place.display();
    let measured = sync_speed(&probe);
    // The probe file may not exist.
    let _ = fs::remove_file(&probe);
    let p50 = match measured {
        Ok(p50) => p50,
        Err(error) => {
            let what = format!("{shown} cannot be written: {error}");
            return vec![finding("folder", FindingLevel::Ill, what)];
        }
    };
    let mut findings = vec![finding(
        "folder",
        FindingLevel::Well,
        format!("{shown} can be written"),
    )];
    if let Ok(system) = rustix::fs::statvfs(&place) {
        let free = system.f_bavail * system.f_frsize;
        let health = if free < LITTLE_SPACE {
            FindingLevel::Doubtful
        } else {
            FindingLevel::Well
        };
        findings.push(finding(
            "space",
            health,
            format!("{} MiB are free", free >> 20),
        ));
    }
    let health = if p50 > SLOW_SYNC {
        FindingLevel::Doubtful
    } else {
        FindingLevel::Well
    };
    let what = format!("fdatasync takes {} us, half of the time", p50.as_micros());
    findings.push(finding("sync", health, what));
    findings
}

fn sync_speed(probe: &Path) -> std::io::Result<Duration> {
    let clock = SystemClock::new();
    let mut file = File::create(probe)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = clock.monotonic();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(clock.monotonic() - began);
    }
    times.sort_unstable();
    Ok(times[SYNCS / 2])
}

/// Files that clock synchronization daemons create.
const CLOCK_KEEPERS: [&str; 4] = [
    "/run/systemd/timesync/synchronized",
    "/run/chrony/chronyd.pid",
    "/run/chronyd.pid",
    "/run/ntpd.pid",
];

fn clock() -> DoctorFinding {
    let keeper = CLOCK_KEEPERS.iter().find(|file| Path::new(file).exists());
    match keeper {
        Some(keeper) => finding(
            "clock",
            FindingLevel::Well,
            format!("it is kept ({keeper})"),
        ),
        None => finding(
            "clock",
            FindingLevel::Doubtful,
            "nothing here seems to keep it: timers and tokens follow it",
        ),
    }
}

fn files(config: &Config) -> DoctorFinding {
    let wanted = config.connections as u64 + OTHER_FILES;
    // A server raises its own limit to the maximum.
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < wanted => finding(
            "files",
            FindingLevel::Doubtful,
            format!(
                "{limit} may be open, {wanted} are wanted: raise `ulimit -n` or lower http.connections"
            ),
        ),
        Some(limit) => finding("files", FindingLevel::Well, format!("{limit} may be open")),
        None => finding("files", FindingLevel::Well, "any number may be open"),
    }
}

fn memory(config: &Config) -> DoctorFinding {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let Some(free) = kilobytes.map(|kilobytes| kilobytes * 1024) else {
        return finding(
            "memory",
            FindingLevel::Doubtful,
            "the system does not say how much is free",
        );
    };
    let what = format!(
        "{} MiB are free, {} may be used",
        free >> 20,
        config.memory >> 20
    );
    let health = if free < config.memory {
        FindingLevel::Doubtful
    } else {
        FindingLevel::Well
    };
    finding("memory", health, what)
}

/// The server that has the data folder open holds what it needs.
fn held(pid: u32) -> String {
    format!("held by the running server (pid {pid})")
}

/// Whether each port is free, or held by the server that has the data folder open.
fn ports(config: &Config, server: Option<u32>) -> Vec<DoctorFinding> {
    let check = |(name, port): (&str, u16)| {
        if TcpListener::bind(config.address(port)).is_ok() {
            return finding(
                "port",
                FindingLevel::Well,
                format!("{port} is free ({name})"),
            );
        }
        let holder = match holder_of(port) {
            Some(PortHolder::Process { pid, .. }) if Some(pid) == server => {
                let what = format!("{port} is {} ({name})", held(pid));
                return finding("port", FindingLevel::Well, what);
            }
            Some(holder) => holder.to_string(),
            None => "a process that cannot be seen and may be ending".to_owned(),
        };
        let what = format!("{port} is taken by {holder} ({name})");
        finding("port", FindingLevel::Ill, what)
    };
    config.ports().into_iter().map(check).collect()
}
