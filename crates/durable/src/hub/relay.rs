//! Relays work items to workers of other nodes.
//!
//! A worker is registered at every node: while it is connected, its own node pulls work
//! from the other ones, and each of them assigns work from its own queue. Results go to
//! the owner of their instance. A registration ends, and its items are assigned again,
//! when its node is silent, when a pull is interrupted, and when an answer is lost: then
//! the worker registers under a new id.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use steadfast_core::codec::{ByteReader, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{Error as PartitionError, ErrorKind, Result as PartitionResult};
use tokio::task::JoinSet;

use super::peers::{RemoteWorker, WorkerPeers};
use super::task_hub::{Inner, TaskHub, TaskHubs};
use crate::dispatch::{PackedOptions, WorkSender, WorkerMessage, WorkerStream, pack, unpack};
use crate::rows;
use crate::work::{WorkDelivery, WorkerOptions};

/// The limits of one answer: items, and approximate bytes.
const ITEMS: usize = 32;
const BYTES: usize = 8 * 1024 * 1024;

/// How long a registered worker's node may be silent between pulls.
const SILENCE: Duration = Duration::from_secs(5);

/// The pause before a node that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

impl TaskHubs {
    /// Handles a message of another node.
    pub async fn handle_peer_message(&self, word: &Bytes) -> PartitionResult<Bytes> {
        let what = "a message about workers";
        let malformed = || PartitionError::new(ErrorKind::Malformed { what });
        match rows::decode(word).map_err(|_| malformed())? {
            WorkerMessage::Pull { hub, seat, terms } => {
                let hub = self.hub(&hub).map_err(|_| malformed())?;
                Ok(self.inner.give(&hub, seat, terms).await)
            }
            WorkerMessage::Gone { seat } => {
                self.inner.remote_workers.leave(seat);
                Ok(Bytes::new())
            }
            WorkerMessage::Abandon { hub, token } => {
                let hub = self.hub(&hub).map_err(|_| malformed())?;
                let is_ours = hub.abandon_here(&token);
                Ok(Bytes::copy_from_slice(&[u8::from(is_ours)]))
            }
            WorkerMessage::ListHubs { after, limit } => {
                Ok(rows::encode(&self.hubs_here(&after, limit as usize)))
            }
            WorkerMessage::ListWorkers { hub, after, limit } => Ok(rows::encode(
                &self.workers_here(&hub, after, limit as usize),
            )),
        }
    }
}

impl Inner {
    /// The items for a worker of another node; waits for the first one.
    async fn give(self: &Arc<Self>, hub: &TaskHub, seat: u64, terms: PackedOptions) -> Bytes {
        let mut asking = self.remote_workers.ask(seat, || {
            WorkerStream::guest(Arc::clone(&hub.queue), WorkerOptions::from(terms), seat)
        });
        let guest = Arc::clone(&asking.guest);
        let mut worker = guest.worker.lock().await;
        let mut out = Vec::new();
        let mut count = 0;
        let mut next = match tokio::time::timeout(limits::FOLLOW_TIME, worker.next()).await {
            // This node shuts down and assigns no more work.
            Ok(None) => return Bytes::new(),
            Ok(item) => item,
            Err(_) => None,
        };
        while let Some(item) = next {
            // The lease of an item that is too large for a message ends, and the item goes to
            // a worker here.
            if let Some(bytes) = pack(item) {
                put_bytes(&mut out, &bytes);
                count += 1;
            }
            if count >= ITEMS || out.len() >= BYTES {
                break;
            }
            next = worker.next().now_or_never().flatten();
        }
        asking.is_answered = true;
        self.expect_again(seat, &guest);
        let mut all = Vec::with_capacity(out.len() + 5);
        put_varint(&mut all, count as u64);
        all.extend_from_slice(&out);
        all.into()
    }

    /// Removes a worker if its node does not pull again.
    fn expect_again(self: &Arc<Self>, seat: u64, guest: &Arc<RemoteWorker>) {
        let asked = *guest.asked.lock();
        let (me, guest) = (Arc::downgrade(self), Arc::downgrade(guest));
        tokio::spawn(name_task(async move {
            tokio::time::sleep(SILENCE).await;
            if let (Some(me), Some(guest)) = (Weak::upgrade(&me), Weak::upgrade(&guest))
                && *guest.asked.lock() == asked
            {
                me.remote_workers.give_up(seat, &guest);
            }
        }));
    }
}

