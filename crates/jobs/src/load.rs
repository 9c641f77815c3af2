//! Loads and stores jobs and collections in a turn.

use steadfast_partition::{Address, Turn, TurnError};

use crate::collection::JobCollection;
use crate::command::{Job, JobResponse};
use crate::definition::JobDefinition;
use crate::error::{ErrorKind, refuse};
use crate::recurrence::OccurrencePlan;
use crate::rows::{self, COLLECTIONS, JOBS, STATUS, job_key};
use crate::run::LoadedJob;
use crate::status::JobStatus;

/// The collection at an address, or of the job at an address.
pub(crate) fn collection(turn: &mut Turn<'_>, to: &Address) -> Result<JobCollection, TurnError> {
    let found = rows::read(turn, COLLECTIONS, &to.name)?;
    found.ok_or_else(|| {
        let message = "there is no such job collection; make it first";
        refuse(ErrorKind::NoCollection, message)
    })
}

/// The job at an address.
pub(crate) fn job(turn: &mut Turn<'_>, to: &Address) -> Result<Job, TurnError> {
    find(turn, to)?.ok_or_else(|| refuse(ErrorKind::NoJob, "there is no such job; make it first"))
}

/// The job at an address, if there is one.
pub(crate) fn find(turn: &mut Turn<'_>, to: &Address) -> Result<Option<Job>, TurnError> {
    let key = job_key(to);
    // Both are requested before either may be missing, so that they load together.
    let definition = rows::read::<JobDefinition>(turn, JOBS, &key);
    let status = rows::read::<JobStatus>(turn, STATUS, &key);
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
    act: impl FnOnce(&mut Turn<'_>, &mut LoadedJob<'_>) -> Result<(), TurnError>,
) -> Result<JobResponse, TurnError> {
    if let Some(mut job) = find(turn, to)? {
        with_loaded(turn, to, &mut job, act)?;
    }
    Ok(JobResponse::Done)
}

/// Applies a function to a loaded job, and stores its status if it changed.
pub(crate) fn with_loaded(
    turn: &mut Turn<'_>,
    to: &Address,
    job: &mut Job,
    act: impl FnOnce(&mut Turn<'_>, &mut LoadedJob<'_>) -> Result<(), TurnError>,
) -> Result<(), TurnError> {
    let plan = OccurrencePlan::new(&job.definition.timing);
    let plan = plan.map_err(|invalid| refuse(ErrorKind::NeverRuns, invalid.to_string()))?;
    let key = job_key(to);
    let before = job.status.clone();
    let mut live = LoadedJob {
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
