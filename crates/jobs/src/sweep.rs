//! Changes of a collection and all of its jobs.
//!
//! A sweep is a durable work item: it continues after a restart. The collection's own
//! row changes first, so jobs that are written during the sweep get the new state.

use steadfast_partition::{Address, Halt, Turn};

use crate::change::check_version;
use crate::collection::{Collection, Sweep, SweepKind};
use crate::command::{CollectionDraft, Expect, Say};
use crate::error::{Kind, refuse};
use crate::kept::collection;
use crate::name;
use crate::order::{Wish, sweep_id};
use crate::rows::{self, COLLECTIONS};

/// Creates or replaces a collection.
pub(crate) fn put_collection(
    turn: &mut Turn<'_>,
    to: &Address,
    draft: &CollectionDraft,
    expect: Expect,
) -> Result<Say, Halt> {
    let found: Option<Collection> = rows::read(turn, COLLECTIONS, &to.name)?;
    check_version(found.as_ref().map(|found| found.version), expect)?;
    name::check(turn, to, expect)?;
    let mut kept = found.unwrap_or_else(|| Collection {
        id: draft.id.clone(),
        document: String::new(),
        is_enabled: draft.is_enabled.unwrap_or(true),
        jobs: 0,
        most_jobs: None,
        version: 0,
        sweep: None,
        sweeps: 0,
    });
    if kept
        .sweep
        .is_some_and(|sweep| sweep.kind == SweepKind::Delete)
    {
        return Err(refuse(Kind::Leaving, "the job collection is being deleted"));
    }
    kept.document.clone_from(&draft.document);
    kept.most_jobs = draft.most_jobs;
    kept.version += 1;
    match draft.is_enabled {
        Some(true) if !kept.is_enabled => start(turn, &mut kept, SweepKind::Enable),
        Some(false) if kept.is_enabled => start(turn, &mut kept, SweepKind::Disable),
        _ => {}
    }
    turn.put(COLLECTIONS, &to.name, rows::encode(&kept));
    Ok(Say::Collection(Box::new(kept)))
}

/// Starts a sweep over all jobs of a collection.
pub(crate) fn begin(turn: &mut Turn<'_>, to: &Address, kind: SweepKind) -> Result<Say, Halt> {
    let mut kept = collection(turn, to)?;
    if kept
        .sweep
        .is_some_and(|sweep| sweep.kind == SweepKind::Delete)
    {
        // The sweep continues; a repeated request waits for the same one.
        return Ok(Say::Collection(Box::new(kept)));
    }
    start(turn, &mut kept, kind);
    turn.put(COLLECTIONS, &to.name, rows::encode(&kept));
    Ok(Say::Collection(Box::new(kept)))
}

fn start(turn: &mut Turn<'_>, kept: &mut Collection, kind: SweepKind) {
    let key = kept.id.key();
    if let Some(sweep) = kept.sweep {
        // The newer sweep reaches every job as well, so the older one is cancelled.
        turn.close_work(&sweep_id(key.as_bytes(), sweep.number));
    }
    kept.sweeps += 1;
    kept.version += 1;
    let number = kept.sweeps;
    let sweep = Sweep { number, kind };
    kept.sweep = Some(sweep);
    match kind {
        SweepKind::Enable => kept.is_enabled = true,
        SweepKind::Disable => kept.is_enabled = false,
        SweepKind::Delete => {}
    }
    let collection = kept.id.clone();
    let wish = Wish::Sweep { collection, sweep };
    turn.open_work(sweep_id(key.as_bytes(), number), wish.encode());
}

/// Completes a sweep that has reached all jobs.
pub(crate) fn end(turn: &mut Turn<'_>, to: &Address, number: u64) -> Result<Say, Halt> {
    let Some(mut kept) = rows::read::<Collection>(turn, COLLECTIONS, &to.name)? else {
        return Ok(Say::Done);
    };
    let Some(sweep) = kept.sweep.filter(|sweep| sweep.number == number) else {
        return Ok(Say::Done);
    };
    turn.close_work(&sweep_id(&to.name, number));
    kept.sweep = None;
    match sweep.kind {
        SweepKind::Delete => turn.delete(COLLECTIONS, &to.name),
        _ => turn.put(COLLECTIONS, &to.name, rows::encode(&kept)),
    }
    Ok(Say::Done)
}
