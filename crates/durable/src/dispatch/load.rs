//! Reads the rows that a worker needs.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::Malformed;
use steadfast_core::id::Table;
use steadfast_core::limits;
use steadfast_core::task::named;
use steadfast_partition::{
    Address, Door, Envelope, Error as PartitionError, Glance, Message, Row, Scan, Window,
};
use tokio::sync::mpsc;

use super::desk::Desk;
use super::entry::{Given, Key};
use super::histories::History;
use super::seat::Recipient;
use crate::command::{Ask, Order, Request, TaskDone, Wish};
use crate::entity::{Entity, FRONT, MAIN, Queued};
use crate::event::{Event, What};
use crate::failure::Failure;
use crate::instance::{Instance, Stored};
use crate::moment::Moment;
use crate::rows::{
    self, ENTITIES, HISTORY, INBOX, INSTANCES, QUEUE, STATES, TASKS, key_of, marked, numbered,
};
use crate::work::{ActivityWork, BatchWork, Item, TurnWork, Work};

/// What a worker is given, or `None` if there is nothing to do any more.
type Found = Result<Option<(Work, Given)>, Unread>;

/// Why rows could not be read; a retry may succeed.
pub(super) enum Unread {
    /// The partition did not answer.
    Unheard,
    /// The rows are inconsistent: damaged, or changed while they were read.
    Inconsistent,
}

impl From<PartitionError> for Unread {
    fn from(_: PartitionError) -> Self {
        Self::Unheard
    }
}

impl From<Malformed> for Unread {
    fn from(_: Malformed) -> Self {
        Self::Inconsistent
    }
}

