//! Pages of lists.
//!
//! A request names `limit` and the `cursor` of the page before. The response has `next`,
//! the cursor of the next page, unless it is the last one.

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::limits;
use steadfast_net::access::{Demand, EntityScope, Principal, Right, ServiceArea};
use steadfast_net::http::Problem;

/// Which page of a list is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

impl PageQuery {
    /// The number of items at most.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        page_limit(self.limit)
    }
}

/// The number of items at most, of a request that may name one.
pub(super) fn page_limit(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(limits::LIST_PAGE);
    if (1..=limits::LIST_PAGE_MOST).contains(&limit) {
        Ok(limit)
    } else {
        let message = format!("limit is 1 to {}", limits::LIST_PAGE_MOST);
        Err(Problem::bad_request(message))
    }
}

/// The error of a cursor that no page has given.
pub(super) fn foreign_cursor() -> Problem {
    Problem::bad_request("the cursor is not from this list; start again without one")
}

/// A page of items, the cursor of the next page, and the nodes that did not answer.
pub(super) fn page(
    name: &str,
    items: Vec<Value>,
    next: Option<String>,
    missing: &[String],
) -> Value {
    let mut page = json!({});
    page[name] = Value::Array(items);
    if let Some(next) = next {
        page["next"] = json!(next);
    }
    if !missing.is_empty() {
        page["missing"] = json!(missing);
    }
    page
}

/// Whether a caller has one of the rights on an entity.
pub(super) fn may(
    pass: &Principal,
    rights: &'static [Right],
    area: ServiceArea,
    entity: &str,
) -> bool {
    let demand = Demand::new(rights, area, EntityScope::Entity(entity));
    pass.meets(&demand).is_ok()
}
