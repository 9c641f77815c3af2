//! A prepared transaction on its way to the log.
//!
//! Preparing turns the changes into redo; from then on only the outcome of the append
//! ends the transaction. When that is known, [`Prepared::finish`] makes the new versions
//! visible, sends the notices and releases the locks, in this order, so that no
//! transaction sees or locks a row in between. A prepared transaction that is dropped was
//! never handed to the log: it is aborted.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::Lsn;
use steadfast_core::task::name_task;
use steadfast_storage::{Ledger, Writes};

use crate::collection::{Collection, CollectionStage, Shape};
use crate::commit_path::{CommitRejected, Outcome, StagedCommands};
use crate::error::{Error, ErrorKind, Result};
use crate::items::ItemPosition;
use crate::lock::latch::ParkingLatch;
use crate::lock::name::{self, LockName, Subject};
use crate::lock::owner::{LockOwner, TransactionPhase};
use crate::lock::resident::CachedValue;
use crate::notice::{RowChange, RowNotice, StateNotice, TransactionNotice};
use crate::registry;
use crate::replica_inner::ReplicaInner;
use crate::source::FlushStamp;
use crate::transaction::Tx;
use crate::writeset::{RowWrite, WriteSet};

/// A prepared transaction, which can only be committed or aborted.
#[must_use = "a prepared transaction that is not finished is aborted"]
pub struct Prepared {
    inner: Arc<ReplicaInner>,
    owner: Arc<LockOwner<ParkingLatch>>,
    set: WriteSet,
    enqueued: Vec<(Arc<Collection>, ItemPosition)>,
    counts: Vec<(Arc<Collection>, i64)>,
    writes: Option<Writes>,
    staged: StagedCommands,
    /// Whether there are changes to make visible.
    has_changes: bool,
    is_over: bool,
}

impl Tx {
    /// Commits and returns the transaction's LSN once it is durable.
    /// The commit is under way when this returns: it goes on if the future is
    /// dropped. Without changes nothing is written.
    pub fn commit(self) -> impl Future<Output = Result<Lsn>> + Send + use<> {
        let home = Arc::clone(&self.inner);
        let (reply, outcome) = tokio::sync::oneshot::channel();
        let id = self.id();
        match self.prepare() {
            Ok(mut sealed) => match (&home.committer, sealed.take_writes()) {
                (_, writes) if !sealed.staged.is_empty() => {
                    let outcome = sealed.hand_over(writes.unwrap_or_default());
                    tokio::spawn(name_task(async move {
                        let outcome = outcome.await;
                        // The caller may have stopped waiting.
                        let _ = reply.send(sealed.conclude(outcome));
                    }));
                }
                (Some(committer), Some(writes)) => {
                    let finish = move |outcome| {
                        // The caller may have stopped waiting.
                        let _ = reply.send(sealed.finish(outcome));
                    };
                    committer.commit(writes, Box::new(finish));
                }
                _ => {
                    let _ = reply.send(sealed.finish(Ok(home.durable_lsn())));
                }
            },
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
        async move {
            let gone = |_| Error::new(ErrorKind::OutcomeUnknown { transaction: id });
            outcome.await.map_err(gone)?
        }
    }

    /// Prepares the transaction for a caller that appends to the log itself.
    pub fn prepare(mut self) -> Result<Prepared> {
        self.check()?;
        if !self.writes.is_empty() || !self.staged.is_empty() {
            self.check_write()?;
        }
        if !self.owner.leave_active(TransactionPhase::Committing) {
            return Err(self.ended(self.owner.phase()));
        }
        let mut sealed = Prepared {
            inner: Arc::clone(&self.inner),
            owner: Arc::clone(&self.owner),
            set: std::mem::take(&mut self.writes),
            enqueued: Vec::new(),
            counts: Vec::new(),
            writes: None,
            staged: std::mem::take(&mut self.staged),
            has_changes: false,
            is_over: false,
        };
        if !sealed.set.is_empty() {
            sealed.has_changes = true;
            let writes = sealed.redo()?;
            sealed.writes = Some(writes.with_id(sealed.owner.id));
        }
        Ok(sealed)
    }
}

impl Prepared {
    /// Takes the writes for the log, once; `None` if there are none.
    pub fn take_writes(&mut self) -> Option<Writes> {
        self.writes.take()
    }