impl TaskHub {
    /// A worker that also gets work of other nodes.
    pub(super) fn shared_worker(
        &self,
        terms: WorkerOptions,
        others: &Arc<dyn WorkerPeers>,
    ) -> WorkerStream {
        let (worker, inbox) = WorkerStream::shared(Arc::clone(&self.queue), terms.clone());
        let (hub, others) = (self.name().to_owned(), Arc::clone(others));
        tokio::spawn(name_task(async move {
            pull_all(hub, terms, others, inbox).await
        }));
        worker
    }
}

/// Pulls work from all other nodes until the worker has disconnected.
async fn pull_all(
    hub: String,
    terms: WorkerOptions,
    others: Arc<dyn WorkerPeers>,
    inbox: WorkSender,
) {
    let mut changes = others.changes();
    let mut pulls: JoinSet<String> = JoinSet::new();
    let mut asked: Vec<String> = Vec::new();
    loop {
        for name in others.names() {
            if asked.contains(&name) {
                continue;
            }
            asked.push(name.clone());
            let pull = WorkPuller {
                name,
                hub: hub.clone(),
                terms: PackedOptions::from(&terms),
                others: Arc::clone(&others),
                inbox: inbox.clone(),
            };
            pulls.spawn(pull.run());
        }
        tokio::select! {
            () = inbox.closed() => break,
            Ok(()) = changes.changed() => {}
            Some(ended) = pulls.join_next() => {
                asked.retain(|name| ended.as_ref().ok() != Some(name));
            }
        }
    }
    // The pulls end with the worker, too.
    pulls.join_all().await;
}

/// Pulls work from one other node for a worker.
struct WorkPuller {
    name: String,
    hub: String,
    terms: PackedOptions,
    others: Arc<dyn WorkerPeers>,
    inbox: WorkSender,
}

impl WorkPuller {
    /// Pulls until the node has left or the worker has disconnected; returns the name of
    /// the node.
    async fn run(self) -> String {
        let mut seat = fresh_seat();
        while self.others.names().contains(&self.name) {
            self.inbox.set_seat(&self.name, Some(seat));
            let answer = tokio::select! {
                answer = self.ask(seat) => answer,
                () = self.inbox.closed() => break,
            };
            match answer {
                Some(items) => items.into_iter().for_each(|item| self.inbox.put(item)),
                None => {
                    // Items in the lost answer are assigned to the old id: the worker takes
                    // a new one.
                    let lost = std::mem::replace(&mut seat, fresh_seat());
                    let gone = tokio::time::timeout(PAUSE, self.leave(lost));
                    let _ = tokio::join!(gone, tokio::time::sleep(PAUSE));
                }
            }
        }
        self.inbox.set_seat(&self.name, None);
        self.leave(seat).await;
        self.name
    }

    /// The items for a worker; `None` if the answer is lost.
    async fn ask(&self, seat: u64) -> Option<Vec<WorkDelivery>> {
        let word = rows::encode(&WorkerMessage::Pull {
            hub: self.hub.clone(),
            seat,
            terms: self.terms.clone(),
        });
        let answer = self.others.request(&self.name, word).await.ok()?;
        items(&answer)
    }

    async fn leave(&self, seat: u64) {
        let gone = rows::encode(&WorkerMessage::Gone { seat });
        // A node that misses this message notices the silence.
        let _ = self.others.request(&self.name, gone).await;
    }
}

fn items(answer: &Bytes) -> Option<Vec<WorkDelivery>> {
    let mut reader = ByteReader::new(answer.clone());
    let count = reader.varint().ok()?;
    (0..count).map(|_| unpack(&reader.bytes().ok()?)).collect()
}

/// A new worker id, unique among all nodes.
fn fresh_seat() -> u64 {
    let id = uuid::Uuid::new_v4().as_u128();
    (id >> 64) as u64
}
