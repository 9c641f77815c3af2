//! Queues requests at an entity.

use std::time::Duration;

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Address, Halt, Turn};
use xxhash_rust::xxh3::xxh3_64;

use super::outcome::Outcome;
use super::record::{Entity, FRONT, MAIN, Present, Queued};
use crate::command::{Ask, Request, Say};
use crate::error::{ErrorKind, refuse};
use crate::event::Operation;
use crate::rows::{self, EMPTIED, SEEN, key_of};
use crate::work::Requested;

/// Requests that are due within this time run at once.
const EARLY: Duration = Duration::from_millis(100);

/// A client's request, and its outcome so far.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Seen {
    #[n(0)]
    pub(crate) outcome: Option<Outcome>,
}

/// Accepts a request.
pub(crate) fn request(turn: &mut Turn<'_>, to: &Address, request: &Request) -> Result<Say, Halt> {
    if let Some(answer) = seen_before(turn, to, request)? {
        return Ok(answer);
    }
    let mut entity = Present::find(turn, to)?;
    let operation = &request.requested.operation;
    let now = entity.turn.time();
    let due = operation.scheduled.map(|due| due.due());
    if let Some(due) = due.filter(|due| *due > now.plus(EARLY)) {
        let emptied: Option<Emptied> = rows::read(entity.turn, EMPTIED, &to.name)?;
        // Distinguishes requests before and after a wipe in the same millisecond.
        let since = emptied.map_or(now, |emptied| now.max(Timestamp(emptied.at.0 + 1)));
        let later = Ask::Due {
            request: Request {
                requested: Requested {
                    operation: Operation {
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
        return Ok(Say::Done);
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
        let held = entity.row.held.as_ref();
        held.is_some_and(|held| held.instance == *parent)
    };
    let lane = match operation.parent.as_ref().is_some_and(is_owner) {
        true => FRONT,
        false => MAIN,
    };
    match entity.run_here(lane, request)? {
        Some(ran) => entity.conclude(request, &ran)?,
        None => {
            entity.queue(lane, &Queued::Request(request.clone()));
            entity.settle()?;
        }
    }
    entity.save();
    Ok(Say::Done)
}

/// Accepts a scheduled request that is due. It is ignored if its task hub was wiped in
/// the meantime: it must not create its entity again.
pub(crate) fn due(
    turn: &mut Turn<'_>,
    to: &Address,
    asked: &Request,
    since: Timestamp,
) -> Result<Say, Halt> {
    let emptied: Option<Emptied> = rows::read(turn, EMPTIED, &to.name)?;
    match emptied.is_some_and(|emptied| since <= emptied.at) {
        true => Ok(Say::Ignored),
        false => request(turn, to, asked),
    }
}

/// When a task hub was wiped.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct Emptied {
    #[n(0)]
    at: Timestamp,
}

/// Cancels the scheduled requests of this task hub.
pub(crate) fn empty(turn: &mut Turn<'_>, to: &Address) -> Say {
    let at = turn.time();
    turn.put(EMPTIED, &to.name, rows::encode(&Emptied { at }));
    Say::Done
}

/// The reply to a repeated request of a client; `None` the first time, when the request
/// is recorded for a while.
fn seen_before(turn: &mut Turn<'_>, to: &Address, request: &Request) -> Result<Option<Say>, Halt> {
    if !request.client.is_some_and(|client| client.is_repeatable) {
        return Ok(None);
    }
    let id = &request.requested.operation.request;
    let key = seen_key(to, id);
    if let Some(seen) = rows::read::<Seen>(turn, SEEN, &key)? {
        return Ok(Some(match seen.outcome {
            Some(outcome) => Say::Answered(outcome),
            None => Say::Ignored,
        }));
    }
    note(turn, to, id, None);
    Ok(None)
}

/// Records a client's request for a while.
pub(super) fn note(turn: &mut Turn<'_>, to: &Address, id: &str, outcome: Option<Outcome>) {
    let seen = rows::encode(&Seen { outcome });
    turn.put(SEEN, &seen_key(to, id), seen);
    let due = turn.time().plus(limits::REQUEST_AGE);
    let tag = xxh3_64(id.as_bytes()) ^ FORGET;
    turn.schedule(due, tag, rows::encode(&Ask::Forget(id.to_owned())));
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
pub(crate) fn forget(turn: &mut Turn<'_>, to: &Address, request: &str) -> Say {
    turn.delete(SEEN, &seen_key(to, request));
    Say::Done
}

/// Deletes an entity with all its waiting requests.
pub(crate) fn erase(turn: &mut Turn<'_>, to: &Address) -> Result<Say, Halt> {
    let mut entity = Present::find(turn, to)?;
    entity.close();
    for number in entity.row.front..entity.row.front_end {
        entity.remove(FRONT, number);
    }
    for number in entity.row.main..entity.row.main_end {
        entity.remove(MAIN, number);
    }
    entity.row = Entity::default();
    entity.save();
    Ok(Say::Done)
}
