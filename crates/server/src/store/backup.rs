//! `steadfast store backup` and `steadfast store restore`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use steadfast::admin::NodeStatus;
use steadfast::clock::{Clock, SystemClock};
use steadfast::storage::Error;
use steadfast::storage::backup::{
    BackupChain, BackupKey, BackupOptions, ErrorKind, Extent, Manifest, RestorePolicy,
};

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::output::progress::{follow, show, wait_for};
use crate::output::{Facts, OutputFormat, display_value, out, print, print_value, timed};
use crate::server_client::ServerClient;
use crate::status_poll::StatusPoll;
use crate::store::durability_argument::DurabilityArgument;
use crate::store::storage_address::StorageAddress;

/// The time limit of a backup or restore; large state takes long.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The file in a data folder with the secret of its server.
const SECRET_FILE: &str = "secret.key";

/// The polling interval while a server restarts.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    command: Option<BackupSubcommand>,
    /// A data folder that is not in use, or
    /// postgres://user:password@host1,host2,host3/database, instead of a running server
    #[arg(long, value_name = "PLACE")]
    data: Option<StorageAddress>,
    /// How the database keeps the second copy of an acknowledged commit
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Quorum)]
    durability: DurabilityArgument,
    /// The folder of backups, created if missing. With a running server, below its
    /// `backup.root`
    #[arg(long, value_name = "DIR", required = true)]
    to: Option<PathBuf>,
    /// Back up only changes since the newest backup in the folder
    #[arg(long)]
    incremental: bool,
    /// A file with the key that seals the backup; secret.key in the data folder by default.
    /// A running server uses its own
    #[arg(long, value_name = "FILE", requires = "data")]
    key: Option<PathBuf>,
    /// Do not seal the backup
    #[arg(long, requires = "data", conflicts_with = "key")]
    plain: bool,
}

#[derive(Subcommand)]
enum BackupSubcommand {
    /// Verify a backup and all backups it builds on, byte by byte
    Verify {
        /// A backup, or a folder of backups for the newest one
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// A file with the key that sealed it; without it, only damage is detected
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

#[derive(Args)]
pub(crate) struct RestoreArguments {
    /// A backup, or a folder of backups for the newest one. With a running server,
    /// below its `backup.root`
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// A data folder, empty or missing, or with an older state of the same store; or
    /// postgres://user:password@host1,host2,host3/database, without any state; instead
    /// of a running server
    #[arg(long, value_name = "PLACE")]
    data: Option<StorageAddress>,
    /// How the database keeps the second copy of an acknowledged commit
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Quorum)]
    durability: DurabilityArgument,
    /// Overwrite any state in the target
    #[arg(long)]
    force: bool,
    /// A file with the key that sealed the backup; secret.key in the data folder by default.
    /// A running server uses its own
    #[arg(long, value_name = "FILE", requires = "data")]
    key: Option<PathBuf>,
}

/// Takes or verifies a backup.
pub(crate) fn run(arguments: &BackupArguments, globals: &Globals) -> Result<()> {
    let output = globals.output();
    if let Some(BackupSubcommand::Verify { from, key }) = &arguments.command {
        return verify(from, key.as_deref(), output);
    }
    let to = arguments.to.as_ref().context("--to is missing")?;
    let Some(data) = &arguments.data else {
        return back_up_remote(arguments, to, globals);
    };
    let extent = if arguments.incremental {
        Extent::Incremental
    } else {
        Extent::Full
    };
    let mut order = BackupOptions::new(to, extent);
    if !arguments.plain {
        let key = key(arguments.key.as_deref(), data)?;
        order = order.sealed(&key.ok_or_else(|| unsealed(to))?);
    }
    let place = data.location(arguments.durability);
    let (taken, seconds) = timed(async |progress| {
        let taken = Box::pin(place.take(&order, progress));
        show(progress, taken).await
    })?;
    let mut facts = facts(&taken.folder, &taken.manifest);
    facts.push(("seconds", json!(seconds)));
    facts.extend(taken.note.map(|note| ("note", json!(note))));
    print(&facts, output)
}

/// Restores a backup.
pub(crate) fn run_restore(arguments: &RestoreArguments, globals: &Globals) -> Result<()> {
    let output = globals.output();
    let Some(data) = &arguments.data else {
        return restore_remote(arguments, globals);
    };
    let place = data.location(arguments.durability);
    let policy = if arguments.force {
        RestorePolicy::Force
    } else {
        RestorePolicy::Safe
    };
    let (from, key) = (&arguments.from, key(arguments.key.as_deref(), data)?);
    let (restored, seconds) = timed(async |progress| {
        let restored = Box::pin(place.restore(from, policy, key.as_ref(), progress));
        show(progress, restored).await
    })?;
    let facts = [
        ("data", json!(place.to_string())),
        ("partitions", json!(restored.partitions)),
        ("rows", json!(restored.rows)),
        ("events", json!(restored.events)),
        ("bytes", json!(restored.bytes)),
        ("seconds", json!(seconds)),
    ];
    print(&facts, output)
}

