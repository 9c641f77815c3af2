//! Reads the rows that a worker needs.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::DecodeError;
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{
    Address, Envelope, Error as PartitionError, Mailbox, Message, ReadView, RemoteReader, Scan,
    TableRow,
};
use tokio::sync::mpsc;

use super::entry::{DeliveredWork, Key};
use super::histories::CachedHistory;
use super::work_queue::WorkQueue;
use super::worker_slot::Recipient;
use crate::command::{
    ActivityCompletion, ActivityWorkRequest, Command, OperationRequest, WorkRequest,
};
use crate::entity::{EntityRecord, FRONT, MAIN, QueueRecord};
use crate::event::{EventKind, InstanceEvent};
use crate::failure::FailureDetails;
use crate::instance::{InboxRecord, InstanceRecord};
use crate::moment::Moment;
use crate::rows::{
    self, ENTITIES, HISTORY, INBOX, INSTANCES, QUEUE, STATES, TASKS, key_of, marked, numbered,
};
use crate::work::{ActivityWork, BatchWork, TurnWork, WorkDelivery, WorkPayload};

/// The work for a worker, or `None` if there is nothing left to do.
type LoadResult = Result<Option<(WorkPayload, DeliveredWork)>, LoadError>;

/// Why rows could not be read; a retry may succeed.
pub(super) enum LoadError {
    /// The partition did not answer.
    Unavailable,
    /// The rows are inconsistent: damaged, or changed while they were read.
    Inconsistent,
}

impl From<PartitionError> for LoadError {
    fn from(_: PartitionError) -> Self {
        Self::Unavailable
    }
}

impl From<DecodeError> for LoadError {
    fn from(_: DecodeError) -> Self {
        Self::Inconsistent
    }
}

impl WorkQueue {
    /// Reads what the worker needs and sends it. If there is nothing left to do, removes the
    /// entry.
    pub(super) async fn load(self: Arc<Self>, key: Key, number: u64, attempt: u32, to: Recipient) {
        let (from, instance, wish, most) = {
            let state = self.state.lock();
            match state.entries.get(&key) {
                Some(entry) if entry.number == number => {
                    let (wish, most) = (entry.request.clone(), entry.most);
                    (entry.from.clone(), entry.instance.clone(), wish, most)
                }
                _ => return,
            }
        };
        let found = match self.router.mailbox(key.0) {
            Some(door) => match wish {
                WorkRequest::Turn { generation, .. } => {
                    self.turn(&door, &from, instance, generation, &to).await
                }
                WorkRequest::Activity(order) => activity(&door, &from, instance, order).await,
                WorkRequest::Batch { generation } => {
                    let most = most.unwrap_or(limits::BATCH_OPERATIONS);
                    batch(&door, &from, instance, generation, most).await
                }
                WorkRequest::Changed | WorkRequest::Closed | WorkRequest::Answer { .. } => Ok(None),
            },
            // The next owner of the partition requests it again.
            None => Ok(None),
        };
        self.hand_over(&key, number, attempt, found, &to.sender);
    }

    fn hand_over(
        &self,
        key: &Key,
        number: u64,
        attempt: u32,
        found: LoadResult,
        sender: &mpsc::UnboundedSender<WorkDelivery>,
    ) {
        let mut state = self.state.lock();
        let entry = state.entries.get_mut(key);
        let Some(entry) = entry.filter(|e| e.number == number && e.attempt == attempt) else {
            return;
        };
        match found {
            Ok(Some((mut work, given))) => {
                entry.given = Some(given);
                if let WorkPayload::Turn(turn) = &mut work {
                    turn.is_whole = entry.is_whole;
                }
                let token = entry.token().to_string();
                // The items of a disconnected worker are assigned again.
                let _ = sender.send(WorkDelivery { token, work });
            }
            Ok(None) => {
                drop(state);
                self.done(key);
            }
            Err(LoadError::Unavailable) => self.try_later(&mut state, key),
            Err(LoadError::Inconsistent) => self.delivery_lost(&mut state, key),
        }
    }