    /// Takes the commands and messages that share its commit, once.
    pub fn take_commands(&mut self) -> StagedCommands {
        std::mem::take(&mut self.staged)
    }

    /// Submits rows, commands and messages to the runtime of the partition.
    fn hand_over(&mut self, writes: Writes) -> Outcome {
        let staged = self.take_commands();
        match &self.inner.commit_path {
            Some(courier) => courier.commit(writes, staged),
            // Without a commit path nothing can be staged.
            None => Box::pin(std::future::ready(Ok(self.inner.durable_lsn()))),
        }
    }

    /// Ends the transaction with the outcome of rows and commands.
    fn conclude(self, outcome: std::result::Result<Lsn, CommitRejected>) -> Result<Lsn> {
        match outcome {
            Ok(lsn) => self.finish(Ok(lsn)),
            Err(CommitRejected::Storage(error)) => self.finish(Err(error)),
            // Nothing was written: dropping the transaction aborts it.
            Err(CommitRejected::Command { code, message }) => {
                Err(Error::new(ErrorKind::CommandRejected { code, message }))
            }
        }
    }

    /// Ends the transaction with the outcome of its append.
    pub fn finish(mut self, outcome: steadfast_storage::Result<Lsn>) -> Result<Lsn> {
        self.is_over = true;
        match outcome {
            Ok(lsn) => {
                self.show(lsn);
                self.release();
                Ok(lsn)
            }
            Err(error) => {
                let error = Error::storage(error, self.owner.id);
                // Before another transaction gets the locks and reads the rows.
                self.inner.note_failure(&error);
                self.take_back();
                Err(error)
            }
        }
    }

    /// The changes as redo.
    fn redo(&mut self) -> Result<Writes> {
        let mut writes = Writes::new();
        let home = Arc::clone(&self.inner);
        let ledger = home.source.ledger()?;
        for collection in self.set.removed.iter().chain(&self.set.cleared) {
            writes.clear(collection.table);
            registry::forget_count(&mut writes, collection.table);
            if collection.what.shape == Shape::Log {
                forget_log(ledger, collection, &mut writes)?;
            }
        }
        for removed in &self.set.removed {
            self.set.tables.remove(&removed.table);
        }
        self.registry(&mut writes);
        self.rows(&mut writes);
        self.items(&mut writes, ledger);
        for (stream, appends) in std::mem::take(&mut self.set.appended) {
            writes.publish(stream, appends.count, appends.bytes.into());
        }
        for (stream, first, offset) in &self.set.trims {
            writes.trim(*stream, *first, *offset);
        }
        let stamp = FlushStamp {
            lsn: home.durable_lsn(),
            transaction: self.owner.id,
            epoch: ledger.epoch().0,
        };
        stamp.write(&mut writes);
        Ok(writes)
    }

    /// Registry rows; a collection that was created and removed again leaves none.
    fn registry(&mut self, writes: &mut Writes) {
        let removed = &self.set.removed;
        let stays = |c: &&Arc<Collection>| !removed.iter().any(|r| Arc::ptr_eq(r, c));
        let created: Vec<_> = self.set.created.iter().filter(stays).cloned().collect();
        self.inner.registry.write(writes, &created, removed);
    }

    fn rows(&mut self, writes: &mut Writes) {
        for changes in self.set.tables.values() {
            let collection = &changes.collection;
            let mut delta = 0;
            for (key, change) in &changes.rows {
                match &change.value {
                    Some(written) => writes.put(collection.table, key, &written.bytes),
                    None if change.existed => writes.delete(collection.table, key),
                    None => {}
                }
                delta += counted(change);
            }
            if delta != 0 {
                let count = collection.add_count(delta);
                registry::write_count(writes, collection.table, count);
                self.counts.push((Arc::clone(collection), delta));
            }
        }
    }

