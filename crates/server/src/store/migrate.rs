//! `steadfast store migrate`: moves a store to another engine.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use steadfast::storage::backup::{self, StoreMigration};

use crate::globals::Globals;
use crate::output::progress::show;
use crate::output::{print, timed};
use crate::store::durability_argument::DurabilityArgument;
use crate::store::storage_address::StorageAddress;

#[derive(Args)]
pub(crate) struct MigrateArguments {
    /// The source: local:DIR or postgres://user:password@host1,host2,host3/database
    #[arg(long, value_name = "PLACE")]
    from: StorageAddress,
    /// The target, in the same form; it must be empty
    #[arg(long, value_name = "PLACE")]
    to: StorageAddress,
    /// How the database keeps the second copy of an acknowledged commit
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Quorum)]
    durability: DurabilityArgument,
    /// The folder for a temporary copy, as large as the state
    ///
    /// By default beside the data folder, or the current folder if there is none.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Copies a store to another engine and compares the copy.
pub(crate) fn run(arguments: &MigrateArguments, globals: &Globals) -> Result<()> {
    let migration = StoreMigration {
        from: arguments.from.location(arguments.durability),
        to: arguments.to.location(arguments.durability),
        scratch: scratch(arguments),
    };
    let (moved, seconds) = timed(async |progress| {
        let moved = Box::pin(backup::migrate(&migration, progress));
        show(progress, moved).await
    })?;
    let facts = [
        ("from", json!(migration.from.to_string())),
        ("to", json!(migration.to.to_string())),
        ("partitions", json!(moved.partitions)),
        ("rows", json!(moved.rows)),
        ("events", json!(moved.events)),
        ("bytes", json!(moved.bytes)),
        ("compared", json!(true)),
        ("seconds", json!(seconds)),
    ];
    print(&facts, globals.output())
}

/// A temporary folder of this run.
fn scratch(arguments: &MigrateArguments) -> PathBuf {
    let beside = |address: &StorageAddress| match address {
        StorageAddress::Folder(path) => path.parent().map(Path::to_path_buf),
        StorageAddress::Database(_) => None,
    };
    let chosen = arguments.scratch.clone();
    let folder = chosen
        .or_else(|| beside(&arguments.from))
        .or_else(|| beside(&arguments.to))
        .unwrap_or_default();
    folder.join(format!("steadfast-migration-{}", std::process::id()))
}
