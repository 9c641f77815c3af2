//! Requests that change a job.

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Address, Turn, TurnError};

use crate::collection::SweepKind;
use crate::command::{Job, JobDraft, JobResponse, Precondition};
use crate::definition::JobDefinition;
use crate::error::{ErrorKind, refuse};
use crate::history;

use crate::load::{collection, find, job, with_loaded};
use crate::rows::{self, COLLECTIONS, JOBS, REQUESTS, STATUS, job_key};
use crate::status::{JobStatus, OccurrenceSource, QueuedOccurrence, State};

/// Creates a job or replaces its definition.
pub(crate) fn put(
    turn: &mut Turn<'_>,
    to: &Address,
    draft: &JobDraft,
    expect: Precondition,
) -> Result<JobResponse, TurnError> {
    let mut home = collection(turn, to)?;
    let found = find(turn, to)?;
    check_version(found.as_ref().map(|job| job.definition.version), expect)?;
    if home
        .sweep
        .is_some_and(|sweep| sweep.kind == SweepKind::Delete)
    {
        return Err(refuse(
            ErrorKind::Leaving,
            "the job collection is being deleted",
        ));
    }
    if found
        .as_ref()
        .is_some_and(|job| job.status.state.is_final())
    {
        return Err(is_final());
    }
    let is_new = found.is_none();
    if is_new {
        if home.most_jobs.is_some_and(|most| home.jobs >= most) {
            let most = home.most_jobs.unwrap_or_default();
            let message = format!("the job collection has its {most} jobs; delete one first");
            return Err(refuse(ErrorKind::Full, message));
        }
        home.jobs += 1;
        turn.put(COLLECTIONS, &to.name, rows::encode(&home));
        let count = rows::job_count(turn)?;
        rows::put_job_count(turn, count + 1);
    }
    let mut job = drafted(draft, found, turn.time().0);
    let wanted = if home.is_enabled {
        draft.state.unwrap_or(job.status.state)
    } else {
        State::Disabled
    };
    turn.put(JOBS, &job_key(to), rows::encode(&job.definition));
    let is_moved = is_new || job.definition.timing.anchored == turn.time().0;
    set_state(turn, to, &mut job, wanted, is_moved)?;
    turn.put(STATUS, &job_key(to), rows::encode(&job.status));
    Ok(JobResponse::Job(Box::new(job)))
}

/// The new job. A changed timing is anchored now.
fn drafted(draft: &JobDraft, found: Option<Job>, now: i64) -> Job {
    let (old, status) = match found {
        Some(job) => (Some(job.definition), job.status),
        None => (None, JobStatus::default()),
    };
    let mut timing = draft.timing.clone();
    let anchored = old.as_ref().map(|old| old.timing.anchored);
    timing.anchored = anchored.unwrap_or(now);
    if old.as_ref().is_some_and(|old| old.timing != timing) {
        timing.anchored = now;
    }
    Job {
        definition: JobDefinition {
            id: old
                .as_ref()
                .map_or_else(|| draft.id.clone(), |old| old.id.clone()),
            document: draft.document.clone(),
            timing,
            main: draft.main.clone(),
            error: draft.error.clone(),
            dead_letter: draft.dead_letter.clone(),
            policy: draft.policy.clone(),
            version: old.map_or(1, |old| old.version + 1),
        },
        status,
    }
}

/// Sets the state of a job. `is_moved`: its timing has changed.
fn set_state(
    turn: &mut Turn<'_>,
    to: &Address,
    job: &mut Job,
    wanted: State,
    is_moved: bool,
) -> Result<(), TurnError> {
    let was = job.status.state;
    with_loaded(turn, to, job, |turn, job| {
        job.status.state = wanted;
        match wanted {
            State::Enabled if job.status.paused.is_some() => job.stop(turn),
            State::Enabled if is_moved => {
                let now = turn.time();
                let Some(first) = job.plan.first(now) else {
                    return Err(never());
                };
                job.wait_for(turn, Some(first));
                job.complete(turn);
            }
            State::Enabled if was == State::Disabled => {
                job.wait_from_now(turn);
                job.complete(turn);
            }
            State::Enabled => {
                // A lowered count may already be reached.
                let next = job.status.next.map(Timestamp);
                job.wait_for(turn, next);
                job.complete(turn);
            }
            _ => {
                if is_moved && job.plan.first(turn.time()).is_none() {
                    return Err(never());
                }
                job.stop(turn);
            }
        }
        Ok(())
    })
}

