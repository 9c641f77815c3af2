//! Starts of instances, and external events.

use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Envelope, Message, Turn, TurnError};

use super::loaded_instance::LoadedInstance;
use crate::command::{Command, ExternalMessage, NewExecution, Reply, ReusePolicy};
use crate::error::{ErrorKind, refuse};
use crate::event::EventKind;
use crate::failure::FailureDetails;
use crate::id;
use crate::status::InstanceStatus;

/// Starts an instance; replaces an older one if the policy allows it.
pub(crate) fn start(
    turn: &mut Turn<'_>,
    to: &Address,
    begin: &NewExecution,
) -> Result<Reply, TurnError> {
    let mut clock = Timestamp(0);
    if let Some(mut old) = LoadedInstance::find(turn, to)? {
        if old.row.execution == begin.execution {
            return Ok(Reply::Done);
        }
        let status = old.row.status;
        if !begin.replaceable.contains(&status) {
            let id = old.id();
            return taken(turn, to, begin, &id);
        }
        if begin.reuse == ReusePolicy::Ignore {
            return Ok(Reply::Ignored);
        }
        check_reuse(begin, status)?;
        clock = old.row.clock;
        if !status.is_final() {
            old.release();
            old.report(&Err(terminated(None)));
        }
        old.erase();
    }
    LoadedInstance::make(turn, to, begin, clock).save()?;
    Ok(Reply::Done)
}

/// Checks that a policy that replaces unfinished instances lists the state that they end
/// in.
fn check_reuse(begin: &NewExecution, status: InstanceStatus) -> Result<(), TurnError> {
    let is_said = begin.replaceable.contains(&InstanceStatus::Terminated);
    if status.is_final() || is_said || begin.reuse == ReusePolicy::Terminate {
        return Ok(());
    }
    let message = "Invalid reusable statuses: cannot exclude 'Terminated' \
                   while also allowing reuse of running instances";
    Err(refuse(ErrorKind::Invalid, message))
}

/// The failure of a terminated instance.
pub(crate) fn terminated(reason: Option<&str>) -> FailureDetails {
    let reason = reason.unwrap_or("the orchestration was terminated");
    FailureDetails::new("OrchestrationTerminated", reason)
}

/// The id is in use: returns an error to a client, sends a failure to a parent.
fn taken(
    turn: &mut Turn<'_>,
    to: &Address,
    begin: &NewExecution,
    id: &str,
) -> Result<Reply, TurnError> {
    let message = format!("an orchestration instance already exists under the id {id:?}");
    if begin.is_quiet {
        return Ok(Reply::Ignored);
    }
    let Some(parent) = &begin.parent else {
        return Err(refuse(ErrorKind::Exists, message));
    };
    if !begin.is_reported {
        return Ok(Reply::Ignored);
    }
    let failure = FailureDetails::lasting("OrchestrationAlreadyExists", message);
    let task = parent.task;
    let letter = Command::Deliver(ExternalMessage {
        execution: parent.execution.clone(),
        what: EventKind::ChildFailed { task, failure },
    });
    let to = id::sibling_address(to, &parent.instance);
    turn.send(Envelope::new(to, letter.encode()));
    Ok(Reply::Ignored)
}

/// Raises an external event.
pub(crate) fn raise(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    input: Option<&String>,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Err(no_instance(to));
    };
    let what = EventKind::EventRaised {
        name: name.to_owned(),
        input: input.cloned(),
    };
    let letter = ExternalMessage {
        execution: None,
        what,
    };
    if !live.deliver(&letter) {
        return Ok(Reply::Ignored);
    }
    live.save()?;
    Ok(Reply::Done)
}

/// A delayed start is due.
pub(crate) fn wake(turn: &mut Turn<'_>, to: &Address, execution: &str) -> Result<Reply, TurnError> {
    let live = LoadedInstance::find(turn, to)?;
    match live.filter(|live| live.row.execution == execution) {
        Some(live) => live.save()?,
        None => return Ok(Reply::Ignored),
    }
    Ok(Reply::Done)
}

/// The error for an id without an instance.
pub(crate) fn no_instance(to: &Address) -> TurnError {
    let id = String::from_utf8_lossy(&to.key);
    refuse(
        ErrorKind::NoInstance,
        format!("there is no instance {id:?}"),
    )
}
