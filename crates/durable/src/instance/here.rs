//! Turns that run in the commit of their command.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Halt, Trip};

use super::living::Living;
use crate::action;
use crate::aide::{Aides, Operator};
use crate::command::TurnDone;
use crate::event::{Event, What};
use crate::moment::Moment;
use crate::work::{Past, TurnResult, TurnWork};

impl Living<'_, '_> {
    /// The result of running a turn in this process; `None` if a worker has to run it. The
    /// command is suspended during the run and has written nothing before.
    pub(super) fn turn_here(&mut self) -> Result<Option<Arc<TurnDone>>, Halt> {
        let is_simple = self.row.inbox == self.first_fresh() && !self.row.is_turn_due;
        if !is_simple || self.fresh.len() > limits::TURN_EVENTS {
            return Ok(None);
        }
        match self.turn.errand::<TurnDone>() {
            Trip::Never | Trip::Back(None) => Ok(None),
            Trip::Back(Some(done)) => Ok(Some(done).filter(|done| self.is_sound(done))),
            Trip::Open => match self.turn.helper::<Aides>() {
                Some(aides) => self.send_out(aides),
                None => Ok(None),
            },
        }
    }

    /// The executor that can run the turn inline.
    fn operator(&self, aides: &Aides) -> Option<Arc<dyn Operator>> {
        let operator = aides.operator(&self.to.name)?;
        let row = &self.row;
        let is_remembered = |past| operator.remembers(&self.id(), &row.execution, past);
        let is_ready = operator.knows(&row.name, row.version.as_deref())
            && self.remembered().is_none_or(is_remembered);
        is_ready.then_some(operator)
    }

    fn send_out(&self, aides: &Aides) -> Result<Option<Arc<TurnDone>>, Halt> {
        let Some(operator) = self.operator(aides) else {
            return Ok(None);
        };
        let at = Moment::from(self.turn.time().max(Timestamp(self.row.clock.0 + 1)));
        let mut new = Vec::with_capacity(self.fresh.len() + 1);
        new.push(Event::plain(at, What::TurnStarted));
        new.extend(self.fresh.iter().map(|stored| stored.event.clone()));
        let work = TurnWork {
            instance: self.id(),
            execution: self.row.execution.clone(),
            past: Vec::new(),
            past_bytes: 0,
            new,
            span: self.row.span.clone(),
            is_whole: false,
            remembered: self.remembered(),
        };
        let (ticket, generation) = (self.turn.ticket(), self.row.generation);
        aides.errands.run(move || {
            if let Some(result) = operator.turn(&work) {
                ticket.answer(turned(work, generation, at, result));
            }
        });
        Err(Halt::Away)
    }

    /// The history that the executor must have in memory; `None`: there is none.
    fn remembered(&self) -> Option<Past> {
        (self.row.turns > 0).then(|| self.row.past())
    }

    /// Whether the result may be committed. A result that is too large is reported by the
    /// normal path.
    fn is_sound(&self, done: &TurnDone) -> bool {
        done.execution == self.row.execution
            && done.taken.len() == self.fresh.len()
            && action::are_payloads_short(&done.actions)
            && self.input_bytes(done) + done.commit_bytes() <= limits::TURN_COMMIT_BYTES
    }

    /// Bytes of a new instance's input, which has its own row in the same commit.
    fn input_bytes(&self, done: &TurnDone) -> usize {
        match self.row.turns {
            0 => done.taken.first().map_or(0, Event::size),
            _ => 0,
        }
    }
}

/// The completion as for a turn of a worker.
fn turned(work: TurnWork, generation: u64, at: Moment, result: TurnResult) -> TurnDone {
    let mut taken = work.new;
    // The first event is the start of the turn.
    taken.remove(0);
    TurnDone {
        execution: work.execution,
        generation,
        at,
        taken,
        actions: result.actions,
        custom_status: result.custom_status,
        span: result.span,
    }
}
