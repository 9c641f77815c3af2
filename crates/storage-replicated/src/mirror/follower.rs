//! The copy of a space in the region that does not own it.
//!
//! Changes are committed in the order in which the owner made them, through a store of
//! its own, so flushing and recovery are the usual ones. A full copy is made beside the
//! previous one, and one record puts it in its place when it is complete: an incomplete
//! copy never becomes the owner's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use parking_lot::RwLock;
use steadfast_core::id::{Lsn, Partition, TableId};
use steadfast_core::task::name_task;
use steadfast_storage::body::Writes;
use steadfast_storage::engine::Engine;
use steadfast_storage::{Error, ErrorKind, Ledger, Result, Store, Visibility};
use tokio::task::JoinHandle;

use super::copy::{CopyRequest, CopyResponse, CopyStep};
use super::generation::{CopyGeneration, CopyInventory};
use super::record::{read_record, write_record};

/// The key of the record that names the complete copy.
const STOCK: &str = "mirror/stock";

/// How long the previous copy may still be read after it was replaced.
const READING: Duration = Duration::from_secs(10);

/// The row that stores the position of a copy, for restarts.
const STEP: (TableId, &[u8]) = (TableId(1000), b"step");

/// A copy that follows the owner's region.
pub struct MirrorFollower {
    engine: Arc<dyn Engine>,
    store: Store,
    partitions: Vec<Partition>,
    state: tokio::sync::Mutex<State>,
    /// The complete copy, for reads that may be stale.
    open: RwLock<Vec<Ledger>>,
}

#[derive(Default)]
struct State {
    /// Copies of earlier epochs are refused.
    fence: u64,
    /// The last copy that was begun here: epoch and session.
    begun: (u64, u64),
    session: Option<Session>,
    /// No step was applied since the start: the copy itself stores its position.
    is_past: bool,
    stock: CopyInventory,
    /// The partitions of both generations.
    first: Vec<Ledger>,
    second: Vec<Ledger>,
    /// Empties the generation that is not needed.
    discarding: Option<JoinHandle<()>>,
}

/// A sequence of consecutive steps.
#[derive(Clone, Copy)]
struct Session {
    number: u64,
    /// The number of its next step.
    next: u64,
    /// The generation that it writes to.
    into: CopyGeneration,
}

impl State {
    fn ledgers(&self, generation: CopyGeneration) -> &[Ledger] {
        match generation {
            CopyGeneration::First => &self.first,
            CopyGeneration::Second => &self.second,
        }
    }

    fn set(&mut self, generation: CopyGeneration, ledgers: Vec<Ledger>) {
        match generation {
            CopyGeneration::First => self.first = ledgers,
            CopyGeneration::Second => self.second = ledgers,
        }
    }

    /// Empties a generation that is not needed any more, after a pause in which reads that
    /// have just begun can finish.
    fn discard(&mut self, generation: CopyGeneration) {
        let former = self.ledgers(generation).to_vec();
        let discarding = async move {
            tokio::time::sleep(READING).await;
            for ledger in &former {
                if let Err(error) = discard(ledger).await {
                    // It is emptied before it is used again.
                    tracing::debug!(event = "region.not_discarded", %error);
                    return;
                }
            }
        };
        self.discarding = Some(tokio::spawn(name_task(discarding)));
    }
}

impl MirrorFollower {
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

    /// Whether this region has everything that was acknowledged while the pair was in sync.
    pub async fn is_whole(&self) -> Result<bool> {
        Ok(self.stock().await?.whole.is_some())
    }

    /// Whether a newer copy is being made, or must be.
    pub async fn is_catching_up(&self) -> Result<bool> {
        let stock = self.stock().await?;
        Ok(stock.is_copying || stock.whole.is_none())
    }

    /// Marks the copy of an unused space as complete.
    pub async fn initialize(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        let whole = Some(CopyGeneration::First);
        let is_copying = false;
        self.keep(&mut state, CopyInventory { whole, is_copying })
            .await
    }

    /// The local copy of a partition, for reads that may be stale.
    pub fn ledger(&self, partition: Partition) -> Option<Ledger> {
        find(&self.open.read(), partition)
    }

