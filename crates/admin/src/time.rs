//! The routes of the time of a node.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;
use steadfast_core::iso::{parse_duration, parse_time};
use steadfast_core::limits;
use steadfast_net::access::{Right, ServiceArea};
use steadfast_net::http::Problem;

use super::interface::{ApiOperation, Interface, on, read};
use super::node_admin::{NodeAdmin, TimeMoveRequest, TimeMoveTarget};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceTimeRequest {
    by: Option<TimeSpan>,
    to: Option<String>,
    limit_s: Option<u64>,
    #[serde(default)]
    leave_activities: bool,
}

/// Milliseconds, or a duration such as `P3D`.
#[derive(Deserialize)]
#[serde(untagged)]
enum TimeSpan {
    Ms(u64),
    Iso(String),
}

/// Adds the routes of the time.
pub fn time_routes(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let show = async move || Json(own.time());
    let own = Arc::clone(operator);
    let advance = async move |body: Result<Json<AdvanceTimeRequest>, JsonRejection>| {
        let request = checked(read(body)?)?;
        own.move_time(request).await.map(Json)
    };
    interface
        .with(
            ApiOperation {
                method: Method::GET,
                path: "/v1/time",
                summary: "Show the time of the node, and whether it is virtual",
                rights: &[Right::Read],
                area: ServiceArea::Node,
                body: None,
                success: (200, "The time"),
            },
            on(&Method::GET, show),
        )
        .with(
            ApiOperation {
                method: Method::POST,
                path: "/v1/time/advance",
                summary: "Move virtual time on, and wait for everything that becomes due",
                rights: &[Right::Manage],
                area: ServiceArea::Node,
                body: Some(json!({"type": "object", "properties": {
                    "by": {"type": ["string", "integer"]}, "to": {"type": "string"},
                    "limit_s": {"type": "integer"}, "leave_activities": {"type": "boolean"},
                }})),
                success: (
                    200,
                    "The time that was reached, and the timers that have fired",
                ),
            },
            on(&Method::POST, advance),
        )
}

fn checked(request: AdvanceTimeRequest) -> Result<TimeMoveRequest, Problem> {
    let wrong = |text: &str, example: &str| {
        Problem::bad_request(format!(
            "'{text}' is not understood; write it like {example}"
        ))
    };
    let target = match (request.by, request.to) {
        (Some(TimeSpan::Ms(ms)), None) => TimeMoveTarget::By(Duration::from_millis(ms)),
        (Some(TimeSpan::Iso(text)), None) => {
            let by = parse_duration(&text).ok_or_else(|| wrong(&text, "P3D or PT90M"))?;
            TimeMoveTarget::By(by)
        }
        (None, Some(text)) => {
            let to = parse_time(&text).ok_or_else(|| wrong(&text, "2030-01-31T05:00:00Z"))?;
            TimeMoveTarget::To(to)
        }
        _ => return Err(Problem::bad_request("name either 'by' or 'to'")),
    };
    let limit = request.limit_s.map(Duration::from_secs);
    if limit.is_some_and(|limit| limit > limits::TIME_MOVE_LIMIT) {
        let most = limits::TIME_MOVE_LIMIT.as_secs();
        return Err(Problem::bad_request(format!("limit_s is {most} at most")));
    }
    Ok(TimeMoveRequest {
        target,
        limit: limit.unwrap_or(limits::TIME_MOVE_WAIT),
        leaves_activities: request.leave_activities,
    })
}
