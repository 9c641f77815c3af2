//! Jobs as a service of a partition.
//!
//! A collection and its jobs live in one partition, the collection's. A job is a
//! definition row, a status row and a timer; a running attempt is a work row.

use steadfast_partition::{Address, Answer, Halt, Kind, Service, Turn};

use crate::change;
use crate::command::{Ask, Say};
use crate::id::KIND;
use crate::kept::{collection, job, with};
use crate::name;
use crate::sweep;

/// The service that stores jobs and runs them when they are due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduler;

impl Service for Scheduler {
    type Command = Ask;
    type Reply = Say;

    fn kind(&self) -> Kind {
        KIND
    }

    /// The timers of a job are independent of each other.
    fn keeps_timer_order(&self) -> bool {
        false
    }

    fn handle(&self, turn: &mut Turn<'_>, to: &Address, ask: &Ask) -> Result<Answer<Say>, Halt> {
        let reply = match ask {
            Ask::GetCollection => Say::Collection(Box::new(collection(turn, to)?)),
            Ask::PutCollection { draft, expect } => {
                sweep::put_collection(turn, to, draft, *expect)?
            }
            Ask::Name(naming) => name::answer(turn, to, *naming)?,
            Ask::Sweep(kind) => sweep::begin(turn, to, *kind)?,
            Ask::Swept(number) => sweep::end(turn, to, *number)?,
            Ask::Get => Say::Job(Box::new(job(turn, to)?)),
            Ask::Put { draft, expect } => change::put(turn, to, draft, *expect)?,
            Ask::Delete => change::delete(turn, to)?,
            Ask::Run(request) => change::run(turn, to, request.as_deref())?,
            Ask::Backfill { from, until } => change::backfill(turn, to, *from, *until)?,
            Ask::Pause(reason) => change::pause(turn, to, reason)?,
            Ask::Resume => change::resume(turn, to)?,
            Ask::SweptBy(kind) => change::swept(turn, to, *kind)?,
            Ask::Due(occurrence) => with(turn, to, |turn, job| job.due(turn, *occurrence))?,
            Ask::Again(ordinal) => with(turn, to, |turn, job| job.again(turn, *ordinal))?,
            Ask::Begin(claim) => {
                let mut may_begin = false;
                with(turn, to, |turn, job| {
                    may_begin = job.may_begin(turn, *claim)?;
                    Ok(())
                })?;
                Say::May(may_begin)
            }
            Ask::Ended(ended) => with(turn, to, |turn, job| job.ended(turn, ended))?,
            Ask::Expire => change::expire(turn, to)?,
        };
        Ok(Answer::Now(reply))
    }
}
