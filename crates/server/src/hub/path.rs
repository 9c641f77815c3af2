//! Paths of hubs in the REST interface.

use anyhow::Result;

use crate::server_client::segment;

/// The path of a hub.
pub(crate) fn hub_path(hub: &str) -> Result<String> {
    Ok(format!("/v1/hubs/{}", segment(hub)?))
}
