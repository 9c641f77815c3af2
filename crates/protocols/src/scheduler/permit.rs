//! What a caller may see, and reach through a job.
//!
//! A job acts later and for its maker. So the key that makes or changes it needs the rights
//! that its actions would need.

use serde_json::Value;

use super::fault::Fault;
use crate::access::{Area, Demand, Grant, Right, Scope};

/// What shows something needs one of these.
pub(super) const LOOK: &[Right] = &[Right::Listen, Right::Read];

/// What a caller's key may do; `None` if nothing is checked.
pub(crate) type Grants = Option<Vec<Grant>>;

/// Whether a collection of this name may be shown.
pub(super) fn may_see(grants: &Grants, collection: &str) -> bool {
    let demand = Demand::new(LOOK, Area::Jobs, Scope::Entity(collection));
    is_met(grants, &demand)
}

/// Whether a job may have this target inside the server.
pub(super) fn check(grants: &Grants, target: &Value) -> Result<(), Fault> {
    let named = |name: &str| target.get(name).filter(|value| !value.is_null());
    let (area, entity) = match named("eventHub") {
        Some(hub) => (Area::Events, hub.as_str()),
        None => (
            Area::Durable,
            named("taskHub").map_or(Some("default"), Value::as_str),
        ),
    };
    // What is no name is refused for that by who looks for it.
    let entity = entity.unwrap_or_default();
    let demand = Demand::new(&[Right::Send], area, Scope::Entity(entity));
    match is_met(grants, &demand) {
        true => Ok(()),
        false => Err(Fault::forbidden(format!(
            "STF-6005: a job that sends to '{area}/{entity}' needs a key with the right \
             'send {area}/{entity}'"
        ))),
    }
}

fn is_met(grants: &Grants, demand: &Demand<'_>) -> bool {
    let grants = grants.as_ref();
    grants.is_none_or(|grants| demand.is_met_by(grants))
}