    fn items(&mut self, writes: &mut Writes, ledger: &Ledger) {
        let epoch = ledger.epoch().0;
        for (queue, bytes) in std::mem::take(&mut self.set.enqueued) {
            let place = queue.items.next(epoch);
            writes.put(queue.table, &place.key(), &bytes);
            self.enqueued.push((queue, place));
        }
        for (queue, place) in &self.set.taken {
            writes.delete(queue.table, &place.key());
        }
    }

    /// Makes the changes visible. The transaction still holds its locks.
    fn show(&mut self, lsn: Lsn) {
        if !self.has_changes {
            return;
        }
        for collection in self.set.cleared.iter().chain(&self.set.removed) {
            collection.invalidate_cache();
            send(collection, lsn, || RowChange::Clear);
        }
        for removed in &self.set.removed {
            self.inner.registry.remove(removed);
            let name = removed.name.clone();
            self.inner
                .state_feed
                .send(StateNotice::Remove { name, lsn });
        }
        for created in &self.set.created {
            if created.life() != CollectionStage::Removed {
                self.inner.registry.add(created);
                let name = created.name.clone();
                self.inner.state_feed.send(StateNotice::Add { name, lsn });
            }
        }
        self.show_rows(lsn);
        for (queue, place) in self.enqueued.drain(..) {
            queue.items.put(place);
        }
        let transaction = self.owner.id;
        let commit = TransactionNotice::Commit { transaction, lsn };
        self.inner.transaction_feed.send(commit);
    }

    fn show_rows(&self, lsn: Lsn) {
        let mut name = Vec::new();
        for changes in self.set.tables.values() {
            let collection = &changes.collection;
            for (key, change) in &changes.rows {
                name::write(&mut name, Subject::Row, collection.table);
                name.extend_from_slice(key);
                let (cached, bytes) = match &change.value {
                    Some(written) => (
                        CachedValue::Present(Arc::clone(&written.value)),
                        written.bytes.len(),
                    ),
                    None => (CachedValue::Absent, 0),
                };
                let version = collection.version();
                let locks = &self.inner.locks;
                locks.remember(&self.owner, LockName::new(&name), version, cached, bytes);
                if change.counts && collection.what.shape == Shape::Dictionary {
                    notify(collection, lsn, key, change);
                }
            }
        }
    }

    fn release(&self) {
        let locks = &self.inner.locks;
        locks.end(
            &self.owner,
            TransactionPhase::Committing,
            TransactionPhase::Closed,
        );
    }

    /// Nothing was written: dequeued items are returned.
    fn take_back(&mut self) {
        for (queue, place) in self.set.taken.drain(..) {
            queue.items.put(place);
        }
        for (collection, delta) in self.counts.drain(..) {
            collection.add_count(-delta);
        }
        for created in self.set.created.drain(..) {
            created.set_life(CollectionStage::Removed);
        }
        self.release();
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.is_over {
            self.take_back();
        }
    }
}

/// By how much a change alters the number of rows.
fn counted(change: &RowWrite) -> i64 {
    match (change.counts, change.existed, change.value.is_some()) {
        (true, false, true) => 1,
        (true, true, false) => -1,
        _ => 0,
    }
}

fn notify(collection: &Collection, lsn: Lsn, key: &Bytes, change: &RowWrite) {
    let row = || match (&change.value, change.existed) {
        (Some(written), true) => RowChange::Update(key.clone(), Arc::clone(&written.value)),
        (Some(written), false) => RowChange::Add(key.clone(), Arc::clone(&written.value)),
        (None, _) => RowChange::Remove(key.clone()),
    };
    if change.existed || change.value.is_some() {
        send(collection, lsn, row);
    }
}

fn send(collection: &Collection, lsn: Lsn, what: impl FnOnce() -> RowChange) {
    if collection.feed.has_subscribers() {
        let what = what();
        collection.feed.send(RowNotice { lsn, what });
    }
}

/// Trims a log to its end; its collection is locked, so there are no appends now.
fn forget_log(ledger: &Ledger, collection: &Collection, writes: &mut Writes) -> Result<()> {
    let stream = collection.stream();
    let head = ledger.stream(stream);
    if let Some(head) = head.map_err(|error| Error::storage(error, 0))? {
        writes.trim(stream, head.next, head.end);
    }
    Ok(())
}
