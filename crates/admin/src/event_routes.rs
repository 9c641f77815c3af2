//! All routes of event hubs and blobs.

use std::sync::Arc;

use super::blobs;
use super::eventhub_changes;
use super::eventhubs::{self, EventHubContext};
use super::events;
use super::groups;
use super::interface::Interface;

/// Adds the routes below `/v1/eventhubs` and `/v1/blobs`.
pub fn event_routes(interface: Interface, hubs: &Arc<EventHubContext>) -> Interface {
    let interface = eventhubs::routes(interface, hubs);
    let interface = events::routes(interface, hubs);
    let interface = groups::routes(interface, hubs);
    let interface = eventhub_changes::routes(interface, hubs);
    blobs::routes(interface, hubs)
}
