//! Control commands of clients and operators.

use steadfast_partition::{Address, Turn, TurnError};

use super::loaded_instance::{INPUT, LoadedInstance};
use super::start::no_instance;
use crate::command::{Command, NewExecution, Reply, WorkRequest};
use crate::error::{ErrorKind, refuse};
use crate::event::{EventKind, InstanceEvent, Task};
use crate::rows::{self, HISTORY, PAYLOADS, marked, numbered};
use crate::status::InstanceStatus;

/// Terminates an instance at once, without a worker. Later results of workers are
/// ignored.
pub(crate) fn terminate(
    turn: &mut Turn<'_>,
    to: &Address,
    output: Option<&String>,
    is_recursive: bool,
    is_careful: bool,
) -> Result<Reply, TurnError> {
    let live = LoadedInstance::find(turn, to)?;
    let is_spared = |live: &LoadedInstance<'_, '_>| is_careful && !live.row.sections.is_empty();
    let live = live.filter(|live| !live.row.status.is_final() && !is_spared(live));
    let Some(mut live) = live else {
        return Ok(Reply::Ignored);
    };
    if is_recursive {
        for (_, instance, _) in live.open_children()? {
            let ask = Command::Terminate {
                output: output.cloned(),
                is_recursive,
                is_careful: false,
            };
            live.send(&instance, &ask);
        }
    }
    let inbox = live.inbox()?;
    let mut events: Vec<_> = inbox.into_iter().map(|stored| stored.event).collect();
    let what = EventKind::Terminated {
        input: output.cloned(),
        is_recursive,
    };
    events.push(InstanceEvent::plain(live.turn.time(), what));
    events.push(live.completed(InstanceStatus::Terminated, output.map(String::as_str), None));
    live.append(events);
    live.end(InstanceStatus::Terminated, output.map(String::as_str), None);
    live.save()?;
    Ok(Reply::Done)
}

/// Suspends an instance.
pub(crate) fn suspend(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: Option<&String>,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Err(no_instance(to));
    };
    if live.row.status.is_final() || live.row.status == InstanceStatus::Suspended {
        return Ok(Reply::Ignored);
    }
    live.push(None, EventKind::Suspended(reason.cloned()));
    live.row.status = InstanceStatus::Suspended;
    live.row.updated = live.turn.time();
    live.withdraw();
    live.save()?;
    Ok(Reply::Done)
}

/// Resumes an instance.
pub(crate) fn resume(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: Option<&String>,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Err(no_instance(to));
    };
    if live.row.status != InstanceStatus::Suspended {
        return Ok(Reply::Ignored);
    }
    live.push(None, EventKind::Resumed(reason.cloned()));
    live.row.status = match live.row.turns {
        0 => InstanceStatus::Pending,
        _ => InstanceStatus::Running,
    };
    live.row.updated = live.turn.time();
    live.save()?;
    Ok(Reply::Done)
}

/// Returns how an instance was started, for a restart.
pub(crate) fn restart(turn: &mut Turn<'_>, to: &Address) -> Result<Reply, TurnError> {
    let Some(live) = LoadedInstance::find(turn, to)? else {
        return Err(no_instance(to));
    };
    let input = live.turn.get(PAYLOADS, &marked(&live.key, INPUT))?;
    let row = &live.row;
    let task = Task {
        name: row.name.clone(),
        version: row.version.clone(),
        input: input.map(|input| String::from_utf8_lossy(&input).into_owned()),
        trace: row.trace.clone(),
        tags: row.tags.clone(),
    };
    Ok(Reply::Began(NewExecution {
        execution: row.execution.clone(),
        task,
        replaceable: vec![row.status],
        kept_ms: row.kept_ms,
        ..NewExecution::default()
    }))
}

/// Purges a finished instance.
pub(crate) fn purge(
    turn: &mut Turn<'_>,
    to: &Address,
    is_recursive: bool,
) -> Result<Reply, TurnError> {
    let live = LoadedInstance::find(turn, to)?;
    let Some(mut live) = live.filter(|live| live.row.status.is_final()) else {
        return Ok(Reply::Ignored);
    };
    let mut children = Vec::new();
    if is_recursive {
        let history = live.history()?;
        children.extend(history.into_iter().filter_map(|event| match event.what {
            EventKind::ChildCreated { instance, .. } => Some(instance),
            _ => None,
        }));
    }
    live.erase();
    Ok(Reply::Purged(children))
}

/// Deletes a finished instance at the end of its retention.
pub(crate) fn expire(
    turn: &mut Turn<'_>,
    to: &Address,
    execution: &str,
) -> Result<Reply, TurnError> {
    let live = LoadedInstance::find(turn, to)?;
    let is_meant = |live: &LoadedInstance<'_, '_>| {
        live.row.status.is_final() && live.row.execution == execution
    };
    match live.filter(is_meant) {
        Some(live) => live.erase(),
        None => return Ok(Reply::Ignored),
    }
    Ok(Reply::Done)
}

/// Deletes an instance in any state.
pub(crate) fn erase(turn: &mut Turn<'_>, to: &Address) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Ok(Reply::Ignored);
    };
    live.release();
    live.turn.push(WorkRequest::Changed.encode());
    live.erase();
    Ok(Reply::Done)
}

/// The error for an instance in the wrong state.
pub(crate) fn wrong_state(live: &LoadedInstance<'_, '_>, wanted: &str) -> TurnError {
    let (id, status) = (live.id(), live.row.status);
    refuse(
        ErrorKind::State,
        format!("the instance {id:?} is {status:?}, but must be {wanted}"),
    )
}

impl LoadedInstance<'_, '_> {
    /// All committed events of this execution.
    pub(crate) fn history(&mut self) -> Result<Vec<InstanceEvent>, TurnError> {
        let keys: Vec<_> = (0..self.row.turns)
            .map(|number| numbered(&self.key, number))
            .collect();
        let needed: Vec<_> = keys.iter().map(|key| (HISTORY, &key[..])).collect();
        self.turn.need(&needed)?;
        let mut events = Vec::new();
        for key in &keys {
            let row: Option<Vec<InstanceEvent>> = rows::read(self.turn, HISTORY, key)?;
            events.extend(row.unwrap_or_default());
        }
        Ok(events)
    }

    /// Children without a result, each with the action that created it.
    pub(crate) fn open_children(&mut self) -> Result<Vec<(i32, String, Task)>, TurnError> {
        let mut open: Vec<(i32, String, Task)> = Vec::new();
        let inbox = self.inbox()?.into_iter().map(|stored| stored.event);
        for event in self.history()?.into_iter().chain(inbox) {
            match event.what {
                EventKind::ChildCreated { instance, task } => open.push((event.id, instance, task)),
                EventKind::ChildCompleted { task, .. } | EventKind::ChildFailed { task, .. } => {
                    open.retain(|(id, ..)| *id != task);
                }
                _ => {}
            }
        }
        Ok(open)
    }
}
