//! Carries out the actions of orchestrations.

use steadfast_partition::Message;
use xxhash_rust::xxh3::xxh3_128;

use super::loaded_instance::{LoadedInstance, task_id};
use super::record::{ActivityRecord, SectionRecord};
use crate::action::{ActionKind, TurnAction};
use crate::command::{
    ActivityWorkRequest, Command, ExternalMessage, LockCommand, NewExecution, OperationRequest,
    ReusePolicy, WorkRequest,
};
use crate::event::{
    EntityOperation, EventKind, InstanceEvent, LockRequest, Parent, Task, UnlockRequest,
};
use crate::failure::FailureDetails;
use crate::id::{self, EntityId};
use crate::moment::Moment;
use crate::rows::{self, TASKS, numbered};
use crate::status::InstanceStatus;
use crate::work::QueuedOperation;

/// States of a child that a new child of the same id may replace.
const FINAL: [InstanceStatus; 4] = [
    InstanceStatus::Completed,
    InstanceStatus::Failed,
    InstanceStatus::Terminated,
    InstanceStatus::Canceled,
];

impl LoadedInstance<'_, '_> {
    /// Carries out one action that does not end the execution, and returns its event for
    /// the history, if it has one. An invalid action fails the instance.
    pub(crate) fn act(
        &mut self,
        action: &TurnAction,
        place: usize,
    ) -> Result<Option<EventKind>, FailureDetails> {
        Ok(Some(match &action.kind {
            ActionKind::Schedule(task) => self.schedule(action.id, task),
            ActionKind::Child { instance, task } => self.child(action.id, place, instance, task),
            ActionKind::Timer(fire_at) => self.timer(action.id, *fire_at),
            ActionKind::Send {
                instance,
                name,
                input,
            } => self.raise_at(instance, name, input.as_ref()),
            ActionKind::Signal(operation) => {
                let operation = self.request(operation, true)?;
                EventKind::EntitySignaled(operation)
            }
            ActionKind::Call(operation) => {
                let operation = self.request(operation, false)?;
                EventKind::EntityCalled(operation)
            }
            ActionKind::Lock(request) => self.lock(request)?,
            ActionKind::Unlock(unlock) => self.unlock(unlock)?,
            ActionKind::Terminate {
                instance,
                reason,
                is_recursive,
            } => {
                let ask = Command::Terminate {
                    output: reason.clone(),
                    is_recursive: *is_recursive,
                    is_careful: false,
                };
                self.send(instance, &ask);
                return Ok(None);
            }
            ActionKind::Complete { .. }
            | ActionKind::ContinueAsNew { .. }
            | ActionKind::Rewind(_) => {
                return Ok(None);
            }
        }))
    }

    /// Opens an activity.
    fn schedule(&mut self, id: i32, task: &Task) -> EventKind {
        let number = self.row.tasks_end;
        self.row.tasks_end += 1;
        let open = rows::encode(&ActivityRecord { id });
        self.turn.put(TASKS, &numbered(&self.key, number), open);
        let order = WorkRequest::Activity(ActivityWorkRequest {
            number,
            execution: self.row.execution.clone(),
            id,
            task: task.clone(),
            inherited: self.row.version.clone(),
        });
        let work = task_id(&self.key, number);
        self.turn.open_work(work, order.encode());
        EventKind::TaskScheduled(task.clone())
    }

    /// Starts a child, unless the instance is in a critical section.
    fn child(&mut self, id: i32, place: usize, instance: &str, task: &Task) -> EventKind {
        let instance = if instance.is_empty() {
            self.child_id(id)
        } else {
            instance.to_owned()
        };
        let is_locking = !self.row.sections.is_empty();
        let refused = match id::check_instance(&instance) {
            Err(error) => Some(FailureDetails::lasting(
                "InvalidInstanceId",
                error.message(),
            )),
            Ok(()) if is_locking => Some(FailureDetails::lasting(
                "CriticalSectionViolation",
                "a sub-orchestration cannot be started while locks are held; \
                 leave the critical section first",
            )),
            Ok(()) => None,
        };
        if let Some(failure) = refused {
            let execution = Some(self.row.execution.clone());
            self.push(execution, EventKind::ChildFailed { task: id, failure });
        } else {
            let begin = self.begin_child(id, place, task);
            self.send(&instance, &Command::Start(begin));
        }
        let task = task.clone();
        EventKind::ChildCreated { instance, task }
    }

