//! Jobs as a service of a partition.
//!
//! A collection and its jobs live in one partition, the collection's. A job is a
//! definition row, a status row and a timer; an attempt that is under way is a
//! row of work.

use steadfast_partition::{Address, Answer, Halt, Kind, Service, Turn};

use crate::change;
use crate::collection::Collection;
use crate::command::{Ask, Job, Say};
use crate::definition::Definition;
use crate::error::{Kind as Failure, refuse};
use crate::id::KIND;
use crate::recurrence::Plan;
use crate::rows::{self, COLLECTIONS, JOBS, STATUS, job_key};
use crate::run::Live;
use crate::status::Status;
use crate::sweep;

/// Keeps jobs and runs them when they are due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduler;

impl Service for Scheduler {
    type Command = Ask;
    type Reply = Say;

    fn kind(&self) -> Kind {
        KIND
    }

    fn handle(&self, turn: &mut Turn<'_>, to: &Address, ask: &Ask) -> Result<Answer<Say>, Halt> {
        let reply = match ask {
            Ask::GetCollection => Say::Collection(Box::new(collection(turn, to)?)),
            Ask::PutCollection(draft, expect) => sweep::put_collection(turn, to, draft, *expect)?,
            Ask::Sweep(kind) => sweep::begin(turn, to, *kind)?,
            Ask::Swept(number) => sweep::end(turn, to, *number)?,
            Ask::Get => Say::Job(Box::new(job(turn, to)?)),
            Ask::Put(draft, expect) => change::put(turn, to, draft, *expect)?,
            Ask::Delete => change::delete(turn, to)?,
            Ask::Run(request) => change::run(turn, to, request.as_deref())?,
            Ask::Backfill(from, until) => change::backfill(turn, to, *from, *until)?,
            Ask::Pause(reason) => change::pause(turn, to, reason)?,
            Ask::Resume => change::resume(turn, to)?,
            Ask::SweptBy(kind) => change::swept(turn, to, *kind)?,
            Ask::Due(occurrence) => with(turn, to, |turn, job| job.due(turn, *occurrence))?,
            Ask::Again(ordinal) => with(turn, to, |turn, job| job.again(turn, *ordinal))?,
            Ask::Ended(ended) => with(turn, to, |turn, job| job.ended(turn, ended))?,
            Ask::Expire => change::expire(turn, to)?,
        };
        Ok(Answer::Now(reply))
    }
}

/// The collection at an address, or of the job at an address.
pub(crate) fn collection(turn: &mut Turn<'_>, to: &Address) -> Result<Collection, Halt> {
    let found = rows::read(turn, COLLECTIONS, &to.name)?;
    found.ok_or_else(|| {
        let message = "there is no such job collection; make it first";
        refuse(Failure::NoCollection, message)
    })
}

/// The job at an address.
pub(crate) fn job(turn: &mut Turn<'_>, to: &Address) -> Result<Job, Halt> {
    find(turn, to)?.ok_or_else(|| refuse(Failure::NoJob, "there is no such job; make it first"))
}

/// The job at an address, if there is one.
pub(crate) fn find(turn: &mut Turn<'_>, to: &Address) -> Result<Option<Job>, Halt> {
    let key = job_key(to);
    turn.need(&[(JOBS, &key), (STATUS, &key)])?;
    let definition: Option<Definition> = rows::read(turn, JOBS, &key)?;
    let status: Option<Status> = rows::read(turn, STATUS, &key)?;
    Ok(definition.map(|definition| Job {
        definition,
        status: status.unwrap_or_default(),
    }))
}

/// Does something with a job and stores its status. A job that is gone needs
/// nothing: what is told late is no concern of anybody.
pub(crate) fn with(
    turn: &mut Turn<'_>,
    to: &Address,
    act: impl FnOnce(&mut Turn<'_>, &mut Live<'_>) -> Result<(), Halt>,
) -> Result<Say, Halt> {
    if let Some(mut job) = find(turn, to)? {
        live(turn, to, &mut job, act)?;
    }
    Ok(Say::Done)
}

/// Does something with a job that was read, and stores its status if it changed.
pub(crate) fn live(
    turn: &mut Turn<'_>,
    to: &Address,
    job: &mut Job,
    act: impl FnOnce(&mut Turn<'_>, &mut Live<'_>) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let plan = Plan::new(&job.definition.timing);
    let plan = plan.map_err(|invalid| refuse(Failure::NeverRuns, invalid.to_string()))?;
    let key = job_key(to);
    let before = job.status.clone();
    let mut live = Live {
        key: &key,
        definition: &job.definition,
        plan: &plan,
        status: &mut job.status,
    };
    act(turn, &mut live)?;
    if job.status != before {
        turn.put(STATUS, &key, rows::encode(&job.status));
    }
    Ok(())
}