    async fn turn(
        &self,
        door: &Mailbox,
        from: &Address,
        instance: String,
        generation: u64,
        to: &Recipient,
    ) -> LoadResult {
        let key = key_of(from);
        let row: Option<InstanceRecord> = read(door, INSTANCES, &key).await?;
        let Some(row) = row.filter(|row| row.generation == generation && row.is_open) else {
            return Ok(None);
        };
        let taken = inbox(door, &key, &row).await?;
        let past = row.past();
        let is_remembered = to.remembers(&instance, &row.execution, past);
        let remembered = is_remembered.then_some(past);
        let history = match remembered {
            Some(_) => Arc::default(),
            None => self.history(door, &key, &row).await?,
        };
        let now = self.clock.now().max(Timestamp(row.clock.0 + 1));
        self.clock.note_ahead(now);
        let at = Moment::from(now);
        let mut new = Vec::with_capacity(taken.len() + 1);
        new.push(InstanceEvent::plain(at, EventKind::TurnStarted));
        new.extend_from_slice(&taken);
        let work = TurnWork {
            instance,
            execution: row.execution.clone(),
            past: history.turns.clone(),
            past_bytes: history.bytes,
            new,
            span: row.span,
            is_whole: false,
            remembered,
        };
        let given = DeliveredWork::Turn {
            execution: row.execution,
            generation,
            at,
            taken,
        };
        Ok(Some((WorkPayload::Turn(Box::new(work)), given)))
    }

    async fn history(
        &self,
        door: &Mailbox,
        key: &[u8],
        row: &InstanceRecord,
    ) -> Result<Arc<CachedHistory>, LoadError> {
        let known = self.histories.get(key);
        let is_same = |known: &Arc<CachedHistory>| {
            let is_known = known.execution == row.execution && known.rewrites == row.rewrites;
            is_known && known.turns.len() as u64 <= row.turns
        };
        let known = known.filter(is_same);
        if let Some(known) = known.as_ref().filter(|k| k.turns.len() as u64 == row.turns) {
            return Ok(Arc::clone(known));
        }
        let mut history = known.map(|known| (*known).clone()).unwrap_or_default();
        history.execution.clone_from(&row.execution);
        history.rewrites = row.rewrites;
        let first = history.turns.len() as u64;
        for (_, found) in run(door, HISTORY, key, first..row.turns, usize::MAX).await? {
            self.histories.read.fetch_add(1, Ordering::Relaxed);
            history.push(rows::decode(&found)?, found.len());
        }
        if history.turns.len() as u64 != row.turns {
            return Err(LoadError::Inconsistent);
        }
        let history = Arc::new(history);
        self.histories.keep(key, &history);
        Ok(history)
    }

    /// Fails an instance whose work is lost again and again.
    pub(super) fn fail(
        &self,
        key: &Key,
        from: Address,
        wish: &WorkRequest,
        failure: FailureDetails,
    ) {
        let (Some(door), wish) = (self.router.mailbox(key.0), wish.clone()) else {
            return;
        };
        let ask = match wish {
            WorkRequest::Activity(order) => Command::TaskDone(ActivityCompletion {
                execution: order.execution,
                number: order.number,
                result: None,
                failure: Some(failure),
                messages: Vec::new(),
            }),
            WorkRequest::Turn { .. } => {
                tokio::spawn(name_task(async move {
                    let row = door.row(INSTANCES, &key_of(&from)).await.ok().flatten();
                    let row: Option<InstanceRecord> = row.and_then(|row| rows::decode(&row).ok());
                    if let Some(InstanceRecord { execution, .. }) = row {
                        let ask = Command::GiveUp { execution, failure };
                        door.post(Envelope::new(from, ask.encode()));
                    }
                }));
                return;
            }
            // An entity cannot fail as a whole; its requests stay.
            WorkRequest::Batch { .. }
            | WorkRequest::Changed
            | WorkRequest::Closed
            | WorkRequest::Answer { .. } => return,
        };
        door.post(Envelope::new(from, ask.encode()));
    }
}

