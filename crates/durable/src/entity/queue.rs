//! Queues requests at an entity.

use std::time::Duration;

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Address, Turn, TurnError};
use xxhash_rust::xxh3::xxh3_64;

use super::outcome::Outcome;
use super::record::{EntityRecord, FRONT, LoadedEntity, MAIN, QueueRecord};
use crate::command::{Command, OperationRequest, Reply};
use crate::error::{ErrorKind, refuse};
use crate::event::EntityOperation;
use crate::rows::{self, EMPTIED, SEEN, key_of};
use crate::work::QueuedOperation;

/// Requests that are due within this time run at once.
const EARLY: Duration = Duration::from_millis(100);

/// A client's request, and its outcome so far.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct RequestRecord {
    #[n(0)]
    pub(crate) outcome: Option<Outcome>,
}

/// Accepts a request.
pub(crate) fn request(
    turn: &mut Turn<'_>,
    to: &Address,
    request: &OperationRequest,
) -> Result<Reply, TurnError> {
    if let Some(answer) = seen_before(turn, to, request)? {
        return Ok(answer);
    }
    let mut entity = LoadedEntity::find(turn, to)?;
    let operation = &request.requested.operation;
    let now = entity.turn.time();
    let due = operation.scheduled.map(|due| due.due());
    if let Some(due) = due.filter(|due| *due > now.plus(EARLY)) {
        let emptied: Option<WipeRecord> = rows::read(entity.turn, EMPTIED, &to.name)?;
        // Distinguishes requests before and after a wipe in the same millisecond.
        let since = emptied.map_or(now, |emptied| now.max(Timestamp(emptied.at.0 + 1)));
        let later = Command::Due {
            request: OperationRequest {
                requested: QueuedOperation {
                    operation: EntityOperation {
                        scheduled: None,
                        ..operation.clone()
                    },
                    ..request.requested.clone()
                },
                client: None,
            },
            since,
        };
        let tag = xxh3_64(operation.request.as_bytes());
        entity.turn.schedule(due, tag, rows::encode(&later));
        return Ok(Reply::Done);
    }
    if request.client.is_some() && entity.row.backlog() >= limits::ENTITY_QUEUE {
        let id = entity.id();
        let most = limits::ENTITY_QUEUE;
        return Err(refuse(
            ErrorKind::Crowded,
            format!("the entity {id:?} is overloaded: {most} requests wait; retry later"),
        ));
    }
    let is_owner = |parent: &String| {
        let held = entity.row.lock_holder.as_ref();
        held.is_some_and(|held| held.instance == *parent)
    };
    let lane = if operation.parent.as_ref().is_some_and(is_owner) {
        FRONT
    } else {
        MAIN
    };
    match entity.run_inline(lane, request)? {
        Some(ran) => entity.conclude(request, &ran)?,
        None => {
            entity.queue(lane, &QueueRecord::Request(request.clone()));
            entity.settle()?;
        }
    }
    entity.save();
    Ok(Reply::Done)
}

/// Accepts a scheduled request that is due. It is ignored if its task hub was wiped in
/// the meantime: it must not create its entity again.
pub(crate) fn due(
    turn: &mut Turn<'_>,
    to: &Address,
    asked: &OperationRequest,
    since: Timestamp,
) -> Result<Reply, TurnError> {
    let emptied: Option<WipeRecord> = rows::read(turn, EMPTIED, &to.name)?;
    if emptied.is_some_and(|emptied| since <= emptied.at) {
        Ok(Reply::Ignored)
    } else {
        request(turn, to, asked)
    }
}

/// When a task hub was wiped.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct WipeRecord {
    #[n(0)]
    at: Timestamp,
}

/// Cancels the scheduled requests of this task hub.
pub(crate) fn empty(turn: &mut Turn<'_>, to: &Address) -> Reply {
    let at = turn.time();
    turn.put(EMPTIED, &to.name, rows::encode(&WipeRecord { at }));
    Reply::Done
}

/// The reply to a repeated request of a client; `None` the first time, when the request
/// is recorded for a while.
fn seen_before(
    turn: &mut Turn<'_>,
    to: &Address,
    request: &OperationRequest,
) -> Result<Option<Reply>, TurnError> {
    if !request.client.is_some_and(|client| client.is_repeatable) {
        return Ok(None);
    }
    let id = &request.requested.operation.request;
    let key = seen_key(to, id);
    if let Some(seen) = rows::read::<RequestRecord>(turn, SEEN, &key)? {
        return Ok(Some(match seen.outcome {
            Some(outcome) => Reply::Answered(outcome),
            None => Reply::Ignored,
        }));
    }
    note(turn, to, id, None);
    Ok(None)
}

/// Records a client's request for a while.
pub(super) fn note(turn: &mut Turn<'_>, to: &Address, id: &str, outcome: Option<Outcome>) {
    let seen = rows::encode(&RequestRecord { outcome });
    turn.put(SEEN, &seen_key(to, id), seen);
    let due = turn.time().plus(limits::REQUEST_AGE);
    let tag = xxh3_64(id.as_bytes()) ^ FORGET;
    turn.schedule(due, tag, rows::encode(&Command::Forget(id.to_owned())));
}

/// Distinguishes the tags of two kinds of timers with the same id.
const FORGET: u64 = 0x5bd1_e995_97f4_a7c1;

/// The key of a request.
pub(crate) fn seen_key(to: &Address, request: &str) -> Vec<u8> {
    let mut key = key_of(to);
    key.extend_from_slice(request.as_bytes());
    key
}

/// Deletes the record of a request that its client no longer repeats.
pub(crate) fn forget(turn: &mut Turn<'_>, to: &Address, request: &str) -> Reply {
    turn.delete(SEEN, &seen_key(to, request));
    Reply::Done
}

/// Deletes an entity with all its waiting requests.
pub(crate) fn erase(turn: &mut Turn<'_>, to: &Address) -> Result<Reply, TurnError> {
    let mut entity = LoadedEntity::find(turn, to)?;
    entity.close();
    for number in entity.row.front..entity.row.front_end {
        entity.remove(FRONT, number);
    }
    for number in entity.row.main..entity.row.main_end {
        entity.remove(MAIN, number);
    }
    entity.row = EntityRecord::default();
    entity.save();
    Ok(Reply::Done)
}
