//! Jobs as a service of a partition.
//!
//! A collection and its jobs live in one partition, the collection's. A job is a
//! definition row, a status row and a timer; a running attempt is a work row.

use steadfast_core::id::Partition;
use steadfast_partition::{Address, Service, ServiceKind, Space, Turn, TurnError, TurnOutcome};

use crate::change;
use crate::command::{JobCommand, JobResponse};
use crate::id::KIND;
use crate::load::{collection, job, with};
use crate::name_tickets;
use crate::sweep;

/// The service that stores jobs and runs them when they are due.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobScheduler;

impl Service for JobScheduler {
    type Command = JobCommand;
    type Response = JobResponse;

    fn kind(&self) -> ServiceKind {
        KIND
    }

    /// A job lives in the partition of its collection.
    fn partition(&self, space: &Space, to: &Address) -> Option<Partition> {
        Some(space.partition(&Address::new(KIND, to.name.clone(), "")))
    }

    /// The timers of a job are independent of each other.
    fn keeps_timer_order(&self) -> bool {
        false
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        ask: &JobCommand,
    ) -> Result<TurnOutcome<JobResponse>, TurnError> {
        let reply = match ask {
            JobCommand::GetCollection => JobResponse::Collection(Box::new(collection(turn, to)?)),
            JobCommand::PutCollection { draft, expect } => {
                sweep::put_collection(turn, to, draft, *expect)?
            }
            JobCommand::Name(naming) => name_tickets::answer(turn, to, *naming)?,
            JobCommand::Sweep(kind) => sweep::begin(turn, to, *kind)?,
            JobCommand::SweepFinished(number) => sweep::end(turn, to, *number)?,
            JobCommand::Get => JobResponse::Job(Box::new(job(turn, to)?)),
            JobCommand::Put { draft, expect } => change::put(turn, to, draft, *expect)?,
            JobCommand::Delete => change::delete(turn, to)?,
            JobCommand::Run(request) => change::run(turn, to, request.as_deref())?,
            JobCommand::Backfill { from, until } => change::backfill(turn, to, *from, *until)?,
            JobCommand::Pause(reason) => change::pause(turn, to, reason)?,
            JobCommand::Resume => change::resume(turn, to)?,
            JobCommand::ApplySweep(kind) => change::swept(turn, to, *kind)?,
            JobCommand::Due(occurrence) => with(turn, to, |turn, job| job.due(turn, *occurrence))?,
            JobCommand::RetryDue(ordinal) => with(turn, to, |turn, job| job.again(turn, *ordinal))?,
            JobCommand::Begin(claim) => {
                let mut may_begin = false;
                with(turn, to, |turn, job| {
                    may_begin = job.may_begin(turn, *claim)?;
                    Ok(())
                })?;
                JobResponse::Permission(may_begin)
            }
            JobCommand::AttemptEnded(ended) => with(turn, to, |turn, job| job.ended(turn, ended))?,
            JobCommand::Expire => change::expire(turn, to)?,
        };
        Ok(TurnOutcome::Now(reply))
    }
}
