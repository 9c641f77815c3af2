//! Commits results of workers to the history.

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Address, Turn, TurnError};

use super::actions::caused;
use super::loaded_instance::{INPUT, InboxRecord, LoadedInstance, task_id};
use super::record::ActivityRecord;
use crate::action::ActionKind;
use crate::command::{ActivityCompletion, Reply, TurnCompletion};
use crate::event::{EventKind, ExecutionStart, InstanceEvent, Tags, Task};
use crate::failure::FailureDetails;
use crate::outgoing::dispatch;
use crate::rows::{self, HISTORY, TASKS, numbered};
use crate::status::InstanceStatus;

/// Commits a turn that a worker has run, in one transaction.
pub(crate) fn turn_done(
    turn: &mut Turn<'_>,
    to: &Address,
    done: &TurnCompletion,
) -> Result<Reply, TurnError> {
    let Some(live) = LoadedInstance::find(turn, to)? else {
        return Ok(Reply::Ignored);
    };
    let row = &live.row;
    // An inline turn in between does not change the generation.
    let is_current =
        row.is_open && row.execution == done.execution && row.generation == done.generation;
    if row.status.is_final() || !is_current {
        return Ok(Reply::Ignored);
    }
    live.commit(done)?;
    Ok(Reply::Done)
}

/// Commits the result of an activity; the first result counts.
pub(crate) fn task_done(
    turn: &mut Turn<'_>,
    to: &Address,
    done: &ActivityCompletion,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Ok(Reply::Ignored);
    };
    let key = numbered(&live.key, done.number);
    let open: Option<ActivityRecord> = rows::read(live.turn, TASKS, &key)?;
    let Some(open) = open.filter(|_| live.row.execution == done.execution) else {
        return Ok(Reply::Ignored);
    };
    live.turn.delete(TASKS, &key);
    let work = task_id(&live.key, done.number);
    live.turn.close_work(&work);
    let task = open.id;
    let what = match &done.failure {
        Some(failure) => EventKind::TaskFailed {
            task,
            failure: failure.clone(),
        },
        None => EventKind::TaskCompleted {
            task,
            result: done.result.clone(),
        },
    };
    let execution = Some(live.row.execution.clone());
    live.push(execution, what);
    let sender = live.id();
    for message in &done.messages {
        dispatch(live.turn, message, &sender);
    }
    live.save()?;
    Ok(Reply::Done)
}

/// Fails an instance that no worker can run.
pub(crate) fn give_up(
    turn: &mut Turn<'_>,
    to: &Address,
    execution: &str,
    failure: &FailureDetails,
) -> Result<Reply, TurnError> {
    let live = LoadedInstance::find(turn, to)?;
    let live = live.filter(|live| live.row.execution == execution && !live.row.status.is_final());
    let Some(mut live) = live else {
        return Ok(Reply::Ignored);
    };
    let inbox = live.inbox()?;
    let mut room = limits::TURN_COMMIT_BYTES / 2;
    let mut events = Vec::new();
    for InboxRecord { event, .. } in inbox {
        // Events that do not fit into the commit are dropped.
        let Some(rest) = room.checked_sub(event.size()) else {
            break;
        };
        room = rest;
        events.push(event);
    }
    events.push(live.completed(InstanceStatus::Failed, None, Some(failure)));
    live.append(events);
    live.end(InstanceStatus::Failed, None, Some(failure));
    live.save()?;
    Ok(Reply::Done)
}

impl LoadedInstance<'_, '_> {
    /// Commits the result of a turn.
    pub(crate) fn commit(mut self, done: &TurnCompletion) -> Result<(), TurnError> {
        self.close();
        self.row.is_turn_due = false;
        self.take(done.taken.len() as u64);
        self.row.clock = self.row.clock.max(Timestamp(done.at.due().0));
        self.row.updated = self.turn.time();
        let status = done.custom_status.clone();
        self.row.custom_status = status.filter(|status| !status.is_empty());
        self.row.span.clone_from(&done.span);
        if self.row.status == InstanceStatus::Pending {
            self.row.status = InstanceStatus::Running;
        }
        let mut events = Vec::with_capacity(done.taken.len() + done.actions.len() + 3);
        events.push(InstanceEvent::plain(done.at, EventKind::TurnStarted));
        events.extend_from_slice(&done.taken);
        let end = self.act_all(done, &mut events);
        events.push(InstanceEvent::plain(done.at, EventKind::TurnCompleted));
        match end {
            None => self.append(events),
            Some(ActionKind::ContinueAsNew {
                input,
                version,
                carry,
                tags,
            }) => self.renew(input, version, carry, tags)?,
            Some(ActionKind::Rewind(history)) => self.rewind_as_told(history)?,
            Some(ActionKind::Complete {
                status,
                result,
                failure,
            }) => {
                let end = self.completed(status, result.as_deref(), failure.as_ref());
                events.push(end);
                self.append(events);
                self.end(status, result.as_deref(), failure.as_ref());
            }
            Some(_) => {}
        }
        self.store();
        Ok(())
    }

