//! Carries out the actions of orchestrations.

use steadfast_partition::Message;
use xxhash_rust::xxh3::xxh3_128;

use super::living::{Living, task_id};
use super::record::{OpenTask, Section};
use crate::action::{Action, Deed};
use crate::command::{Ask, Begin, Letter, Lock, Order, Request, Reuse, Wish};
use crate::event::{Event, LockRequest, Operation, Parent, Task, Unlock, What};
use crate::failure::Failure;
use crate::id::{self, EntityId};
use crate::moment::Moment;
use crate::rows::{self, TASKS, numbered};
use crate::status::Status;
use crate::work::Requested;

/// States of a child that a new child of the same id may replace.
const FINAL: [Status; 4] = [
    Status::Completed,
    Status::Failed,
    Status::Terminated,
    Status::Canceled,
];

impl Living<'_, '_> {
    /// Carries out one action that does not end the execution, and returns its event for
    /// the history, if it has one. An invalid action fails the instance.
    pub(crate) fn act(&mut self, action: &Action, place: usize) -> Result<Option<What>, Failure> {
        Ok(Some(match &action.deed {
            Deed::Schedule(task) => self.schedule(action.id, task),
            Deed::Child { instance, task } => self.child(action.id, place, instance, task),
            Deed::Timer(fire_at) => self.timer(action.id, *fire_at),
            Deed::Send {
                instance,
                name,
                input,
            } => self.raise_at(instance, name, input.as_ref()),
            Deed::Signal(operation) => {
                let operation = self.request(operation, true)?;
                What::EntitySignaled(operation)
            }
            Deed::Call(operation) => {
                let operation = self.request(operation, false)?;
                What::EntityCalled(operation)
            }
            Deed::Lock(request) => self.lock(request)?,
            Deed::Unlock(unlock) => self.unlock(unlock)?,
            Deed::Terminate {
                instance,
                reason,
                is_recursive,
            } => {
                let ask = Ask::Terminate {
                    output: reason.clone(),
                    is_recursive: *is_recursive,
                    is_careful: false,
                };
                self.send(instance, &ask);
                return Ok(None);
            }
            Deed::Complete { .. } | Deed::ContinueAsNew { .. } | Deed::Rewind(_) => {
                return Ok(None);
            }
        }))
    }

    /// Opens an activity.
    fn schedule(&mut self, id: i32, task: &Task) -> What {
        let number = self.row.tasks_end;
        self.row.tasks_end += 1;
        let open = rows::encode(&OpenTask { id });
        self.turn.put(TASKS, &numbered(&self.key, number), open);
        let order = Wish::Activity(Order {
            number,
            execution: self.row.execution.clone(),
            id,
            task: task.clone(),
            inherited: self.row.version.clone(),
        });
        let work = task_id(&self.key, number);
        self.turn.open_work(work, order.encode());
        What::TaskScheduled(task.clone())
    }

    /// Starts a child, unless the instance is in a critical section.
    fn child(&mut self, id: i32, place: usize, instance: &str, task: &Task) -> What {
        let instance = match instance.is_empty() {
            true => self.child_id(id),
            false => instance.to_owned(),
        };
        let is_locking = !self.row.sections.is_empty();
        let refused = match id::check_instance(&instance) {
            Err(error) => Some(Failure::lasting("InvalidInstanceId", error.message())),
            Ok(()) if is_locking => Some(Failure::lasting(
                "CriticalSectionViolation",
                "a sub-orchestration cannot be started while locks are held; \
                 leave the critical section first",
            )),
            Ok(()) => None,
        };
        if let Some(failure) = refused {
            let execution = Some(self.row.execution.clone());
            self.push(execution, What::ChildFailed { task: id, failure });
        } else {
            let begin = self.begin_child(id, place, task);
            self.send(&instance, &Ask::Start(begin));
        }
        let task = task.clone();
        What::ChildCreated { instance, task }
    }

    pub(crate) fn begin_child(&self, id: i32, place: usize, task: &Task) -> Begin {
        let seed = format!("{} {} {id} {place}", self.row.execution, self.row.clock.0);
        Begin {
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
            reuse: Reuse::Replace,
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

    fn timer(&mut self, id: i32, fire_at: Moment) -> What {
        self.arm(id, fire_at);
        What::TimerCreated(fire_at)
    }

    pub(crate) fn arm(&mut self, id: i32, fire_at: Moment) {
        let letter = Ask::Deliver(Letter {
            execution: Some(self.row.execution.clone()),
            what: What::TimerFired { timer: id, fire_at },
        });
        let tag = u64::from(id as u32);
        self.turn.schedule(fire_at.due(), tag, letter.encode());
    }

    fn raise_at(&mut self, instance: &str, name: &str, input: Option<&String>) -> What {
        let (name, input) = (name.to_owned(), input.cloned());
        let letter = Letter {
            execution: None,
            what: What::EventRaised {
                name: name.clone(),
                input: input.clone(),
            },
        };
        self.send(instance, &Ask::Deliver(letter));
        What::EventSent {
            instance: instance.to_owned(),
            name,
            input,
        }
    }

    /// Sends an operation to an entity; returns the operation for the history.
    fn request(&mut self, operation: &Operation, is_signal: bool) -> Result<Operation, Failure> {
        let entity = entity(&operation.target)?.to_string();
        let sent = Operation {
            target: entity.clone(),
            parent: Some(self.id()),
            parent_execution: Some(self.row.execution.clone()),
            ..operation.clone()
        };
        let request = Request {
            requested: Requested {
                operation: sent,
                is_signal,
            },
            client: None,
        };
        self.send(&entity, &Ask::Request(request));
        Ok(operation.clone())
    }

    /// Requests locks, in the global order of entities.
    fn lock(&mut self, request: &LockRequest) -> Result<What, Failure> {
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
                let ask = Ask::Lock(Lock {
                    section: section.clone(),
                    set: set.clone(),
                    position: 0,
                    instance: self.id(),
                    execution,
                    is_legacy,
                });
                self.send(&first, &ask);
                let held = set.clone();
                self.row.sections.insert(section, Section { set, held });
            }
            None => self.push(Some(execution), What::LockGranted { section, is_legacy }),
        }
        Ok(What::LockRequested(request.clone()))
    }

    fn unlock(&mut self, unlock: &Unlock) -> Result<What, Failure> {
        let target = entity(&unlock.target)?.to_string();
        if let Some(section) = self.row.sections.get_mut(&unlock.section) {
            section.held.retain(|held| *held != target);
            if section.held.is_empty() {
                self.row.sections.remove(&unlock.section);
            }
        }
        let section = unlock.section.clone();
        self.send(&target, &Ask::Unlock { section });
        Ok(What::UnlockSent(unlock.clone()))
    }
}

fn entity(text: &str) -> Result<EntityId, Failure> {
    EntityId::parse(text).map_err(|error| Failure::lasting("InvalidEntityId", error.message()))
}

/// The event of an action.
pub(crate) fn caused(action: &Action, at: Moment, what: What) -> Event {
    Event {
        id: action.id,
        at,
        what,
    }
}
