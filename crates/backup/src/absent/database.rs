//! Databases of a program without the engine on PostgreSQL.
//!
//! There is no value of [`DatabaseOptions`], so that nothing has to be handled.

use std::path::Path;

use steadfast_storage::Result;
use tokio::sync::watch;

use crate::backup_job::{BackupOptions, BackupReport};
use crate::offline::RestorePolicy;
use crate::progress::BackupProgress;
use crate::restore::RestoreReport;
use crate::seal::BackupKey;

/// The set-up of a database, which this program cannot use.
#[derive(Clone)]
pub enum DatabaseOptions {}

/// Backs up a database.
pub async fn take_database(
    options: &DatabaseOptions,
    _: &BackupOptions,
    _: &watch::Sender<BackupProgress>,
) -> Result<BackupReport> {
    match *options {}
}

/// Restores a database.
pub async fn restore_database(
    _: &Path,
    options: &DatabaseOptions,
    _: RestorePolicy,
    _: Option<&BackupKey>,
    _: &watch::Sender<BackupProgress>,
) -> Result<RestoreReport> {
    match *options {}
}

pub(crate) async fn expect_empty(options: &DatabaseOptions) -> Result<()> {
    match *options {}
}

pub(crate) fn address(options: &DatabaseOptions) -> String {
    match *options {}
}
