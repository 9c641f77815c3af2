//! The routes that list and delete containers and blobs.
//!
//! A container is named `account/container`, with the slash encoded in a path. Accounts
//! are not event hubs, so the rights are required for all event hubs.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::iso::format_time;
use steadfast_core::limits::BLOB_PAGE;
use steadfast_events::{Blob, BlobPairs, Blobs, Conditions, Error, ErrorKind};
use steadfast_net::access::Right;
use steadfast_net::http::Problem;
use steadfast_wire::blob::name::is_container_name;

use super::eventhubs::{EventHubContext, on, operation};
use super::events::queried;
use super::interface::{Interface, LOOK, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    #[serde(default)]
    prefix: String,
    /// `next` of the previous page.
    #[serde(default)]
    from: String,
    limit: Option<usize>,
}

/// Names one blob, or a prefix of several.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteRequest {
    name: Option<String>,
    prefix: Option<String>,
}

const ALL: &str = "/v1/blobs";
const ONE: &str = "/v1/blobs/{container}";
const DELETE: &str = "/v1/blobs/{container}/delete";

/// Adds the routes of containers and blobs.
pub(super) fn routes(interface: Interface, hubs: &Arc<EventHubContext>) -> Interface {
    let (get, post, put, gone) = (&Method::GET, &Method::POST, &Method::PUT, &Method::DELETE);
    let manage: &[Right] = &[Right::Manage];
    let which = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "prefix": {"type": "string"},
    }});
    let containers = operation(
        get,
        ALL,
        "Containers of blobs and what they take, and what all accounts take",
        LOOK,
        (200, "The containers, and the accounts with their limit"),
        None,
    );
    let blobs = operation(
        get,
        ONE,
        "Blobs of a container, page by page",
        LOOK,
        (200, "The blobs, and where the next page begins"),
        None,
    );
    let create = operation(
        put,
        ONE,
        "Create a container, unless it exists",
        manage,
        (204, "The container exists"),
        None,
    );
    let remove = operation(
        gone,
        ONE,
        "Delete a container with all its blobs",
        manage,
        (204, "Deleted"),
        None,
    );
    let remove_blobs = operation(
        post,
        DELETE,
        "Delete a blob, or up to 1,000 blobs with a prefix",
        manage,
        (200, "How many were deleted, and whether there are more"),
        Some(which),
    );
    interface
        .with_whole(containers, on(get, list_containers, hubs))
        .with_whole(blobs, on(get, list, hubs))
        .with_whole(create, on(put, create_container, hubs))
        .with_whole(remove, on(gone, delete_container, hubs))
        .with_whole(remove_blobs, on(post, delete, hubs))
}

async fn list_containers(State(own): State<Arc<EventHubContext>>) -> Result<Json<Value>, Problem> {
    let found = own.blobs.list_containers().await?;
    let mut containers = Vec::with_capacity(found.len());
    for (name, container) in &found {
        let usage = own.blobs.container_usage(name, container).await?;
        containers.push(json!({
            "name": name,
            "bytes": usage.bytes,
            "blobs": usage.blobs,
            "modified": format_time(container.modified),
        }));
    }
    let accounts = own.blobs.accounts().await?;
    let accounts = accounts.into_iter().map(|account| {
        json!({
            "account": account.account,
            "bytes": account.bytes,
            "blobs": account.blobs,
            "limit": account.limit,
        })
    });
    let accounts: Vec<_> = accounts.collect();
    Ok(Json(
        json!({"containers": containers, "accounts": accounts}),
    ))
}

async fn list(
    State(own): State<Arc<EventHubContext>>,
    Path(container): Path<String>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let query = queried(query)?;
    let limit = query.limit.unwrap_or(BLOB_PAGE).clamp(1, BLOB_PAGE);
    let (prefix, from) = (&query.prefix, &query.from);
    let page = own.blobs.list(&container, prefix, from, limit).await?;
    let shown: Vec<_> = page.blobs.iter().map(facts).collect();
    Ok(Json(json!({"blobs": shown, "next": page.next})))
}

fn facts(blob: &Blob) -> Value {
    json!({
        "name": blob.name,
        "bytes": blob.length,
        "content_type": blob.content_type,
        "created": format_time(blob.created),
        "modified": format_time(blob.modified),
    })
}

async fn create_container(
    State(own): State<Arc<EventHubContext>>,
    Path(container): Path<String>,
) -> Result<StatusCode, Problem> {
    let is_name = match container.split_once('/') {
        Some((account, name)) => is_account(account) && is_container_name(name),
        None => false,
    };
    if !is_name {
        return Err(Problem::bad_request(
            "a container is named account/container; the account has 1 to 64 letters, digits \
             and hyphens, the container 3 to 63 letters in lower case, digits and hyphens",
        ));
    }
    match own
        .blobs
        .create_container(&container, BlobPairs::default())
        .await
    {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.kind() == ErrorKind::ContainerExists => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}

fn is_account(name: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '-';
    (1..=64).contains(&name.len()) && name.chars().all(is_part)
}

async fn delete_container(
    State(own): State<Arc<EventHubContext>>,
    Path(container): Path<String>,
) -> Result<StatusCode, Problem> {
    own.blobs.delete_container(&container).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete(
    State(own): State<Arc<EventHubContext>>,
    Path(container): Path<String>,
    body: Result<Json<DeleteRequest>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let request = read(body)?;
    let blobs = own.blobs.clone();
    match (request.name, request.prefix) {
        (Some(name), None) => {
            let none = Conditions::default();
            blobs.delete(&container, &name, none).await?;
            Ok(Json(json!({"deleted": 1, "has_more": false})))
        }
        (None, Some(prefix)) if !prefix.is_empty() => {
            let (count, has_more) = delete_page(&blobs, &container, &prefix).await?;
            Ok(Json(json!({"deleted": count, "has_more": has_more})))
        }
        _ => Err(Problem::bad_request(
            "name one blob by 'name', or several by a 'prefix' that is not empty",
        )),
    }
}

/// Deletes the first blobs with a prefix. Returns how many, and whether there are more.
async fn delete_page(blobs: &Blobs, container: &str, prefix: &str) -> Result<(u64, bool), Error> {
    let page = blobs.list(container, prefix, "", BLOB_PAGE).await?;
    let mut count = 0;
    for blob in &page.blobs {
        let none = Conditions::default();
        match blobs.delete(container, &blob.name, none).await {
            Ok(()) => count += 1,
            // Another client deleted it concurrently.
            Err(error) if error.kind() == ErrorKind::BlobNotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((count, page.next.is_some()))
}
