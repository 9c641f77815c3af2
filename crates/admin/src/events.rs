//! The routes that send and read events.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::{Extension, Json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso::parse_time;
use steadfast_core::limits;
use steadfast_events::{Error, EventDataBatch, EventPosition, EventPublication, PartitionReader};
use steadfast_net::access::{AccessControl, Principal, Right, ServiceArea};
use steadfast_net::http::Problem;

use super::event_json::{EventMetadata, EventRequest, shown};
use super::eventhubs::{EventHubContext, on, operation};
use super::interface::{Interface, LOOK, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendEventsRequest {
    partition: Option<u32>,
    key: Option<String>,
    events: Vec<EventRequest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TailQuery {
    partition: u32,
    from: Option<String>,
    from_sequence: Option<i64>,
    from_time: Option<String>,
    limit: Option<usize>,
    wait_s: Option<u64>,
}

const EVENTS: &str = "/v1/eventhubs/{hub}/events";

/// Adds the routes of events.
pub(super) fn routes(interface: Interface, hubs: &Arc<EventHubContext>) -> Interface {
    let (get, post) = (&Method::GET, &Method::POST);
    let body = json!({"type": "object", "required": ["events"], "properties": {
        "partition": {"type": "integer"},
        "key": {"type": "string"},
        "events": {"type": "array", "items": {"type": "object", "required": ["body"], "properties": {
            "body": {"description": "a text, or any JSON"},
            "encoding": {"enum": ["text", "base64", "json"]},
            "content_type": {"type": "string"},
            "message_id": {"type": "string"},
            "properties": {"type": "object"},
        }}},
    }});
    interface
        .with(
            operation(
                post,
                EVENTS,
                "Send events as one publication, all or nothing",
                &[Right::Send],
                (201, "The events are durable; their positions"),
                Some(body),
            ),
            on(post, send, hubs),
        )
        .with(
            operation(
                get,
                EVENTS,
                "Events of one ?partition: ?from=start|end, ?from_sequence, ?from_time, ?limit; \
                 waits ?wait_s for the first",
                LOOK,
                (
                    200,
                    "Events, and the position of the next read: next_sequence",
                ),
                None,
            ),
            on(get, tail, hubs),
        )
}

async fn send(
    State(own): State<Arc<EventHubContext>>,
    Path(hub): Path<String>,
    body: Result<Json<SendEventsRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let order = read(body)?;
    let sender = own.hubs.sender(&hub, order.partition).await?;
    let mut batch = match &order.key {
        Some(key) => EventDataBatch::keyed(key.clone())?,
        None => EventDataBatch::new(),
    };
    for draft in &order.events {
        batch.push(&draft.encode(order.key.as_deref())?)?;
    }
    let published = sender.send(batch).await?;
    let answer = json!({
        "partition": published.partition,
        "sequence": published.sequence,
        "last_offset": published.last_offset,
        "count": published.count,
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn tail(
    State(own): State<Arc<EventHubContext>>,
    Extension(pass): Extension<Principal>,
    Extension(access): Extension<Arc<AccessControl>>,
    Path(hub): Path<String>,
    query: Result<Query<TailQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let asked = queried(query)?;
    let not_before = match &asked.from_time {
        Some(text) => parsed(text)?,
        None => Timestamp(i64::MIN),
    };
    let wait = Duration::from_secs(asked.wait_s.unwrap_or(0));
    if wait > limits::TAIL_WAIT {
        let most = limits::TAIL_WAIT.as_secs();
        return Err(Problem::bad_request(format!("wait_s is {most} at most")));
    }
    let start = asked.start(not_before)?;
    let reader = own.hubs.observer(&hub, asked.partition, start).await?;
    let mut page = TailPage {
        partition: asked.partition,
        not_before,
        limit: asked.limit.unwrap_or(limits::TAIL_EVENTS),
        events: Vec::new(),
        bytes: 0,
        next: reader.position(),
    };
    if !(1..=limits::TAIL_EVENTS).contains(&page.limit) {
        let words = format!("limit is 1 to {}", limits::TAIL_EVENTS);
        return Err(Problem::bad_request(words));
    }
    let mut follow = access.watch_proof("HTTP wait", &pass, LOOK, ServiceArea::Events, Some(&hub));
    tokio::select! {
        filled = page.fill(reader, wait, &own) => filled?,
        denied = follow.proof_ended() => return Err(denied.into()),
    }
    let (events, next) = (page.events, page.next);
    Ok(Json(json!({"events": events, "next_sequence": next})))
}

impl TailQuery {
    fn start(&self, not_before: Timestamp) -> Result<EventPosition, Problem> {
        match (self.from_sequence, self.from.as_deref()) {
            // After the previous event: also at the end, where the next one will be.
            (Some(sequence), None) => Ok(EventPosition::Sequence {
                sequence: sequence.max(0) - 1,
                inclusive: false,
            }),
            (None, None) if self.from_time.is_some() => Ok(EventPosition::Time {
                time: not_before,
                inclusive: true,
            }),
            (None, None | Some("start")) => Ok(EventPosition::Earliest),
            (None, Some("end")) => Ok(EventPosition::Latest),
            _ => Err(Problem::bad_request(
                "name one place: from=start, from=end, from_sequence or from_time",
            )),
        }
    }
}

/// The events of one response.
struct TailPage {
    partition: u32,
    not_before: Timestamp,
    limit: usize,
    events: Vec<Value>,
    bytes: usize,
    next: i64,
}

impl TailPage {
    /// Takes available events; waits only for the first one.
    async fn fill(
        &mut self,
        mut reader: PartitionReader,
        wait: Duration,
        own: &EventHubContext,
    ) -> Result<(), Error> {
        let late = tokio::time::sleep(wait);
        tokio::pin!(late);
        loop {
            let found = match reader.try_next().await? {
                Some(found) => found,
                None if !self.events.is_empty() => break,
                None => tokio::select! {
                    found = reader.next() => found?,
                    () = &mut late => break,
                    () = own.leaving.cancelled() => break,
                },
            };
            if self.take(found)? {
                return Ok(());
            }
        }
        self.next = self.next.max(reader.position());
        Ok(())
    }

    /// Takes events until the page is full; returns whether it is.
    fn take(&mut self, mut publication: EventPublication) -> Result<bool, Error> {
        let key = publication.key().map(str::to_owned);
        while let Some(event) = publication.next_event()? {
            self.next = event.sequence + 1;
            if event.time < self.not_before {
                continue;
            }
            let place = EventMetadata {
                partition: self.partition,
                sequence: event.sequence,
                offset: event.offset,
                time: event.time,
                key: key.as_deref(),
            };
            self.bytes += event.body.len();
            self.events.push(Value::Object(shown(&place, &event.body)));
            if self.events.len() == self.limit || self.bytes >= limits::TAIL_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Parses the query of a request.
pub(super) fn queried<T: DeserializeOwned>(
    query: Result<Query<T>, QueryRejection>,
) -> Result<T, Problem> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(error) => Err(Problem::bad_request(error.body_text())),
    }
}

/// Parses a time of a request.
pub(super) fn parsed(text: &str) -> Result<Timestamp, Problem> {
    parse_time(text).ok_or_else(|| {
        let words = format!(
            "'{}' is no time: write 2026-01-31T12:00:00Z",
            text.escape_debug()
        );
        Problem::bad_request(words)
    })
}
