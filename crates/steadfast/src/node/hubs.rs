//! SignalR hubs that a node hosts.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_realtime::{Hub, HubOptions, Realtime, Result as HubsResult};

use super::error::Result;

/// Hosts one hub, when the node starts.
type HubStarter = Box<dyn FnOnce(&Realtime) -> HubsResult<()> + Send>;

/// The hubs of a node, before it starts.
#[derive(Default)]
pub(super) struct HubRegistrations {
    hostings: Vec<HubStarter>,
    /// Paths and their hubs.
    paths: Vec<(String, String)>,
}

/// The hubs of a node.
pub(super) struct RealtimeHubs {
    pub(super) realtime: Realtime,
    paths: Vec<(String, String)>,
}

impl RealtimeHubs {
    /// Paths and their hubs.
    pub(super) fn paths(&self) -> &[(String, String)] {
        &self.paths
    }
}

impl HubRegistrations {
    /// Adds a hub; its name is the last part of its path.
    pub(super) fn add<H: Hub>(&mut self, path: &str, hub: H, options: HubOptions) {
        let path = format!("/{}", path.trim_matches('/'));
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        self.paths.push((path, name.clone()));
        self.hostings.push(Box::new(move |realtime| {
            realtime.host(&name, hub, options).map(drop)
        }));
    }

    /// Hosts them all.
    pub(super) fn open(self, server: &str, clock: &Arc<dyn Clock>) -> Result<RealtimeHubs> {
        let realtime = Realtime::with_clock(server, Arc::clone(clock));
        for hosting in self.hostings {
            hosting(&realtime)?;
        }
        Ok(RealtimeHubs {
            realtime,
            paths: self.paths,
        })
    }
}