    /// Opens the copy, so that it can be read and written by the owner of `epoch`.
    pub async fn open(&self, epoch: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        state.fence = state.fence.max(epoch);
        state.stock = self.stock().await?;
        for generation in [CopyGeneration::First, CopyGeneration::Second] {
            let ledgers = self.acquire(generation).await?;
            state.set(generation, ledgers);
        }
        let whole = state.stock.whole.unwrap_or_default();
        *self.open.write() = match state.stock.whole {
            Some(whole) => state.ledgers(whole).to_vec(),
            None => Vec::new(),
        };
        if !state.stock.is_copying {
            state.discard(whole.other());
        }
        Ok(())
    }

    /// Stops following: this region is about to own the space in `epoch`. When this
    /// returns, steps in progress are durable and no later step is accepted. Returns the
    /// complete generation.
    pub async fn close(&self, epoch: u64) -> CopyGeneration {
        let mut state = self.state.lock().await;
        state.fence = state.fence.max(epoch);
        state.session = None;
        state.is_past = true;
        self.open.write().clear();
        let whole = state.stock.whole.unwrap_or_default();
        for ledger in state.ledgers(whole) {
            self.store.abandon(ledger.partition());
        }
        state.set(whole, Vec::new());
        // Entries that are never flushed to the tables would hold up the log.
        state.discard(whole.other());
        whole
    }

    /// Applies a step of the owner.
    pub async fn apply(&self, copy: CopyRequest) -> CopyResponse {
        let mut state = self.state.lock().await;
        if copy.epoch < state.fence {
            return CopyResponse::Deposed(state.fence);
        }
        state.fence = copy.epoch;
        if copy.step == CopyStep::Begin {
            return self.begin(&mut state, &copy).await;
        }
        let session = match state.session {
            Some(session) if session.number == copy.session => session,
            None if !state.is_past => match resumed(&state, &copy).await {
                Some(session) => {
                    state.begun = (copy.epoch, copy.session);
                    session
                }
                None => return CopyResponse::Strange,
            },
            _ => return CopyResponse::Strange,
        };
        state.is_past = true;
        if copy.number < session.next {
            // Its answer was lost.
            return CopyResponse::Done;
        }
        if copy.number > session.next {
            return CopyResponse::Strange;
        }
        let mark = mark(&copy);
        let done = match copy.step {
            CopyStep::Changes(parts) => change(state.ledgers(session.into), parts, &mark).await,
            _ => self.complete(&mut state, session.into, &mark).await,
        };
        match done {
            Ok(()) => {
                let next = session.next + 1;
                state.session = Some(Session { next, ..session });
                CopyResponse::Done
            }
            Err(error) => {
                // It may have been applied in part: only a full copy helps.
                state.session = None;
                CopyResponse::Failed(error.to_string())
            }
        }
    }

    /// Begins a full copy beside the current one.
    async fn begin(&self, state: &mut State, copy: &CopyRequest) -> CopyResponse {
        let asked = (copy.epoch, copy.session);
        if asked < state.begun {
            // The request is late: a newer copy has been begun.
            return CopyResponse::Strange;
        }
        if asked == state.begun && state.session.is_some() {
            // Its answer was lost.
            return CopyResponse::Done;
        }
        state.begun = asked;
        state.session = None;
        state.is_past = true;
        let into = state.stock.target();
        match self.empty(state, into, copy).await {
            Ok(()) => {
                state.session = Some(Session {
                    number: copy.session,
                    next: copy.number + 1,
                    into,
                });
                CopyResponse::Done
            }
            Err(error) => CopyResponse::Failed(error.to_string()),
        }
    }

    /// Prepares a generation for a new copy.
    async fn empty(
        &self,
        state: &mut State,
        into: CopyGeneration,
        copy: &CopyRequest,
    ) -> Result<()> {
        if let Some(discarding) = state.discarding.take() {
            discarding.abort();
        }
        let stock = CopyInventory {
            is_copying: true,
            ..state.stock
        };
        self.keep(state, stock).await?;
        // Acquiring fences the task that was emptying it.
        let ledgers = self.acquire(into).await?;
        state.set(into, ledgers);
        for ledger in state.ledgers(into) {
            clear(ledger, &mark(copy)).await?;
        }
        Ok(())
    }

    /// Records this generation as complete and discards the other one.
    async fn complete(&self, state: &mut State, into: CopyGeneration, mark: &[u8]) -> Result<()> {
        let stock = CopyInventory {
            whole: Some(into),
            is_copying: false,
        };
        self.keep(state, stock).await?;
        *self.open.write() = state.ledgers(into).to_vec();
        if let Some(first) = state.ledgers(into).first() {
            let mut writes = Writes::new();
            writes.put(STEP.0, STEP.1, mark);
            first.commit(writes).await?;
        }
        state.discard(into.other());
        Ok(())
    }

