//! State shared by all transactions of a replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use steadfast_core::clock::Clock;
use steadfast_core::id::{Lsn, Partition};
use steadfast_storage::Ledger;

use crate::commit_path::CommitPath;
use crate::committer::Committer;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::latch::ParkingLatch;
use crate::lock::table::LockTable;
use crate::notice::{NoticeChannel, StateNotice, TransactionNotice};
use crate::registry::CollectionRegistry;
use crate::schema::version::WriteVersion;
use crate::source::RowSource;

pub(crate) struct ReplicaInner {
    pub(crate) source: RowSource,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) locks: Arc<LockTable<ParkingLatch>>,
    pub(crate) registry: CollectionRegistry,
    pub(crate) committer: Option<Committer>,
    /// Commits transactions that carry commands.
    pub(crate) commit_path: Option<Arc<dyn CommitPath>>,
    pub(crate) write_version: WriteVersion,
    /// The state is lost with the process: some features are not supported then.
    pub(crate) is_volatile: bool,
    pub(crate) state_feed: NoticeChannel<StateNotice>,
    pub(crate) transaction_feed: NoticeChannel<TransactionNotice>,
    next_transaction: AtomicU64,
    /// Write status, revoked first when the replica closes.
    may_write: AtomicBool,
    is_closed: AtomicBool,
    /// The ledger has failed for good: what memory holds may be old.
    is_lost: AtomicBool,
}

impl ReplicaInner {
    pub(crate) fn new(
        source: RowSource,
        clock: Arc<dyn Clock>,
        resident_bytes: usize,
        registry: CollectionRegistry,
        write_version: WriteVersion,
        is_volatile: bool,
        commit_path: Option<Arc<dyn CommitPath>>,
    ) -> Self {
        let committer = source.ledger().ok().cloned().map(Committer::start);
        Self {
            may_write: AtomicBool::new(committer.is_some()),
            locks: LockTable::new(Arc::clone(&clock), resident_bytes),
            source,
            clock,
            registry,
            committer,
            commit_path,
            write_version,
            is_volatile,
            state_feed: NoticeChannel::default(),
            transaction_feed: NoticeChannel::default(),
            next_transaction: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
        }
    }

    pub(crate) fn partition(&self) -> Partition {
        self.source.partition()
    }

    pub(crate) fn next_transaction(&self) -> u64 {
        self.next_transaction.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn may_write(&self) -> bool {
        self.may_write.load(Ordering::Acquire)
    }

    pub(crate) fn revoke_write(&self) {
        self.may_write.store(false, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        self.revoke_write();
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            Err(Error::new(ErrorKind::Closed))
        } else {
            Ok(())
        }
    }

    /// Records a failed commit: if the partition has another owner, or the outcome is
    /// unknown, nothing in memory can be trusted any more.
    pub(crate) fn note_failure(&self, error: &Error) {
        let is_lost = matches!(
            error.kind(),
            ErrorKind::NotPrimary { .. } | ErrorKind::OutcomeUnknown { .. } | ErrorKind::Closed
        );
        if is_lost {
            self.is_lost.store(true, Ordering::Release);
            self.revoke_write();
        }
    }

    /// Refuses to answer from memory once the ledger has failed.
    pub(crate) fn check_owned(&self) -> Result<()> {
        let is_lost = self.is_lost.load(Ordering::Acquire);
        let leased = |ledger: &Ledger| ledger.check_lease().is_ok();
        if is_lost || !self.source.ledger().map_or(true, leased) {
            Err(self.not_primary())
        } else {
            Ok(())
        }
    }

    pub(crate) fn not_primary(&self) -> Error {
        Error::new(ErrorKind::NotPrimary {
            partition: self.partition(),
            hint: None,
        })
    }

    /// The last durable transaction; zero where that is not known.
    pub(crate) fn durable_lsn(&self) -> Lsn {
        let ledger = self.source.ledger();
        ledger.map_or(Lsn(0), |ledger| *ledger.durable().borrow())
    }
}
