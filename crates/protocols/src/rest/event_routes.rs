//! All routes of event hubs and blobs.

use std::sync::Arc;

use super::blobs;
use super::eventhubs::{self, Hubs};
use super::events;
use super::groups;
use super::hub_changes;
use super::interface::Interface;

/// Adds the routes below `/v1/eventhubs` and `/v1/blobs`.
pub fn event_routes(interface: Interface, hubs: &Arc<Hubs>) -> Interface {
    let interface = eventhubs::routes(interface, hubs);
    let interface = events::routes(interface, hubs);
    let interface = groups::routes(interface, hubs);
    let interface = hub_changes::routes(interface, hubs);
    blobs::routes(interface, hubs)
}
