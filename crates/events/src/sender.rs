//! Publishes to an event hub.
//!
//! Publications of one sender to one partition are appended in the order of
//! submission; the acknowledgement comes when the publication is durable.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::task::named;
use steadfast_partition::{Pending, Result as PartitionResult};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::batch::Batch;
use crate::error::{Error, Kind, Result};
use crate::hash::partition_of;
use crate::hubs::{EventHubs, Known};
use crate::place;
use crate::producer::{ProducerState, Stamp, Wish};
use crate::slot_command::{Publish, Published, SlotCommand, SlotReply};

/// Publishes to one event hub, or to one of its partitions.
#[derive(Clone)]
pub struct Sender {
    hubs: EventHubs,
    known: Arc<Known>,
    partition: Option<u32>,
    /// Publications to other nodes, sequential per partition.
    lanes: Arc<Lanes>,
}

/// By partition: resolves when the previous publication is answered.
type Lanes = Mutex<HashMap<u32, oneshot::Receiver<()>>>;

/// A publication that is in its partition's queue.
pub struct Submitted {
    hubs: EventHubs,
    known: Arc<Known>,
    answer: Answering,
    bytes: usize,
}

enum Answering {
    Here(Pending<SlotReply>),
    Elsewhere(JoinHandle<PartitionResult<SlotReply>>),
}

impl Submitted {
    /// Waits until the publication is durable.
    pub async fn published(self) -> Result<Published> {
        let answer = match self.answer {
            Answering::Here(pending) => pending.answer().await,
            Answering::Elsewhere(call) => match call.await {
                Ok(answer) => answer,
                Err(_) => return Err(Error::damaged("a reply")),
            },
        };
        match answer.map_err(|error| self.hubs.judged(&self.known, error.into()))? {
            SlotReply::Published(published) => {
                let traffic = &self.hubs.inner.traffic;
                traffic.taken_in(published.count, self.bytes);
                Ok(published)
            }
            _ => Err(Error::damaged("a reply")),
        }
    }
}

impl EventHubs {
    /// Publishes to an event hub; to one partition only, if one is named.
    pub async fn sender(&self, name: &str, partition: Option<u32>) -> Result<Sender> {
        let known = self.known(name).await?;
        if let Some(partition) = partition {
            known.check(partition)?;
        }
        Ok(Sender::new(self.clone(), known, partition))
    }
}

impl Sender {
    pub(crate) fn new(hubs: EventHubs, known: Arc<Known>, partition: Option<u32>) -> Self {
        Self {
            hubs,
            known,
            partition,
            lanes: Arc::default(),
        }
    }

    /// Publishes and waits until it is durable: all events or none.
    pub async fn send(&self, batch: Batch) -> Result<Published> {
        self.submit(batch).await?.published().await
    }

    /// Queues a publication for its partition, in order of submission. Waits only for
    /// space in the mailbox.
    pub async fn submit(&self, batch: Batch) -> Result<Submitted> {
        self.submit_as(None, batch).await
    }

    /// As [`Sender::submit`], numbered by an idempotent producer. For a sender to
    /// one partition only.
    pub async fn submit_as(&self, stamp: Option<Stamp>, batch: Batch) -> Result<Submitted> {
        if stamp.is_some() && self.partition.is_none() {
            return Err(needs_partition());
        }
        let partition = match (self.partition, batch.key()) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, self.known.hub.partitions),
            (None, None) => self.known.next_partition(),
        };
        let bytes = batch.event_bytes();
        let (blob, count) = batch.finish()?;
        let command = SlotCommand::Publish(Publish {
            terms: self.known.terms,
            count,
            blob,
            stamp,
        });
        let to = place::slot(&self.known.name, partition);
        let place = self.hubs.place(&self.known, partition);
        let answer = match self.hubs.inner.router.door(place) {
            Some(door) => Answering::Here(door.begin(to, command).await?),
            None => {
                let slots = self.hubs.inner.slots.clone();
                let (done, after) = oneshot::channel();
                let before = self.lanes.lock().insert(partition, after);
                // It continues if the caller drops it, like a local publication.
                let call = tokio::spawn(named(async move {
                    if let Some(before) = before {
                        // It has ended, with success or not.
                        let _ = before.await;
                    }
                    let answer = slots.call_in(place, to, command).await;
                    drop(done);
                    answer
                }));
                Answering::Elsewhere(call)
            }
        };
        Ok(Submitted {
            hubs: self.hubs.clone(),
            known: Arc::clone(&self.known),
            answer,
            bytes,
        })
    }

    /// Opens a new idempotent producer, continues one at its epoch, or takes one over
    /// with a higher epoch. For a sender to one partition only.
    pub async fn producer(&self, wish: Wish) -> Result<ProducerState> {
        let partition = self.partition.ok_or_else(needs_partition)?;
        let command = SlotCommand::Producer {
            terms: self.known.terms,
            wish,
            // JavaScript cannot represent a greater number exactly.
            fresh: fastrand::i64(1..1 << 53),
        };
        match self.hubs.tell(&self.known, partition, command).await? {
            SlotReply::Producer(state) => Ok(state),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// The only partition that this sender publishes to, if any.
    pub fn partition(&self) -> Option<u32> {
        self.partition
    }
}

fn needs_partition() -> Error {
    let words = "an idempotent producer publishes to one partition; name it";
    Error::new(Kind::BadPublication, words)
}
