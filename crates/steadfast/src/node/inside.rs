//! What jobs can reach inside the node.
//!
//! A target names its kind by one member: `eventHub` today. Other services add
//! theirs here, as a line of the table.

use async_trait::async_trait;
use serde_json::Value;
use steadfast_events::{EventHubs, Kind};
use steadfast_jobs::{JobId, Target};
use steadfast_protocols::scheduler::{Internal, publication};

/// The services of a node that a job can send messages to.
pub(super) struct Inside {
    pub(super) hubs: EventHubs,
}

#[async_trait]
impl Internal for Inside {
    async fn resolve(&self, job: &JobId, target: &Value) -> Result<Target, String> {
        match target.get("eventHub") {
            Some(_) => self.event_hub(job, target).await,
            None => Err("a target inside the server names an 'eventHub'".to_owned()),
        }
    }
}

impl Inside {
    /// Publishes an event. Whether the event hub is there is asked now, so that a
    /// wrong name is not found out at night.
    async fn event_hub(&self, job: &JobId, target: &Value) -> Result<Target, String> {
        let (name, message) = publication(job, target)?;
        let hub = self.hubs.get(&name).await;
        let hub = hub.map_err(|error| match error.kind() {
            Kind::HubNotFound => format!("there is no event hub '{name}'; create it first"),
            _ => error.to_string(),
        })?;
        match target["partition"].as_u64() {
            Some(partition) if partition >= u64::from(hub.partitions) => Err(format!(
                "'{name}' has partitions 0 to {}, not {partition}",
                hub.partitions - 1
            )),
            _ => Ok(message),
        }
    }
}
