//! Diagnoses what an instance waits for.

use super::task_hub::TaskHub;
use crate::dispatch::{EntryState, Key, WorkerPresence};
use crate::error::Result;
use crate::event::{EventKind, InstanceEvent};
use crate::id::EntityId;
use crate::moment::Moment;
use crate::rows;
use crate::status::InstanceStatus;

/// What an instance does or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// There is no such instance.
    Unknown,
    /// It is finished.
    Ended(InstanceStatus),
    /// It is suspended.
    Suspended,
    /// It is scheduled for later.
    Starts(Moment),
    /// No connected worker has code for the orchestration or entity of this name.
    NoWorker {
        name: String,
        /// Whether any worker is connected to the task hub.
        has_workers: bool,
    },
    /// Workers that have code for it are busy.
    Queued,
    /// A worker has it.
    Running,
    /// It waits for these; for an event from outside if there are none.
    Waits(Vec<PendingWait>),
}

/// A result that an instance waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingWait {
    Activity {
        name: String,
    },
    Child {
        instance: String,
    },
    Timer(Moment),
    Call {
        entity: String,
        operation: String,
    },
    /// A lock, and its current holder.
    Lock {
        entity: String,
        holder: Option<String>,
    },
}

/// A held lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    pub entity: String,
    pub section: String,
    /// The orchestration that holds it.
    pub holder: String,
    pub since: Moment,
    /// How many requests and lock requests wait behind it.
    pub waiting: u64,
}

impl TaskHub {
    /// Diagnoses what an instance waits for.
    pub async fn diagnose(&self, instance: &str) -> Result<Diagnosis> {
        let Some(found) = self.get(instance, false).await? else {
            return Ok(Diagnosis::Unknown);
        };
        if found.status.is_final() {
            return Ok(Diagnosis::Ended(found.status));
        }
        if found.status == InstanceStatus::Suspended {
            return Ok(Diagnosis::Suspended);
        }
        let key = self.key(instance, |key| rows::marked(&key, b't'));
        if let Some(known) = self.diagnose_entry(&key, &found.name) {
            return Ok(known);
        }
        if let (InstanceStatus::Pending, Some(time)) = (found.status, found.scheduled) {
            return Ok(Diagnosis::Starts(time));
        }
        let mut open = Vec::new();
        for turn in self.history(instance, None).await? {
            for event in turn.iter() {
                note(&mut open, event);
            }
        }
        let mut waits = Vec::with_capacity(open.len());
        for (_, wait) in open {
            waits.push(self.with_holder(wait).await?);
        }
        Ok(Diagnosis::Waits(waits))
    }

    /// The diagnosis of an instance or an entity whose work no connected worker can do, from
    /// the work queue of this node alone. `None` if another node owns it.
    pub fn missing_worker(&self, id: &str, name: &str) -> Option<Diagnosis> {
        let key = match EntityId::parse(id) {
            Ok(id) => self.key(&id.to_string(), |key| rows::marked(&key, b'b')),
            Err(_) => self.key(id, |key| rows::marked(&key, b't')),
        };
        let found = self.diagnose_entry(&key, name);
        found.filter(|found| matches!(found, Diagnosis::NoWorker { .. }))
    }

    /// The diagnosis of work that is in the queue.
    fn diagnose_entry(&self, key: &Key, name: &str) -> Option<Diagnosis> {
        let (state, workers) = self.queue.entry_state(key)?;
        if matches!(state, EntryState::Assigned(_) | EntryState::Committing) {
            return Some(Diagnosis::Running);
        }
        if workers == WorkerPresence::WithCode {
            return Some(Diagnosis::Queued);
        }
        Some(Diagnosis::NoWorker {
            name: name.to_owned(),
            has_workers: workers != WorkerPresence::None,
        })
    }

    async fn with_holder(&self, wait: PendingWait) -> Result<PendingWait> {
        let PendingWait::Lock { entity, .. } = wait else {
            return Ok(wait);
        };
        let view = self.entity(&entity, false).await?;
        let holder = view.and_then(|view| view.locked_by);
        Ok(PendingWait::Lock { entity, holder })
    }

    /// All locks that are held.
    pub async fn locks(&self) -> Result<Vec<LockView>> {
        let all = self.all_entities().await?.into_iter();
        let held = all.filter_map(|(entity, row)| {
            let waiting = row.backlog();
            let held = row.lock_holder?;
            Some(LockView {
                entity,
                section: held.section,
                holder: held.instance,
                since: Moment::from(held.since),
                waiting,
            })
        });
        Ok(held.collect())
    }
}

/// The key by which a result is matched to its request.
#[derive(PartialEq)]
enum WaitKey {
    Task(i32),
    Text(String),
}

fn note(open: &mut Vec<(WaitKey, PendingWait)>, event: &InstanceEvent) {
    let (tag, wait) = match &event.what {
        EventKind::TaskScheduled(task) => {
            let name = task.name.clone();
            (WaitKey::Task(event.id), PendingWait::Activity { name })
        }
        EventKind::ChildCreated { instance, .. } => {
            let instance = instance.clone();
            (WaitKey::Task(event.id), PendingWait::Child { instance })
        }
        EventKind::TimerCreated(fire_at) => (WaitKey::Task(event.id), PendingWait::Timer(*fire_at)),
        EventKind::EntityCalled(operation) => {
            let wait = PendingWait::Call {
                entity: operation.target.clone(),
                operation: operation.name.clone(),
            };
            (WaitKey::Text(operation.request.clone()), wait)
        }
        EventKind::LockRequested(request) => {
            for entity in &request.set {
                let wait = PendingWait::Lock {
                    entity: entity.clone(),
                    holder: None,
                };
                open.push((WaitKey::Text(request.section.clone()), wait));
            }
            return;
        }
        EventKind::TaskCompleted { task, .. }
        | EventKind::TaskFailed { task, .. }
        | EventKind::ChildCompleted { task, .. }
        | EventKind::ChildFailed { task, .. }
        | EventKind::TimerFired { timer: task, .. } => {
            let tag = WaitKey::Task(*task);
            open.retain(|(other, _)| *other != tag);
            return;
        }
        EventKind::EntityCompleted { request: id, .. }
        | EventKind::EntityFailed { request: id, .. }
        | EventKind::LockGranted { section: id, .. } => {
            let tag = WaitKey::Text(id.clone());
            open.retain(|(other, _)| *other != tag);
            return;
        }
        _ => return,
    };
    open.push((tag, wait));
}
