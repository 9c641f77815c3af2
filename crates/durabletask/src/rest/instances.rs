//! The routes of instances.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use steadfast_durable::{
    Diagnosis, InstanceListQuery, InstanceStatus, InstanceView, NewInstance, PurgeQuery, Task,
};

use super::error::DurableHttpError;
use super::json_views;
use super::request::DurableHttpRequest;
use super::resource::Verb;
use super::response::{begun, page, status_link, with};

type Outcome = Result<Response, DurableHttpError>;

pub(super) async fn start(
    asked: &DurableHttpRequest,
    name: String,
    instance: Option<String>,
) -> Outcome {
    let patience = asked.patience()?;
    let new = NewInstance {
        instance: instance.unwrap_or_default(),
        task: Task {
            name,
            input: asked.json()?,
            version: asked.get("version").map(str::to_owned),
            ..Task::default()
        },
        ..NewInstance::default()
    };
    let instance = asked.hub.start(new).await?;
    ended_or_begun(asked, &instance, patience).await
}

/// The result of an instance if it ends in time, or the links to query it.
async fn ended_or_begun(
    asked: &DurableHttpRequest,
    instance: &str,
    patience: Option<Duration>,
) -> Outcome {
    let Some(patience) = patience else {
        return Ok(begun(asked, instance, None));
    };
    let Some(ended) = ended(asked, instance, patience).await? else {
        let name = found(asked, instance, false).await?.name;
        return Ok(begun(
            asked,
            instance,
            missing_worker(asked, instance, &name),
        ));
    };
    let shown = match ended.status {
        InstanceStatus::Completed => json_views::payload(ended.output.as_deref()),
        _ => json_views::status(&ended, true),
    };
    Ok(Json(shown).into_response())
}

/// The result of an instance, if it ends in time and the node does not drain.
async fn ended(
    asked: &DurableHttpRequest,
    instance: &str,
    patience: Duration,
) -> Result<Option<InstanceView>, DurableHttpError> {
    let ended = tokio::time::timeout(patience, asked.hub.ended(instance, true));
    tokio::select! {
        ended = ended => Ok(ended.ok().transpose()?),
        () = asked.context.leaving.cancelled() => Ok(None),
    }
}

/// After a wait that timed out: which worker is missing, if one is.
fn missing_worker(asked: &DurableHttpRequest, instance: &str, name: &str) -> Option<Value> {
    let why = asked.hub.missing_worker(instance, name)?;
    Some(json_views::why(asked.hub.name(), &why))
}

pub(super) async fn show(asked: &DurableHttpRequest, instance: &str) -> Outcome {
    let is_input_shown = asked.flag("showInput", true)?;
    let mut found = found(asked, instance, true).await?;
    let mut why = None;
    if let Some(patience) = asked.patience()? {
        match ended(asked, instance, patience).await? {
            Some(ended) => found = ended,
            None => why = missing_worker(asked, instance, &found.name),
        }
    }
    let mut shown = json_views::status(&found, is_input_shown);
    if let Some(why) = why {
        shown["why"] = why;
    }
    if asked.flag("showHistory", false)? {
        let is_output_shown = asked.flag("showHistoryOutput", false)?;
        let history = asked.hub.history(instance, None).await?;
        let events = history.iter().flat_map(|turn| turn.iter());
        let events = events.map(|event| json_views::event(event, is_output_shown));
        shown["historyEvents"] = events.collect();
    }
    let is_failure_told = asked.flag("returnInternalServerErrorOnFailure", false)?;
    Ok(match found.status {
        InstanceStatus::Failed if is_failure_told => {
            with(StatusCode::INTERNAL_SERVER_ERROR, shown, [])
        }
        ended if ended.is_final() => Json(shown).into_response(),
        _ => {
            let place = status_link(asked, instance);
            let headers = [(LOCATION, place), (RETRY_AFTER, "5".to_owned())];
            with(StatusCode::ACCEPTED, shown, headers)
        }
    })
}

pub(super) async fn why(asked: &DurableHttpRequest, instance: &str) -> Outcome {
    match asked.hub.diagnose(instance).await? {
        Diagnosis::Unknown => Err(DurableHttpError::missing(format!(
            "there is no instance '{instance}'"
        ))),
        why => Ok(Json(json_views::why(asked.hub.name(), &why)).into_response()),
    }
}

