//! Checks the messages that transactions send.
//!
//! What their receiver could not apply is refused before the commit, as far as this node
//! knows: an event hub or a task hub that does not exist, a job that cannot be created.

use async_trait::async_trait;
use steadfast_collections::{Error as StateError, ErrorKind as StateKind};
use steadfast_core::error::Code;
use steadfast_durable::TaskHubs;
use steadfast_events::{ErrorKind as EventKind, EventHubs};
use steadfast_jobs::{ErrorKind as JobKind, JobClient};
use steadfast_partition::{Envelope, Error, ErrorKind, MessageCheck, Result, ServiceError};

/// The services that transactions of a node send messages to.
pub(super) struct NodeMessageCheck {
    pub(super) hubs: EventHubs,
    pub(super) task_hubs: TaskHubs,
    /// `None`: the jobs are in two regions, in a space that no transaction can send to.
    pub(super) jobs: Option<JobClient>,
}

#[async_trait]
impl MessageCheck for NodeMessageCheck {
    async fn check(&self, message: Envelope) -> Result<Envelope> {
        match message.to.kind {
            steadfast_events::CATALOG => self.publication(message).await,
            steadfast_durable::KIND => {
                let checked = self.task_hubs.check_message(message);
                checked.map_err(|error| refused(error.code(), error.message()))
            }
            steadfast_jobs::KIND => self.job(message).await,
            _ => Ok(message),
        }
    }
}

impl NodeMessageCheck {
    async fn publication(&self, message: Envelope) -> Result<Envelope> {
        let Err(error) = self.hubs.check_message(&message).await else {
            return Ok(message);
        };
        Err(match error.kind() {
            EventKind::HubNotFound | EventKind::PartitionNotFound => {
                refused(error.code(), error.message())
            }
            _ => failed(error.code(), error.message()),
        })
    }

    async fn job(&self, message: Envelope) -> Result<Envelope> {
        let Some(jobs) = &self.jobs else {
            let what = "a job of a transaction on a server with jobs in two regions".to_owned();
            let error = StateError::new(StateKind::Unsupported { what });
            return Err(refused(error.code(), &error.to_string()));
        };
        let Err(error) = jobs.check_message(&message).await else {
            return Ok(message);
        };
        Err(match error.kind() {
            JobKind::Partition => failed(error.code(), error.message()),
            _ => refused(error.code(), error.message()),
        })
    }
}

/// The receiver could not apply the message.
fn refused(code: Code, message: &str) -> Error {
    Error::new(ErrorKind::MessageRefused(ServiceError::new(code, message)))
}

/// The receiver could not be asked; another attempt may succeed. Its code may say that the
/// outcome is unknown, but nothing was sent.
fn failed(code: Code, message: &str) -> Error {
    let why = format!("{code}: {}", code.strip(message));
    Error::new(ErrorKind::Unchecked { why })
}
