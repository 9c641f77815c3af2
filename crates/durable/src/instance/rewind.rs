//! Rewinds failed instances.
//!
//! Failed actions, and those without a result, are removed from the history, so the next
//! replay requests them again. Successful actions stay and do not run twice.

use std::collections::BTreeSet;

use steadfast_partition::{Address, Turn, TurnError};

use super::control::wrong_state;
use super::loaded_instance::LoadedInstance;
use super::start::{no_instance, start};
use crate::command::{Command, NewExecution, Reply};
use crate::event::{EventKind, InstanceEvent, Task};
use crate::moment::Moment;
use crate::rows::{self, BY_ENDED};
use crate::status::InstanceStatus;

/// Rewinds a failed instance for a client.
pub(crate) fn rewind(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: Option<&String>,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Err(no_instance(to));
    };
    if live.row.status != InstanceStatus::Failed {
        return Err(wrong_state(&live, "Failed"));
    }
    let history = live.history()?;
    live.go_back(history, reason);
    live.save()?;
    Ok(Reply::Done)
}

/// Rewinds a child for its rewound parent: a failed child is rewound, too, a purged one
/// starts again, and all report to the parent's new execution.
pub(crate) fn rewind_child(
    turn: &mut Turn<'_>,
    to: &Address,
    reason: Option<&String>,
    begin: &NewExecution,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return start(turn, to, begin);
    };
    live.row.parent.clone_from(&begin.parent);
    match live.row.status {
        InstanceStatus::Failed => {
            let history = live.history()?;
            live.go_back(history, reason);
        }
        status if status.is_final() => {
            drop(live);
            return start(turn, to, begin);
        }
        _ => {}
    }
    live.save()?;
    Ok(Reply::Done)
}

impl LoadedInstance<'_, '_> {
    fn go_back(&mut self, history: Vec<InstanceEvent>, reason: Option<&String>) {
        let (mut kept, open) = without_failures(history);
        let execution = self.alive_again();
        for event in &mut kept {
            if let EventKind::Started(start) = &mut event.what {
                start.execution.clone_from(&execution);
            }
        }
        let rewound = EventKind::Rewound(reason.cloned());
        kept.push(InstanceEvent::plain(self.turn.time(), rewound));
        self.append(kept);
        for (id, fire_at) in open.timers {
            self.arm(id, fire_at);
        }
        for (place, (id, instance, task)) in open.children.into_iter().enumerate() {
            let ask = Command::RewindChild {
                reason: reason.cloned(),
                begin: self.begin_child(id, place, &task),
            };
            self.send(&instance, &ask);
        }
    }

    /// Applies a history that a worker has rewritten.
    pub(crate) fn rewind_as_told(&mut self, history: Vec<InstanceEvent>) -> Result<(), TurnError> {
        let rest = self.inbox()?;
        self.take(rest.len() as u64);
        self.release();
        self.go_back(history, None);
        Ok(())
    }

    /// Makes the instance run again; returns the new execution.
    fn alive_again(&mut self) -> String {
        if let Some(ended) = self.row.completed.take() {
            let index = rows::timed(&self.to.name, ended.0, &self.to.key);
            self.turn.delete(BY_ENDED, &index);
        }
        self.payload(super::loaded_instance::OUTPUT, None);
        self.drop_history();
        self.row.execution = self.next_execution();
        self.row.failure = None;
        self.row.status = InstanceStatus::Running;
        self.row.updated = self.turn.time();
        self.row.is_turn_due = true;
        self.row.execution.clone()
    }
}

/// The timers and children that an execution waits for.
#[derive(Default)]
struct OpenActions {
    timers: Vec<(i32, Moment)>,
    children: Vec<(i32, String, Task)>,
}