    /// Carries out all actions; returns the one that ends the execution, if any.
    fn act_all(
        &mut self,
        done: &TurnCompletion,
        events: &mut Vec<InstanceEvent>,
    ) -> Option<ActionKind> {
        let mut end = None;
        for (place, action) in done.actions.iter().enumerate() {
            if action.is_end() {
                end.get_or_insert_with(|| action.kind.clone());
                continue;
            }
            match self.act(action, place) {
                Ok(what) => events.extend(what.map(|what| caused(action, done.at, what))),
                Err(failure) => {
                    return Some(ActionKind::Complete {
                        status: InstanceStatus::Failed,
                        result: None,
                        failure: Some(failure),
                    });
                }
            }
        }
        end
    }

    /// The last event of an execution.
    pub(crate) fn completed(
        &self,
        status: InstanceStatus,
        result: Option<&str>,
        failure: Option<&FailureDetails>,
    ) -> InstanceEvent {
        let what = EventKind::Completed {
            status,
            result: result.map(str::to_owned),
            failure: failure.cloned(),
        };
        InstanceEvent::plain(self.turn.time(), what)
    }

    /// Appends events to the history, in rows of bounded size.
    pub(crate) fn append(&mut self, events: Vec<InstanceEvent>) {
        if events.iter().map(InstanceEvent::size).sum::<usize>() <= limits::HISTORY_ROW_BYTES {
            self.append_row(&events);
            return;
        }
        let (mut page, mut bytes) = (Vec::new(), 0);
        for event in events {
            let size = event.size();
            if bytes + size > limits::HISTORY_ROW_BYTES && !page.is_empty() {
                self.append_row(&page);
                (page, bytes) = (Vec::new(), 0);
            }
            bytes += size;
            page.push(event);
        }
        if !page.is_empty() {
            self.append_row(&page);
        }
    }

    fn append_row(&mut self, events: &Vec<InstanceEvent>) {
        let key = numbered(&self.key, self.row.turns);
        self.turn.put(HISTORY, &key, rows::encode(events));
        self.row.turns += 1;
        self.row.events += events.len() as u64;
    }

    /// Starts the next execution, with an empty history and the inbox events that are not
    /// addressed to the former execution.
    fn renew(
        &mut self,
        input: Option<String>,
        version: Option<String>,
        carry: Vec<InstanceEvent>,
        tags: Option<Tags>,
    ) -> Result<(), TurnError> {
        let rest = self.inbox()?;
        self.take(rest.len() as u64);
        self.release();
        self.drop_history();
        self.row.execution = self.next_execution();
        self.row.rounds += 1;
        if let Some(version) = version {
            self.row.version = Some(version);
        }
        if let Some(tags) = tags {
            self.row.tags = tags;
        }
        self.payload(INPUT, input.as_deref());
        let start = ExecutionStart {
            instance: self.id(),
            execution: self.row.execution.clone(),
            task: Task {
                name: self.row.name.clone(),
                version: self.row.version.clone(),
                input,
                trace: self.row.trace.clone(),
                tags: self.row.tags.clone(),
            },
            parent: self.row.parent.clone(),
            scheduled: None,
        };
        self.push(Some(self.row.execution.clone()), EventKind::Started(start));
        let carried = carry.into_iter().map(|event| InboxRecord {
            execution: None,
            event,
        });
        let kept = rest.into_iter().filter(|stored| stored.execution.is_none());
        for stored in carried.chain(kept) {
            self.keep(stored);
        }
        Ok(())
    }
}
