//! `steadfast store`: backup, migration, contents.

pub(crate) mod backup;
#[cfg_attr(not(feature = "postgres"), path = "../absent/database.rs")]
pub(crate) mod database;
pub(crate) mod durability_argument;
pub(crate) mod inspect;
pub(crate) mod migrate;
pub(crate) mod storage_address;

use anyhow::Result;
use clap::Subcommand;

use crate::globals::Globals;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Back up a running server, a data folder or a database
    ///
    /// A backup is a folder inside DIR; an incremental backup builds on the newest one
    /// there. A running server keeps serving; its DIR is on the server's machine. A data
    /// folder or database must not be in use.
    #[command(after_help = "\
Examples:
  steadfast store backup --to backups
  steadfast store backup --to backups --incremental")]
    Backup(backup::BackupArguments),
    /// Restore a backup into a running server, a data folder or a database
    ///
    /// A running server drains, restores and starts again. The backup is verified before
    /// anything is written, and the result is compared with it. An unfinished restore
    /// cannot be opened: run it again.
    #[command(after_help = "Examples:\n  steadfast store restore --from backups --force")]
    Restore(backup::RestoreArguments),
    /// Move a store between a data folder and PostgreSQL
    ///
    /// Copies everything into an empty target, reads it back and compares it. Neither
    /// store may be in use. The source is not changed.
    #[command(after_help = "\
Examples:
  steadfast store migrate --from local:steadfast-data --to postgres://db1,db2,db3/steadfast")]
    Migrate(migrate::MigrateArguments),
    /// Show what a running server or a data folder holds
    ///
    /// Without a name it shows the partitions. A data folder must not be in use.
    #[command(after_help = "\
Examples:
  steadfast store inspect
  steadfast store inspect collections
  steadfast store inspect accounts --limit 10")]
    Inspect(inspect::InspectArguments),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::Backup(arguments) => backup::run(arguments, globals),
        Command::Restore(arguments) => backup::run_restore(arguments, globals),
        Command::Migrate(arguments) => migrate::run(arguments, globals),
        Command::Inspect(arguments) => inspect::run(arguments, globals),
    }
}
