//! Imports jobs that were exported from Azure Scheduler.
//!
//! The body is one job, a list of jobs, a response with `value`, or a template with
//! `resources`. Each job is put separately, so a job that fails does not stop the others;
//! the response reports the outcome of each. Secrets are never exported, so a job that
//! needs one fails with an error that names it.

use serde_json::{Value, json};
use steadfast_jobs::CollectionId;

use super::error::SchedulerError;
use super::request::{SchedulerRequest, UpdateMode};
use super::response::SchedulerResponse;

impl SchedulerRequest<'_> {
    pub(crate) async fn import(
        &self,
        id: &CollectionId,
    ) -> Result<SchedulerResponse, SchedulerError> {
        self.jobs.collection(id).await?;
        let body = self.json()?;
        let mut told = Vec::new();
        for exported in exported(&body) {
            let Some(name) = name(exported) else {
                continue;
            };
            let result = match id.job(&name) {
                Some(job) => self.keep(&job, &cleaned(exported), UpdateMode::Put).await,
                None => Err(SchedulerError::member("name", "it is not a name of a job")),
            };
            told.push(match result {
                Ok((_, true)) => json!({"name": name, "result": "created"}),
                Ok((_, false)) => json!({"name": name, "result": "replaced"}),
                Err(fault) => json!({
                    "name": name,
                    "result": "refused",
                    "message": fault.message,
                    "target": fault.target,
                }),
            });
        }
        if told.is_empty() {
            Err(SchedulerError::bad("the body holds no exported job"))
        } else {
            Ok(SchedulerResponse::Shown(json!({"value": told})))
        }
    }
}

/// All values of a body that may be jobs.
fn exported(body: &Value) -> Vec<&Value> {
    let lists = [body, &body["value"], &body["resources"]];
    match lists.iter().find_map(|list| list.as_array()) {
        Some(list) => list.iter().collect(),
        None => vec![body],
    }
}

/// The name of an exported job; `None` for other values.
fn name(exported: &Value) -> Option<String> {
    let kind = exported["type"].as_str().unwrap_or("jobs").to_lowercase();
    if !kind.ends_with("jobs") {
        return None;
    }
    let name = exported["name"].as_str()?;
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    (!name.is_empty()).then(|| name.to_string())
}

/// A job without the members that Azure Scheduler computes. One that has ended there is
/// imported disabled: it must not run unexpectedly.
fn cleaned(exported: &Value) -> Value {
    let mut properties = exported["properties"].clone();
    if let Some(map) = properties.as_object_mut() {
        map.remove("status");
        let state = map.get("state").and_then(Value::as_str).unwrap_or_default();
        if ["completed", "faulted"].contains(&state.to_lowercase().as_str()) {
            map.insert("state".into(), "Disabled".into());
        }
    }
    json!({"properties": properties})
}
