//! Job collections that a configuration declares.

use axum::body::to_bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use steadfast_jobs::{CollectionId, ErrorKind, JobClient, Precondition};

use super::collection;
use super::context::{Context, JobPlacement};
use super::forwarding::ForwardedRequest;
use super::home::HomePair;
use super::{pair, path};

/// A declared collection.
#[derive(Clone, Copy, Debug)]
pub struct CollectionDeclaration<'a> {
    pub subscription: &'a str,
    pub group: &'a str,
    pub name: &'a str,
    pub most_jobs: Option<u32>,
    /// In a region pair, its home; by default this server's region.
    pub location: Option<&'a str>,
}

/// Creates a collection unless it exists; an existing one stays unchanged.
pub async fn declare(context: &Context, declared: CollectionDeclaration<'_>) -> Result<(), String> {
    let CollectionDeclaration {
        subscription,
        group,
        name,
        most_jobs,
        location,
    } = declared;
    let Some(id) = CollectionId::new(subscription, group, name) else {
        return Err(format!("'{subscription}/{group}/{name}' is not a name"));
    };
    let mut body = json!({"properties": {}});
    if let Some(most_jobs) = most_jobs {
        body["properties"]["quota"] = json!({"maxJobCount": most_jobs});
    }
    if let Some(location) = location {
        body["location"] = location.into();
    }
    match &context.keeping {
        JobPlacement::Alone(jobs) => declare_in(context, jobs, &id, &body).await,
        JobPlacement::Pair(both) => declare_between(context, both, &id, &body).await,
    }
}

async fn declare_in(
    context: &Context,
    jobs: &JobClient,
    id: &CollectionId,
    body: &Value,
) -> Result<(), String> {
    match jobs.collection(id).await {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NoCollection => {}
        Err(error) => return Err(error.to_string()),
    }
    let draft = collection::draft(context, None, id, body);
    let draft = draft.map_err(|fault| fault.message)?;
    let made = jobs.put_collection(draft, Precondition::Nothing).await;
    made.map(drop).map_err(|error| error.to_string())
}

/// Declares a collection in a region pair, by the requests of a client.
async fn declare_between(
    context: &Context,
    both: &HomePair,
    id: &CollectionId,
    body: &Value,
) -> Result<(), String> {
    let address = format!("{}?api-version=2016-03-01", path::collection_url(id));
    let mut wanted = ForwardedRequest {
        method: Method::GET,
        uri: Uri::try_from(address).map_err(|error| error.to_string())?,
        headers: HeaderMap::new(),
        base: String::new(),
        body: body.to_string().into(),
        grants: None,
    };
    match pair::answer(context, both, &wanted).await.status() {
        StatusCode::OK => return Ok(()),
        StatusCode::NOT_FOUND => wanted.method = Method::PUT,
        status => return Err(format!("looking for it was answered with {status}")),
    }
    let made = pair::answer(context, both, &wanted).await;
    if made.status().is_success() {
        Ok(())
    } else {
        let why = to_bytes(made.into_body(), usize::MAX).await;
        Err(String::from_utf8_lossy(&why.unwrap_or_default()).into_owned())
    }
}
