//! The routes of consumer groups and dead letters.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_events::{CheckpointStoreEntry, DeadLetter, EventPosition, GroupPartitionStatus};
use steadfast_net::access::Right;
use steadfast_net::http::Problem;

use super::event_json::{EventMetadata, shown};
use super::eventhubs::{EventHubContext, on, operation, time};
use super::events::{parsed, queried};
use super::interface::{Interface, LOOK, read};
use super::page::{foreign_cursor, page_limit};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetGroupRequest {
    partition: Option<u32>,
    /// `start` or `end`.
    to: Option<String>,
    sequence: Option<i64>,
    time: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionQuery {
    partition: Option<u32>,
}

/// Which page of the dead letters is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadLetterQuery {
    partition: Option<u32>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The last dead letter of a page.
#[derive(Debug)]
struct DeadLetterCursor {
    partition: u32,
    sequence: i64,
}

impl DeadLetterCursor {
    fn parse(text: &str) -> Result<Self, Problem> {
        let parsed = text.split_once('-').and_then(|(partition, sequence)| {
            Some(Self {
                partition: partition.parse().ok()?,
                sequence: sequence.parse().ok().filter(|number| *number >= 0)?,
            })
        });
        parsed.ok_or_else(foreign_cursor)
    }
}

impl fmt::Display for DeadLetterCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.sequence)
    }
}

type GroupPath = Path<(String, String)>;

const ALL: &str = "/v1/eventhubs/{hub}/groups";
const ONE: &str = "/v1/eventhubs/{hub}/groups/{group}";
const RESET: &str = "/v1/eventhubs/{hub}/groups/{group}/reset";
const PARKED: &str = "/v1/eventhubs/{hub}/groups/{group}/parked";
const REPLAY: &str = "/v1/eventhubs/{hub}/groups/{group}/parked/replay";

/// Adds the routes of consumer groups.
pub(super) fn routes(interface: Interface, hubs: &Arc<EventHubContext>) -> Interface {
    let (get, post) = (&Method::GET, &Method::POST);
    let which = json!({"type": "object", "properties": {"partition": {"type": "integer"}}});
    let reset_body = json!({"type": "object", "properties": {
        "partition": {"type": "integer"},
        "to": {"enum": ["start", "end"]},
        "sequence": {"type": "integer"},
        "time": {"type": "string"},
    }});
    let listen = LOOK;
    interface
        .with(
            operation(
                get,
                ALL,
                "Consumer groups",
                listen,
                (200, "The groups"),
                None,
            ),
            on(get, list, hubs),
        )
        .with(
            operation(
                get,
                ONE,
                "Owner, checkpoint and lag by partition",
                listen,
                (200, "The status of the group"),
                None,
            ),
            on(get, show, hubs),
        )
        .with(
            operation(
                post,
                RESET,
                "Move checkpoints, of all partitions or of one; readers start again from there",
                &[Right::Manage],
                (200, "The next event by partition"),
                Some(reset_body),
            ),
            on(post, reset, hubs),
        )
        .with(
            operation(
                get,
                PARKED,
                "Dead letters of the group, of all partitions or of one ?partition: ?limit, \
                 ?cursor",
                listen,
                (
                    200,
                    "The events, why processing failed, and the next page's cursor",
                ),
                None,
            ),
            on(get, parked, hubs),
        )
        .with(
            operation(
                post,
                REPLAY,
                "Process dead letters again",
                &[Right::Manage],
                (
                    200,
                    "Which partitions had some, and whether a processor was there",
                ),
                Some(which),
            ),
            on(post, replay, hubs),
        )
}