    async fn stock(&self) -> Result<CopyInventory> {
        let Some(record) = read_record(&*self.engine, STOCK).await? else {
            return Ok(CopyInventory::default());
        };
        CopyInventory::decode(&record).ok_or_else(|| {
            let word = String::from_utf8_lossy(&record);
            let partition = self.partitions.first().copied().unwrap_or(Partition(0));
            let what = format!("the record {STOCK} says '{word}', which is not known here");
            Error::new(ErrorKind::Lost { partition, what })
        })
    }

    async fn keep(&self, state: &mut State, stock: CopyInventory) -> Result<()> {
        write_record(&*self.engine, STOCK, stock.encode()).await?;
        state.stock = stock;
        Ok(())
    }

    async fn acquire(&self, generation: CopyGeneration) -> Result<Vec<Ledger>> {
        let all = self.partitions.iter();
        let all = all.map(|partition| self.store.acquire(generation.place(*partition)));
        try_join_all(all).await
    }
}

fn find(ledgers: &[Ledger], partition: Partition) -> Option<Ledger> {
    let is_it = |ledger: &&Ledger| CopyGeneration::partition(ledger.partition()) == partition;
    ledgers.iter().find(is_it).cloned()
}

/// Removes all rows, and leaves a mark.
async fn clear(ledger: &Ledger, mark: &[u8]) -> Result<()> {
    let mut writes = Writes::new();
    for table in ledger.tables()? {
        writes.clear(table);
    }
    writes.put(STEP.0, STEP.1, mark);
    ledger.commit(writes).await?;
    Ok(())
}

/// Removes all rows, also from the log.
async fn discard(ledger: &Ledger) -> Result<()> {
    let mut writes = Writes::new();
    for table in ledger.tables()? {
        writes.clear(table);
    }
    if !writes.is_empty() {
        ledger.commit(writes).await?;
    }
    ledger.flush().await
}

/// The session that a step resumes after a restart, if it does. All earlier steps were
/// acknowledged to the owner, so all of them are here. The last one may be here in part,
/// and is applied again.
async fn resumed(state: &State, copy: &CopyRequest) -> Option<Session> {
    let into = if state.stock.is_copying {
        state.stock.target()
    } else {
        state.stock.whole?
    };
    let mut last = None;
    for ledger in state.ledgers(into) {
        let mark = ledger.get(STEP.0, STEP.1, Visibility::Durable).await.ok()?;
        last = last.max(mark.as_deref().and_then(marked));
    }
    let (epoch, session, number) = last?;
    let is_same = (epoch, session) == (copy.epoch, copy.session);
    let is_next = is_same && (number..=number + 1).contains(&copy.number);
    is_next.then_some(Session {
        number: copy.session,
        next: copy.number,
        into,
    })
}

/// Applies a step, atomically per partition: a step that is repeated after it was
/// applied in part never shows older state.
async fn change(ledgers: &[Ledger], parts: Vec<(Partition, Bytes)>, mark: &[u8]) -> Result<()> {
    let mut merged: Vec<(Ledger, Writes)> = Vec::new();
    for (partition, operations) in parts {
        let lost = |what: &str| {
            let what = what.to_owned();
            Error::new(ErrorKind::Lost { partition, what })
        };
        let ledger = find(ledgers, partition);
        let ledger = ledger.ok_or_else(|| lost("the copy has no such partition"))?;
        let writes = Writes::redo(&operations);
        let writes = writes.map_err(|_| lost("a change of the owner is malformed"))?;
        let own = merged.iter_mut().rev();
        let mut own = own.filter(|(known, _)| known.partition() == ledger.partition());
        match own.next() {
            Some((_, former)) if former.fits(&writes) => former.append(&writes),
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

/// How far a copy is: epoch, session, number.
fn mark(copy: &CopyRequest) -> Vec<u8> {
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

/// How often, and after which pause, a throttled change is retried.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

async fn stage(ledger: &Ledger, writes: Writes) -> Result<Lsn> {
    for _ in 0..TRIES {
        match ledger.stage(writes.clone()) {
            Err(error) if matches!(error.kind(), ErrorKind::Throttled { .. }) => {
                tokio::time::sleep(PAUSE).await;
            }
            staged => return staged.map(|staged| staged.lsn),
        }
    }
    ledger.stage(writes).map(|staged| staged.lsn)
}