async fn found(
    asked: &DurableHttpRequest,
    instance: &str,
    has_payloads: bool,
) -> Result<InstanceView, DurableHttpError> {
    let found = asked.hub.get(instance, has_payloads).await?;
    found.ok_or_else(|| DurableHttpError::missing(format!("there is no instance '{instance}'")))
}

pub(super) async fn list(asked: &DurableHttpRequest) -> Outcome {
    let is_input_shown = asked.flag("showInput", true)?;
    let Some(statuses) = asked.statuses()? else {
        return Ok(page(Vec::new(), None));
    };
    let query = InstanceListQuery {
        statuses,
        from: asked.time("createdTimeFrom")?,
        to: asked.time("createdTimeTo")?,
        prefix: asked.get("instanceIdPrefix").unwrap_or_default().to_owned(),
        limit: asked.top()?,
        cursor: asked.cursor(),
        has_payloads: true,
    };
    let found = asked.hub.query(&query).await?;
    let shown = found.items.iter();
    let shown = shown.map(|overview| json_views::status(overview, is_input_shown));
    Ok(page(shown.collect(), found.next))
}

pub(super) async fn purge(asked: &DurableHttpRequest, instance: &str) -> Outcome {
    let is_recursive = asked.flag("recursive", false)?;
    let count = if instance.starts_with('@') {
        0
    } else {
        asked.hub.purge(instance, is_recursive).await?
    };
    purged(count)
}

pub(super) async fn purge_all(asked: &DurableHttpRequest) -> Outcome {
    let from = asked.time("createdTimeFrom")?;
    let from = from.ok_or_else(|| DurableHttpError::bad("'createdTimeFrom' is needed"))?;
    let Some(statuses) = asked.statuses()? else {
        return purged(0);
    };
    let query = PurgeQuery {
        statuses,
        from: Some(from),
        to: asked.time("createdTimeTo")?,
    };
    purged(asked.hub.purge_all(&query, None, false).await?.count)
}

fn purged(count: u64) -> Outcome {
    match count {
        0 => Err(DurableHttpError::missing(
            "nothing that has ended was there to be purged",
        )),
        count => Ok(Json(json!({"instancesDeleted": count})).into_response()),
    }
}

pub(super) async fn raise(asked: &DurableHttpRequest, instance: &str, event: &str) -> Outcome {
    if !asked.is_json() {
        return Err(DurableHttpError::bad(
            "the body of an event must be application/json",
        ));
    }
    let input = asked.json()?;
    if asked.hub.raise(instance, event, input).await? {
        accepted()
    } else {
        Err(DurableHttpError::gone(instance))
    }
}

fn accepted() -> Outcome {
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(super) async fn act(asked: &DurableHttpRequest, instance: &str, verb: Verb) -> Outcome {
    if verb == Verb::Restart {
        return restart(asked, instance).await;
    }
    let status = found(asked, instance, false).await?.status;
    let is_over = match verb {
        Verb::Rewind => status.is_final() && status != InstanceStatus::Failed,
        _ => status.is_final(),
    };
    if is_over {
        return Err(DurableHttpError::gone(instance));
    }
    let reason = asked.get("reason").map(str::to_owned);
    let done = match verb {
        Verb::Rewind if status != InstanceStatus::Failed => {
            let message = format!("the instance '{instance}' has not failed");
            return Err(DurableHttpError::bad(message));
        }
        Verb::Rewind => {
            asked.hub.rewind(instance, reason).await?;
            true
        }
        Verb::Suspend => asked.hub.suspend(instance, reason).await?,
        Verb::Resume => asked.hub.resume(instance, reason).await?,
        Verb::Terminate | Verb::Restart => {
            // The reason becomes the output, which is JSON.
            let output = reason.map(|reason| Value::String(reason).to_string());
            let is_recursive = asked.flag("recursive", false)?;
            asked.hub.terminate(instance, output, is_recursive).await?
        }
    };
    if done {
        accepted()
    } else {
        Err(DurableHttpError::gone(instance))
    }
}

async fn restart(asked: &DurableHttpRequest, instance: &str) -> Outcome {
    let is_new_id = asked.flag("restartWithNewInstanceId", true)?;
    let patience = asked.patience()?;
    if asked.hub.get(instance, false).await?.is_none() {
        let message = format!("there is no instance '{instance}' to restart");
        return Err(DurableHttpError::bad(message));
    }
    let restarted = asked.hub.restart(instance, is_new_id).await?;
    ended_or_begun(asked, &restarted, patience).await
}
