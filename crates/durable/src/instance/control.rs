//! Control commands of clients and operators.

use steadfast_partition::{Address, Halt, Turn};

use super::begin::no_instance;
use super::living::{INPUT, Living};
use crate::command::{Ask, Begin, Say, Wish};
use crate::error::{ErrorKind, refuse};
use crate::event::{Event, Task, What};
use crate::rows::{self, HISTORY, PAYLOADS, marked, numbered};
use crate::status::Status;

/// Terminates an instance at once, without a worker. Later results of workers are
/// ignored.
pub(crate) fn terminate(
    turn: &mut Turn<'_>,
    to: &Address,
    output: Option<&String>,
    is_recursive: bool,
    is_careful: bool,
) -> Result<Say, Halt> {
    let live = Living::find(turn, to)?;
    let is_spared = |live: &Living<'_, '_>| is_careful && !live.row.sections.is_empty();
    let live = live.filter(|live| !live.row.status.is_final() && !is_spared(live));
    let Some(mut live) = live else {
        return Ok(Say::Ignored);
    };
    if is_recursive {
        for (_, instance, _) in live.open_children()? {
            let ask = Ask::Terminate {
                output: output.cloned(),
                is_recursive,
                is_careful: false,
            };
            live.send(&instance, &ask);
        }
    }
    let inbox = live.inbox()?;
    let mut events: Vec<_> = inbox.into_iter().map(|stored| stored.event).collect();
    let what = What::Terminated {
        input: output.cloned(),
        is_recursive,
    };
    events.push(Event::plain(live.turn.time(), what));
    events.push(live.completed(Status::Terminated, output.map(String::as_str), None));
    live.append(events);
    live.end(Status::Terminated, output.map(String::as_str), None);
    live.save()?;
    Ok(Say::Done)
}

/// Suspends an instance.
pub(crate) fn suspend(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: Option<&String>,
) -> Result<Say, Halt> {
    let Some(mut live) = Living::find(turn, to)? else {
        return Err(no_instance(to));
    };
    if live.row.status.is_final() || live.row.status == Status::Suspended {
        return Ok(Say::Ignored);
    }
    live.push(None, What::Suspended(reason.cloned()));
    live.row.status = Status::Suspended;
    live.row.updated = live.turn.time();
    live.withdraw();
    live.save()?;
    Ok(Say::Done)
}

/// Resumes an instance.
pub(crate) fn resume(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: Option<&String>,
) -> Result<Say, Halt> {
    let Some(mut live) = Living::find(turn, to)? else {
        return Err(no_instance(to));
    };
    if live.row.status != Status::Suspended {
        return Ok(Say::Ignored);
    }
    live.push(None, What::Resumed(reason.cloned()));
    live.row.status = match live.row.turns {
        0 => Status::Pending,
        _ => Status::Running,
    };
    live.row.updated = live.turn.time();
    live.save()?;
    Ok(Say::Done)
}

/// Returns how an instance was started, for a restart.
pub(crate) fn restart(turn: &mut Turn<'_>, to: &Address) -> Result<Say, Halt> {
    let Some(live) = Living::find(turn, to)? else {
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
    Ok(Say::Began(Begin {
        execution: row.execution.clone(),
        task,
        replaceable: vec![row.status],
        kept_ms: row.kept_ms,
        ..Begin::default()
    }))
}

/// Purges a finished instance.
pub(crate) fn purge(turn: &mut Turn<'_>, to: &Address, is_recursive: bool) -> Result<Say, Halt> {
    let live = Living::find(turn, to)?;
    let Some(mut live) = live.filter(|live| live.row.status.is_final()) else {
        return Ok(Say::Ignored);
    };
    let mut children = Vec::new();
    if is_recursive {
        let history = live.history()?;
        children.extend(history.into_iter().filter_map(|event| match event.what {
            What::ChildCreated { instance, .. } => Some(instance),
            _ => None,
        }));
    }
    live.erase();
    Ok(Say::Purged(children))
}

/// Deletes a finished instance at the end of its retention.
pub(crate) fn expire(turn: &mut Turn<'_>, to: &Address, execution: &str) -> Result<Say, Halt> {
    let live = Living::find(turn, to)?;
    let is_meant =
        |live: &Living<'_, '_>| live.row.status.is_final() && live.row.execution == execution;
    match live.filter(is_meant) {
        Some(live) => live.erase(),
        None => return Ok(Say::Ignored),
    }
    Ok(Say::Done)
}

/// Deletes an instance in any state.
pub(crate) fn erase(turn: &mut Turn<'_>, to: &Address) -> Result<Say, Halt> {
    let Some(mut live) = Living::find(turn, to)? else {
        return Ok(Say::Ignored);
    };
    live.release();
    live.turn.push(Wish::Changed.encode());
    live.erase();
    Ok(Say::Done)
}

/// The error for an instance in the wrong state.
pub(crate) fn wrong_state(live: &Living<'_, '_>, wanted: &str) -> Halt {
    let (id, status) = (live.id(), live.row.status);
    refuse(
        ErrorKind::State,
        format!("the instance {id:?} is {status:?}, but must be {wanted}"),
    )
}

impl Living<'_, '_> {
    /// All committed events of this execution.
    pub(crate) fn history(&mut self) -> Result<Vec<Event>, Halt> {
        let keys: Vec<_> = (0..self.row.turns)
            .map(|number| numbered(&self.key, number))
            .collect();
        let needed: Vec<_> = keys.iter().map(|key| (HISTORY, &key[..])).collect();
        self.turn.need(&needed)?;
        let mut events = Vec::new();
        for key in &keys {
            let row: Option<Vec<Event>> = rows::read(self.turn, HISTORY, key)?;
            events.extend(row.unwrap_or_default());
        }
        Ok(events)
    }

    /// Children without a result, each with the action that created it.
    pub(crate) fn open_children(&mut self) -> Result<Vec<(i32, String, Task)>, Halt> {
        let mut open: Vec<(i32, String, Task)> = Vec::new();
        let inbox = self.inbox()?.into_iter().map(|stored| stored.event);
        for event in self.history()?.into_iter().chain(inbox) {
            match event.what {
                What::ChildCreated { instance, task } => open.push((event.id, instance, task)),
                What::ChildCompleted { task, .. } | What::ChildFailed { task, .. } => {
                    open.retain(|(id, ..)| *id != task);
                }
                _ => {}
            }
        }
        Ok(open)
    }
}
