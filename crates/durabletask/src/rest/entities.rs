//! The routes of entities.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use steadfast_core::limits;
use steadfast_durable::{Diagnosis, EntityListQuery, EntityOperation};
use uuid::Uuid;

use super::error::DurableHttpError;
use super::json_views;
use super::request::DurableHttpRequest;
use super::response::page;

type Outcome = Result<Response, DurableHttpError>;

fn id(name: &str, key: &str) -> String {
    format!("@{name}@{key}")
}

/// The operation of a request to an entity.
fn operation(
    asked: &DurableHttpRequest,
    name: &str,
    key: &str,
) -> Result<EntityOperation, DurableHttpError> {
    let input = if asked.is_json() {
        asked.json()?
    } else {
        text(&asked.body)?
    };
    Ok(EntityOperation {
        request: request(asked)?,
        name: asked.get("op").unwrap_or_default().to_owned(),
        input,
        scheduled: asked.time("scheduledTime")?,
        target: id(name, key),
        ..EntityOperation::default()
    })
}

/// A body that is not JSON is a text.
fn text(body: &[u8]) -> Result<Option<String>, DurableHttpError> {
    let text = str::from_utf8(body).map_err(|_| DurableHttpError::bad("the body is not UTF-8"))?;
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    Ok(match text {
        "" => None,
        text if is_json => Some(text.to_owned()),
        text => Some(Value::String(text.to_owned()).to_string()),
    })
}

/// The id that deduplicates a repeated request, from `Idempotency-Key`.
fn request(asked: &DurableHttpRequest) -> Result<String, DurableHttpError> {
    let Some(key) = asked.headers.get("idempotency-key") else {
        return Ok(String::new());
    };
    let key = key.to_str().ok().and_then(|key| Uuid::parse_str(key).ok());
    let key = key.ok_or_else(|| DurableHttpError::bad("an Idempotency-Key must be a GUID"))?;
    Ok(key.to_string())
}

pub(super) async fn signal(asked: &DurableHttpRequest, name: &str, key: &str) -> Outcome {
    asked.hub.signal(operation(asked, name, key)?).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(super) async fn delete(asked: &DurableHttpRequest, name: &str, key: &str) -> Outcome {
    let signal = EntityOperation {
        name: "delete".to_owned(),
        ..operation(asked, name, key)?
    };
    asked.hub.signal(signal).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(super) async fn call(asked: &DurableHttpRequest, name: &str, key: &str) -> Outcome {
    let patience = asked.patience()?.unwrap_or(limits::REST_WAIT);
    let call = asked.hub.call(operation(asked, name, key)?);
    match tokio::time::timeout(patience, call).await {
        Ok(Ok(Ok(result))) => Ok(Json(json_views::payload(result.as_deref())).into_response()),
        Ok(Ok(Err(failure))) => Err(DurableHttpError::failed(failure)),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(DurableHttpError::late(missing_worker(asked, name, key))),
    }
}

/// Which worker is missing, if one is.
fn missing_worker(asked: &DurableHttpRequest, name: &str, key: &str) -> Option<String> {
    let hub = asked.hub.name();
    match asked.hub.missing_worker(&id(name, key), name)? {
        Diagnosis::NoWorker { name, has_workers } => {
            Some(json_views::no_worker(hub, &name, has_workers))
        }
        _ => None,
    }
}

pub(super) async fn show(asked: &DurableHttpRequest, name: &str, key: &str) -> Outcome {
    let id = id(name, key);
    let found = asked.hub.entity(&id, true).await?;
    match found.filter(|view| view.exists) {
        Some(view) => Ok(Json(json_views::payload(view.state.as_deref())).into_response()),
        None => Err(DurableHttpError::missing(format!(
            "there is no entity '{id}'"
        ))),
    }
}

pub(super) async fn locks(asked: &DurableHttpRequest) -> Outcome {
    let locks = asked.hub.locks().await?;
    let shown: Vec<_> = locks.iter().map(json_views::lock).collect();
    Ok(Json(Value::Array(shown)).into_response())
}

/// Releases a lock by force. The caller names the critical section, so that it cannot
/// release a lock that was acquired since it looked.
pub(super) async fn release(asked: &DurableHttpRequest, name: &str, key: &str) -> Outcome {
    let section = asked.get("section").filter(|section| !section.is_empty());
    let section =
        section.ok_or_else(|| DurableHttpError::bad("'section' is needed: see /locks"))?;
    let id = id(name, key);
    if asked.hub.break_lock(&id, section).await? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        let message = format!("'{id}' is not locked for the critical section '{section}'");
        Err(DurableHttpError::missing(message))
    }
}

pub(super) async fn list(asked: &DurableHttpRequest, name: Option<&str>) -> Outcome {
    let has_state = asked.flag("fetchState", false)?;
    let query = EntityListQuery {
        prefix: name
            .map(|name| format!("@{}@", name.to_lowercase()))
            .unwrap_or_default(),
        from: asked.time("lastOperationTimeFrom")?,
        to: asked.time("lastOperationTimeTo")?,
        has_state,
        is_transient_wanted: asked.flag("includeTransient", false)?,
        limit: asked.top()?,
        cursor: asked.cursor(),
    };
    let found = asked.hub.entities(&query).await?;
    let shown = found
        .items
        .iter()
        .map(|view| json_views::entity(view, has_state));
    Ok(page(shown.collect(), found.next))
}
