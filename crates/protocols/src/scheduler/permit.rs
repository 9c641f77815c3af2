//! Authorization of reads and of job targets.
//!
//! A job acts later on behalf of its creator. So the key that creates or changes it needs
//! the rights that its actions require.

use serde_json::Value;

use super::fault::Fault;
use crate::access::{Area, Demand, Grant, Right, Scope};

/// The rights for reads, of which one is enough.
pub(super) const LOOK: &[Right] = &[Right::Listen, Right::Read];

/// The grants of a caller's key; `None` without authentication.
pub(crate) type Grants = Option<Vec<Grant>>;

/// Whether the caller may see a collection of this name.
pub(super) fn may_see(grants: &Grants, collection: &str) -> bool {
    let demand = Demand::new(LOOK, Area::Jobs, Scope::Entity(collection));
    is_met(grants, &demand)
}

/// Checks whether the caller may create a job with this target inside the server.
pub(super) fn check(grants: &Grants, target: &Value) -> Result<(), Fault> {
    let named = |name: &str| target.get(name).filter(|value| !value.is_null());
    let (area, entity) = match named("eventHub") {
        Some(hub) => (Area::Events, hub.as_str()),
        None => (
            Area::Durable,
            named("taskHub").map_or(Some("default"), Value::as_str),
        ),
    };
    // An invalid name is rejected later, when the target is resolved.
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