/// The history without its end, its failures, and actions without a result. Timers and
/// children that still run stay, and are returned as well.
fn without_failures(history: Vec<InstanceEvent>) -> (Vec<InstanceEvent>, OpenActions) {
    // A retry may reuse an id, so a result belongs to the last event before it that
    // has its id.
    let mut drop = BTreeSet::new();
    let mut pending: Vec<(usize, PendingAction)> = Vec::new();
    for (place, event) in history.iter().enumerate() {
        let settled = |wait: &PendingAction| wait.is_settled_by(&event.what);
        if let Some(wait) = PendingAction::of(event) {
            pending.push((place, wait));
        } else if let Some(at) = pending.iter().rposition(|(_, wait)| settled(wait)) {
            let (asked, wait) = pending.remove(at);
            match &event.what {
                EventKind::TaskFailed { .. } => drop.extend([asked, place]),
                EventKind::ChildFailed { .. } => {
                    drop.insert(place);
                    pending.push((asked, wait));
                }
                _ => {}
            }
        } else if matches!(event.what, EventKind::Completed { .. }) {
            drop.insert(place);
        }
    }
    let mut open = OpenActions::default();
    for (place, wait) in pending {
        match (wait, &history[place].what) {
            (PendingAction::Timer(id), EventKind::TimerCreated(fire_at)) => {
                open.timers.push((id, *fire_at))
            }
            (PendingAction::Child(id), EventKind::ChildCreated { instance, task }) => {
                open.children.push((id, instance.clone(), task.clone()));
            }
            _ => {
                drop.insert(place);
            }
        }
    }
    let kept = history.into_iter().enumerate();
    let kept = kept.filter(|(place, _)| !drop.contains(place));
    (kept.map(|(_, event)| event).collect(), open)
}

/// An action that waits for a result.
enum PendingAction {
    Task(i32),
    Child(i32),
    Timer(i32),
    Call(String),
    Lock(String),
}

impl PendingAction {
    fn of(event: &InstanceEvent) -> Option<Self> {
        Some(match &event.what {
            EventKind::TaskScheduled(_) => Self::Task(event.id),
            EventKind::ChildCreated { .. } => Self::Child(event.id),
            EventKind::TimerCreated(_) => Self::Timer(event.id),
            EventKind::EntityCalled(operation) => Self::Call(operation.request.clone()),
            EventKind::LockRequested(request) => Self::Lock(request.section.clone()),
            _ => return None,
        })
    }

    fn is_settled_by(&self, what: &EventKind) -> bool {
        match (self, what) {
            (
                Self::Task(id),
                EventKind::TaskCompleted { task, .. } | EventKind::TaskFailed { task, .. },
            )
            | (
                Self::Child(id),
                EventKind::ChildCompleted { task, .. } | EventKind::ChildFailed { task, .. },
            ) => id == task,
            (Self::Timer(id), EventKind::TimerFired { timer, .. }) => id == timer,
            (
                Self::Call(id),
                EventKind::EntityCompleted { request, .. }
                | EventKind::EntityFailed { request, .. },
            ) => id == request,
            (Self::Lock(id), EventKind::LockGranted { section, .. }) => id == section,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureDetails;
    use steadfast_core::clock::Timestamp;

    fn event(id: i32, what: EventKind) -> InstanceEvent {
        let at = Moment::from(Timestamp(5));
        InstanceEvent { id, at, what }
    }

    fn scheduled(id: i32) -> InstanceEvent {
        event(id, EventKind::TaskScheduled(Task::default()))
    }

    #[test]
    fn a_rewound_history_keeps_what_succeeded_and_nothing_else() {
        let failure = FailureDetails::new("E", "no");
        let fire_at = Moment::from(Timestamp(9));
        let done = |task| event(-1, EventKind::TaskCompleted { task, result: None });
        let failed = |task| {
            let failure = failure.clone();
            event(-1, EventKind::TaskFailed { task, failure })
        };
        let child = |id| {
            let (instance, task) = (format!("c{id}"), Task::default());
            event(id, EventKind::ChildCreated { instance, task })
        };
        let lost = event(
            -1,
            EventKind::ChildFailed {
                task: 4,
                failure: failure.clone(),
            },
        );
        let end = event(
            -1,
            EventKind::Completed {
                status: InstanceStatus::Failed,
                result: None,
                failure: Some(failure.clone()),
            },
        );
        // Activity 1 was tried twice under one id; 3 never returned.
        let history = vec![
            event(-1, EventKind::TurnStarted),
            scheduled(1),
            scheduled(2),
            scheduled(3),
            child(4),
            event(5, EventKind::TimerCreated(fire_at)),
            failed(1),
            scheduled(1),
            done(2),
            done(1),
            lost,
            end,
        ];
        let (kept, open) = without_failures(history);
        let expected = [
            event(-1, EventKind::TurnStarted),
            scheduled(2),
            child(4),
            event(5, EventKind::TimerCreated(fire_at)),
            scheduled(1),
            done(2),
            done(1),
        ];
        assert_eq!(kept, expected);
        assert_eq!(open.timers, [(5, fire_at)]);
        assert_eq!(open.children.len(), 1);
    }
}