/// The events for a turn: the front of the inbox.
async fn inbox(
    door: &Mailbox,
    key: &[u8],
    row: &InstanceRecord,
) -> Result<Vec<InstanceEvent>, LoadError> {
    let end = row.inbox_end.min(row.inbox + limits::TURN_EVENTS as u64);
    let found = run(door, INBOX, key, row.inbox..end, limits::WORK_BYTES).await?;
    let (mut events, mut bytes) = (Vec::with_capacity(found.len()), 0);
    for (expected, (number, found)) in (row.inbox..).zip(found) {
        if number != expected {
            return Err(LoadError::Inconsistent);
        }
        bytes += found.len();
        if bytes > limits::WORK_BYTES && !events.is_empty() {
            break;
        }
        let stored: InboxRecord = rows::decode(&found)?;
        events.push(stored.event);
    }
    if events.is_empty() && row.inbox < end {
        Err(LoadError::Inconsistent)
    } else {
        Ok(events)
    }
}

async fn activity(
    door: &Mailbox,
    from: &Address,
    instance: String,
    order: ActivityWorkRequest,
) -> LoadResult {
    let key = numbered(&key_of(from), order.number);
    if door.row(TASKS, &key).await?.is_none() {
        return Ok(None);
    }
    let work = ActivityWork {
        instance,
        execution: order.execution,
        id: order.id,
        task: order.task,
    };
    Ok(Some((
        WorkPayload::Activity(Box::new(work)),
        DeliveredWork::Activity,
    )))
}

async fn batch(
    door: &Mailbox,
    from: &Address,
    entity: String,
    generation: u64,
    most: usize,
) -> LoadResult {
    let key = key_of(from);
    let row: Option<EntityRecord> = read(door, ENTITIES, &key).await?;
    let Some(row) = row.filter(|row| row.generation == generation && row.is_open) else {
        return Ok(None);
    };
    let mut requests = requests(door, &key, &row, most).await?;
    if requests.is_empty() {
        return Err(LoadError::Inconsistent);
    }
    let state = if row.exists {
        door.row(STATES, &key).await?
    } else {
        None
    };
    let state_bytes = state.as_ref().map_or(0, Bytes::len);
    requests.truncate(answerable(&requests, state_bytes));
    let state = state.map(|state| String::from_utf8_lossy(&state).into_owned());
    let operations = requests.iter().map(|(r, ..)| r.requested.clone());
    let work = BatchWork {
        operations: operations.collect(),
        execution: format!("{generation:032x}"),
        entity,
        state,
    };
    let given = DeliveredWork::Batch {
        generation,
        front: row.front,
        main: row.main,
        requests,
    };
    Ok(Some((WorkPayload::Batch(Box::new(work)), given)))
}

/// How many requests fit into a batch that can be committed even if every call returns
/// the whole state.
fn answerable(requests: &[(OperationRequest, u64, u64)], state_bytes: usize) -> usize {
    let mut room = limits::BATCH_COMMIT_BYTES.saturating_sub(state_bytes);
    let mut count = 0;
    for (request, ..) in requests {
        let answer = if request.requested.is_signal {
            0
        } else {
            state_bytes
        };
        if answer > room && count > 0 {
            break;
        }
        room = room.saturating_sub(answer);
        count += 1;
    }
    count
}

/// The requests that may run now, each with the heads of the lanes after it.
async fn requests(
    door: &Mailbox,
    key: &[u8],
    row: &EntityRecord,
    most: usize,
) -> Result<Vec<(OperationRequest, u64, u64)>, LoadError> {
    let (mut front, mut main) = (row.front, row.main);
    let mut queued = lane_rows(door, key, FRONT, row.front, row.front_end).await?;
    let fronts = queued.len();
    if row.lock_holder.is_none() {
        let rest = most.saturating_sub(fronts) as u64;
        let end = row.main_end.min(row.main + rest);
        queued.extend(lane_rows(door, key, MAIN, row.main, end).await?);
    }
    let (mut requests, mut bytes) = (Vec::with_capacity(queued.len()), 0);
    for (place, (number, queued, size)) in queued.into_iter().enumerate() {
        bytes += size;
        let is_full = requests.len() >= most || bytes > limits::WORK_BYTES;
        if is_full && !requests.is_empty() {
            break;
        }
        let QueueRecord::Request(request) = queued else {
            break;
        };
        if place < fronts {
            front = number + 1
        } else {
            main = number + 1
        }
        requests.push((request, front, main));
    }
    Ok(requests)
}

