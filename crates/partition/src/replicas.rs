//! Collection replicas, one per served partition.
//!
//! Locks live in a replica, so a partition may have only one on its node: all users of
//! the collections of a partition share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_collections::{
    CommitPath, CommitRejected, Options, Outcome, Replica, StagedCommands, Tx,
};
use steadfast_core::id::{Lsn, Partition};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::Writes;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::Envelope;
use crate::ingress::mailbox::Mailbox;
use crate::ingress::router::Router;
use crate::message_check::MessageCheck;

/// The replicas of a node; create it once and share it.
pub struct CollectionReplicas {
    router: Arc<Router>,
    options: Options,
    check: Option<Arc<dyn MessageCheck>>,
    known: Mutex<BTreeMap<Partition, Replica>>,
}

impl CollectionReplicas {
    /// Creates a set without replicas.
    pub fn new(router: Arc<Router>, options: Options) -> Self {
        Self {
            router,
            options,
            check: None,
            known: Mutex::new(BTreeMap::new()),
        }
    }

    /// The same, with a check of the messages that transactions send.
    #[must_use]
    pub fn with_check(self, check: Arc<dyn MessageCheck>) -> Self {
        let check = Some(check);
        Self { check, ..self }
    }

    /// The replica of a partition that this node serves.
    pub async fn of(&self, partition: Partition) -> Result<Replica> {
        let door = self.door(partition)?;
        let mut known = self.known.lock().await;
        if let Some(replica) = known.get(&partition) {
            // A ledger that was lost has failed, even if this node owns the partition
            // again.
            if replica.ledger().is_ok_and(|l| l.failure().is_none()) {
                return Ok(replica.clone());
            }
            // Users of the old replica get an error.
            replica.close();
        }
        let options = Options {
            commit_path: Some(Arc::new(OwnerCommitPath(self.target(door.clone())))),
            ..self.options.clone()
        };
        let opened = Replica::primary(door.ledger().clone(), options);
        let replica = opened.await.map_err(|error| collections(&error))?;
        known.insert(partition, replica.clone());
        Ok(replica)
    }

    /// Commits a transaction over collections, with all that it sends, together with
    /// commands to instances of the same partition: all or nothing. If a service refuses,
    /// the transaction is aborted.
    pub async fn commit(
        &self,
        partition: Partition,
        tx: Tx,
        commands: Vec<Envelope>,
    ) -> Result<Lsn> {
        let target = self.target(self.door(partition)?);
        let mut sealed = tx.prepare().map_err(|error| collections(&error))?;
        let writes = sealed.take_writes().unwrap_or_default();
        let staged = sealed.take_commands();
        // Once it is handed over, its outcome must be applied even if the caller stops
        // waiting.
        let task = tokio::spawn(name_task(async move {
            match target.commit(writes, staged, commands).await {
                Ok(lsn) => sealed.finish(Ok(lsn)).map_err(|error| collections(&error)),
                Err(error) => {
                    // Without an error of the storage engine nothing was written:
                    // dropping the transaction aborts it.
                    if let Some(cause) = error.storage() {
                        let _ = sealed.finish(Err(cause.clone()));
                    }
                    Err(error)
                }
            }
        }));
        task.await
            .unwrap_or_else(|_| Err(Error::unknown(partition, None)))
    }

    fn target(&self, mailbox: Mailbox) -> CommitTarget {
        let check = self.check.clone();
        CommitTarget { mailbox, check }
    }

    fn door(&self, partition: Partition) -> Result<Mailbox> {
        let here = self.router.mailbox(partition);
        here.ok_or_else(|| Error::new(ErrorKind::NotOwner { partition }))
    }
}

/// The owner of a partition, as transactions commit there.
#[derive(Clone)]
struct CommitTarget {
    mailbox: Mailbox,
    check: Option<Arc<dyn MessageCheck>>,
}

impl CommitTarget {
    /// Commits what a transaction has staged, and more commands after it.
    async fn commit(
        &self,
        writes: Writes,
        staged: StagedCommands,
        more: Vec<Envelope>,
    ) -> Result<Lsn> {
        let mut commands = envelopes(staged.commands)?;
        commands.extend(more);
        let mut messages = envelopes(staged.messages)?;
        if let Some(check) = &self.check {
            // The transaction holds its locks until then.
            let checked = timeout(limits::MESSAGE_CHECK, checked(&**check, &mut messages));
            let late = |_| {
                let seconds = limits::MESSAGE_CHECK.as_secs();
                let why = format!("no answer within {seconds} s");
                Error::new(ErrorKind::Unchecked { why })
            };
            checked.await.map_err(late)??;
        }
        self.mailbox.commit(writes, commands, messages).await
    }
}

async fn checked(check: &dyn MessageCheck, messages: &mut [Envelope]) -> Result<()> {
    for message in messages {
        *message = check.check(message.clone()).await?;
    }
    Ok(())
}

/// Sends what transactions have staged to the owner of their partition.
struct OwnerCommitPath(CommitTarget);

impl CommitPath for OwnerCommitPath {
    fn commit(&self, writes: Writes, staged: StagedCommands) -> Outcome {
        let target = self.0.clone();
        Box::pin(async move {
            let committed = target.commit(writes, staged, Vec::new()).await;
            committed.map_err(|error| declined(&error))
        })
    }
}

fn envelopes(commands: Vec<Bytes>) -> Result<Vec<Envelope>> {
    let read = |bytes| {
        let what = "a command of a transaction";
        Envelope::decode(bytes).map_err(|_| Error::new(ErrorKind::Malformed { what }))
    };
    commands.into_iter().map(read).collect()
}

/// Converts an error of the owner to one of collections.
fn declined(error: &Error) -> CommitRejected {
    match error.storage() {
        Some(cause) => CommitRejected::Storage(cause.clone()),
        None => CommitRejected::Command {
            code: error.code(),
            message: error.code().strip(&error.to_string()).to_owned(),
        },
    }
}

/// Converts an error of collections; it keeps its code.
fn collections(error: &steadfast_collections::Error) -> Error {
    let refusal =
        crate::execution::service_error::ServiceError::new(error.code(), error.to_string());
    Error::new(ErrorKind::Refused(refusal))
}
