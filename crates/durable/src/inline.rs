//! Code that runs inline, for suspended commands.
//!
//! A turn of an orchestration, or an operation of an entity, whose code is in this
//! process is not stored before it runs: the command that causes it is suspended,
//! and the result is part of that command's commit.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use steadfast_core::clock::Clock;
use steadfast_core::limits;

use crate::failure::FailureDetails;
use crate::id::EntityId;
use crate::task_pool::TaskPool;
use crate::work::{
    EntityAction, HistoryPosition, QueuedOperation, TurnResult, TurnWork, result_size,
};

/// Executes turns and operations in this process.
pub(crate) trait InlineExecutor: Send + Sync {
    /// Whether operations of this name on entities of this name usually complete
    /// without waiting for anything. Unknown operations count as quick.
    fn is_quick(&self, entity: &str, operation: &str) -> bool;

    /// Runs an operation until it completes; `None` if it has to wait. It then
    /// continues in the background, and the next run of the same operation on the same
    /// state takes its result.
    fn run_operation(
        &self,
        entity: &EntityId,
        asked: &QueuedOperation,
        state: Option<&str>,
    ) -> Option<OperationRun>;

    /// Whether this version of this orchestration is in this process.
    fn knows(&self, name: &str, version: Option<&str>) -> bool;

    /// Whether memory holds an execution as its last turn left it.
    fn remembers(&self, instance: &str, execution: &str, past: HistoryPosition) -> bool;

    /// Runs a turn; `None` if the turn needs the history.
    fn run_turn(&self, work: &TurnWork) -> Option<TurnResult>;
}

/// The result of an operation.
pub(crate) struct OperationRun {
    pub(crate) outcome: Result<Option<String>, FailureDetails>,
    /// The state after the operation.
    pub(crate) state: Option<String>,
    pub(crate) actions: Vec<EntityAction>,
}

impl OperationRun {
    /// Approximate bytes of its result and its messages.
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

/// The executors by task hub, and the tasks that run code for suspended commands.
pub(crate) struct InlineExecutors {
    executors: RwLock<HashMap<String, Arc<dyn InlineExecutor>>>,
    pub(crate) tasks: TaskPool,
    pub(crate) clock: Arc<dyn Clock>,
}

impl InlineExecutors {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            executors: RwLock::default(),
            tasks: TaskPool::default(),
            clock,
        }
    }

    /// Sets or removes the executor of a task hub.
    pub(crate) fn set(&self, hub: &str, operator: Option<Arc<dyn InlineExecutor>>) {
        let mut operators = self.executors.write();
        match operator {
            Some(operator) => drop(operators.insert(hub.to_owned(), operator)),
            None => drop(operators.remove(hub)),
        }
    }

    /// Removes all executors.
    pub(crate) fn leave(&self) {
        self.executors.write().clear();
    }

    /// The executor of a task hub.
    pub(crate) fn executor(&self, hub: &[u8]) -> Option<Arc<dyn InlineExecutor>> {
        let hub = std::str::from_utf8(hub).ok()?;
        self.executors.read().get(hub).cloned()
    }
}