async fn list(
    State(own): State<Arc<EventHubContext>>,
    Path(hub): Path<String>,
) -> Result<Json<Value>, Problem> {
    let hub = own.hubs.get(&hub).await?;
    let mut groups = Vec::with_capacity(hub.groups.len());
    for group in &hub.groups {
        let rows = rows(&own, &hub.name, &group.name).await?;
        let owned = rows.iter().filter(|row| !row["owner"].is_null());
        let lags = rows.iter().filter_map(|row| row["lag"].as_i64());
        groups.push(json!({
            "name": group.name,
            "created": format_time(group.created),
            "owned": owned.count(),
            "partitions": rows.len(),
            "lag": lags.sum::<i64>(),
        }));
    }
    Ok(Json(json!({"groups": groups})))
}

async fn show(
    State(own): State<Arc<EventHubContext>>,
    Path((hub, group)): GroupPath,
) -> Result<Json<Value>, Problem> {
    let rows = rows(&own, &hub, &group).await?;
    Ok(Json(json!({"name": group, "partitions": rows})))
}

/// The status of each partition.
async fn rows(own: &EventHubContext, hub: &str, group: &str) -> Result<Vec<Value>, Problem> {
    let standings = own.hubs.group_status(hub, group).await?;
    let kept = own.blobs.checkpoint_store_entries(hub, group).await?;
    Ok(standings.iter().map(|one| row(one, &kept)).collect())
}

/// The status of a partition: by our own records, or else by the newest checkpoint blobs
/// of an SDK's processors.
fn row(one: &GroupPartitionStatus, kept: &[CheckpointStoreEntry]) -> Value {
    let owner = one.ownership.as_ref();
    let owner = owner.filter(|found| !found.owner.is_empty());
    let is_own = owner.is_some() || one.checkpoint.is_some();
    let blobs = kept.iter().filter(|kept| kept.partition == one.partition);
    let blobs = blobs.max_by_key(|kept| kept.modified());
    let (store, owner, checkpoint) = match blobs.filter(|_| !is_own) {
        Some(blobs) => (
            Some(blobs.container.as_str()),
            blobs.owner.as_ref().map(|(owner, time)| (owner, *time)),
            blobs.checkpoint,
        ),
        None => (
            is_own.then_some("native"),
            owner.map(|found| (&found.owner, found.modified)),
            one.checkpoint.map(|found| (found.sequence, found.modified)),
        ),
    };
    let behind = checkpoint.map_or(i64::MAX, |(done, _)| one.last_sequence - done);
    json!({
        "partition": one.partition,
        "store": store,
        "owner": owner.map(|(owner, _)| owner),
        "owner_time": time(owner.map(|(_, time)| time)),
        "checkpoint": checkpoint.map(|(done, _)| done),
        "checkpoint_time": time(checkpoint.map(|(_, time)| time)),
        "last_sequence": one.last_sequence,
        "lag": one.lag.min(behind).max(0),
    })
}

async fn reset(
    State(own): State<Arc<EventHubContext>>,
    Path((hub, group)): GroupPath,
    body: Result<Json<ResetGroupRequest>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let order = read(body)?;
    let position = order.position()?;
    let mut moved = Vec::new();
    for partition in own.chosen(&hub, order.partition).await? {
        let next = own.hubs.reset(&hub, &group, partition, position).await?;
        moved.push(json!({"partition": partition, "next_sequence": next}));
    }
    Ok(Json(json!({"partitions": moved})))
}

impl ResetGroupRequest {
    fn position(&self) -> Result<EventPosition, Problem> {
        match (self.to.as_deref(), self.sequence, self.time.as_deref()) {
            (Some("start"), None, None) => Ok(EventPosition::Earliest),
            (Some("end"), None, None) => Ok(EventPosition::Latest),
            (None, Some(sequence), None) => Ok(EventPosition::Sequence {
                sequence: sequence.max(0) - 1,
                inclusive: false,
            }),
            (None, None, Some(text)) => Ok(EventPosition::Time {
                time: parsed(text)?,
                inclusive: true,
            }),
            _ => Err(Problem::bad_request(
                "name one place: to (start or end), sequence or time",
            )),
        }
    }
}

