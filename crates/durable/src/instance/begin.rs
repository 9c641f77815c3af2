//! Starts of instances, and external events.

use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Envelope, Halt, Message, Turn};

use super::living::Living;
use crate::command::{Ask, Begin, Letter, Reuse, Say};
use crate::error::{ErrorKind, refuse};
use crate::event::What;
use crate::failure::Failure;
use crate::id;
use crate::status::Status;

/// Starts an instance; replaces an older one if the policy allows it.
pub(crate) fn start(turn: &mut Turn<'_>, to: &Address, begin: &Begin) -> Result<Say, Halt> {
    let mut clock = Timestamp(0);
    if let Some(mut old) = Living::find(turn, to)? {
        if old.row.execution == begin.execution {
            return Ok(Say::Done);
        }
        let status = old.row.status;
        if !begin.replaceable.contains(&status) {
            let id = old.id();
            return taken(turn, to, begin, &id);
        }
        if begin.reuse == Reuse::Ignore {
            return Ok(Say::Ignored);
        }
        check_reuse(begin, status)?;
        clock = old.row.clock;
        if !status.is_final() {
            old.release();
            old.report(&Err(terminated(None)));
        }
        old.erase();
    }
    Living::make(turn, to, begin, clock).save()?;
    Ok(Say::Done)
}

/// Checks that a policy that replaces unfinished instances lists the state that they end
/// in.
fn check_reuse(begin: &Begin, status: Status) -> Result<(), Halt> {
    let is_said = begin.replaceable.contains(&Status::Terminated);
    if status.is_final() || is_said || begin.reuse == Reuse::Terminate {
        return Ok(());
    }
    let message = "Invalid reusable statuses: cannot exclude 'Terminated' \
                   while also allowing reuse of running instances";
    Err(refuse(ErrorKind::Invalid, message))
}

/// The failure of a terminated instance.
pub(crate) fn terminated(reason: Option<&str>) -> Failure {
    let reason = reason.unwrap_or("the orchestration was terminated");
    Failure::new("OrchestrationTerminated", reason)
}

/// The id is in use: returns an error to a client, sends a failure to a parent.
fn taken(turn: &mut Turn<'_>, to: &Address, begin: &Begin, id: &str) -> Result<Say, Halt> {
    let message = format!("an orchestration instance already exists under the id {id:?}");
    if begin.is_quiet {
        return Ok(Say::Ignored);
    }
    let Some(parent) = &begin.parent else {
        return Err(refuse(ErrorKind::Exists, message));
    };
    if !begin.is_reported {
        return Ok(Say::Ignored);
    }
    let failure = Failure::lasting("OrchestrationAlreadyExists", message);
    let task = parent.task;
    let letter = Ask::Deliver(Letter {
        execution: parent.execution.clone(),
        what: What::ChildFailed { task, failure },
    });
    let to = id::neighbour(to, &parent.instance);
    turn.send(Envelope::new(to, letter.encode()));
    Ok(Say::Ignored)
}

/// Raises an external event.
pub(crate) fn raise(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    input: Option<&String>,
) -> Result<Say, Halt> {
    let Some(mut live) = Living::find(turn, to)? else {
        return Err(no_instance(to));
    };
    let what = What::EventRaised {
        name: name.to_owned(),
        input: input.cloned(),
    };
    let letter = Letter {
        execution: None,
        what,
    };
    if !live.deliver(&letter) {
        return Ok(Say::Ignored);
    }
    live.save()?;
    Ok(Say::Done)
}

/// A delayed start is due.
pub(crate) fn wake(turn: &mut Turn<'_>, to: &Address, execution: &str) -> Result<Say, Halt> {
    let live = Living::find(turn, to)?;
    match live.filter(|live| live.row.execution == execution) {
        Some(live) => live.save()?,
        None => return Ok(Say::Ignored),
    }
    Ok(Say::Done)
}

/// The error for an id without an instance.
pub(crate) fn no_instance(to: &Address) -> Halt {
    let id = String::from_utf8_lossy(&to.key);
    refuse(
        ErrorKind::NoInstance,
        format!("there is no instance {id:?}"),
    )
}
