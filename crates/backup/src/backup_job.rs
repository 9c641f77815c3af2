//! Takes a backup of a store that stays in use.
//!
//! The job runs on a thread of its own and holds locks only while it notes the
//! positions of the partitions. A backup that fails leaves nothing behind.

use std::path::PathBuf;

use steadfast_core::id::{Partition, StreamId};
use steadfast_core::limits;
use steadfast_storage::export::{BackupGuard, CutPoint, OpenTap};
use steadfast_storage::{Error, ErrorKind as StorageKind, Ledger, Result, Store, StreamHead};
use tokio::sync::{oneshot, watch};

use crate::backup_reader::{BackupReader, CHECK_EVERY, stop_if};
use crate::chain::{BackupChain, open_runs};
use crate::delta::Deltas;
use crate::digest::RowDigest;
use crate::error::ErrorKind;
use crate::folder::BackupFolder;
use crate::identity;
use crate::manifest::{Extent, Manifest, PartitionManifest};
use crate::manifest_file::{ManifestFile, PLAIN_FORMAT, SEALED_FORMAT};
use crate::merge::RunMerger;
use crate::progress::{BackupPhase, BackupProgress};
use crate::repository::BackupRepository;
use crate::seal::{BackupKey, DataKey};
use crate::state_files::{self, PartitionHeads};

/// Options of a backup.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The folder of backups; created if it is missing.
    pub to: PathBuf,
    /// Everything, or what has changed since the newest backup there. A sealed backup on
    /// top of a plain one is a full one: it begins a chain of its own.
    pub extent: Extent,
    /// Most committed bytes that may be queued for the backup before it fails.
    pub tap_bytes: usize,
    /// What seals it; without a key it is plain text. A chain is sealed as a whole or not
    /// at all, with one key.
    pub key: Option<BackupKey>,
}

impl BackupOptions {
    /// A backup into this folder, in plain text unless it is [sealed](Self::sealed).
    pub fn new(to: impl Into<PathBuf>, extent: Extent) -> Self {
        Self {
            to: to.into(),
            extent,
            tap_bytes: limits::BACKUP_TAP_BYTES,
            key: None,
        }
    }

    /// The same, sealed with a key. Nothing of the backup can be read without it.
    pub fn sealed(self, key: &BackupKey) -> Self {
        Self {
            key: Some(key.clone()),
            ..self
        }
    }
}

/// A backup that was taken.
#[derive(Clone, Debug)]
pub struct BackupReport {
    /// Where it is.
    pub folder: PathBuf,
    /// What it holds.
    pub manifest: Manifest,
    /// Why it is a full one although an incremental one was requested.
    pub note: Option<&'static str>,
}

/// Why a sealed backup does not build on one of plain text.
const NEW_CHAIN: &str = "the newest backup there is plain text, so this is a full one and \
                         begins a sealed chain; the older ones can be restored, and be read \
                         without a key: delete them when they are no longer needed";

/// Backs up all partitions that the store owns, with the cluster records. If the
/// future is dropped the backup ends soon and leaves nothing behind.
pub async fn take(
    store: &Store,
    order: &BackupOptions,
    progress: &watch::Sender<BackupProgress>,
) -> Result<BackupReport> {
    let in_progress = || {
        let path = order.to.clone();
        Error::new(ErrorKind::BackupInProgress { path })
    };
    let job = BackupJob {
        busy: BackupGuard::begin(store).ok_or_else(in_progress)?,
        ledgers: store.owned(),
        order: order.clone(),
        progress: progress.clone(),
    };
    let runtime = tokio::runtime::Handle::current();
    let (reply, answer) = oneshot::channel();
    let run = move || {
        let done = runtime.block_on(job.run(&|| reply.is_closed()));
        drop(job);
        drop(reply.send(done));
    };
    let thread = std::thread::Builder::new().name("steadfast-backup".into());
    let started = thread.spawn(run);
    started.map_err(|e| Error::io(&order.to, "start a thread for", e))?;
    answer.await.map_err(|_| Error::new(StorageKind::Closed))?
}

struct BackupJob {
    busy: BackupGuard,
    ledgers: Vec<Ledger>,
    order: BackupOptions,
    progress: watch::Sender<BackupProgress>,
}

