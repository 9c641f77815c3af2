//! Messages of other services to instances.
//!
//! A commit of another service may send an instance a message: it is delivered exactly
//! once, after the commit. [`signal`], [`start`] and [`raise`] make those of transactions.

use bytes::Bytes;
use serde::Serialize;
use steadfast_collections::{Error as StateError, OutgoingMessage, Result as Staged};
use steadfast_partition::{Envelope, Message};

use crate::command::{Command, NewExecution, OperationRequest};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EntityOperation, Task};
use crate::hub::{TaskHubs, check_payload};
use crate::id::{self, EntityId};
use crate::moment::Moment;
use crate::native::to_json;
use crate::status::InstanceStatus;
use crate::work::QueuedOperation;

/// The task hub of messages that name none.
const TASK_HUB: &str = "default";

/// A signal to an entity, made by [`signal`].
#[derive(Clone, Debug)]
#[must_use = "a message is sent by a transaction"]
pub struct SignalMessage {
    hub: String,
    operation: Result<EntityOperation>,
}

/// The start of an orchestration, made by [`start`].
#[derive(Clone, Debug)]
#[must_use = "a message is sent by a transaction"]
pub struct StartMessage {
    hub: String,
    instance: String,
    task: Result<Task>,
    scheduled: Option<Moment>,
}

/// An event for an orchestration, made by [`raise`].
#[derive(Clone, Debug)]
#[must_use = "a message is sent by a transaction"]
pub struct RaiseMessage {
    hub: String,
    instance: String,
    name: String,
    input: Result<Option<String>>,
}

/// A message that signals an operation to an entity:
/// `tx.send(signal("counter", "a", "add", &1))`. An operation that fails changes nothing and
/// is logged, as of any signal.
pub fn signal<I: Serialize + ?Sized>(
    entity: &str,
    key: &str,
    operation: &str,
    input: &I,
) -> SignalMessage {
    let operation = EntityId::new(entity, key).and_then(|entity| {
        Ok(EntityOperation {
            request: id::fresh_guid(),
            name: operation.to_owned(),
            input: payload(input)?,
            target: entity.to_string(),
            ..EntityOperation::default()
        })
    });
    SignalMessage {
        hub: TASK_HUB.to_owned(),
        operation,
    }
}

/// A message that starts an orchestration: `tx.send(start("transfer", &order))`. Its id is
/// new, unless [`StartMessage::id`] sets one; an id that is in use stays with the instance
/// that has it, and the start has no effect.
pub fn start<I: Serialize + ?Sized>(orchestration: &str, input: &I) -> StartMessage {
    let task = payload(input).map(|input| Task {
        name: orchestration.to_owned(),
        input,
        ..Task::default()
    });
    StartMessage {
        hub: TASK_HUB.to_owned(),
        instance: id::fresh_guid().replace('-', ""),
        task,
        scheduled: None,
    }
}

/// A message that raises an event for an orchestration:
/// `tx.send(raise("order 7", "paid", &12))`. It is kept until the orchestration awaits it. If
/// there is no instance of this id when it arrives, it becomes a dead letter; a start that
/// the same partition has sent before arrives before it.
pub fn raise<I: Serialize + ?Sized>(instance: &str, event: &str, input: &I) -> RaiseMessage {
    RaiseMessage {
        hub: TASK_HUB.to_owned(),
        instance: instance.to_owned(),
        name: event.to_owned(),
        input: payload(input),
    }
}

impl SignalMessage {
    /// The task hub; `default` unless set.
    pub fn task_hub(self, name: impl Into<String>) -> Self {
        let hub = name.into();
        Self { hub, ..self }
    }

    /// Runs the operation not before a moment.
    pub fn at(self, moment: Moment) -> Self {
        let scheduled = Some(moment);
        let operation = self.operation.map(|operation| EntityOperation {
            scheduled,
            ..operation
        });
        Self { operation, ..self }
    }
}

impl StartMessage {
    /// The task hub; `default` unless set.
    pub fn task_hub(self, name: impl Into<String>) -> Self {
        let hub = name.into();
        Self { hub, ..self }
    }

    /// The id of the instance.
    pub fn id(self, instance: impl Into<String>) -> Self {
        let instance = instance.into();
        Self { instance, ..self }
    }

    /// Starts it not before a moment.
    pub fn at(self, moment: Moment) -> Self {
        let scheduled = Some(moment);
        Self { scheduled, ..self }
    }

