//! What a slot keeps for consumer groups.
//!
//! Checkpoints and parked events live beside the events, so that a transaction can
//! move a checkpoint in the commit that carries what was done with the events.

use steadfast_partition::{Halt, Turn};

use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::parked::Parked;
use crate::place::{self, CHECKPOINTS, PARKED, slot_key};
use crate::slot_command::{Advance, SlotReply};

pub(crate) fn forget_group(turn: &mut Turn<'_>, number: u32, hub: u64, group: &str) -> SlotReply {
    turn.delete(CHECKPOINTS, &group_key(hub, number, group));
    SlotReply::Done
}

pub(crate) fn checkpoint(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    group: &str,
) -> Result<Option<Checkpoint>, Halt> {
    match turn.get(CHECKPOINTS, &group_key(hub, number, group))? {
        Some(row) => match place::decode(&row) {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(_) => Err(Error::damaged("a checkpoint").into()),
        },
        None => Ok(None),
    }
}

pub(crate) fn move_checkpoint(
    turn: &mut Turn<'_>,
    number: u32,
    advance: &Advance,
) -> Result<SlotReply, Halt> {
    let Advance { hub, group, .. } = advance;
    let found = checkpoint(turn, number, *hub, group)?;
    advance
        .condition
        .check(found.as_ref(), &advance.checkpoint)?;
    let mut checkpoint = advance.checkpoint;
    checkpoint.modified = turn.time();
    let key = group_key(*hub, number, group);
    turn.put(CHECKPOINTS, &key, place::encode(&checkpoint));
    Ok(SlotReply::Checkpoint(Some(checkpoint)))
}

pub(crate) fn park(
    turn: &mut Turn<'_>,
    number: u32,
    hub: u64,
    group: &str,
    parked: &Parked,
) -> SlotReply {
    let mut parked = parked.clone();
    parked.parked = turn.time();
    let key = parked_key(hub, number, group, parked.sequence);
    turn.put(PARKED, &key, place::encode(&parked));
    SlotReply::Done
}

fn group_key(hub: u64, slot: u32, group: &str) -> Vec<u8> {
    let mut key = slot_key(hub, slot);
    key.extend_from_slice(group.as_bytes());
    key
}

/// In front of the parked events of a group; no group's name holds a zero byte.
pub(crate) fn parked_prefix(hub: u64, slot: u32, group: &str) -> Vec<u8> {
    let mut key = group_key(hub, slot, group);
    key.push(0);
    key
}

pub(crate) fn parked_key(hub: u64, slot: u32, group: &str, sequence: i64) -> Vec<u8> {
    let mut key = parked_prefix(hub, slot, group);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}