async fn parked(
    State(own): State<Arc<EventHubContext>>,
    Path((hub, group)): GroupPath,
    query: Result<Query<DeadLetterQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let which = queried(query)?;
    // Without a page the list is only cut by its bytes, as it was before there were pages.
    let is_paged = which.limit.is_some() || which.cursor.is_some();
    let limit = page_limit(
        which
            .limit
            .or((!is_paged).then_some(limits::LIST_PAGE_MOST)),
    )?;
    let after = which.cursor.as_deref().map(DeadLetterCursor::parse);
    let after = after.transpose()?;
    let mut page = DeadLetterPage::new(limit);
    for partition in own.chosen(&hub, which.partition).await? {
        let mut from = match &after {
            Some(after) if partition < after.partition => continue,
            Some(after) if partition == after.partition => after.sequence.saturating_add(1),
            _ => 0,
        };
        while !page.is_cut {
            let found = own
                .hubs
                .dead_letters(&hub, &group, partition, from, DEAD_LETTERS_READ)
                .await?;
            let Some(last) = found.last() else { break };
            from = last.sequence.saturating_add(1);
            found.iter().for_each(|found| page.add(partition, found));
        }
    }
    Ok(Json(page.json()))
}

/// How many dead letters are read at a time: one may have a mebibyte.
const DEAD_LETTERS_READ: usize = 16;

/// Dead letters as far as they fit into a response.
struct DeadLetterPage {
    events: Vec<Map<String, Value>>,
    limit: usize,
    bytes: usize,
    last: Option<DeadLetterCursor>,
    /// There is at least one more.
    is_cut: bool,
}

impl DeadLetterPage {
    fn new(limit: usize) -> Self {
        Self {
            events: Vec::new(),
            limit,
            bytes: 0,
            last: None,
            is_cut: false,
        }
    }

    fn add(&mut self, partition: u32, found: &DeadLetter) {
        self.is_cut |= self.events.len() >= self.limit || self.bytes >= limits::TAIL_BYTES;
        if self.is_cut {
            return;
        }
        self.last = Some(DeadLetterCursor {
            partition,
            sequence: found.sequence,
        });
        let place = EventMetadata {
            partition,
            sequence: found.sequence,
            offset: found.offset,
            time: found.enqueued,
            key: found.key.as_deref(),
        };
        self.bytes += found.body.len();
        let mut event = shown(&place, &found.body);
        event.insert("attempts".to_owned(), json!(found.attempts));
        event.insert("reason".to_owned(), json!(found.reason));
        event.insert("parked_time".to_owned(), json!(format_time(found.parked)));
        self.events.push(event);
    }

    fn json(self) -> Value {
        let mut page = json!({"parked": self.events, "has_more": self.is_cut});
        if let Some(next) = self.last.filter(|_| self.is_cut) {
            page["next"] = json!(next.to_string());
        }
        page
    }
}

async fn replay(
    State(own): State<Arc<EventHubContext>>,
    Path((hub, group)): GroupPath,
    body: Result<Json<PartitionQuery>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let which = read(body)?;
    let mut asked = Vec::new();
    for partition in own.chosen(&hub, which.partition).await? {
        let parked = own
            .hubs
            .dead_letters(&hub, &group, partition, 0, limits::SCAN_ROWS)
            .await?
            .len();
        if parked > 0 {
            let is_asked = own
                .hubs
                .replay_dead_letters(&hub, &group, partition)
                .await?;
            asked
                .push(json!({"partition": partition, "parked": parked, "has_processor": is_asked}));
        }
    }
    Ok(Json(json!({"partitions": asked})))
}

impl EventHubContext {
    /// All partitions of an event hub, or the one that is named.
    async fn chosen(&self, hub: &str, only: Option<u32>) -> Result<Vec<u32>, Problem> {
        let partitions = self.hubs.get(hub).await?.partitions;
        Ok(match only {
            Some(only) => vec![only],
            None => (0..partitions).collect(),
        })
    }
}
