//! Publishes to an event hub.
//!
//! Publications of one sender to one partition are appended in the order of
//! submission; the acknowledgement comes when the publication is durable.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::task::name_task;
use steadfast_partition::{PendingResponse, Result as PartitionResult};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::batch::EventDataBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::partition_of;
use crate::hub_partition_command::{
    HubPartitionCommand, HubPartitionResponse, PublishCommand, PublishReceipt,
};
use crate::hubs::{CachedHub, EventHubs};
use crate::keys;
use crate::producer::{ProducerOptions, ProducerSequence, ProducerState};

/// Publishes to one event hub, or to one of its partitions.
#[derive(Clone)]
pub struct EventSender {
    hubs: EventHubs,
    known: Arc<CachedHub>,
    partition: Option<u32>,
    /// Publications to other nodes, sequential per partition.
    lanes: Arc<PreviousSends>,
}

/// By partition: resolves when the previous publication is answered.
type PreviousSends = Mutex<HashMap<u32, oneshot::Receiver<()>>>;

/// A publication that is in its partition's queue.
pub struct PendingPublication {
    hubs: EventHubs,
    known: Arc<CachedHub>,
    answer: PublicationResponse,
    bytes: usize,
}

enum PublicationResponse {
    Local(PendingResponse<HubPartitionResponse>),
    Remote(JoinHandle<PartitionResult<HubPartitionResponse>>),
}

impl PendingPublication {
    /// Waits until the publication is durable.
    pub async fn published(self) -> Result<PublishReceipt> {
        let answer = match self.answer {
            PublicationResponse::Local(pending) => pending.answer().await,
            PublicationResponse::Remote(call) => match call.await {
                Ok(answer) => answer,
                Err(_) => return Err(Error::damaged("a reply")),
            },
        };
        match answer.map_err(|error| self.hubs.forget_if_stale(&self.known, error.into()))? {
            HubPartitionResponse::Published(published) => {
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
    pub async fn sender(&self, name: &str, partition: Option<u32>) -> Result<EventSender> {
        let known = self.known(name).await?;
        if let Some(partition) = partition {
            known.check(partition)?;
        }
        Ok(EventSender::new(self.clone(), known, partition))
    }
}

impl EventSender {
    pub(crate) fn new(hubs: EventHubs, known: Arc<CachedHub>, partition: Option<u32>) -> Self {
        Self {
            hubs,
            known,
            partition,
            lanes: Arc::default(),
        }
    }

    /// Publishes and waits until it is durable: all events or none.
    pub async fn send(&self, batch: EventDataBatch) -> Result<PublishReceipt> {
        self.submit(batch).await?.published().await
    }

    /// Queues a publication for its partition, in order of submission. Waits only for
    /// space in the mailbox.
    pub async fn submit(&self, batch: EventDataBatch) -> Result<PendingPublication> {
        self.submit_as(None, batch).await
    }

    /// As [`EventSender::submit`], numbered by an idempotent producer. For a sender to
    /// one partition only.
    pub async fn submit_as(
        &self,
        stamp: Option<ProducerSequence>,
        batch: EventDataBatch,
    ) -> Result<PendingPublication> {
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
        let command = HubPartitionCommand::Publish(PublishCommand {
            terms: self.known.terms,
            count,
            blob,
            stamp,
        });
        let to = keys::hub_partition_address(&self.known.name, partition);
        let place = self.hubs.hosting_partition(&self.known, partition);
        let answer = match self.hubs.inner.router.mailbox(place) {
            Some(door) => PublicationResponse::Local(door.begin(to, command).await?),
            None => {
                let slots = self.hubs.inner.slots.clone();
                let (done, after) = oneshot::channel();
                let before = self.lanes.lock().insert(partition, after);
                // It continues if the caller drops it, like a local publication.
                let call = tokio::spawn(name_task(async move {
                    if let Some(before) = before {
                        // It has ended, with success or not.
                        let _ = before.await;
                    }
                    let answer = slots.call_in(place, to, command).await;
                    drop(done);
                    answer
                }));
                PublicationResponse::Remote(call)
            }
        };
        Ok(PendingPublication {
            hubs: self.hubs.clone(),
            known: Arc::clone(&self.known),
            answer,
            bytes,
        })
    }

    /// Opens a new idempotent producer, continues one at its epoch, or takes one over
    /// with a higher epoch. For a sender to one partition only.
    pub async fn producer(&self, wish: ProducerOptions) -> Result<ProducerState> {
        let partition = self.partition.ok_or_else(needs_partition)?;
        let command = HubPartitionCommand::Producer {
            terms: self.known.terms,
            wish,
            // JavaScript cannot represent a greater number exactly.
            fresh: fastrand::i64(1..1 << 53),
        };
        match self
            .hubs
            .send_command(&self.known, partition, command)
            .await?
        {
            HubPartitionResponse::Producer(state) => Ok(state),
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
    Error::new(ErrorKind::BadPublication, words)
}
