//! Containers: create, read, delete.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use steadfast_wire::blob::name::is_container_name;

use super::context::Context;
use super::error::BlobError;
use super::property;
use super::request::BlobRequest;

pub(super) async fn create(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let name = ask.place.container.as_deref().unwrap_or("");
    if !is_container_name(name) {
        let words = "a container's name has 3 to 63 letters in lower case, digits and hyphens";
        return Err(BlobError::bad("InvalidResourceName", words));
    }
    let metadata = property::metadata(ask)?;
    let container = ask.container();
    let made = context.blobs.create_container(&container, metadata).await?;
    let answer = Response::builder().status(StatusCode::CREATED);
    let answer = property::version(answer, made.version, made.modified);
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

pub(super) async fn show(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let found = context.blobs.container(&ask.container()).await?;
    let mut answer = property::version(Response::builder(), found.version, found.modified)
        .header("x-ms-lease-status", "unlocked")
        .header("x-ms-lease-state", "available")
        .header("x-ms-has-immutability-policy", "false")
        .header("x-ms-has-legal-hold", "false");
    for (name, value) in &found.metadata {
        answer = answer.header(format!("x-ms-meta-{name}"), value.as_bytes());
    }
    Ok(answer.body(Body::empty()).expect("they came as headers"))
}

pub(super) async fn remove(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    context.blobs.delete_container(&ask.container()).await?;
    let answer = Response::builder().status(StatusCode::ACCEPTED);
    Ok(answer.body(Body::empty()).expect("no header"))
}
