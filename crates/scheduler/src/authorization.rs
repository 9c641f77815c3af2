//! Authorization of reads and of job targets.
//!
//! A job acts later on behalf of its creator. So the key that creates or changes it needs
//! the rights that its actions require.

use serde_json::Value;
use steadfast_net::access::{Demand, EntityScope, Grant, Right, ServiceArea};

use super::error::SchedulerError;

/// The rights for reads, of which one is enough.
pub(super) const LOOK: &[Right] = &[Right::Listen, Right::Read];

/// The grants of a caller's key; `None` without authentication.
pub(crate) type CallerGrants = Option<Vec<Grant>>;

/// Whether the caller may see a collection of this name.
pub(super) fn may_see(grants: &CallerGrants, collection: &str) -> bool {
    let demand = Demand::new(LOOK, ServiceArea::Jobs, EntityScope::Entity(collection));
    is_met(grants, &demand)
}

/// Checks whether the caller may create a job with this target inside the server.
pub(super) fn check(grants: &CallerGrants, target: &Value) -> Result<(), SchedulerError> {
    let named = |name: &str| target.get(name).filter(|value| !value.is_null());
    let (area, entity) = match named("eventHub") {
        Some(hub) => (ServiceArea::Events, hub.as_str()),
        None => (
            ServiceArea::Durable,
            named("taskHub").map_or(Some("default"), Value::as_str),
        ),
    };
    // An invalid name is rejected later, when the target is resolved.
    let entity = entity.unwrap_or_default();
    let demand = Demand::new(&[Right::Send], area, EntityScope::Entity(entity));
    if is_met(grants, &demand) {
        Ok(())
    } else {
        Err(SchedulerError::forbidden(format!(
            "STF-6005: a job that sends to '{area}/{entity}' needs a key with the right \
             'send {area}/{entity}'"
        )))
    }
}

fn is_met(grants: &CallerGrants, demand: &Demand<'_>) -> bool {
    let grants = grants.as_ref();
    grants.is_none_or(|grants| demand.is_met_by(grants))
}
