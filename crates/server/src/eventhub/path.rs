//! Paths of event hubs and groups in the REST interface.

use anyhow::Result;

use crate::server_client::segment;

/// The path of an event hub.
pub(crate) fn hub_path(name: &str) -> Result<String> {
    Ok(format!("/v1/eventhubs/{}", segment(name)?))
}

/// The path of a group.
pub(crate) fn group_path(hub: &str, group: &str) -> Result<String> {
    Ok(format!("{}/groups/{}", hub_path(hub)?, segment(group)?))
}
