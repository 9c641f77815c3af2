//! `steadfast backup` and `steadfast restore`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::json;
use steadfast::storage::backup::{Chain, Extent, Manifest, Order, Policy};

use crate::place::{Address, Durability};
use crate::progress::show;
use crate::result::{Facts, print, timed};
use crate::table::Output;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Backup {
    #[command(subcommand)]
    command: Option<Check>,
    /// The data folder, or postgres://user:password@host1,host2,host3/database
    #[arg(long, value_name = "PLACE", required = true)]
    data: Option<Address>,
    /// Who keeps the second copy of what a database acknowledges
    #[arg(long, value_enum, default_value_t = Durability::Quorum)]
    durability: Durability,
    /// The folder of backups; it is made if need be
    #[arg(long, value_name = "DIR", required = true)]
    to: Option<PathBuf>,
    /// Only what has changed since the newest backup there
    #[arg(long)]
    incremental: bool,
}

#[derive(Subcommand)]
enum Check {
    /// Read a backup and all that it builds on, and compare every byte
    Verify {
        /// A backup, or a folder of backups: then the newest one
        #[arg(value_name = "DIR")]
        from: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Restore {
    /// A backup, or a folder of backups: then the newest one
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The data folder, empty or missing, or with an older state of the same store; or
    /// postgres://user:password@host1,host2,host3/database, without any state
    #[arg(long, value_name = "PLACE")]
    data: Address,
    /// Who keeps the second copy of what a database acknowledges
    #[arg(long, value_enum, default_value_t = Durability::Quorum)]
    durability: Durability,
    /// Give up whatever is there
    #[arg(long)]
    force: bool,
}

/// Takes or verifies a backup.
pub(crate) fn run(arguments: &Backup, output: Output) -> Result<()> {
    if let Some(Check::Verify { from }) = &arguments.command {
        return verify(from, output);
    }
    let data = arguments.data.as_ref().context("--data is missing")?;
    let to = arguments.to.as_ref().context("--to is missing")?;
    let extent = match arguments.incremental {
        true => Extent::Incremental,
        false => Extent::Full,
    };
    let order = Order::new(to, extent);
    let place = data.place(arguments.durability);
    let (taken, seconds) = timed(async |progress| {
        let taken = Box::pin(place.take(&order, progress));
        show(progress, taken).await
    })?;
    let mut facts = facts(&taken.folder, &taken.manifest);
    facts.push(("seconds", json!(seconds)));
    print(&facts, output)
}

/// Brings a backup back.
pub(crate) fn run_restore(arguments: &Restore, output: Output) -> Result<()> {
    let place = arguments.data.place(arguments.durability);
    let policy = match arguments.force {
        true => Policy::Force,
        false => Policy::Safe,
    };
    let (restored, seconds) = timed(async |progress| {
        let restored = Box::pin(place.restore(&arguments.from, policy, progress));
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
