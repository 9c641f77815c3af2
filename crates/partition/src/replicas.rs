//! Collection replicas, one per served partition.
//!
//! Locks live in a replica, so a partition may have only one on its node: all users of
//! the collections of a partition share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_collections::{CommitPath, CommitRejected, Options, Outcome, Replica, Tx};
use steadfast_core::id::{Lsn, Partition};
use steadfast_core::task::name_task;
use steadfast_storage::Writes;
use tokio::sync::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::Envelope;
use crate::ingress::mailbox::Mailbox;
use crate::ingress::router::Router;

/// The replicas of a node; create it once and share it.
pub struct CollectionReplicas {
    router: Arc<Router>,
    options: Options,
    known: Mutex<BTreeMap<Partition, Replica>>,
}

impl CollectionReplicas {
    /// Creates a set without replicas.
    pub fn new(router: Arc<Router>, options: Options) -> Self {
        Self {
            router,
            options,
            known: Mutex::new(BTreeMap::new()),
        }
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
            commit_path: Some(Arc::new(OwnerCommitPath(door.clone()))),
            ..self.options.clone()
        };
        let opened = Replica::primary(door.ledger().clone(), options);
        let replica = opened.await.map_err(|error| collections(&error))?;
        known.insert(partition, replica.clone());
        Ok(replica)
    }

    /// Commits a transaction over collections together with commands to instances
    /// of the same partition: all or nothing. If a service refuses, the transaction
    /// is aborted.
    pub async fn commit(
        &self,
        partition: Partition,
        tx: Tx,
        commands: Vec<Envelope>,
    ) -> Result<Lsn> {
        let door = self.door(partition)?;
        let mut sealed = tx.prepare().map_err(|error| collections(&error))?;
        let writes = sealed.take_writes().unwrap_or_default();
        let staged = envelopes(sealed.take_commands())?;
        let commands = staged.into_iter().chain(commands).collect();
        // Once it is handed over, its outcome must be applied even if the caller stops
        // waiting.
        let task = tokio::spawn(name_task(async move {
            match door.commit(writes, commands).await {
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

    fn door(&self, partition: Partition) -> Result<Mailbox> {
        let here = self.router.mailbox(partition);
        here.ok_or_else(|| Error::new(ErrorKind::NotOwner { partition }))
    }
}

/// Sends commands of transactions to the owner of their partition.
struct OwnerCommitPath(Mailbox);

impl CommitPath for OwnerCommitPath {
    fn commit(&self, writes: Writes, commands: Vec<Bytes>) -> Outcome {
        let door = self.0.clone();
        Box::pin(async move {
            let commands = envelopes(commands).map_err(|error| declined(&error))?;
            let committed = door.commit(writes, commands).await;
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