impl Desk {
    /// Reads what the worker needs and sends it. If there is nothing to do any more, removes
    /// the entry.
    pub(super) async fn load(self: Arc<Self>, key: Key, number: u64, attempt: u32, to: Recipient) {
        let (from, instance, wish, most) = {
            let state = self.state.lock();
            match state.entries.get(&key) {
                Some(entry) if entry.number == number => {
                    let (wish, most) = (entry.wish.clone(), entry.most);
                    (entry.from.clone(), entry.instance.clone(), wish, most)
                }
                _ => return,
            }
        };
        let found = match self.router.door(key.0) {
            Some(door) => match wish {
                Wish::Turn { generation, .. } => {
                    self.turn(&door, &from, instance, generation, &to).await
                }
                Wish::Activity(order) => activity(&door, &from, instance, order).await,
                Wish::Batch { generation } => {
                    let most = most.unwrap_or(limits::BATCH_OPERATIONS);
                    batch(&door, &from, instance, generation, most).await
                }
                Wish::Changed | Wish::Closed | Wish::Answer { .. } => Ok(None),
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
        found: Found,
        sender: &mpsc::UnboundedSender<Item>,
    ) {
        let mut state = self.state.lock();
        let entry = state.entries.get_mut(key);
        let Some(entry) = entry.filter(|e| e.number == number && e.attempt == attempt) else {
            return;
        };
        match found {
            Ok(Some((mut work, given))) => {
                entry.given = Some(given);
                if let Work::Turn(turn) = &mut work {
                    turn.is_whole = entry.is_whole;
                }
                let token = entry.token().to_string();
                // The items of a disconnected worker are assigned again.
                let _ = sender.send(Item { token, work });
            }
            Ok(None) => {
                drop(state);
                self.done(key);
            }
            Err(Unread::Unheard) => self.try_later(&mut state, key),
            Err(Unread::Inconsistent) => self.lose(&mut state, key),
        }
    }

    async fn turn(
        &self,
        door: &Door,
        from: &Address,
        instance: String,
        generation: u64,
        to: &Recipient,
    ) -> Found {
        let key = key_of(from);
        let row: Option<Instance> = read(door, INSTANCES, &key).await?;
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
        let at = Moment::from(now);
        let mut new = Vec::with_capacity(taken.len() + 1);
        new.push(Event::plain(at, What::TurnStarted));
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
        let given = Given::Turn {
            execution: row.execution,
            generation,
            at,
            taken,
        };
        Ok(Some((Work::Turn(Box::new(work)), given)))
    }

    async fn history(
        &self,
        door: &Door,
        key: &[u8],
        row: &Instance,
    ) -> Result<Arc<History>, Unread> {
        let known = self.histories.get(key);
        let is_same = |known: &Arc<History>| {
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
            return Err(Unread::Inconsistent);
        }
        let history = Arc::new(history);
        self.histories.keep(key, &history);
        Ok(history)
    }

    /// Fails an instance whose work is lost again and again.
    pub(super) fn fail(&self, key: &Key, from: Address, wish: &Wish, failure: Failure) {
        let (Some(door), wish) = (self.router.door(key.0), wish.clone()) else {
            return;
        };
        let ask = match wish {
            Wish::Activity(order) => Ask::TaskDone(TaskDone {
                execution: order.execution,
                number: order.number,
                result: None,
                failure: Some(failure),
            }),
            Wish::Turn { .. } => {
                tokio::spawn(named(async move {
                    let row = door.row(INSTANCES, &key_of(&from)).await.ok().flatten();
                    let row: Option<Instance> = row.and_then(|row| rows::decode(&row).ok());
                    if let Some(Instance { execution, .. }) = row {
                        let ask = Ask::GiveUp { execution, failure };
                        door.post(Envelope::new(from, ask.encode()));
                    }
                }));
                return;
            }
            // An entity cannot fail as a whole; its requests stay.
            Wish::Batch { .. } | Wish::Changed | Wish::Closed | Wish::Answer { .. } => return,
        };
        door.post(Envelope::new(from, ask.encode()));
    }
}

/// The events for a turn: the front of the inbox.
async fn inbox(door: &Door, key: &[u8], row: &Instance) -> Result<Vec<Event>, Unread> {
    let end = row.inbox_end.min(row.inbox + limits::TURN_EVENTS as u64);
    let found = run(door, INBOX, key, row.inbox..end, limits::WORK_BYTES).await?;
    let (mut events, mut bytes) = (Vec::with_capacity(found.len()), 0);
    for (expected, (number, found)) in (row.inbox..).zip(found) {
        if number != expected {
            return Err(Unread::Inconsistent);
        }
        bytes += found.len();
        if bytes > limits::WORK_BYTES && !events.is_empty() {
            break;
        }
        let stored: Stored = rows::decode(&found)?;
        events.push(stored.event);
    }
    match events.is_empty() && row.inbox < end {
        true => Err(Unread::Inconsistent),
        false => Ok(events),
    }
}

async fn activity(door: &Door, from: &Address, instance: String, order: Order) -> Found {
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
    Ok(Some((Work::Activity(Box::new(work)), Given::Activity)))
}

async fn batch(door: &Door, from: &Address, entity: String, generation: u64, most: usize) -> Found {
    let key = key_of(from);
    let row: Option<Entity> = read(door, ENTITIES, &key).await?;
    let Some(row) = row.filter(|row| row.generation == generation && row.is_open) else {
        return Ok(None);
    };
    let mut requests = requests(door, &key, &row, most).await?;
    if requests.is_empty() {
        return Err(Unread::Inconsistent);
    }
    let state = match row.exists {
        true => door.row(STATES, &key).await?,
        false => None,
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
    let given = Given::Batch {
        generation,
        front: row.front,
        main: row.main,
        requests,
    };
    Ok(Some((Work::Batch(Box::new(work)), given)))
}

/// How many requests fit into a batch that can be committed even if every call returns
/// the whole state.
fn answerable(requests: &[(Request, u64, u64)], state_bytes: usize) -> usize {
    let mut room = limits::BATCH_COMMIT_BYTES.saturating_sub(state_bytes);
    let mut count = 0;
    for (request, ..) in requests {
        let answer = match request.requested.is_signal {
            true => 0,
            false => state_bytes,
        };
        if answer > room && count > 0 {
            break;
        }
        room = room.saturating_sub(answer);
        count += 1;
    }
    count
}

/// The requests that may run now, each with the heads of the lanes behind it.
async fn requests(
    door: &Door,
    key: &[u8],
    row: &Entity,
    most: usize,
) -> Result<Vec<(Request, u64, u64)>, Unread> {
    let (mut front, mut main) = (row.front, row.main);
    let mut queued = lane_rows(door, key, FRONT, row.front, row.front_end).await?;
    let fronts = queued.len();
    if row.held.is_none() {
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
        let Queued::Request(request) = queued else {
            break;
        };
        match place < fronts {
            true => front = number + 1,
            false => main = number + 1,
        }
        requests.push((request, front, main));
    }
    Ok(requests)
}

/// The waiting rows of a lane; withdrawn numbers are missing.
async fn lane_rows(
    door: &Door,
    key: &[u8],
    which: u8,
    first: u64,
    end: u64,
) -> Result<Vec<(u64, Queued, usize)>, Unread> {
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
    door: &Door,
    table: Table,
    key: &[u8],
    numbers: Range<u64>,
    bytes: usize,
) -> Result<Vec<(u64, Bytes)>, Unread> {
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
    let glance = Window::from(door.clone()).glance()?;
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
                .ok_or(Unread::Inconsistent)?;
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
    door: &Door,
    table: Table,
    key: &[u8],
) -> Result<Option<R>, Unread> {
    match door.row(table, key).await? {
        Some(row) => Ok(Some(rows::decode(&row)?)),
        None => Ok(None),
    }
}

/// All rows from one key on and before another.
pub(crate) async fn scan(
    glance: &Glance,
    table: Table,
    from: Vec<u8>,
    to: Vec<u8>,
) -> Result<Vec<Row>, PartitionError> {
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
