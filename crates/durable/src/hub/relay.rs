//! Workers take the work of all nodes.
//!
//! A worker has a seat at every node: its own node asks the others, for as long as
//! the worker is there, and each gives what its own desk would. Results go to the
//! owner of their instance. A seat whose node is not heard of any more is given up,
//! and what it had goes to others.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use steadfast_core::codec::{Reader, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_partition::{Error as PartitionError, ErrorKind, Result as PartitionResult};
use tokio::task::JoinSet;

use super::others::{Guest, Others};
use super::task_hub::{Inner, TaskHub, TaskHubs};
use crate::dispatch::{Inbox, Wanted, Word, Worker, pack, unpack};
use crate::rows;
use crate::work::Terms;

/// Items that one answer brings at most, and about how many bytes.
const ITEMS: usize = 32;
const BYTES: usize = 8 * 1024 * 1024;

/// How long a seat waits for its node to ask again.
const SILENCE: Duration = Duration::from_secs(5);

/// How soon a node that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

impl TaskHubs {
    /// Answers what another node tells.
    pub async fn hear(&self, word: &Bytes) -> PartitionResult<Bytes> {
        let what = "a word about workers";
        let malformed = || PartitionError::new(ErrorKind::Malformed { what });
        match rows::decode(word).map_err(|_| malformed())? {
            Word::Pull { hub, seat, terms } => {
                let hub = self.hub(&hub).map_err(|_| malformed())?;
                Ok(self.inner.give(&hub, seat, terms).await)
            }
            Word::Gone { seat } => {
                self.inner.guests.seats.lock().remove(&seat);
                Ok(Bytes::new())
            }
            Word::Abandon { hub, token } => {
                let hub = self.hub(&hub).map_err(|_| malformed())?;
                let is_ours = hub.abandon_here(&token);
                Ok(Bytes::copy_from_slice(&[u8::from(is_ours)]))
            }
        }
    }
}

impl Inner {
    /// What a worker of another node gets, as soon as there is something.
    async fn give(self: &Arc<Self>, hub: &TaskHub, seat: u64, terms: Wanted) -> Bytes {
        let guest = {
            let mut seats = self.guests.seats.lock();
            let made = || {
                Arc::new(Guest {
                    worker: tokio::sync::Mutex::new(Worker::new(
                        Arc::clone(&hub.desk),
                        Terms::from(terms),
                    )),
                    asked: Mutex::new(0),
                })
            };
            let guest = Arc::clone(seats.entry(seat).or_insert_with(made));
            *guest.asked.lock() += 1;
            guest
        };
        let mut worker = guest.worker.lock().await;
        let mut out = Vec::new();
        let mut count = 0;
        let first = tokio::time::timeout(limits::FOLLOW_TIME, worker.next()).await;
        let mut next = first.ok().flatten();
        while let Some(item) = next {
            // One that cannot travel comes back by its lease, and goes to a worker here.
            if let Some(bytes) = pack(item) {
                put_bytes(&mut out, &bytes);
                count += 1;
            }
            if count >= ITEMS || out.len() >= BYTES {
                break;
            }
            next = worker.next().now_or_never().flatten();
        }
        drop(worker);
        self.expect_again(seat, &guest);
        let mut all = Vec::with_capacity(out.len() + 5);
        put_varint(&mut all, count as u64);
        all.extend_from_slice(&out);
        all.into()
    }

    /// Gives a seat up if its node does not ask again.
    fn expect_again(self: &Arc<Self>, seat: u64, guest: &Arc<Guest>) {
        let asked = *guest.asked.lock();
        let (me, guest) = (Arc::downgrade(self), Arc::downgrade(guest));
        tokio::spawn(async move {
            tokio::time::sleep(SILENCE).await;
            if let (Some(me), Some(guest)) = (Weak::upgrade(&me), Weak::upgrade(&guest))
                && *guest.asked.lock() == asked
            {
                me.guests.seats.lock().remove(&seat);
            }
        });
    }
}

impl TaskHub {
    /// A worker that also gets the work of other nodes.
    pub(super) fn shared_worker(&self, terms: Terms, others: &Arc<dyn Others>) -> Worker {
        let (worker, inbox) = Worker::shared(Arc::clone(&self.desk), terms.clone());
        let (hub, others) = (self.name().to_owned(), Arc::clone(others));
        tokio::spawn(async move { pull_all(hub, terms, others, inbox).await });
        worker
    }
}

/// Asks all other nodes for work, until the worker has gone.
async fn pull_all(hub: String, terms: Terms, others: Arc<dyn Others>, inbox: Inbox) {
    let seat = fresh_seat();
    let mut changes = others.changes();
    let mut pulls: JoinSet<String> = JoinSet::new();
    let mut asked: Vec<String> = Vec::new();
    loop {
        for name in others.names() {
            if asked.contains(&name) {
                continue;
            }
            asked.push(name.clone());
            let pull = pull(name, seat, hub.clone(), &terms, Arc::clone(&others));
            let inbox = inbox.clone();
            pulls.spawn(async move { pull.run(inbox).await });
        }
        tokio::select! {
            () = inbox.closed() => break,
            _ = changes.changed() => {}
            Some(ended) = pulls.join_next() => {
                asked.retain(|name| ended.as_ref().ok() != Some(name));
            }
        }
    }
    pulls.abort_all();
    let gone = rows::encode(&Word::Gone { seat });
    for name in asked {
        // Whoever does not hear it notices the silence.
        let _ = others.tell(&name, gone.clone()).await;
    }
}

struct Pull {
    name: String,
    word: Bytes,
    others: Arc<dyn Others>,
}

fn pull(name: String, seat: u64, hub: String, terms: &Terms, others: Arc<dyn Others>) -> Pull {
    let terms = Wanted::from(terms);
    Pull {
        name,
        word: rows::encode(&Word::Pull { hub, seat, terms }),
        others,
    }
}

impl Pull {
    /// Asks one node until it is not there any more; answers its name.
    async fn run(self, inbox: Inbox) -> String {
        while self.others.names().contains(&self.name) {
            let answer = self.others.tell(&self.name, self.word.clone()).await;
            match answer.ok().and_then(|answer| items(&answer)) {
                Some(items) => items.into_iter().for_each(|item| inbox.put(item)),
                None => tokio::time::sleep(PAUSE).await,
            }
        }
        self.name
    }
}

fn items(answer: &Bytes) -> Option<Vec<crate::work::Item>> {
    let mut reader = Reader::new(answer.clone());
    let count = reader.varint().ok()?;
    (0..count).map(|_| unpack(&reader.bytes().ok()?)).collect()
}

/// Names a worker among those of all nodes.
fn fresh_seat() -> u64 {
    let id = uuid::Uuid::new_v4().as_u128();
    (id >> 64) as u64
}