fn never() -> TurnError {
    let message = "the job would never run: no time within ten years fits its recurrence";
    refuse(ErrorKind::NeverRuns, message)
}

fn is_final() -> TurnError {
    let message = "the job has come to its end; delete it and make a new one";
    refuse(ErrorKind::Final, message)
}

/// Rejects a change if the version is not the expected one.
pub(crate) fn check_version(found: Option<u64>, expect: Precondition) -> Result<(), TurnError> {
    let fits = match (found, expect) {
        (None, Precondition::Nothing | Precondition::Ticket(_)) => true,
        (Some(found), Precondition::Version(expected)) => found == expected,
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(refuse(
            ErrorKind::Changed,
            "version mismatch: it was modified concurrently; read it again and retry",
        ))
    }
}

/// Deletes a job and all its rows.
pub(crate) fn delete(turn: &mut Turn<'_>, to: &Address) -> Result<JobResponse, TurnError> {
    let mut gone = job(turn, to)?;
    if let Ok(mut home) = collection(turn, to) {
        home.jobs = home.jobs.saturating_sub(1);
        turn.put(COLLECTIONS, &to.name, rows::encode(&home));
    }
    with_loaded(turn, to, &mut gone, |turn, job| {
        job.stop(turn);
        job.unexpire(turn);
        job.give_up(turn, "the job was deleted")
    })?;
    let key = job_key(to);
    history::clear(turn, &key, &gone.status);
    turn.delete(JOBS, &key);
    turn.delete(STATUS, &key);
    turn.delete(REQUESTS, &key);
    let count = rows::job_count(turn)?;
    rows::put_job_count(turn, count.saturating_sub(1));
    Ok(JobResponse::Done)
}

/// Runs a job now. A repeated request within some minutes does nothing.
pub(crate) fn run(
    turn: &mut Turn<'_>,
    to: &Address,
    request: Option<&str>,
) -> Result<JobResponse, TurnError> {
    let mut wanted = job(turn, to)?;
    if wanted.status.state.is_final() {
        return Err(is_final());
    }
    if wanted.status.runs.len() >= limits::OPEN_RUNS {
        let message = "too many runs of the job are under way; try again soon";
        return Err(refuse(ErrorKind::Crowded, message));
    }
    if let Some(request) = request
        && !is_first(turn, to, request)?
    {
        return Ok(JobResponse::Done);
    }
    with_loaded(turn, to, &mut wanted, |turn, job| {
        // Two manual runs never share an idempotency key.
        let occurrence = turn.time().0.max(job.status.last_manual + 1);
        job.status.last_manual = occurrence;
        job.begin(turn, occurrence, OccurrenceSource::Manual)
    })?;
    Ok(JobResponse::Done)
}

/// A recent request to run a job.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct RunRequestRecord {
    #[n(0)]
    request: String,
    /// In milliseconds since 1970.
    #[n(1)]
    at: i64,
}

/// Records a request; returns whether it is new.
fn is_first(turn: &mut Turn<'_>, to: &Address, request: &str) -> Result<bool, TurnError> {
    let key = job_key(to);
    let now = turn.time().0;
    let known: Option<Vec<RunRequestRecord>> = rows::read(turn, REQUESTS, &key)?;
    let mut known = known.unwrap_or_default();
    let age = limits::RUN_REQUEST_AGE.as_millis() as i64;
    known.retain(|heard| now - heard.at < age);
    if known.iter().any(|heard| heard.request == request) {
        return Ok(false);
    }
    if known.len() >= limits::RUN_REQUESTS {
        known.remove(0);
    }
    let mut request = request.to_string();
    history::truncate(&mut request, 128);
    known.push(RunRequestRecord { request, at: now });
    turn.put(REQUESTS, &key, rows::encode(&known));
    Ok(true)
}