impl BackupJob {
    async fn run(&self, is_stopped: &dyn Fn() -> bool) -> Result<BackupReport> {
        let engine = self.busy.engine();
        let shelf = BackupRepository::open(&self.order.to)?;
        let life = identity::find_or_draw(engine).await?;
        let chain = match self.order.extent {
            Extent::Full => None,
            Extent::Incremental => self.chain(&life)?,
        };
        let extent = match chain {
            Some(_) => Extent::Incremental,
            None => Extent::Full,
        };
        let draft = shelf.draft(extent)?;
        let id = identity::random();
        let drawn = self.order.key.as_ref().map(|key| DataKey::draw(&id, key));
        let (data_key, sealing) = drawn.unzip();
        let folder = BackupFolder::new(&draft.folder, data_key);
        let (tapping, points) = OpenTap::begin(self.ledgers.clone(), self.order.tap_bytes)?;
        let heads = match &chain {
            Some(chain) => self.heads(chain, &points)?,
            None => PartitionHeads::new(),
        };
        let mut reading = BackupReader {
            shelf: &self.order.to,
            folder: folder.clone(),
            chain: chain.as_ref(),
            heads,
            tapping,
            deltas: Deltas::new(&folder),
            files: Vec::new(),
            events: 0,
            progress: &self.progress,
            is_stopped,
        };
        self.progress.send_replace(BackupProgress {
            phase: BackupPhase::Reading,
            partitions: points.len(),
            ..BackupProgress::default()
        });
        for (ledger, point) in self.ledgers.iter().zip(&points) {
            reading.rows(ledger).await?;
            reading.events(ledger, point).await?;
            self.progress.send_modify(|progress| progress.done += 1);
        }
        let (points, mut files, events) = reading.finish()?;
        files.push(state_files::write_heads(&folder, &points)?);
        let mut records = engine.list("").await?;
        records.retain(|record| record.key != identity::RECORD);
        files.push(state_files::write_records(&folder, &records)?);
        let partitions = self.digest(chain.as_ref(), &folder, &files, &points, is_stopped)?;
        let manifest = Manifest {
            format: match sealing {
                Some(_) => SEALED_FORMAT,
                None => PLAIN_FORMAT,
            },
            id,
            parent: chain.as_ref().map(|chain| chain.last().id.clone()),
            extent,
            time_ms: self.busy.now().0,
            store: life,
            version: env!("CARGO_PKG_VERSION").into(),
            partitions,
            events,
            files,
            sealing,
            digest: String::new(),
        };
        let (folder, manifest) = draft.finish(&folder, manifest)?;
        let note = (extent != self.order.extent).then_some(NEW_CHAIN);
        if let Some(note) = note {
            tracing::warn!(event = "backup.new_chain", folder = %folder.display(), "{note}");
        }
        Ok(BackupReport {
            folder,
            manifest,
            note,
        })
    }

    /// The chain that an incremental backup builds on. None if that is plain text and this
    /// backup is sealed: then a chain begins.
    fn chain(&self, life: &str) -> Result<Option<BackupChain>> {
        let closed = BackupChain::open(&self.order.to, None)?;
        let key = self.order.key.as_ref();
        let (own, found) = (key.map(BackupKey::fingerprint), closed.last().key());
        let chain = match found {
            Some(found) if own.is_none() => {
                let why = format!("the newest one is sealed, with the key {found}, this one not");
                return Err(self.missing(&why));
            }
            Some(found) if own != Some(found) => {
                let why = format!("the newest one is sealed with another key, {found}");
                return Err(self.missing(&why));
            }
            Some(_) => BackupChain::open(&self.order.to, key)?,
            None => closed,
        };
        if chain.last().store != *life {
            return Err(
                self.missing("the newest one is of another store, or from before a restore")
            );
        }
        for saved in &chain.last().partitions {
            let partition = Partition(saved.partition);
            if !self.ledgers.iter().any(|l| l.partition() == partition) {
                let why = format!("it has partition {partition}, which is not held here");
                return Err(self.missing(&why));
            }
        }
        let is_sealed_alike = chain.last().key() == own;
        Ok(is_sealed_alike.then_some(chain))
    }

    /// Where the chain's streams end; the chain must not be ahead of the store.
    fn heads(&self, chain: &BackupChain, points: &[CutPoint]) -> Result<PartitionHeads> {
        let heads = state_files::read_heads(chain.last_folder())?;
        for point in points {
            let partition = point.partition;
            let saved = chain.last().saved(partition).map_or(0, |saved| saved.lsn);
            let streams = heads.get(&partition).into_iter().flatten();
            let is_ahead = |(stream, head): (&StreamId, &StreamHead)| {
                let here = point.heads.get(stream);
                here.is_none_or(|here| here.next < head.next)
            };
            if saved > point.lsn.0 || streams.into_iter().any(is_ahead) {
                let why = format!("partition {partition} has gone back since the newest one");
                return Err(self.missing(&why));
            }
        }
        Ok(heads)
    }

    fn missing(&self, why: &str) -> Error {
        Error::new(ErrorKind::MissingFullBackup {
            path: self.order.to.clone(),
            why: why.into(),
        })
    }

    /// Reads back what is written, merged with what is below it, as a restore will.
    fn digest(
        &self,
        chain: Option<&BackupChain>,
        folder: &BackupFolder,
        files: &[ManifestFile],
        points: &[CutPoint],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<PartitionManifest>> {
        self.progress.send_modify(|progress| {
            progress.phase = BackupPhase::Digesting;
            progress.done = 0;
        });
        let mut found = Vec::new();
        for point in points {
            let mut runs = open_runs(folder, files, point.partition)?;
            if let Some(chain) = chain {
                runs.extend(chain.runs(point.partition)?);
            }
            let mut merge = RunMerger::new(runs)?;
            let mut digest = RowDigest::new();
            while let Some((row, value)) = merge.next()? {
                digest.add(&row, &value);
                if digest.rows.is_multiple_of(CHECK_EVERY) {
                    stop_if(is_stopped)?;
                }
            }
            found.push(PartitionManifest {
                partition: point.partition.0,
                lsn: point.lsn.0,
                time_ms: point.time.0,
                rows: digest.rows,
                rows_digest: folder.row_digest(&digest)?,
            });
            self.progress.send_modify(|progress| progress.done += 1);
        }
        Ok(found)
    }
}