/// The waiting rows of a lane; withdrawn numbers are missing.
async fn lane_rows(
    door: &Mailbox,
    key: &[u8],
    which: u8,
    first: u64,
    end: u64,
) -> Result<Vec<(u64, QueueRecord, usize)>, LoadError> {
    let lane = marked(key, which);
    let found = run(door, QUEUE, &lane, first..end, limits::WORK_BYTES).await?;
    let mut queued = Vec::with_capacity(found.len());
    for (number, found) in found {
        queued.push((number, rows::decode(&found)?, found.len()));
    }
    Ok(queued)
}

/// The existing rows with a key and a number, up to `bytes` in all. Few are read one by
/// one, which is much cheaper than a snapshot and a scan. These reads are not from one
/// snapshot, but nothing removes the rows of an open turn or batch; if an instance ends
/// in between, its result is ignored.
async fn run(
    door: &Mailbox,
    table: TableId,
    key: &[u8],
    numbers: Range<u64>,
    bytes: usize,
) -> Result<Vec<(u64, Bytes)>, LoadError> {
    let mut found = Vec::new();
    if numbers.is_empty() {
        return Ok(found);
    }
    let mut has = 0;
    if numbers.end - numbers.start <= FEW {
        for number in numbers {
            let row = door.row(table, &numbered(key, number)).await?;
            has += row.as_ref().map_or(0, Bytes::len);
            found.extend(row.map(|row| (number, row)));
            if has > bytes {
                break;
            }
        }
        return Ok(found);
    }
    let glance = RemoteReader::from(door.clone()).view()?;
    let mut from = Bound::Included(Bytes::from(numbered(key, numbers.start)));
    let to = Bytes::from(numbered(key, numbers.end));
    let mut limit = FEW as usize;
    loop {
        let wanted = Scan {
            from,
            to: Bound::Excluded(to.clone()),
            limit,
        };
        let page = glance.scan(table, wanted).await?;
        let is_last = page.len() < limit;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        from = Bound::Excluded(last.key.clone());
        for row in page {
            let number = row
                .key
                .last_chunk::<8>()
                .copied()
                .ok_or(LoadError::Inconsistent)?;
            has += row.value.len();
            found.push((u64::from_be_bytes(number), row.value));
        }
        if is_last || has > bytes {
            return Ok(found);
        }
        // The number of rows likely to be needed: rows are of similar length.
        let usual = (has / found.len()).max(1);
        limit = ((bytes - has) / usual + 1).clamp(FEW as usize, limits::SCAN_ROWS);
    }
}

/// The largest number of rows that are read one by one.
const FEW: u64 = 32;

async fn read<R: steadfast_collections::schema::Record>(
    door: &Mailbox,
    table: TableId,
    key: &[u8],
) -> Result<Option<R>, LoadError> {
    match door.row(table, key).await? {
        Some(row) => Ok(Some(rows::decode(&row)?)),
        None => Ok(None),
    }
}

/// All rows from one key on and before another.
pub(crate) async fn scan(
    glance: &ReadView,
    table: TableId,
    from: Vec<u8>,
    to: Vec<u8>,
) -> Result<Vec<TableRow>, PartitionError> {
    let mut found = Vec::new();
    let mut from = Bound::Included(Bytes::from(from));
    let to = Bytes::from(to);
    loop {
        let limit = limits::SCAN_ROWS;
        let wanted = Scan {
            from,
            to: Bound::Excluded(to.clone()),
            limit,
        };
        let page = glance.scan(table, wanted).await?;
        let is_last = page.len() < limit;
        from = match page.last() {
            Some(last) => Bound::Excluded(last.key.clone()),
            None => return Ok(found),
        };
        found.extend(page);
        if is_last {
            return Ok(found);
        }
    }
}
