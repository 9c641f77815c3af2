//! Code in this process, for commands that wait for it.
//!
//! A turn of an orchestration, or an operation of an entity, that can be run in this
//! process at once need not be written down before it is run: the command that is
//! its reason waits for it, and what came of it is in the commit of that command.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use steadfast_core::limits;

use crate::errands::Errands;
use crate::failure::Failure;
use crate::id::EntityId;
use crate::work::{EntityAction, Past, Requested, TurnResult, TurnWork, result_size};

/// Who runs code in this process.
pub(crate) trait Operator: Send + Sync {
    /// Whether operations of this name on entities of this name usually end without
    /// waiting for anything. What is not known counts as such.
    fn is_quick(&self, entity: &str, operation: &str) -> bool;

    /// Runs an operation as far as it gets without waiting; `None` if it has to
    /// wait. It goes on meanwhile, for whoever runs the same operation on the same
    /// state later.
    fn operate(
        &self,
        entity: &EntityId,
        asked: &Requested,
        state: Option<&str>,
    ) -> Option<Operated>;

    /// Whether this version of this orchestration is in this process.
    fn knows(&self, name: &str, version: Option<&str>) -> bool;

    /// Whether an execution is in memory as its last turn has left it.
    fn remembers(&self, instance: &str, execution: &str, past: Past) -> bool;

    /// Runs a turn; `None` if that needs the history.
    fn turn(&self, work: &TurnWork) -> Option<TurnResult>;
}

/// An operation that was run.
pub(crate) struct Operated {
    pub(crate) outcome: Result<Option<String>, Failure>,
    /// As the operation has left it.
    pub(crate) state: Option<String>,
    pub(crate) actions: Vec<EntityAction>,
}

impl Operated {
    /// About how many bytes its answer and its messages have.
    pub(crate) fn bytes(&self) -> usize {
        let actions = self.actions.iter().map(EntityAction::size);
        result_size(&self.outcome) + actions.sum::<usize>()
    }

    /// Whether every payload is within its limit, and all fit into one commit.
    pub(crate) fn is_short(&self) -> bool {
        let state = self.state.as_ref().map_or(0, String::len);
        let mut actions = self.actions.iter().map(EntityAction::size);
        result_size(&self.outcome) <= limits::PAYLOAD_BYTES
            && state <= limits::PAYLOAD_BYTES
            && actions.all(|bytes| bytes <= limits::PAYLOAD_BYTES)
            && self.bytes() + state <= limits::BATCH_COMMIT_BYTES
    }
}

/// Who runs code, by task hub, and the code that commands wait for.
#[derive(Default)]
pub(crate) struct Aides {
    operators: RwLock<HashMap<String, Arc<dyn Operator>>>,
    pub(crate) errands: Errands,
}

impl Aides {
    /// Code of a task hub is run by this one from now on, or by nobody.
    pub(crate) fn set(&self, hub: &str, operator: Option<Arc<dyn Operator>>) {
        let mut operators = self.operators.write();
        match operator {
            Some(operator) => drop(operators.insert(hub.to_owned(), operator)),
            None => drop(operators.remove(hub)),
        }
    }

    /// Nobody runs anything any more.
    pub(crate) fn leave(&self) {
        self.operators.write().clear();
    }

    /// Who runs the code of a task hub.
    pub(crate) fn operator(&self, hub: &[u8]) -> Option<Arc<dyn Operator>> {
        let hub = std::str::from_utf8(hub).ok()?;
        self.operators.read().get(hub).cloned()
    }
}
