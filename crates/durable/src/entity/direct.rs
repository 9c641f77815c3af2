//! Commits requests that ran before they were stored.

use steadfast_partition::{Address, Turn, TurnError};

use super::queue::{note, seen_key};
use super::record::LoadedEntity;
use crate::command::{DirectCommit, Reply};
use crate::rows::SEEN;

/// Commits the results if the entity is unchanged since the run; otherwise ignores them,
/// and the requests go into the queue.
pub(crate) fn direct(
    turn: &mut Turn<'_>,
    to: &Address,
    direct: &DirectCommit,
) -> Result<Reply, TurnError> {
    for noted in &direct.noted {
        if turn.get(SEEN, &seen_key(to, &noted.request))?.is_some() {
            return Ok(Reply::Ignored);
        }
    }
    let mut entity = LoadedEntity::find(turn, to)?;
    if !entity.row.is_at_rest() || entity.row.generation != direct.version {
        return Ok(Reply::Ignored);
    }
    if !direct.is_written() {
        return Ok(Reply::Done);
    }
    for noted in &direct.noted {
        note(entity.turn, to, &noted.request, noted.outcome.clone());
    }
    entity.row.generation += 1;
    if direct.is_changed {
        entity.set_state(direct.state.as_deref());
    }
    for (place, action) in direct.actions.iter().enumerate() {
        entity.act(action, place);
    }
    entity.save();
    Ok(Reply::Done)
}
