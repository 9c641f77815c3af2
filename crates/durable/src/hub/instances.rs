//! Client operations on orchestrations.

use std::sync::Arc;

use steadfast_core::clock::whole_ms;
use steadfast_partition::ReadView;
use uuid::Uuid;

use super::owner_handler::Milestone;
use super::task_hub::{TaskHub, check_payload, unreadable};
use crate::command::{Command, NewExecution, Reply};
use crate::dispatch::scan;
use crate::error::{Error, ErrorKind, Result};
use crate::event::InstanceEvent;
use crate::id;
use crate::instance::{INPUT, InstanceRecord, OUTPUT};
use crate::moment::Moment;
use crate::rows::{self, HISTORY, INSTANCES, PAYLOADS, marked, numbered};
use crate::view::{InstanceView, NewInstance};

impl TaskHub {
    /// Starts an orchestration; returns its id.
    pub async fn start(&self, new: NewInstance) -> Result<String> {
        let instance = if new.instance.is_empty() {
            Uuid::new_v4().simple().to_string()
        } else {
            new.instance
        };
        id::check_instance(&instance)?;
        check_payload(new.task.input.as_ref())?;
        if new.task.name.is_empty() {
            let message = "an orchestration needs a name: the one it has in the worker";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let begin = NewExecution {
            execution: new.execution.unwrap_or_else(fresh),
            task: new.task,
            parent: None,
            scheduled: new.scheduled,
            replaceable: new.replaceable.unwrap_or_default(),
            is_reported: false,
            kept_ms: self.kept_ms(),
            is_quiet: false,
            reuse: new.reuse,
        };
        self.ask(&instance, Command::Start(begin)).await?;
        Ok(instance)
    }

    pub(crate) fn kept_ms(&self) -> u64 {
        let kept = self.inner.kept.get(&*self.name);
        kept.map_or(0, |kept| whole_ms(*kept))
    }

    /// An instance, if there is one.
    pub async fn get(&self, instance: &str, has_payloads: bool) -> Result<Option<InstanceView>> {
        if id::check_instance(instance).is_err() {
            return Ok(None);
        }
        let key = rows::key(self.name.as_bytes(), instance.as_bytes());
        if !has_payloads {
            // A single row needs no snapshot.
            let window = self.inner.router.reader(self.partition(instance));
            let row = window.row(INSTANCES, &key).await?;
            let row: Option<InstanceRecord> = row.as_deref().map(decoded).transpose()?;
            return Ok(row.map(|row| shown(instance, row, None, None)));
        }
        let glance = self.read_view(instance)?;
        let Some(row) = read(&glance, &key).await? else {
            return Ok(None);
        };
        overview(&glance, &key, instance, row, has_payloads)
            .await
            .map(Some)
    }

    /// Waits until the first turn of an instance is committed.
    pub async fn started(&self, instance: &str, has_payloads: bool) -> Result<InstanceView> {
        self.wait(instance, has_payloads, Milestone::Started).await
    }

    /// Waits until an instance is finished.
    pub async fn ended(&self, instance: &str, has_payloads: bool) -> Result<InstanceView> {
        self.wait(instance, has_payloads, Milestone::Ended).await
    }

    async fn wait(
        &self,
        instance: &str,
        has_payloads: bool,
        stage: Milestone,
    ) -> Result<InstanceView> {
        loop {
            if self.is_here(instance) {
                match self.reached(instance, stage, has_payloads).await? {
                    Some(found) => return Ok(found),
                    None => continue,
                }
            }
            if self.reached_there(instance, stage).await?
                && let Some(found) = self.get(instance, has_payloads).await?
                && stage.is_reached(found.status)
            {
                return Ok(found);
            }
        }
    }

    /// Waits for an instance of this node; `None` if it has moved to another one.
    pub(super) async fn reached(
        &self,
        instance: &str,
        stage: Milestone,
        has_payloads: bool,
    ) -> Result<Option<InstanceView>> {
        let mut bell = self.inner.dispatcher.waiters().watch(&self.name, instance);
        while self.is_here(instance) {
            let since = self.tenure(instance);
            if let Some(found) = self.get(instance, has_payloads).await?
                && stage.is_reached(found.status)
            {
                return Ok(Some(found));
            }
            tokio::select! {
                () = bell.changed() => {}
                () = self.moved(instance, since) => {}
            }
        }
        Ok(None)
    }

    /// Raises an event; returns whether the instance can still receive it.
    pub async fn raise(&self, instance: &str, name: &str, input: Option<String>) -> Result<bool> {
        check_payload(input.as_ref())?;
        let name = name.to_owned();
        self.order(instance, Command::Raise { name, input }).await
    }

    /// Terminates an instance; returns whether it was running.
    pub async fn terminate(
        &self,
        instance: &str,
        output: Option<String>,
        is_recursive: bool,
    ) -> Result<bool> {
        check_payload(output.as_ref())?;
        let ask = Command::Terminate {
            output,
            is_recursive,
            is_careful: false,
        };
        self.order(instance, ask).await
    }

    /// Terminates an instance, unless it holds locks; returns whether it did.
    pub async fn skip_graceful(&self, instance: &str, reason: Option<String>) -> Result<bool> {
        let ask = Command::Terminate {
            output: reason,
            is_recursive: false,
            is_careful: true,
        };
        self.order(instance, ask).await
    }

    /// Suspends an instance; returns whether it was running.
    pub async fn suspend(&self, instance: &str, reason: Option<String>) -> Result<bool> {
        self.order(instance, Command::Suspend(reason)).await
    }

    /// Resumes an instance; returns whether it was suspended.
    pub async fn resume(&self, instance: &str, reason: Option<String>) -> Result<bool> {
        self.order(instance, Command::Resume(reason)).await
    }

    /// Rewinds a failed instance to the state before its failures.
    pub async fn rewind(&self, instance: &str, reason: Option<String>) -> Result<()> {
        self.order(instance, Command::Rewind(reason))
            .await
            .map(drop)
    }

    async fn order(&self, instance: &str, ask: Command) -> Result<bool> {
        id::check_instance(instance).map_err(|_| Error::no_instance(instance))?;
        Ok(self.ask(instance, ask).await? == Reply::Done)
    }

    /// Starts the same orchestration again, under the same id or a new one; returns the id.
    pub async fn restart(&self, instance: &str, is_new_id: bool) -> Result<String> {
        id::check_instance(instance).map_err(|_| Error::no_instance(instance))?;
        let Reply::Began(mut begin) = self.ask(instance, Command::Restart).await? else {
            return Err(unreadable());
        };
        begin.execution = fresh();
        begin.kept_ms = self.kept_ms();
        if is_new_id {
            let other = Uuid::new_v4().simple().to_string();
            begin.replaceable.clear();
            self.ask(&other, Command::Start(begin)).await?;
            return Ok(other);
        }
        if !begin.replaceable.iter().all(|status| status.is_final()) {
            return Err(Error::new(
                ErrorKind::State,
                format!(
                    "the instance {instance:?} is not finished: terminate it first, or restart it under another id"
                ),
            ));
        }
        self.ask(instance, Command::Start(begin)).await?;
        Ok(instance.to_owned())
    }

    /// The history of an execution. `None` selects the current one; an execution that the
    /// instance has left is not found.
    pub async fn history(
        &self,
        instance: &str,
        execution: Option<&str>,
    ) -> Result<Vec<Arc<Vec<InstanceEvent>>>> {
        id::check_instance(instance).map_err(|_| Error::no_instance(instance))?;
        let glance = self.read_view(instance)?;
        let key = rows::key(self.name.as_bytes(), instance.as_bytes());
        let row = read(&glance, &key).await?;
        let is_meant =
            |row: &InstanceRecord| execution.is_none_or(|e| e.is_empty() || e == row.execution);
        let Some(row) = row.filter(is_meant) else {
            return Err(Error::no_instance(instance));
        };
        let end = numbered(&key, row.turns);
        let turns = scan(&glance, HISTORY, numbered(&key, 0), end).await?;
        let decoded = turns
            .iter()
            .map(|row| rows::decode(&row.value).map(Arc::new));
        decoded
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| unreadable())
    }
}

