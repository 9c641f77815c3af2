//! Commits requests that ran before they were stored.

use steadfast_partition::{Address, Halt, Turn};

use super::queue::{note, seen_key};
use super::record::Present;
use crate::command::{Direct, Say};
use crate::rows::SEEN;

/// Commits the results if the entity is unchanged since the run; otherwise ignores them,
/// and the requests go into the queue.
pub(crate) fn direct(turn: &mut Turn<'_>, to: &Address, direct: &Direct) -> Result<Say, Halt> {
    for noted in &direct.noted {
        if turn.get(SEEN, &seen_key(to, &noted.request))?.is_some() {
            return Ok(Say::Ignored);
        }
    }
    let mut entity = Present::find(turn, to)?;
    if !entity.row.is_at_rest() || entity.row.generation != direct.version {
        return Ok(Say::Ignored);
    }
    if !direct.is_written() {
        return Ok(Say::Done);
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
    Ok(Say::Done)
}
