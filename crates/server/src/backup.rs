//! `steadfast backup` and `steadfast restore`.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use steadfast::clock::{Clock, SystemClock};
use steadfast::storage::backup::{self, Chain, Extent, Manifest, Order, Policy, Progress};
use tokio::sync::watch;

use crate::progress::show;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Backup {
    #[command(subcommand)]
    command: Option<Check>,
    /// The data folder
    #[arg(long, value_name = "DIR", required = true)]
    data: Option<PathBuf>,
    /// The folder of backups; it is made if need be
    #[arg(long, value_name = "DIR", required = true)]
    to: Option<PathBuf>,
    /// Only what has changed since the newest backup there
    #[arg(long)]
    incremental: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Subcommand)]
enum Check {
    /// Read a backup and all that it builds on, and compare every byte
    Verify {
        /// A backup, or a folder of backups: then the newest one
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// How to print the result
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
}

#[derive(Args)]
pub(crate) struct Restore {
    /// A backup, or a folder of backups: then the newest one
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The data folder, empty or missing, or with an older state of the same store
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Give up whatever the data folder holds
    #[arg(long)]
    force: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}

/// Takes or verifies a backup.
pub(crate) fn run(arguments: &Backup) -> Result<()> {
    if let Some(Check::Verify { from, output }) = &arguments.command {
        return verify(from, *output);
    }
    let data = arguments.data.as_ref().context("--data is missing")?;
    let to = arguments.to.as_ref().context("--to is missing")?;
    let extent = match arguments.incremental {
        true => Extent::Incremental,
        false => Extent::Full,
    };
    let order = Order::new(to, extent);
    let (taken, seconds) = timed(async |progress| {
        let taken = backup::take_folder(data, &order, progress);
        show(progress, taken).await
    })?;
    let mut facts = facts(&taken.folder, &taken.manifest);
    facts.push(("seconds", json!(seconds)));
    print(&facts, arguments.output)
}

/// Brings a backup back.
pub(crate) fn run_restore(arguments: &Restore) -> Result<()> {
    let order = backup::Restore {
        from: arguments.from.clone(),
        data: arguments.data.clone(),
        policy: match arguments.force {
            true => Policy::Force,
            false => Policy::Safe,
        },
    };
    let (restored, seconds) = timed(async |progress| {
        let restored = backup::restore_folder(&order, progress);
        show(progress, restored).await
    })?;
    let facts = [
        ("data", json!(order.data.display().to_string())),
        ("partitions", json!(restored.partitions)),
        ("rows", json!(restored.rows)),
        ("events", json!(restored.events)),
        ("bytes", json!(restored.bytes)),
        ("seconds", json!(seconds)),
    ];
    print(&facts, arguments.output)
}

fn verify(from: &Path, output: Output) -> Result<()> {
    let (chain, seconds) = timed(async |progress| {
        let verify = async {
            let (from, progress) = (from.to_path_buf(), progress.clone());
            let work = move || {
                let chain = Chain::open(&from)?;
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
    facts.push(("backups in the chain", json!(links.len())));
    facts.push(("bytes in the chain", json!(bytes)));
    facts.push(("seconds", json!(seconds)));
    print(&facts, output)
}

type Facts = Vec<(&'static str, Value)>;

fn facts(folder: &Path, manifest: &Manifest) -> Facts {
    vec![
        ("backup", json!(folder.display().to_string())),
        ("id", json!(manifest.id)),
        ("extent", json!(manifest.extent)),
        ("partitions", json!(manifest.partitions.len())),
        ("rows", json!(manifest.rows())),
        ("new events", json!(manifest.events)),
        ("bytes", json!(manifest.bytes())),
    ]
}

/// Runs some work on a runtime of its own; answers how long it took.
fn timed<T>(
    work: impl AsyncFnOnce(&watch::Sender<Progress>) -> steadfast::storage::Result<T>,
) -> Result<(T, f64)> {
    let clock = SystemClock::new();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_time().build().context("start a runtime")?;
    let (progress, _) = watch::channel(Progress::default());
    let done = runtime.block_on(work(&progress))?;
    let seconds = clock.monotonic().as_secs_f64();
    Ok((done, (seconds * 1000.0).round() / 1000.0))
}

fn print(facts: &[(&'static str, Value)], output: Output) -> Result<()> {
    if output == Output::Json {
        let name = |name: &str| name.replace(' ', "_");
        let object = facts.iter().map(|(key, value)| (name(key), value.clone()));
        let object: serde_json::Map<_, _> = object.collect();
        println!("{}", serde_json::to_string_pretty(&object)?);
        return Ok(());
    }
    let width = facts.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, value) in facts {
        let shown: &dyn Display = match value {
            Value::String(text) => text,
            other => other,
        };
        println!("{key:width$}  {shown}");
    }
    Ok(())
}