    /// The id of the instance, for instance to store it in the same transaction.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    fn envelope(self) -> Result<Envelope> {
        let begin = NewExecution {
            execution: id::fresh_guid().replace('-', ""),
            task: self.task?,
            scheduled: self.scheduled,
            is_quiet: true,
            ..NewExecution::default()
        };
        start_envelope(&self.hub, &self.instance, begin)
    }
}

impl RaiseMessage {
    /// The task hub; `default` unless set.
    pub fn task_hub(self, name: impl Into<String>) -> Self {
        let hub = name.into();
        Self { hub, ..self }
    }

    fn envelope(self) -> Result<Envelope> {
        id::check_hub(&self.hub)?;
        id::check_instance(&self.instance)?;
        let (name, input) = (self.name, self.input?);
        if name.is_empty() {
            let message = "an event needs a name: the one that the orchestration awaits";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let ask = Command::Raise { name, input };
        Ok(Envelope::new(
            id::address(&self.hub, &self.instance),
            ask.encode(),
        ))
    }
}

impl OutgoingMessage for SignalMessage {
    fn into_bytes(self) -> Staged<Bytes> {
        let hub = &self.hub;
        encoded(
            self.operation
                .and_then(|operation| signal_envelope(hub, operation)),
        )
    }
}

impl OutgoingMessage for StartMessage {
    fn into_bytes(self) -> Staged<Bytes> {
        encoded(self.envelope())
    }
}

impl OutgoingMessage for RaiseMessage {
    fn into_bytes(self) -> Staged<Bytes> {
        encoded(self.envelope())
    }
}

fn encoded(envelope: Result<Envelope>) -> Staged<Bytes> {
    let envelope = envelope.map_err(|error| StateError::rejected(error.code(), error.message()))?;
    Ok(envelope.encode())
}

/// An input as JSON, if it is not too large.
fn payload<I: Serialize + ?Sized>(input: &I) -> Result<Option<String>> {
    let input =
        to_json(input).map_err(|failure| Error::new(ErrorKind::Invalid, failure.message))?;
    check_payload(input.as_ref())?;
    Ok(input)
}

/// A message that signals an operation to an entity.
pub fn signal_message(hub: &str, operation: EntityOperation) -> Result<Envelope> {
    let entity = EntityId::parse(&operation.target)?.to_string();
    let operation = EntityOperation {
        request: id::guid(&format!(
            "{entity} {} {:?}",
            operation.name, operation.input
        )),
        target: entity,
        ..operation
    };
    signal_envelope(hub, operation)
}

/// The envelope of an operation whose target is valid.
fn signal_envelope(hub: &str, operation: EntityOperation) -> Result<Envelope> {
    id::check_hub(hub)?;
    if operation.name.is_empty() {
        let message = "an operation needs a name";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let to = id::address(hub, &operation.target);
    let ask = Command::Request(OperationRequest {
        requested: QueuedOperation {
            operation,
            is_signal: true,
        },
        client: None,
    });
    Ok(Envelope::new(to, ask.encode()))
}

/// A message that starts an orchestration under an id, or replaces a finished one. A
/// repeat with the same execution has no effect; nor has a start while another execution
/// runs.
pub fn start_message(hub: &str, instance: &str, execution: &str, task: Task) -> Result<Envelope> {
    let begin = NewExecution {
        execution: execution.to_owned(),
        task,
        replaceable: InstanceStatus::ALL
            .into_iter()
            .filter(|status| status.is_final())
            .collect(),
        is_quiet: true,
        ..NewExecution::default()
    };
    start_envelope(hub, instance, begin)
}

fn start_envelope(hub: &str, instance: &str, begin: NewExecution) -> Result<Envelope> {
    id::check_hub(hub)?;
    id::check_instance(instance)?;
    if begin.task.name.is_empty() {
        let message = "an orchestration needs a name: the one it has in the worker";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let ask = Command::Start(begin);
    Ok(Envelope::new(id::address(hub, instance), ask.encode()))
}

impl TaskHubs {
    /// Checks a message to an instance before the commit that sends it: whether its task hub
    /// exists. A start gets the retention of the task hub.
    pub fn check_message(&self, message: Envelope) -> Result<Envelope> {
        let hub = String::from_utf8_lossy(&message.to.name).into_owned();
        let kept_ms = self.hub(&hub)?.kept_ms();
        if kept_ms == 0 {
            return Ok(message);
        }
        match Command::decode(&message.body) {
            Ok(Command::Start(begin)) => {
                let body = Command::Start(NewExecution { kept_ms, ..begin }).encode();
                Ok(Envelope { body, ..message })
            }
            _ => Ok(message),
        }
    }
}