/// The key in a file, or the key of the server that owns the data folder.
fn key(file: Option<&Path>, data: &StorageAddress) -> Result<Option<BackupKey>> {
    let own = match data {
        StorageAddress::Folder(path) => Some(path.join(SECRET_FILE)),
        StorageAddress::Database(_) => None,
    };
    let file = match file {
        Some(file) => Some(file.to_path_buf()),
        None => own.filter(|file| file.exists()),
    };
    Ok(file.map(|file| BackupKey::read(&file)).transpose()?)
}

fn unsealed(to: &Path) -> Error {
    Error::new(ErrorKind::BackupKey {
        path: to.to_path_buf(),
        what: "there is no key to seal the backup with; name the file of the server's key by \
               --key, or have it written in plain text by --plain"
            .into(),
    })
}

/// Backs up a running server.
fn back_up_remote(arguments: &BackupArguments, to: &Path, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let order = json!({"to": to, "incremental": arguments.incremental});
    let mut look = StatusPoll::of(&remote)?;
    let look = move || look.status()?.backup;
    let saved: Value = follow("backing up", look, || {
        remote.request_within(PATIENCE, Method::POST, "/v1/backup", Some(&order))
    })?;
    print_object(&saved, globals.output())
}

/// Restores a running server, and waits until it serves again.
fn restore_remote(arguments: &RestoreArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let order = json!({"from": arguments.from, "force": arguments.force});
    let accepted: Value = remote.request(Method::POST, "/v1/restore", Some(&order))?;
    let done = wait_for("restoring", || restored(&remote, &accepted["number"]))?;
    print_object(&done, globals.output())
}

/// Waits until the server serves again after this restore. Returns its outcome.
fn restored(remote: &ServerClient, number: &Value) -> Result<Value> {
    let clock = SystemClock::new();
    while clock.monotonic() < PATIENCE {
        // The server does not answer while it restarts.
        let status: Result<NodeStatus> = remote.request(Method::GET, "/v1/status", None);
        let done = status.ok().and_then(|status| status.restore);
        match done.filter(|done| &json!(done.number) == number) {
            Some(done) => return done.outcome.map_err(anyhow::Error::msg),
            None => std::thread::sleep(PAUSE),
        }
    }
    Err(CommandError::TimedOut("the server did not restart in time".to_owned()).into())
}

fn print_object(object: &Value, output: OutputFormat) -> Result<()> {
    if output.is_structured() {
        return print_value(object, output);
    }
    let fields = object.as_object().into_iter().flatten();
    let lines = fields.map(|(name, value)| format!("{name:12}  {}", display_value(value)));
    out(&lines.collect::<Vec<_>>().join("\n"))
}

fn verify(from: &Path, key: Option<&Path>, output: OutputFormat) -> Result<()> {
    let key = key.map(BackupKey::read).transpose()?;
    let (chain, seconds) = timed(async |progress| {
        let verify = async {
            let (from, key, progress) = (from.to_path_buf(), key.clone(), progress.clone());
            let work = move || {
                let chain = BackupChain::open(&from, key.as_ref())?;
                chain.verify(&progress)?;
                Ok(chain)
            };
            tokio::task::spawn_blocking(work).await
        };
        match show(progress, verify).await {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    })?;
    let mut facts = facts(chain.folder(), chain.last());
    let links: Vec<_> = chain.manifests().collect();
    let bytes: u64 = links.iter().map(|manifest| manifest.bytes()).sum();
    facts.push(("opened", json!(chain.is_opened())));
    facts.push(("backups in the chain", json!(links.len())));
    facts.push(("bytes in the chain", json!(bytes)));
    facts.push(("seconds", json!(seconds)));
    print(&facts, output)
}

fn facts(folder: &Path, manifest: &Manifest) -> Facts {
    let mut facts = vec![
        ("backup", json!(folder.display().to_string())),
        ("id", json!(manifest.id)),
        ("extent", json!(manifest.extent)),
        ("sealed", json!(manifest.is_sealed())),
    ];
    facts.extend(manifest.key().map(|key| ("key", json!(key))));
    facts.extend([
        ("partitions", json!(manifest.partitions.len())),
        ("rows", json!(manifest.rows())),
        ("new events", json!(manifest.events)),
        ("bytes", json!(manifest.bytes())),
    ]);
    facts
}
