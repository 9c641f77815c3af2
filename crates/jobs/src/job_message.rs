//! Messages that create and cancel jobs.
//!
//! A commit of another service may send them: each is delivered exactly once, after the
//! commit. A message that cannot be applied when it arrives becomes a dead letter; what is
//! known before is checked before the commit.

use bytes::Bytes;
use steadfast_collections::{Error as StateError, OutgoingMessage, Result as Staged};
use steadfast_partition::{Envelope, Message};

use crate::client::{JobClient, refused};
use crate::collection::SweepKind;
use crate::command::{JobCommand, JobDraft, Precondition};
use crate::error::{ErrorKind, Result, check_size};
use crate::id::JobId;
use crate::recurrence::OccurrencePlan;

/// A message to a job, made by [`create`] or [`cancel`].
#[derive(Clone, Debug)]
#[must_use = "a message is sent by a transaction"]
pub struct JobMessage {
    id: JobId,
    command: JobCommand,
}

/// A message that creates a job: `tx.send(create(draft))`. The commit is refused if the
/// job collection does not exist or is full, if the job exists, or if it would never run.
pub fn create(draft: JobDraft) -> JobMessage {
    JobMessage {
        id: draft.id.clone(),
        command: JobCommand::Put {
            draft: Box::new(draft),
            expect: Precondition::Nothing,
        },
    }
}

/// A message that deletes a job, with the occurrences that have not begun:
/// `tx.send(cancel(&id))`. A job that is gone already stays so.
pub fn cancel(id: &JobId) -> JobMessage {
    JobMessage {
        id: id.clone(),
        // Unlike a request to delete, this does not fail without a job.
        command: JobCommand::ApplySweep(SweepKind::Delete),
    }
}

impl JobMessage {
    fn envelope(&self) -> Result<Envelope> {
        if let JobCommand::Put { draft, .. } = &self.command {
            check_size(draft.texts())?;
        }
        Ok(Envelope::new(self.id.address(), self.command.encode()))
    }
}

impl OutgoingMessage for JobMessage {
    fn into_bytes(self) -> Staged<Bytes> {
        let envelope = self.envelope();
        let envelope =
            envelope.map_err(|error| StateError::rejected(error.code(), error.message()))?;
        Ok(envelope.encode())
    }
}

impl JobClient {
    /// Checks a message to a job before the commit that sends it: whether a job that it
    /// creates can be created now.
    pub async fn check_message(&self, message: &Envelope) -> Result<()> {
        let Ok(JobCommand::Put { draft, .. }) = JobCommand::decode(&message.body) else {
            return Ok(());
        };
        let home = self.collection(&draft.id.collection).await?;
        if home.most_jobs.is_some_and(|most| home.jobs >= most) {
            let message = "the job collection has all the jobs that it may have; delete one first";
            return Err(refused(ErrorKind::Full, message));
        }
        let is_over = OccurrencePlan::new(&draft.timing)
            .map_or(true, |plan| plan.first(self.now()).is_none());
        if is_over {
            let message = "the job would never run: no time within ten years fits its recurrence";
            return Err(refused(ErrorKind::NeverRuns, message));
        }
        match self.job(&draft.id).await {
            Ok(_) => {
                let message = "there is a job of this name; use another one, or cancel it first";
                Err(refused(ErrorKind::Changed, message))
            }
            Err(error) if error.kind() == ErrorKind::NoJob => Ok(()),
            Err(error) => Err(error),
        }
    }
}