/// A new id for an execution.
fn fresh() -> String {
    Uuid::new_v4().simple().to_string()
}

/// The row of an instance.
pub(super) async fn read(glance: &ReadView, key: &[u8]) -> Result<Option<InstanceRecord>> {
    match glance.get(INSTANCES, key).await? {
        Some(row) => decoded(&row).map(Some),
        None => Ok(None),
    }
}

fn decoded(row: &[u8]) -> Result<InstanceRecord> {
    rows::decode(row).map_err(|_| unreadable())
}

/// The client's view of an instance.
pub(super) async fn overview(
    glance: &ReadView,
    key: &[u8],
    instance: &str,
    row: InstanceRecord,
    has_payloads: bool,
) -> Result<InstanceView> {
    let (mut input, mut output) = (None, None);
    if has_payloads {
        input = payload(glance, key, INPUT).await?;
        output = payload(glance, key, OUTPUT).await?;
    }
    Ok(shown(instance, row, input, output))
}

fn shown(
    instance: &str,
    row: InstanceRecord,
    input: Option<String>,
    output: Option<String>,
) -> InstanceView {
    InstanceView {
        instance: instance.to_owned(),
        execution: row.execution,
        name: row.name,
        version: row.version,
        status: row.status,
        scheduled: row.scheduled,
        created: Moment::from(row.created),
        updated: Moment::from(row.updated),
        completed: row.completed.map(Moment::from),
        input,
        output,
        custom_status: row.custom_status,
        failure: row.failure,
        parent: row.parent,
        tags: row.tags,
    }
}

async fn payload(glance: &ReadView, key: &[u8], side: u8) -> Result<Option<String>> {
    let row = glance.get(PAYLOADS, &marked(key, side)).await?;
    Ok(row.map(|row| String::from_utf8_lossy(&row).into_owned()))
}
