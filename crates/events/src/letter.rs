//! A publication as a message of somebody else's commit.

use steadfast_partition::{Envelope, Message};

use crate::batch::Batch;
use crate::catalog::{CatalogCommand, Letter};
use crate::error::Result;
use crate::place;

/// The message that publishes a batch. A service that sends it in a turn publishes
/// exactly once, a little later: all events or none. The event hub is looked up when
/// the message arrives; if it is not there then, the message is kept aside as poison.
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
