//! Diagnoses what an instance waits for.

use super::task_hub::TaskHub;
use crate::dispatch::Place;
use crate::error::Result;
use crate::event::{Event, What};
use crate::moment::Moment;
use crate::rows;
use crate::status::Status;

/// What an instance does or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no such instance.
    Unknown,
    /// It is finished.
    Ended(Status),
    /// It is suspended.
    Suspended,
    /// It is scheduled for later.
    Starts(Moment),
    /// No connected worker has code for it.
    NoWorker { name: String },
    /// Workers that have code for it are busy.
    Queued,
    /// A worker has it.
    Running,
    /// It waits for these; for an event from outside if there are none.
    Waits(Vec<Open>),
}

/// A result that an instance waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
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
    pub async fn why(&self, instance: &str) -> Result<Why> {
        let Some(found) = self.get(instance, false).await? else {
            return Ok(Why::Unknown);
        };
        if found.status.is_final() {
            return Ok(Why::Ended(found.status));
        }
        if found.status == Status::Suspended {
            return Ok(Why::Suspended);
        }
        let key = self.key(instance, |key| rows::marked(&key, b't'));
        match self.desk.look(&key) {
            Some((Place::Out(_) | Place::Back, _)) => return Ok(Why::Running),
            Some((_, false)) => return Ok(Why::NoWorker { name: found.name }),
            Some((_, true)) => return Ok(Why::Queued),
            None => {}
        }
        if let (Status::Pending, Some(time)) = (found.status, found.scheduled) {
            return Ok(Why::Starts(time));
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
        Ok(Why::Waits(waits))
    }

    async fn with_holder(&self, wait: Open) -> Result<Open> {
        let Open::Lock { entity, .. } = wait else {
            return Ok(wait);
        };
        let view = self.entity(&entity, false).await?;
        let holder = view.and_then(|view| view.locked_by);
        Ok(Open::Lock { entity, holder })
    }

    /// All locks that are held.
    pub async fn locks(&self) -> Result<Vec<LockView>> {
        let all = self.all_entities().await?.into_iter();
        let held = all.filter_map(|(entity, row)| {
            let waiting = row.backlog();
            let held = row.held?;
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
enum Tag {
    Task(i32),
    Text(String),
}

fn note(open: &mut Vec<(Tag, Open)>, event: &Event) {
    let (tag, wait) = match &event.what {
        What::TaskScheduled(task) => {
            let name = task.name.clone();
            (Tag::Task(event.id), Open::Activity { name })
        }
        What::ChildCreated { instance, .. } => {
            let instance = instance.clone();
            (Tag::Task(event.id), Open::Child { instance })
        }
        What::TimerCreated(fire_at) => (Tag::Task(event.id), Open::Timer(*fire_at)),
        What::EntityCalled(operation) => {
            let wait = Open::Call {
                entity: operation.target.clone(),
                operation: operation.name.clone(),
            };
            (Tag::Text(operation.request.clone()), wait)
        }
        What::LockRequested(request) => {
            for entity in &request.set {
                let wait = Open::Lock {
                    entity: entity.clone(),
                    holder: None,
                };
                open.push((Tag::Text(request.section.clone()), wait));
            }
            return;
        }
        What::TaskCompleted { task, .. }
        | What::TaskFailed { task, .. }
        | What::ChildCompleted { task, .. }
        | What::ChildFailed { task, .. }
        | What::TimerFired { timer: task, .. } => {
            let tag = Tag::Task(*task);
            open.retain(|(other, _)| *other != tag);
            return;
        }
        What::EntityCompleted { request: id, .. }
        | What::EntityFailed { request: id, .. }
        | What::LockGranted { section: id, .. } => {
            let tag = Tag::Text(id.clone());
            open.retain(|(other, _)| *other != tag);
            return;
        }
        _ => return,
    };
    open.push((tag, wait));
}
