//! Backup, restore and inspection of a running node.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steadfast_admin::{NodeBackupRequest, NodeRestoreRequest, WorkProgress};
use steadfast_backup::{
    BackupChain, BackupKey, BackupOptions, BackupProgress, BackupReport, Extent, FolderRestore,
    RestorePolicy, restore_folder, take,
};
use steadfast_collections::Inspector;
use steadfast_core::error::Code;
use steadfast_core::id::Partition;
use steadfast_net::http::Problem;
use steadfast_storage::Error as StorageError;
use tokio::sync::watch;

use super::backup_root;
use super::inner::Inner;
use super::owner_rpc::{CollectionsRequest, CollectionsResponse};
use super::postgres::take_running;
use crate::config::EngineKind;
use crate::inspect::{
    ENTRIES, Error as NotThere, InspectRequest, InspectTable, look_at_part, whole,
};

/// The engine of this node does not support the operation.
const UNSUPPORTED: Code = Code("STF-6031");

/// Maximum number of rows in an inspection.
const ROWS: usize = 10_000;

impl Inner {
    pub(super) async fn take_backup(&self, order: NodeBackupRequest) -> Result<Value, Problem> {
        let extent = if order.incremental {
            Extent::Incremental
        } else {
            Extent::Full
        };
        let mut order = BackupOptions::new(self.backup_place(&order.to)?, extent);
        if let Some(key) = &self.backup_key {
            let long = key.expect_long(&order.to);
            long.map_err(|error| problem(&error))?;
            order = order.sealed(key);
        }
        let (progress, watched) = watch::channel(BackupProgress::default());
        if self.backup_progress().is_none() {
            *self.backup.lock() = Some(watched);
        }
        // A backup of some partitions would look like a backup of all.
        let is_whole = self.runtime.serving().len() == usize::from(self.partitions());
        let taken = match &self.shards {
            Some(shards) if !is_whole => Box::pin(take_running(shards, &order, &progress)).await,
            _ => take(&self.store, &order, &progress).await,
        };
        let taken = taken.map_err(|error| problem(&error))?;
        tracing::info!(event = "node.backed_up", folder = %taken.folder.display());
        Ok(saved(&taken))
    }

    /// How far a running backup is: its sender lives as long as it runs.
    pub(super) fn backup_progress(&self) -> Option<WorkProgress> {
        let backup = self.backup.lock();
        let running = backup.as_ref().filter(|own| own.has_changed().is_ok())?;
        let now = *running.borrow();
        Some(WorkProgress {
            partitions: now.partitions,
            done: now.done,
        })
    }

    fn backup_place(&self, name: &Path) -> Result<PathBuf, Problem> {
        backup_root::place(&self.config.backup_root, &self.config.data, name)
    }

    /// Checks that the backup can be restored before the node drains. Returns the request
    /// with its folder resolved.
    pub(super) async fn check_restore(
        &self,
        order: NodeRestoreRequest,
    ) -> Result<NodeRestoreRequest, Problem> {
        if self.config.engine != EngineKind::Local {
            let message = "only a data folder is restored while its server runs: stop the server \
                           and use `steadfast store restore --data`";
            return Err(Problem::new(UNSUPPORTED, message));
        }
        let from = self.backup_place(&order.from)?;
        let order = NodeRestoreRequest {
            from: from.clone(),
            ..order
        };
        let key = self.backup_key.clone();
        let open = move || BackupChain::open(&from, key.as_ref())?.expect_restorable();
        let opened = tokio::task::spawn_blocking(open).await;
        let opened = opened.expect("opening a chain does not panic");
        opened.map(|_| order).map_err(|error| problem(&error))
    }

    pub(super) async fn inspect_partitions(&self, question: Value) -> Result<Value, Problem> {
        let only = question["partition"].as_str().map(str::to_owned);
        let bad = |error: serde_json::Error| Problem::bad_request(error.to_string());
        let mut question: InspectRequest = serde_json::from_value(question).map_err(bad)?;
        question.limit = question.limit.clamp(1, ROWS);
        let is_asked = |partition: Partition| {
            let only = only.as_ref();
            only.is_none_or(|only| *only == partition.to_string())
        };
        let space = self.runtime.space();
        if let (false, Some(only)) = (space.all().any(is_asked), &only) {
            let message = format!("there is no partition {only}; list them first");
            return Err(Problem::not_found(message));
        }
        let sheet = if self.runtime.router().is_single_node() {
            self.inspect_local(is_asked, &question).await?
        } else {
            let asked = space.all().filter(|partition| is_asked(*partition));
            self.inspect_cluster(asked, &question).await?
        };
        Ok(json!(whole(sheet, &question).map_err(inspect_problem)?))
    }

