//! Publishing in the commit of another service.

use bytes::Bytes;
use steadfast_collections::{Error as StateError, OutgoingMessage, Result as Staged};
use steadfast_partition::{Envelope, Message};

use crate::batch::EventDataBatch;
use crate::catalog::{CatalogCommand, PublishMessage};
use crate::error::{Error, Result};
use crate::hubs::EventHubs;
use crate::keys;

/// Events to publish with a commit, made by [`publish`]: all or none of them, in one
/// partition of the event hub.
#[derive(Clone, Debug)]
#[must_use = "a message is sent by a transaction"]
pub struct EventMessage {
    hub: String,
    partition: Option<u32>,
    key: Option<String>,
    events: Vec<Bytes>,
}

/// A message that publishes to an event hub: `tx.send(publish("telemetry").body("21"))`.
/// The events are published after the commit, exactly once, and those of one transaction
/// after those of earlier ones from the same partition.
///
/// The commit is refused if the event hub does not exist (STF-5001).
///
/// ```
/// # use steadfast_collections::{Replica, Result};
/// # async fn case(houses: &Replica) -> Result<()> {
/// let sent = houses.transact(async |mut tx| {
///     tx.send(steadfast_events::publish("telemetry").key("house 7").body("21"))?;
///     tx.commit(()).await
/// });
/// sent.await
/// # }
/// ```
pub fn publish(hub: impl Into<String>) -> EventMessage {
    EventMessage {
        hub: hub.into(),
        partition: None,
        key: None,
        events: Vec::new(),
    }
}

impl EventMessage {
    /// Adds an event.
    pub fn body(mut self, event: impl Into<Bytes>) -> Self {
        self.events.push(event.into());
        self
    }

    /// The key that decides the partition. Without one, partitions take turns.
    pub fn key(self, key: impl Into<String>) -> Self {
        let key = Some(key.into());
        Self { key, ..self }
    }

    /// The partition.
    pub fn partition(self, partition: u32) -> Self {
        let partition = Some(partition);
        Self { partition, ..self }
    }

    fn envelope(self) -> Result<Envelope> {
        let mut batch = match self.key {
            Some(key) => EventDataBatch::keyed(key)?,
            None => EventDataBatch::new(),
        };
        for event in &self.events {
            batch.push(event)?;
        }
        publish_message(&self.hub, self.partition, batch)
    }
}

impl OutgoingMessage for EventMessage {
    fn into_bytes(self) -> Staged<Bytes> {
        let envelope = self.envelope();
        let envelope =
            envelope.map_err(|error| StateError::rejected(error.code(), error.message()))?;
        Ok(envelope.encode())
    }
}

/// The message that publishes a batch. A service that sends it in a turn publishes
/// exactly once, asynchronously: all events or none. The event hub is resolved when
/// the message arrives; if it does not exist, the message becomes a poison message.
pub fn publish_message(
    hub: &str,
    partition: Option<u32>,
    batch: EventDataBatch,
) -> Result<Envelope> {
    let key = batch.key().map(str::to_owned);
    let (blob, count) = batch.finish()?;
    let command = CatalogCommand::Publish(PublishMessage {
        hub: hub.to_owned(),
        partition,
        key,
        count,
        blob,
    });
    Ok(Envelope::new(keys::catalog(), Message::encode(&command)))
}

impl EventHubs {
    /// Checks a message to the catalog before the commit that sends it: whether it
    /// publishes to an event hub and a partition that exist.
    pub async fn check_message(&self, message: &Envelope) -> Result<()> {
        let command = CatalogCommand::decode(&message.body);
        let command = command.map_err(|_| Error::damaged("a message to the catalog"))?;
        let CatalogCommand::Publish(publication) = command else {
            return Ok(());
        };
        let hub = self.fresh(&publication.hub).await?;
        match publication.partition {
            Some(partition) if partition >= hub.partitions => {
                Err(Error::partition(&hub.name, hub.partitions))
            }
            _ => Ok(()),
        }
    }
}