/// Runs the occurrences between two times, one after the other.
pub(crate) fn backfill(
    turn: &mut Turn<'_>,
    to: &Address,
    from: i64,
    until: i64,
) -> Result<JobResponse, TurnError> {
    let mut wanted = job(turn, to)?;
    if wanted.status.state.is_final() {
        return Err(is_final());
    }
    with_loaded(turn, to, &mut wanted, |turn, job| {
        let until = Timestamp(until.min(turn.time().0));
        let first = job.plan.at_or_after(Timestamp(from));
        let slots = std::iter::successors(first, |last| job.plan.after(*last));
        let room = limits::WAITING_RUNS.saturating_sub(job.status.queue.len());
        let slots: Vec<_> = slots
            .take_while(|slot| *slot <= until)
            .take(room + 1)
            .collect();
        if slots.len() > room {
            let message = format!("more than {room} occurrences; ask for a shorter time");
            return Err(refuse(ErrorKind::Crowded, message));
        }
        if slots.is_empty() {
            let message = "no occurrence of the job lies between the two times and before now: \
                           ask for times at or after its first one";
            return Err(refuse(ErrorKind::NoOccurrence, message));
        }
        let waiting = slots.iter().map(|slot| QueuedOccurrence {
            occurrence: slot.0,
            source: OccurrenceSource::Backfill,
        });
        job.status.queue.extend(waiting);
        job.next_waiting(turn)
    })?;
    Ok(JobResponse::Done)
}

/// Pauses a job, with a reason.
pub(crate) fn pause(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: &str,
) -> Result<JobResponse, TurnError> {
    let mut wanted = job(turn, to)?;
    if wanted.status.state.is_final() {
        return Err(is_final());
    }
    with_loaded(turn, to, &mut wanted, |turn, job| {
        job.status.paused = Some(reason.into());
        job.stop(turn);
        Ok(())
    })?;
    Ok(JobResponse::Done)
}

/// Resumes a paused job; missed occurrences are not caught up.
pub(crate) fn resume(turn: &mut Turn<'_>, to: &Address) -> Result<JobResponse, TurnError> {
    let mut wanted = job(turn, to)?;
    if wanted.status.paused.is_none() {
        return Ok(JobResponse::Done);
    }
    with_loaded(turn, to, &mut wanted, |turn, job| {
        job.status.paused = None;
        if job.status.state == State::Enabled {
            job.wait_from_now(turn);
            job.complete(turn);
        }
        Ok(())
    })?;
    Ok(JobResponse::Done)
}

/// Applies a sweep to this job: enable, disable or delete.
pub(crate) fn swept(
    turn: &mut Turn<'_>,
    to: &Address,
    kind: SweepKind,
) -> Result<JobResponse, TurnError> {
    let Some(mut found) = find(turn, to)? else {
        return Ok(JobResponse::Done);
    };
    match kind {
        SweepKind::Delete => return delete(turn, to),
        _ if found.status.state.is_final() => return Ok(JobResponse::Done),
        SweepKind::Enable if found.status.state == State::Disabled => {
            set_state(turn, to, &mut found, State::Enabled, false)?;
        }
        SweepKind::Enable => {}
        SweepKind::Disable => set_state(turn, to, &mut found, State::Disabled, false)?,
    }
    Ok(JobResponse::Done)
}

/// Deletes a finished job at the end of its retention.
pub(crate) fn expire(turn: &mut Turn<'_>, to: &Address) -> Result<JobResponse, TurnError> {
    match find(turn, to)? {
        Some(job) if job.status.state.is_final() => delete(turn, to),
        _ => Ok(JobResponse::Done),
    }
}
