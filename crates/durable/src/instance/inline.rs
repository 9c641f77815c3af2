//! Turns that run in the commit of their command.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{SuspensionState, TurnError};

use super::loaded_instance::LoadedInstance;
use crate::action;
use crate::command::TurnCompletion;
use crate::event::{EventKind, InstanceEvent};
use crate::inline::{InlineExecutor, InlineExecutors};
use crate::moment::Moment;
use crate::work::{HistoryPosition, TurnResult, TurnWork};

impl LoadedInstance<'_, '_> {
    /// The result of running a turn in this process; `None` if a worker has to run it. The
    /// command is suspended during the run and has written nothing before.
    pub(super) fn run_turn_inline(&mut self) -> Result<Option<Arc<TurnCompletion>>, TurnError> {
        let is_simple = self.row.inbox == self.first_fresh() && !self.row.is_turn_due;
        if !is_simple || self.fresh.len() > limits::TURN_EVENTS {
            return Ok(None);
        }
        match self.turn.suspension::<TurnCompletion>() {
            SuspensionState::Unavailable | SuspensionState::Completed(None) => Ok(None),
            SuspensionState::Completed(Some(done)) => {
                Ok(Some(done).filter(|done| self.is_sound(done)))
            }
            SuspensionState::NotStarted => match self.turn.helper::<InlineExecutors>() {
                Some(aides) => self.send_out(aides),
                None => Ok(None),
            },
        }
    }

    /// The executor that can run the turn inline.
    fn operator(&self, aides: &InlineExecutors) -> Option<Arc<dyn InlineExecutor>> {
        let operator = aides.executor(&self.to.name)?;
        let row = &self.row;
        let is_remembered = |past| operator.remembers(&self.id(), &row.execution, past);
        let is_ready = operator.knows(&row.name, row.version.as_deref())
            && self.remembered().is_none_or(is_remembered);
        is_ready.then_some(operator)
    }

    fn send_out(&self, aides: &InlineExecutors) -> Result<Option<Arc<TurnCompletion>>, TurnError> {
        let Some(operator) = self.operator(aides) else {
            return Ok(None);
        };
        let at = self.turn.time().max(Timestamp(self.row.clock.0 + 1));
        aides.clock.note_ahead(at);
        let at = Moment::from(at);
        let mut new = Vec::with_capacity(self.fresh.len() + 1);
        new.push(InstanceEvent::plain(at, EventKind::TurnStarted));
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
        let (ticket, generation) = (self.turn.completer(), self.row.generation);
        aides.tasks.run(move || {
            if let Some(result) = operator.run_turn(&work) {
                ticket.complete(turned(work, generation, at, result));
            }
        });
        Err(TurnError::Suspended)
    }

    /// The history that the executor must have in memory; `None`: there is none.
    fn remembered(&self) -> Option<HistoryPosition> {
        (self.row.turns > 0).then(|| self.row.past())
    }

    /// Whether the result may be committed. A result that is too large is reported by the
    /// normal path.
    fn is_sound(&self, done: &TurnCompletion) -> bool {
        done.execution == self.row.execution
            && done.taken.len() == self.fresh.len()
            && action::are_payloads_short(&done.actions)
            && self.input_bytes(done) + done.commit_bytes() <= limits::TURN_COMMIT_BYTES
    }

    /// Bytes of a new instance's input, which has its own row in the same commit.
    fn input_bytes(&self, done: &TurnCompletion) -> usize {
        match self.row.turns {
            0 => done.taken.first().map_or(0, InstanceEvent::size),
            _ => 0,
        }
    }
}

/// The completion as for a turn of a worker.
fn turned(work: TurnWork, generation: u64, at: Moment, result: TurnResult) -> TurnCompletion {
    let mut taken = work.new;
    // The first event is the start of the turn.
    taken.remove(0);
    TurnCompletion {
        execution: work.execution,
        generation,
        at,
        taken,
        actions: result.actions,
        custom_status: result.custom_status,
        span: result.span,
    }
}
