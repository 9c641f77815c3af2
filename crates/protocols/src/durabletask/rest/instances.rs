//! The routes of instances.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use steadfast_durable::{InstanceQuery, NewInstance, Overview, PurgeQuery, Status, Task, Why};

use super::answer::{begun, page, status_link, with};
use super::asked::Asked;
use super::fault::Fault;
use super::form;
use super::place::Verb;

type Answer = Result<Response, Fault>;

pub(super) async fn start(asked: &Asked, name: String, instance: Option<String>) -> Answer {
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
async fn ended_or_begun(asked: &Asked, instance: &str, patience: Option<Duration>) -> Answer {
    let Some(patience) = patience else {
        return Ok(begun(asked, instance));
    };
    let Some(ended) = ended(asked, instance, patience).await? else {
        return Ok(begun(asked, instance));
    };
    let shown = match ended.status {
        Status::Completed => form::payload(ended.output.as_deref()),
        _ => form::status(&ended, true),
    };
    Ok(Json(shown).into_response())
}

/// The result of an instance, if it ends in time and the node does not drain.
async fn ended(
    asked: &Asked,
    instance: &str,
    patience: Duration,
) -> Result<Option<Overview>, Fault> {
    let ended = tokio::time::timeout(patience, asked.hub.ended(instance, true));
    tokio::select! {
        ended = ended => Ok(ended.ok().transpose()?),
        () = asked.context.leaving.cancelled() => Ok(None),
    }
}

pub(super) async fn show(asked: &Asked, instance: &str) -> Answer {
    let is_input_shown = asked.flag("showInput", true)?;
    let mut found = found(asked, instance, true).await?;
    if let Some(patience) = asked.patience()? {
        found = ended(asked, instance, patience).await?.unwrap_or(found);
    }
    let mut shown = form::status(&found, is_input_shown);
    if asked.flag("showHistory", false)? {
        let is_output_shown = asked.flag("showHistoryOutput", false)?;
        let history = asked.hub.history(instance, None).await?;
        let events = history.iter().flat_map(|turn| turn.iter());
        let events = events.map(|event| form::event(event, is_output_shown));
        shown["historyEvents"] = events.collect();
    }
    let is_failure_told = asked.flag("returnInternalServerErrorOnFailure", false)?;
    Ok(match found.status {
        Status::Failed if is_failure_told => with(StatusCode::INTERNAL_SERVER_ERROR, shown, []),
        ended if ended.is_final() => Json(shown).into_response(),
        _ => {
            let place = status_link(asked, instance);
            let headers = [(LOCATION, place), (RETRY_AFTER, "5".to_owned())];
            with(StatusCode::ACCEPTED, shown, headers)
        }
    })
}

pub(super) async fn why(asked: &Asked, instance: &str) -> Answer {
    match asked.hub.why(instance).await? {
        Why::Unknown => Err(Fault::missing(format!("there is no instance '{instance}'"))),
        why => Ok(Json(form::why(&why)).into_response()),
    }
}

async fn found(asked: &Asked, instance: &str, has_payloads: bool) -> Result<Overview, Fault> {
    let found = asked.hub.get(instance, has_payloads).await?;
    found.ok_or_else(|| Fault::missing(format!("there is no instance '{instance}'")))
}

pub(super) async fn list(asked: &Asked) -> Answer {
    let is_input_shown = asked.flag("showInput", true)?;
    let Some(statuses) = asked.statuses()? else {
        return Ok(page(Vec::new(), None));
    };
    let query = InstanceQuery {
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
    let shown = shown.map(|overview| form::status(overview, is_input_shown));
    Ok(page(shown.collect(), found.next))
}

pub(super) async fn purge(asked: &Asked, instance: &str) -> Answer {
    let is_recursive = asked.flag("recursive", false)?;
    let count = match instance.starts_with('@') {
        true => 0,
        false => asked.hub.purge(instance, is_recursive).await?,
    };
    purged(count)
}

pub(super) async fn purge_all(asked: &Asked) -> Answer {
    let from = asked.time("createdTimeFrom")?;
    let from = from.ok_or_else(|| Fault::bad("'createdTimeFrom' is needed"))?;
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

fn purged(count: u64) -> Answer {
    match count {
        0 => Err(Fault::missing(
            "nothing that has ended was there to be purged",
        )),
        count => Ok(Json(json!({"instancesDeleted": count})).into_response()),
    }
}

pub(super) async fn raise(asked: &Asked, instance: &str, event: &str) -> Answer {
    if !asked.is_json() {
        return Err(Fault::bad("the body of an event must be application/json"));
    }
    let input = asked.json()?;
    match asked.hub.raise(instance, event, input).await? {
        true => accepted(),
        false => Err(Fault::gone(instance)),
    }
}

fn accepted() -> Answer {
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(super) async fn act(asked: &Asked, instance: &str, verb: Verb) -> Answer {
    if verb == Verb::Restart {
        return restart(asked, instance).await;
    }
    let status = found(asked, instance, false).await?.status;
    let is_over = match verb {
        Verb::Rewind => status.is_final() && status != Status::Failed,
        _ => status.is_final(),
    };
    if is_over {
        return Err(Fault::gone(instance));
    }
    let reason = asked.get("reason").map(str::to_owned);
    let done = match verb {
        Verb::Rewind if status != Status::Failed => {
            let message = format!("the instance '{instance}' has not failed");
            return Err(Fault::bad(message));
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
    match done {
        true => accepted(),
        false => Err(Fault::gone(instance)),
    }
}

async fn restart(asked: &Asked, instance: &str) -> Answer {
    let is_new_id = asked.flag("restartWithNewInstanceId", true)?;
    let patience = asked.patience()?;
    if asked.hub.get(instance, false).await?.is_none() {
        let message = format!("there is no instance '{instance}' to restart");
        return Err(Fault::bad(message));
    }
    let restarted = asked.hub.restart(instance, is_new_id).await?;
    ended_or_begun(asked, &restarted, patience).await
}
