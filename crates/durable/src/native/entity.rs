//! The context of an entity operation.

use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_collections::OutgoingMessage;

use super::payload::{from_json, to_json};
use crate::event::{EntityOperation, Task};
use crate::failure::FailureDetails;
use crate::id::EntityId;
use crate::moment::Moment;
use crate::outgoing::{Outgoing, encode};
use crate::work::EntityAction;

/// One operation on one entity: its input, the state, and its messages. If it fails,
/// changes of the state and messages are discarded.
pub struct EntityContext {
    pub(super) entity: EntityId,
    pub(super) operation: String,
    pub(super) input: Option<String>,
    pub(super) is_signal: bool,
    pub(super) state: Option<String>,
    pub(super) actions: Vec<EntityAction>,
    /// The state is final.
    pub(super) is_settled: bool,
    pub(super) outgoing: Outgoing,
}

impl EntityContext {
    /// The id of the entity.
    pub fn entity(&self) -> &EntityId {
        &self.entity
    }

    /// The name of the operation.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// Whether this is a signal, which has no caller that waits for the answer.
    pub fn is_signal(&self) -> bool {
        self.is_signal
    }

    /// The input of the request.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, FailureDetails> {
        from_json(self.input.as_deref())
    }

    /// Whether there is a state.
    pub fn exists(&self) -> bool {
        self.state.is_some()
    }

    /// The state, or the default of the type.
    pub fn state<T: DeserializeOwned + Default>(&self) -> Result<T, FailureDetails> {
        match &self.state {
            Some(state) => from_json(Some(state)),
            None => Ok(T::default()),
        }
    }

    /// Replaces the state.
    pub fn set_state<T: Serialize + ?Sized>(&mut self, state: &T) -> Result<(), FailureDetails> {
        self.state = to_json(state)?;
        Ok(())
    }

    /// Deletes the state.
    pub fn delete(&mut self) {
        self.is_settled = true;
        self.state = None;
    }

    /// Sends an operation to another entity.
    pub fn signal<I: Serialize + ?Sized>(
        &mut self,
        entity: &EntityId,
        operation: &str,
        input: &I,
    ) -> Result<(), FailureDetails> {
        self.signal_at(entity, operation, input, None)
    }

    /// Sends an operation to another entity, to run not before a moment.
    pub fn signal_at<I: Serialize + ?Sized>(
        &mut self,
        entity: &EntityId,
        operation: &str,
        input: &I,
        moment: Option<Moment>,
    ) -> Result<(), FailureDetails> {
        self.actions.push(EntityAction::Signal(EntityOperation {
            name: operation.to_owned(),
            input: to_json(input)?,
            scheduled: moment,
            target: entity.to_string(),
            ..EntityOperation::default()
        }));
        Ok(())
    }

    /// Sends a message with the commit of this operation, to whatever partition its receiver
    /// lives in: exactly once, after the commit; a push, which has no row, at most once. The
    /// target is not checked before: a message to one that does not exist becomes a dead
    /// letter.
    pub fn send(&mut self, message: impl OutgoingMessage) -> Result<(), FailureDetails> {
        let message = encode(message, self.outgoing)?;
        self.actions.push(EntityAction::Tell(message));
        Ok(())
    }

    /// Starts an orchestration; an empty id is generated.
    pub fn start<I: Serialize + ?Sized>(
        &mut self,
        name: &str,
        instance: &str,
        input: &I,
    ) -> Result<(), FailureDetails> {
        self.actions.push(EntityAction::Start {
            instance: instance.to_owned(),
            task: Task {
                name: name.to_owned(),
                input: to_json(input)?,
                ..Task::default()
            },
            scheduled: None,
        });
        Ok(())
    }
}