    /// Inspects partitions of this node.
    pub(super) async fn inspect_local(
        &self,
        is_asked: impl Fn(Partition) -> bool,
        question: &InspectRequest,
    ) -> Result<InspectTable, Problem> {
        let doors = self.runtime.router().mailboxes();
        let inspectors: Vec<_> = doors
            .iter()
            .filter(|door| is_asked(door.partition()))
            .map(|door| Inspector::new(door.ledger().clone()))
            .collect();
        let sheet = look_at_part(&inspectors, question).await;
        sheet.map_err(inspect_problem)
    }

    /// Inspects partitions on all nodes; there is no common snapshot.
    async fn inspect_cluster(
        &self,
        partitions: impl Iterator<Item = Partition>,
        question: &InspectRequest,
    ) -> Result<InspectTable, Problem> {
        let (limit, mut question) = (question.limit, question.clone());
        let mut all: Option<InspectTable> = None;
        let mut missing = Problem::not_found("there are no partitions");
        for partition in partitions {
            let found = all.as_ref().map_or(0, |sheet| sheet.rows.len());
            // One row more than the limit shows whether there are more.
            question.limit = limit.saturating_sub(found).max(1);
            let errand = CollectionsRequest::Look {
                partition: partition.index(),
                question: question.clone(),
            };
            let sheet = match self.run_at_owner(partition.index(), errand).await {
                Ok(CollectionsResponse::Sheet(sheet)) => sheet,
                Ok(_) => return Err(Problem::internal("another node answers something else")),
                Err(problem) if problem.code() == missing.code() => {
                    missing = problem;
                    continue;
                }
                Err(problem) => return Err(problem),
            };
            match &mut all {
                None => all = Some(sheet),
                Some(all) => {
                    all.rows.extend(sheet.rows);
                    all.has_more |= sheet.has_more;
                }
            }
            if let Some(all) = &mut all
                && all.name == ENTRIES
                && all.rows.len() > limit
            {
                all.rows.truncate(limit);
                all.has_more = true;
                break;
            }
        }
        all.ok_or(missing)
    }
}

/// Restores a backup into a folder that no process has open.
pub(super) async fn restore(
    data: &Path,
    order: NodeRestoreRequest,
    key: Option<BackupKey>,
) -> Result<Value, String> {
    let order = FolderRestore {
        from: order.from,
        data: data.to_owned(),
        policy: if order.force {
            RestorePolicy::Force
        } else {
            RestorePolicy::Safe
        },
        key,
    };
    let (progress, _) = watch::channel(BackupProgress::default());
    let restored = restore_folder(&order, &progress).await;
    let restored = restored.map_err(|error| error.to_string())?;
    Ok(json!({
        "partitions": restored.partitions,
        "rows": restored.rows,
        "events": restored.events,
        "bytes": restored.bytes,
    }))
}

fn saved(taken: &BackupReport) -> Value {
    let manifest = &taken.manifest;
    let mut saved = json!({
        "backup": taken.folder.display().to_string(),
        "id": manifest.id,
        "extent": manifest.extent,
        "sealed": manifest.is_sealed(),
        "partitions": manifest.partitions.len(),
        "rows": manifest.rows(),
        "new_events": manifest.events,
        "bytes": manifest.bytes(),
    });
    if let Some(key) = manifest.key() {
        saved["key"] = key.into();
    }
    if let Some(note) = taken.note {
        saved["note"] = note.into();
    }
    saved
}

fn inspect_problem(error: NotThere) -> Problem {
    match error {
        NotThere::NotFound(what) => Problem::not_found(what),
        NotThere::Collection(error) => Problem::new(error.code(), error.to_string()),
    }
}

fn problem(error: &StorageError) -> Problem {
    Problem::new(error.code(), error.to_string())
}
