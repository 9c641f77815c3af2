//! The copy of a space in the region that does not own it.
//!
//! Changes are committed in the order in which the owner made them, through a store of
//! its own, so flushing and recovery are the usual ones. While a whole copy is being
//! made, a record says that this one is not: such a copy never becomes the owner's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use parking_lot::RwLock;
use steadfast_core::id::{Lsn, Partition, Table};

use super::copy::{Copy, Reply, Step};
use super::record::{read_record, write_record};
use crate::body::Writes;
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::ledger::{Ledger, View};
use crate::store::Store;

/// Says whether the copy is whole.
const WHOLE: &str = "mirror/whole";

/// The row by which a copy knows, after a restart, how far it was.
const STEP: (Table, &[u8]) = (Table(1000), b"step");

/// A copy that follows an owner.
pub struct Follower {
    engine: Arc<dyn Engine>,
    store: Store,
    partitions: Vec<Partition>,
    state: tokio::sync::Mutex<State>,
    /// The same ledgers, for readers of what may be old.
    open: RwLock<Vec<Ledger>>,
}

#[derive(Default)]
struct State {
    /// Copies of earlier epochs are refused.
    fence: u64,
    /// The last copy that was begun here: epoch and session.
    begun: (u64, u64),
    /// The session and the number of its next step.
    session: Option<(u64, u64)>,
    /// Nothing was followed since the start: what is in the copy says how far it is.
    is_past: bool,
}

impl Follower {
    /// A follower whose store is on this engine, and on nothing else.
    pub fn new(engine: Arc<dyn Engine>, store: Store, partitions: Vec<Partition>) -> Self {
        Self {
            engine,
            store,
            partitions,
            state: tokio::sync::Mutex::default(),
            open: RwLock::default(),
        }
    }

    /// Whether everything is here that was acknowledged while the pair was in sync.
    pub async fn is_whole(&self) -> Result<bool> {
        let record = read_record(&*self.engine, WHOLE).await?;
        Ok(record.is_some_and(|record| record == "yes"))
    }

    /// Says so, of a space that nobody has used yet.
    pub async fn found(&self) -> Result<()> {
        self.set_whole(true).await
    }

    /// What is here of a partition, for readers that know that it may be old.
    pub fn ledger(&self, partition: Partition) -> Option<Ledger> {
        let open = self.open.read();
        let found = open.iter().find(|ledger| ledger.partition() == partition);
        found.cloned()
    }

    /// Opens the copy, so that it can be read and written by the owner of `epoch`.
    pub async fn open(&self, epoch: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        state.fence = state.fence.max(epoch);
        self.acquire().await
    }

    /// Lets go of the copy: this region is about to own the space in `epoch`. What
    /// was being applied is durable when this returns, and nothing else ever will be.
    pub async fn close(&self, epoch: u64) {
        let mut state = self.state.lock().await;
        state.fence = state.fence.max(epoch);
        state.session = None;
        state.is_past = true;
        self.open.write().clear();
        self.store.lapse();
    }

    /// Does what the owner asks.
    pub async fn apply(&self, copy: Copy) -> Reply {
        let mut state = self.state.lock().await;
        if copy.epoch < state.fence {
            return Reply::Deposed(state.fence);
        }
        state.fence = copy.epoch;
        if copy.step == Step::Begin {
            let asked = (copy.epoch, copy.session);
            if asked < state.begun {
                // It comes late: another copy has been begun since.
                return Reply::Strange;
            }
            if asked == state.begun && state.session.is_some() {
                // Its answer was lost.
                return Reply::Done;
            }
            state.begun = asked;
            state.session = None;
            state.is_past = true;
            return match self.begin(&copy).await {
                Ok(()) => {
                    state.session = Some((copy.session, copy.number + 1));
                    Reply::Done
                }
                Err(error) => Reply::Failed(error.to_string()),
            };
        }
        let next = match state.session {
            Some((session, next)) if session == copy.session => next,
            None if !state.is_past && self.is_next(&copy).await => {
                state.begun = (copy.epoch, copy.session);
                copy.number
            }
            _ => return Reply::Strange,
        };
        state.is_past = true;
        if copy.number < next {
            // Its answer was lost.
            return Reply::Done;
        }
        if copy.number > next {
            return Reply::Strange;
        }
        let mark = mark(&copy);
        let done = match copy.step {
            Step::Changes(parts) => self.change(parts, &mark).await,
            _ => self.complete(&mark).await,
        };
        match done {
            Ok(()) => {
                state.session = Some((copy.session, next + 1));
                Reply::Done
            }
            Err(error) => {
                // It may have been done in part: only a whole copy helps.
                state.session = None;
                Reply::Failed(error.to_string())
            }
        }
    }

