//! Messages of other services to instances.
//!
//! A commit of another service may send an instance a message: it is delivered exactly
//! once, after the commit.

use steadfast_partition::{Envelope, Message};

use crate::command::{Command, NewExecution, OperationRequest};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EntityOperation, Task};
use crate::id::{self, EntityId};
use crate::status::InstanceStatus;
use crate::work::QueuedOperation;

/// A message that signals an operation to an entity.
pub fn signal_message(hub: &str, operation: EntityOperation) -> Result<Envelope> {
    id::check_hub(hub)?;
    let entity = EntityId::parse(&operation.target)?.to_string();
    if operation.name.is_empty() {
        let message = "an operation needs a name";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let operation = EntityOperation {
        request: id::guid(&format!(
            "{entity} {} {:?}",
            operation.name, operation.input
        )),
        target: entity.clone(),
        ..operation
    };
    let ask = Command::Request(OperationRequest {
        requested: QueuedOperation {
            operation,
            is_signal: true,
        },
        client: None,
    });
    Ok(Envelope::new(id::address(hub, &entity), ask.encode()))
}

/// A message that starts an orchestration under an id, or replaces a finished one. A
/// repeat with the same execution has no effect; nor has a start while another execution
/// runs.
pub fn start_message(hub: &str, instance: &str, execution: &str, task: Task) -> Result<Envelope> {
    id::check_hub(hub)?;
    id::check_instance(instance)?;
    if task.name.is_empty() {
        let message = "an orchestration needs a name: the one it has in the worker";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let ask = Command::Start(NewExecution {
        execution: execution.to_owned(),
        task,
        replaceable: InstanceStatus::ALL
            .into_iter()
            .filter(|status| status.is_final())
            .collect(),
        is_quiet: true,
        ..NewExecution::default()
    });
    Ok(Envelope::new(id::address(hub, instance), ask.encode()))
}
