//! Loads and stores jobs and collections in a turn.

use steadfast_partition::{Address, Halt, Turn};

use crate::collection::Collection;
use crate::command::{Job, Say};
use crate::definition::Definition;
use crate::error::{Kind, refuse};
use crate::recurrence::Plan;
use crate::rows::{self, COLLECTIONS, JOBS, STATUS, job_key};
use crate::run::Live;
use crate::status::Status;

/// The collection at an address, or of the job at an address.
pub(crate) fn collection(turn: &mut Turn<'_>, to: &Address) -> Result<Collection, Halt> {
    let found = rows::read(turn, COLLECTIONS, &to.name)?;
    found.ok_or_else(|| {
        let message = "there is no such job collection; make it first";
        refuse(Kind::NoCollection, message)
    })
}

/// The job at an address.
pub(crate) fn job(turn: &mut Turn<'_>, to: &Address) -> Result<Job, Halt> {
    find(turn, to)?.ok_or_else(|| refuse(Kind::NoJob, "there is no such job; make it first"))
}

/// The job at an address, if there is one.
pub(crate) fn find(turn: &mut Turn<'_>, to: &Address) -> Result<Option<Job>, Halt> {
    let key = job_key(to);
    // Both are requested before either may be missing, so that they load together.
    let definition = rows::read::<Definition>(turn, JOBS, &key);
    let status = rows::read::<Status>(turn, STATUS, &key);
    let (definition, status) = (definition?, status?);
    Ok(definition.map(|definition| Job {
        definition,
        status: status.unwrap_or_default(),
    }))
}

/// Applies a function to a job and stores its status. Does nothing for a deleted job:
/// late messages for it are ignored.
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

/// Applies a function to a loaded job, and stores its status if it changed.
pub(crate) fn live(
    turn: &mut Turn<'_>,
    to: &Address,
    job: &mut Job,
    act: impl FnOnce(&mut Turn<'_>, &mut Live<'_>) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let plan = Plan::new(&job.definition.timing);
    let plan = plan.map_err(|invalid| refuse(Kind::NeverRuns, invalid.to_string()))?;
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
