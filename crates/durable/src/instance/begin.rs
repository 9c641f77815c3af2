//! Instances that begin, and events from outside.

use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Envelope, Halt, Message, Turn};

use super::living::Living;
use crate::command::{Ask, Begin, Letter, Reuse, Say};
use crate::error::{ErrorKind, refuse};
use crate::event::What;
use crate::failure::Failure;
use crate::id;
use crate::status::Status;

/// Starts an instance, in the place of an older one if that is allowed.
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

/// A policy that replaces an instance that is not finished must say so, by listing the
/// state that it is put into.
fn check_reuse(begin: &Begin, status: Status) -> Result<(), Halt> {
    let is_said = begin.replaceable.contains(&Status::Terminated);
    if status.is_final() || is_said || begin.reuse == Reuse::Terminate {
        return Ok(());
    }
    let message = "Invalid reusable statuses: cannot exclude 'Terminated' \
                   while also allowing reuse of running instances";
    Err(refuse(ErrorKind::Invalid, message))
}

/// The failure of an instance that somebody has ended.
pub(crate) fn terminated(reason: Option<&str>) -> Failure {
    let reason = reason.unwrap_or("the orchestration was terminated");
    Failure::new("OrchestrationTerminated", reason)
}

/// The id is in use: a client is refused, a parent hears of it.
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

/// An event from outside.
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

/// The time of a delayed start has come.
pub(crate) fn wake(turn: &mut Turn<'_>, to: &Address, execution: &str) -> Result<Say, Halt> {
    let live = Living::find(turn, to)?;
    match live.filter(|live| live.row.execution == execution) {
        Some(live) => live.save()?,
        None => return Ok(Say::Ignored),
    }
    Ok(Say::Done)
}

/// Nobody is there.
pub(crate) fn no_instance(to: &Address) -> Halt {
    let id = String::from_utf8_lossy(&to.key);
    refuse(
        ErrorKind::NoInstance,
        format!("there is no instance {id:?}"),
    )
}
