//! Collections that a configuration declares.

use serde_json::json;
use steadfast_jobs::{CollectionId, ErrorKind, Expect};

use super::collection;
use super::context::Context;

/// Makes a collection unless it is there already; what is there stays as it is.
pub async fn declare(
    context: &Context,
    subscription: &str,
    group: &str,
    name: &str,
    most_jobs: Option<u32>,
) -> Result<(), String> {
    let Some(id) = CollectionId::new(subscription, group, name) else {
        return Err(format!("'{subscription}/{group}/{name}' is not a name"));
    };
    match context.jobs.collection(&id).await {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NoCollection => {}
        Err(error) => return Err(error.to_string()),
    }
    let mut body = json!({"properties": {}});
    if let Some(most_jobs) = most_jobs {
        body["properties"]["quota"] = json!({"maxJobCount": most_jobs});
    }
    let draft = collection::draft(context, &id, &body);
    let draft = draft.map_err(|fault| fault.message)?;
    let made = context.jobs.put_collection(draft, Expect::Nothing).await;
    made.map(drop).map_err(|error| error.to_string())
}