    pub(crate) fn begin_child(&self, id: i32, place: usize, task: &Task) -> NewExecution {
        let seed = format!("{} {} {id} {place}", self.row.execution, self.row.clock.0);
        NewExecution {
            execution: format!("{:032x}", xxh3_128(seed.as_bytes())),
            task: task.clone(),
            parent: Some(Parent {
                task: id,
                name: Some(self.row.name.clone()),
                version: self.row.version.clone(),
                instance: self.id(),
                execution: Some(self.row.execution.clone()),
            }),
            scheduled: None,
            replaceable: FINAL.to_vec(),
            is_reported: true,
            kept_ms: self.row.kept_ms,
            is_quiet: false,
            reuse: ReusePolicy::Replace,
        }
    }

    /// The id of a new child. It differs after each continue-as-new, because children of the
    /// former execution may still run.
    fn child_id(&self, id: i32) -> String {
        let parent = self.id();
        match self.row.rounds {
            0 => format!("{parent}:{id:04x}"),
            round => format!("{parent}:{round:x}:{id:04x}"),
        }
    }

    fn timer(&mut self, id: i32, fire_at: Moment) -> EventKind {
        self.arm(id, fire_at);
        EventKind::TimerCreated(fire_at)
    }

    pub(crate) fn arm(&mut self, id: i32, fire_at: Moment) {
        let letter = Command::Deliver(ExternalMessage {
            execution: Some(self.row.execution.clone()),
            what: EventKind::TimerFired { timer: id, fire_at },
        });
        let tag = u64::from(id as u32);
        self.turn.schedule(fire_at.due(), tag, letter.encode());
    }

    fn raise_at(&mut self, instance: &str, name: &str, input: Option<&String>) -> EventKind {
        let (name, input) = (name.to_owned(), input.cloned());
        let letter = ExternalMessage {
            execution: None,
            what: EventKind::EventRaised {
                name: name.clone(),
                input: input.clone(),
            },
        };
        self.send(instance, &Command::Deliver(letter));
        EventKind::EventSent {
            instance: instance.to_owned(),
            name,
            input,
        }
    }

    /// Sends an operation to an entity; returns the operation for the history.
    fn request(
        &mut self,
        operation: &EntityOperation,
        is_signal: bool,
    ) -> Result<EntityOperation, FailureDetails> {
        let entity = entity(&operation.target)?.to_string();
        let sent = EntityOperation {
            target: entity.clone(),
            parent: Some(self.id()),
            parent_execution: Some(self.row.execution.clone()),
            ..operation.clone()
        };
        let request = OperationRequest {
            requested: QueuedOperation {
                operation: sent,
                is_signal,
            },
            client: None,
        };
        self.send(&entity, &Command::Request(request));
        Ok(operation.clone())
    }

    /// Requests locks, in the global order of entities.
    fn lock(&mut self, request: &LockRequest) -> Result<EventKind, FailureDetails> {
        let mut set = Vec::with_capacity(request.set.len());
        for name in &request.set {
            set.push(entity(name)?.to_string());
        }
        set.sort_unstable();
        set.dedup();
        let (section, is_legacy) = (request.section.clone(), request.legacy.is_some());
        let execution = self.row.execution.clone();
        match set.first().cloned() {
            Some(first) => {
                let ask = Command::Lock(LockCommand {
                    section: section.clone(),
                    set: set.clone(),
                    position: 0,
                    instance: self.id(),
                    execution,
                    is_legacy,
                });
                self.send(&first, &ask);
                let held = set.clone();
                self.row
                    .sections
                    .insert(section, SectionRecord { set, held });
            }
            None => self.push(
                Some(execution),
                EventKind::LockGranted { section, is_legacy },
            ),
        }
        Ok(EventKind::LockRequested(request.clone()))
    }

    fn unlock(&mut self, unlock: &UnlockRequest) -> Result<EventKind, FailureDetails> {
        let target = entity(&unlock.target)?.to_string();
        if let Some(section) = self.row.sections.get_mut(&unlock.section) {
            section.held.retain(|held| *held != target);
            if section.held.is_empty() {
                self.row.sections.remove(&unlock.section);
            }
        }
        let section = unlock.section.clone();
        self.send(&target, &Command::Unlock { section });
        Ok(EventKind::UnlockSent(unlock.clone()))
    }
}

fn entity(text: &str) -> Result<EntityId, FailureDetails> {
    EntityId::parse(text)
        .map_err(|error| FailureDetails::lasting("InvalidEntityId", error.message()))
}

/// The event of an action.
pub(crate) fn caused(action: &TurnAction, at: Moment, what: EventKind) -> InstanceEvent {
    InstanceEvent {
        id: action.id,
        at,
        what,
    }
}
