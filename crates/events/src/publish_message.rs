//! Publishing in the commit of another service.

use steadfast_partition::{Envelope, Message};

use crate::batch::EventDataBatch;
use crate::catalog::{CatalogCommand, PublishMessage};
use crate::error::Result;
use crate::keys;

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
