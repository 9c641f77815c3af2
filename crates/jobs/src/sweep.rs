//! Changes of a collection and all of its jobs.
//!
//! A sweep is a durable work item: it continues after a restart. The collection's own
//! row changes first, so jobs that are written during the sweep get the new state.

use steadfast_partition::{Address, Turn, TurnError};

use crate::change::check_version;
use crate::collection::{JobCollection, Sweep, SweepKind};
use crate::command::{CollectionDraft, JobResponse, Precondition};
use crate::delivery_request::{JobEffect, sweep_id};
use crate::error::{ErrorKind, refuse};
use crate::load::collection;
use crate::name_tickets;
use crate::rows::{self, COLLECTIONS};

/// Creates or replaces a collection.
pub(crate) fn put_collection(
    turn: &mut Turn<'_>,
    to: &Address,
    draft: &CollectionDraft,
    expect: Precondition,
) -> Result<JobResponse, TurnError> {
    let found: Option<JobCollection> = rows::read(turn, COLLECTIONS, &to.name)?;
    check_version(found.as_ref().map(|found| found.version), expect)?;
    name_tickets::check(turn, to, expect)?;
    let mut kept = found.unwrap_or_else(|| JobCollection {
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
        return Err(refuse(
            ErrorKind::Leaving,
            "the job collection is being deleted",
        ));
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
    Ok(JobResponse::Collection(Box::new(kept)))
}

/// Starts a sweep over all jobs of a collection.
pub(crate) fn begin(
    turn: &mut Turn<'_>,
    to: &Address,
    kind: SweepKind,
) -> Result<JobResponse, TurnError> {
    let mut kept = collection(turn, to)?;
    if kept
        .sweep
        .is_some_and(|sweep| sweep.kind == SweepKind::Delete)
    {
        // The sweep continues; a repeated request waits for the same one.
        return Ok(JobResponse::Collection(Box::new(kept)));
    }
    start(turn, &mut kept, kind);
    turn.put(COLLECTIONS, &to.name, rows::encode(&kept));
    Ok(JobResponse::Collection(Box::new(kept)))
}

fn start(turn: &mut Turn<'_>, kept: &mut JobCollection, kind: SweepKind) {
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
    let wish = JobEffect::Sweep { collection, sweep };
    turn.open_work(sweep_id(key.as_bytes(), number), wish.encode());
}

/// Completes a sweep that has reached all jobs.
pub(crate) fn end(
    turn: &mut Turn<'_>,
    to: &Address,
    number: u64,
) -> Result<JobResponse, TurnError> {
    let Some(mut kept) = rows::read::<JobCollection>(turn, COLLECTIONS, &to.name)? else {
        return Ok(JobResponse::Done);
    };
    let Some(sweep) = kept.sweep.filter(|sweep| sweep.number == number) else {
        return Ok(JobResponse::Done);
    };
    turn.close_work(&sweep_id(&to.name, number));
    kept.sweep = None;
    match sweep.kind {
        SweepKind::Delete => turn.delete(COLLECTIONS, &to.name),
        _ => turn.put(COLLECTIONS, &to.name, rows::encode(&kept)),
    }
    Ok(JobResponse::Done)
}
