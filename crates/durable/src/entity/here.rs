//! Requests that run in the commit of their command.

use std::sync::Arc;

use steadfast_partition::{Halt, Trip};

use super::batch::log_failure;
use super::outcome::Outcome;
use super::record::{FRONT, Present};
use crate::aide::{Aides, Operated};
use crate::command::{Answered, Request};
use crate::id::EntityId;
use crate::rows::STATES;

/// The result of an inline operation.
pub(super) struct Ran {
    operated: Operated,
    /// Whether the state differs from the previous one.
    is_changed: bool,
}

impl Present<'_, '_> {
    /// The result of running a request in this process; `None` if it has to wait in its
    /// lane. The command is suspended during the run and has written nothing before.
    pub(super) fn run_here(
        &mut self,
        lane: u8,
        request: &Request,
    ) -> Result<Option<Arc<Ran>>, Halt> {
        if !self.is_next(lane) {
            return Ok(None);
        }
        match self.turn.errand::<Ran>() {
            Trip::Never | Trip::Back(None) => Ok(None),
            // A result that is too large is reported by the normal path.
            Trip::Back(Some(ran)) => Ok(Some(ran).filter(|ran| ran.operated.is_short())),
            Trip::Open => match self.turn.helper::<Aides>() {
                Some(aides) => self.send_out(aides, request),
                None => Ok(None),
            },
        }
    }

    /// Whether no request is in front of a new one in this lane.
    fn is_next(&self, lane: u8) -> bool {
        let row = &self.row;
        let is_free = !row.is_open && row.front == row.front_end;
        is_free && (lane == FRONT || (row.held.is_none() && row.main == row.main_end))
    }

    fn send_out(&mut self, aides: &Aides, request: &Request) -> Result<Option<Arc<Ran>>, Halt> {
        let operation = &request.requested.operation;
        let operator = aides.operator(&self.to.name);
        let id = EntityId::parse(&operation.target).ok();
        let (Some(operator), Some(id)) = (operator, id) else {
            return Ok(None);
        };
        if !operator.is_quick(id.name(), &operation.name) {
            return Ok(None);
        }
        let state = match self.row.exists {
            true => self.turn.get(STATES, &self.key)?,
            false => None,
        };
        let state = state.map(|state| String::from_utf8_lossy(&state).into_owned());
        let (requested, ticket) = (request.requested.to_run(), self.turn.ticket());
        aides.errands.run(move || {
            if let Some(operated) = operator.operate(&id, &requested, state.as_deref()) {
                let is_changed = operated.state != state;
                ticket.answer(Ran {
                    operated,
                    is_changed,
                });
            }
        });
        Err(Halt::Away)
    }

    /// Commits the result of a request.
    pub(super) fn conclude(&mut self, request: &Request, ran: &Ran) -> Result<(), Halt> {
        let outcome = Outcome::from(ran.operated.outcome.clone());
        log_failure(request, &outcome);
        // Results that ran on the older state are ignored.
        self.row.generation += 1;
        if ran.is_changed {
            self.set_state(ran.operated.state.as_deref());
        }
        let request = request.clone();
        self.answer(&Answered { request, outcome })?;
        for (place, action) in ran.operated.actions.iter().enumerate() {
            self.act(action, place);
        }
        self.settle()
    }
}