    async fn set_whole(&self, is_whole: bool) -> Result<()> {
        let word = if is_whole { "yes" } else { "no" };
        write_record(&*self.engine, WHOLE, Bytes::from_static(word.as_bytes())).await
    }

    async fn acquire(&self) -> Result<()> {
        let all = self.partitions.iter();
        let all = all.map(|partition| self.store.acquire(*partition));
        *self.open.write() = try_join_all(all).await?;
        Ok(())
    }

    /// Whether a step goes on where this copy was before a restart. The owner has heard
    /// of all earlier steps, so all of them are here. The last one may be here in part,
    /// and is done again.
    async fn is_next(&self, copy: &Copy) -> bool {
        let open = self.open.read().clone();
        let mut last = None;
        for ledger in &open {
            let Ok(mark) = ledger.get(STEP.0, STEP.1, View::Durable).await else {
                return false;
            };
            last = last.max(mark.as_deref().and_then(marked));
        }
        last.is_some_and(|(epoch, session, number)| {
            let is_same = (epoch, session) == (copy.epoch, copy.session);
            is_same && (number..=number + 1).contains(&copy.number)
        })
    }

    /// Everything is here.
    async fn complete(&self, mark: &[u8]) -> Result<()> {
        self.set_whole(true).await?;
        let first = self.open.read().first().cloned();
        if let Some(first) = first {
            let mut writes = Writes::new();
            writes.put(STEP.0, STEP.1, mark);
            first.commit(writes).await?;
        }
        Ok(())
    }

    /// Forgets everything.
    async fn begin(&self, copy: &Copy) -> Result<()> {
        self.set_whole(false).await?;
        self.acquire().await?;
        let open = self.open.read().clone();
        for ledger in &open {
            let mut writes = Writes::new();
            for table in ledger.tables()? {
                writes.clear(table);
            }
            writes.put(STEP.0, STEP.1, &mark(copy));
            ledger.commit(writes).await?;
        }
        Ok(())
    }

    /// Does what a step says, in each partition at once: a step that is done again after
    /// it was done in part never shows what is older.
    async fn change(&self, parts: Vec<(Partition, Bytes)>, mark: &[u8]) -> Result<()> {
        let mut merged: Vec<(Ledger, Writes)> = Vec::new();
        for (partition, operations) in parts {
            let lost = |what: &str| {
                let what = what.to_owned();
                Error::new(Kind::Lost { partition, what })
            };
            let ledger = self.ledger(partition);
            let ledger = ledger.ok_or_else(|| lost("the copy has no such partition"))?;
            let writes = Writes::redo(&operations);
            let writes = writes.map_err(|_| lost("a change of the owner is malformed"))?;
            let own = merged.iter_mut().rev();
            let mut own = own.filter(|(ledger, _)| ledger.partition() == partition);
            match own.next() {
                Some((_, former)) if former.fits(&writes) => former.then(&writes),
                _ => merged.push((ledger, writes)),
            }
        }
        let mut staged = Vec::new();
        for (ledger, mut writes) in merged {
            writes.put(STEP.0, STEP.1, mark);
            let lsn = stage(&ledger, writes).await?;
            staged.push((ledger, lsn));
        }
        for (ledger, lsn) in staged {
            ledger.wait(lsn).await?;
        }
        Ok(())
    }
}

/// How far a copy is: epoch, session, number.
fn mark(copy: &Copy) -> Vec<u8> {
    let numbers = [copy.epoch, copy.session, copy.number];
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Reads what [`mark`] wrote.
fn marked(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    match (numbers, rest) {
        ([epoch, session, number], []) => Some((
            u64::from_le_bytes(*epoch),
            u64::from_le_bytes(*session),
            u64::from_le_bytes(*number),
        )),
        _ => None,
    }
}

/// How often, and after which pause, a change is tried that came too fast.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

async fn stage(ledger: &Ledger, writes: Writes) -> Result<Lsn> {
    for _ in 0..TRIES {
        match ledger.stage(writes.clone()) {
            Err(error) if matches!(error.kind(), Kind::Throttled { .. }) => {
                tokio::time::sleep(PAUSE).await;
            }
            staged => return staged.map(|staged| staged.lsn),
        }
    }
    ledger.stage(writes).map(|staged| staged.lsn)
}
