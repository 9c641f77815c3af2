//! Publishing in the commit of another service.

use steadfast_partition::{Envelope, Message};

use crate::batch::Batch;
use crate::catalog::{CatalogCommand, Letter};
use crate::error::Result;
use crate::place;

/// The message that publishes a batch. A service that sends it in a turn publishes
/// exactly once, asynchronously: all events or none. The event hub is resolved when
/// the message arrives; if it does not exist, the message becomes a poison message.
pub fn letter(hub: &str, partition: Option<u32>, batch: Batch) -> Result<Envelope> {
    let key = batch.key().map(str::to_owned);
    let (blob, count) = batch.finish()?;
    let command = CatalogCommand::Publish(Letter {
        hub: hub.to_owned(),
        partition,
        key,
        count,
        blob,
    });
    Ok(Envelope::new(place::catalog(), Message::encode(&command)))
}
