//! Consumer group state of a hub partition.
//!
//! Checkpoints and dead letters are stored with the events, so that a transaction can
//! move a checkpoint in the commit that holds the effects of handling the events.

use steadfast_collections::schema::Record;
use steadfast_core::limits;
use steadfast_partition::{Turn, TurnError};

use crate::checkpoint::Checkpoint;
use crate::dead_letter::DeadLetter;
use crate::error::{Error, ErrorKind};
use crate::hub_partition_command::{AdvanceCommand, HubPartitionResponse};
use crate::keys::{self, CHECKPOINTS, PARKED, PARKED_LIST, hub_partition_key};

/// The sequence numbers of a group's dead letters.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
struct DeadLetterList {
    #[n(0)]
    sequences: Vec<i64>,
}

/// Removes everything stored for a deleted group.
pub(crate) fn forget_group(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    group: &str,
) -> Result<HubPartitionResponse, TurnError> {
    let key = group_key(hub, number, group);
    for sequence in parked_list(turn, &key)?.sequences {
        turn.delete(PARKED, &parked_key(hub, number, group, sequence));
    }
    turn.delete(PARKED_LIST, &key);
    turn.delete(CHECKPOINTS, &key);
    Ok(HubPartitionResponse::Done)
}

pub(crate) fn checkpoint(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    group: &str,
) -> Result<Option<Checkpoint>, TurnError> {
    match turn.get(CHECKPOINTS, &group_key(hub, number, group))? {
        Some(row) => match keys::decode(&row) {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(_) => Err(Error::damaged("a checkpoint").into()),
        },
        None => Ok(None),
    }
}

pub(crate) fn move_checkpoint(
    turn: &mut Turn<'_>,
    number: u32,
    advance: &AdvanceCommand,
) -> Result<HubPartitionResponse, TurnError> {
    let AdvanceCommand { hub, group, .. } = advance;
    let found = checkpoint(turn, number, *hub, group)?;
    advance
        .condition
        .check(found.as_ref(), &advance.checkpoint)?;
    let mut checkpoint = advance.checkpoint;
    checkpoint.modified = turn.time();
    let key = group_key(*hub, number, group);
    turn.put(CHECKPOINTS, &key, keys::encode(&checkpoint));
    Ok(HubPartitionResponse::Checkpoint(Some(checkpoint)))
}

/// Stores a dead letter, unless the limit is reached.
pub(crate) fn park(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    group: &str,
    parked: &DeadLetter,
) -> Result<HubPartitionResponse, TurnError> {
    let key = group_key(hub, number, group);
    let mut list = parked_list(turn, &key)?;
    if let Err(place) = list.sequences.binary_search(&parked.sequence) {
        if list.sequences.len() >= limits::PARKED_EVENTS {
            let most = limits::PARKED_EVENTS;
            let words = format!(
                "group '{group}' has {most} dead letters in partition {number}, which is the \
                 limit; replay or drop some"
            );
            return Err(Error::new(ErrorKind::Unavailable, words).into());
        }
        list.sequences.insert(place, parked.sequence);
        turn.put(PARKED_LIST, &key, keys::encode(&list));
    }
    let mut parked = parked.clone();
    parked.parked = turn.time();
    let key = parked_key(hub, number, group, parked.sequence);
    turn.put(PARKED, &key, keys::encode(&parked));
    Ok(HubPartitionResponse::Done)
}

/// Removes a dead letter.
pub(crate) fn unpark(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    group: &str,
    sequence: i64,
) -> Result<HubPartitionResponse, TurnError> {
    let key = group_key(hub, number, group);
    let mut list = parked_list(turn, &key)?;
    let Ok(place) = list.sequences.binary_search(&sequence) else {
        // Another caller has removed it first.
        let words = format!("event {sequence} of partition {number} is no longer a dead letter");
        return Err(Error::new(ErrorKind::CheckpointMoved, words).into());
    };
    list.sequences.remove(place);
    if list.sequences.is_empty() {
        turn.delete(PARKED_LIST, &key)
    } else {
        turn.put(PARKED_LIST, &key, keys::encode(&list))
    }
    turn.delete(PARKED, &parked_key(hub, number, group, sequence));
    Ok(HubPartitionResponse::Done)
}

fn parked_list(turn: &mut Turn<'_>, key: &[u8]) -> Result<DeadLetterList, TurnError> {
    match turn.get(PARKED_LIST, key)? {
        Some(row) => match keys::decode(&row) {
            Ok(list) => Ok(list),
            Err(_) => Err(Error::damaged("a list of dead letters").into()),
        },
        None => Ok(DeadLetterList::default()),
    }
}

fn group_key(hub: u64, slot: u32, group: &str) -> Vec<u8> {
    let mut key = hub_partition_key(hub, slot);
    key.extend_from_slice(group.as_bytes());
    key
}

/// The key prefix of a group's dead letters; group names hold no zero byte.
pub(crate) fn parked_prefix(hub: u64, slot: u32, group: &str) -> Vec<u8> {
    let mut key = group_key(hub, slot, group);
    key.push(0);
    key
}

fn parked_key(hub: u64, slot: u32, group: &str, sequence: i64) -> Vec<u8> {
    let mut key = parked_prefix(hub, slot, group);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}
