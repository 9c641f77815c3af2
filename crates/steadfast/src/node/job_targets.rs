//! Job targets inside the node.
//!
//! A target names its kind by one member: `eventHub`, `entity` or `orchestration`.
//! The message is part of the commit that claims an occurrence, so it arrives
//! exactly once.

use async_trait::async_trait;
use serde_json::{Map, Value};
use steadfast_durable::{EntityOperation, Task, signal_message, start_message};
use steadfast_events::{ErrorKind, EventHubs};
use steadfast_jobs::{JobId, Target};
use steadfast_partition::Envelope;
use steadfast_scheduler::{InternalTargets, OCCURRENCE_BYTES, publication};
use uuid::Uuid;

/// The services of a node that a job can send messages to.
pub(super) struct NodeJobTargets {
    pub(super) hubs: EventHubs,
}

#[async_trait]
impl InternalTargets for NodeJobTargets {
    async fn resolve(&self, job: &JobId, target: &Value) -> Result<Target, String> {
        let map = target.as_object().ok_or("an object is expected")?;
        if map.contains_key("eventHub") {
            return self.event_hub(job, target).await;
        }
        if map.contains_key("entity") {
            return entity(map);
        }
        if map.contains_key("orchestration") {
            return orchestration(map);
        }
        let kinds = "an 'eventHub', an 'entity' or an 'orchestration'";
        Err(format!("a target inside the server names {kinds}"))
    }
}

impl NodeJobTargets {
    /// Publishes an event. The event hub is looked up when the job is created, so that a
    /// wrong name is reported to its author.
    async fn event_hub(&self, job: &JobId, target: &Value) -> Result<Target, String> {
        let (name, message) = publication(job, target)?;
        let hub = self.hubs.get(&name).await;
        let hub = hub.map_err(|error| match error.kind() {
            ErrorKind::HubNotFound => format!("there is no event hub '{name}'; create it first"),
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

/// Signals an entity.
fn entity(map: &Map<String, Value>) -> Result<Target, String> {
    known(map, &["entity", "operation", "input", "taskHub"])?;
    let operation = EntityOperation {
        target: text(map, "entity")?.unwrap_or_default().to_owned(),
        name: text(map, "operation")?.unwrap_or_default().to_owned(),
        input: map.get("input").map(Value::to_string),
        ..EntityOperation::default()
    };
    let letter = signal_message(hub(map)?, operation);
    let letter = letter.map_err(|error| error.message().to_owned())?;
    Ok(sent(&letter, None))
}

/// Starts an orchestration, unless the one of the previous occurrence still runs.
fn orchestration(map: &Map<String, Value>) -> Result<Target, String> {
    known(
        map,
        &["orchestration", "instanceId", "input", "taskHub", "version"],
    )?;
    let task = Task {
        name: text(map, "orchestration")?.unwrap_or_default().to_owned(),
        version: text(map, "version")?.map(str::to_owned),
        input: map.get("input").map(Value::to_string),
        ..Task::default()
    };
    let instance = text(map, "instanceId")?.ok_or("'instanceId' is required")?;
    // Each occurrence is a separate execution: its time replaces this mark.
    let mark = Uuid::new_v4().simple().to_string()[..OCCURRENCE_BYTES].to_owned();
    let letter = start_message(hub(map)?, instance, &mark, task);
    let letter = letter.map_err(|error| error.message().to_owned())?;
    Ok(sent(&letter, Some(&mark)))
}

fn hub(map: &Map<String, Value>) -> Result<&str, String> {
    Ok(text(map, "taskHub")?.unwrap_or("default"))
}

fn known(map: &Map<String, Value>, members: &[&str]) -> Result<(), String> {
    match map.keys().find(|name| !members.contains(&name.as_str())) {
        Some(other) => Err(format!(
            "'{other}' is not known here: {}",
            members.join(", ")
        )),
        None => Ok(()),
    }
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("'{name}' is a text")),
    }
}

/// A message in the form that a job stores; the time of an occurrence replaces `mark`.
fn sent(letter: &Envelope, mark: Option<&str>) -> Target {
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let body = letter.body.to_vec();
    let place = mark.and_then(|mark| {
        let mut parts = body.windows(mark.len());
        parts.position(|part| part == mark.as_bytes())
    });
    Target::Inside {
        kind: letter.to.kind.0,
        name: words(&letter.to.name),
        key: words(&letter.to.key),
        times: place.map(|place| place as u32).into_iter().collect(),
        body,
    }
}
