//! Requests that run in the commit of their command.

use std::sync::Arc;

use steadfast_partition::{SuspensionState, TurnError};

use super::batch::log_failure;
use super::outcome::Outcome;
use super::record::{FRONT, LoadedEntity};
use crate::command::{CompletedOperation, OperationRequest};
use crate::id::EntityId;
use crate::inline::{InlineExecutors, OperationRun};
use crate::rows::STATES;

/// The result of an inline operation.
pub(super) struct InlineRun {
    operated: OperationRun,
    /// Whether the state differs from the previous one.
    is_changed: bool,
}

impl LoadedEntity<'_, '_> {
    /// The result of running a request in this process; `None` if it has to wait in its
    /// lane. The command is suspended during the run and has written nothing before.
    pub(super) fn run_inline(
        &mut self,
        lane: u8,
        request: &OperationRequest,
    ) -> Result<Option<Arc<InlineRun>>, TurnError> {
        if !self.is_next(lane) {
            return Ok(None);
        }
        match self.turn.suspension::<InlineRun>() {
            SuspensionState::Unavailable | SuspensionState::Completed(None) => Ok(None),
            // A result that is too large is reported by the normal path.
            SuspensionState::Completed(Some(ran)) => {
                Ok(Some(ran).filter(|ran| ran.operated.is_short()))
            }
            SuspensionState::NotStarted => match self.turn.helper::<InlineExecutors>() {
                Some(aides) => self.send_out(aides, request),
                None => Ok(None),
            },
        }
    }

    /// Whether no request is in front of a new one in this lane.
    fn is_next(&self, lane: u8) -> bool {
        let row = &self.row;
        let is_free = !row.is_open && row.front == row.front_end;
        is_free && (lane == FRONT || (row.lock_holder.is_none() && row.main == row.main_end))
    }

    fn send_out(
        &mut self,
        aides: &InlineExecutors,
        request: &OperationRequest,
    ) -> Result<Option<Arc<InlineRun>>, TurnError> {
        let operation = &request.requested.operation;
        let operator = aides.executor(&self.to.name);
        let id = EntityId::parse(&operation.target).ok();
        let (Some(operator), Some(id)) = (operator, id) else {
            return Ok(None);
        };
        if !operator.is_quick(id.name(), &operation.name) {
            return Ok(None);
        }
        let state = if self.row.exists {
            self.turn.get(STATES, &self.key)?
        } else {
            None
        };
        let state = state.map(|state| String::from_utf8_lossy(&state).into_owned());
        let (requested, ticket) = (request.requested.to_run(), self.turn.completer());
        aides.tasks.run(move || {
            if let Some(operated) = operator.run_operation(&id, &requested, state.as_deref()) {
                let is_changed = operated.state != state;
                ticket.complete(InlineRun {
                    operated,
                    is_changed,
                });
            }
        });
        Err(TurnError::Suspended)
    }

    /// Commits the result of a request.
    pub(super) fn conclude(
        &mut self,
        request: &OperationRequest,
        ran: &InlineRun,
    ) -> Result<(), TurnError> {
        let outcome = Outcome::from(ran.operated.outcome.clone());
        log_failure(request, &outcome);
        // Results that ran on the older state are ignored.
        self.row.generation += 1;
        if ran.is_changed {
            self.set_state(ran.operated.state.as_deref());
        }
        let request = request.clone();
        self.answer(&CompletedOperation { request, outcome })?;
        for (place, action) in ran.operated.actions.iter().enumerate() {
            self.act(action, place);
        }
        self.settle()
    }
}
