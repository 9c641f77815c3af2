//! What a route demands of its caller.

use super::right::{Grant, Right, ServiceArea};

/// The rights that a route requires, and the audience that a web token must have.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    /// Any one of them is enough.
    pub rights: &'a [Right],
    pub area: ServiceArea,
    pub scope: EntityScope<'a>,
    /// Whether a web token with this audience is valid here; `None`: no web token is.
    pub audience: Option<&'a dyn Fn(&str) -> bool>,
}

/// On which entities of the area the right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityScope<'a> {
    /// On at least one; the route itself filters what it shows and does.
    AnyEntity,
    /// On all of them: a grant on one entity does not count.
    Whole,
    /// On this one.
    Entity(&'a str),
    /// No right is needed: any key is enough.
    AnyKey,
}

impl<'a> Demand<'a> {
    /// A demand that no web token meets.
    pub fn new(rights: &'a [Right], area: ServiceArea, scope: EntityScope<'a>) -> Self {
        Self {
            rights,
            area,
            scope,
            audience: None,
        }
    }

    /// The same, also met by web tokens of these audiences.
    #[must_use]
    pub fn or_token(self, audience: &'a dyn Fn(&str) -> bool) -> Self {
        Self {
            audience: Some(audience),
            ..self
        }
    }

    /// Whether one of these grants meets it.
    pub fn is_met_by(&self, grants: &[Grant]) -> bool {
        self.scope == EntityScope::AnyKey || grants.iter().any(|grant| self.is_met_by_grant(grant))
    }

    fn is_met_by_grant(&self, grant: &Grant) -> bool {
        let mut rights = self.rights.iter();
        rights.any(|right| match self.scope {
            EntityScope::AnyEntity => grant.holds_somewhere(*right, self.area),
            EntityScope::Whole => grant.holds(*right, self.area, None),
            EntityScope::Entity(entity) => grant.holds(*right, self.area, Some(entity)),
            EntityScope::AnyKey => true,
        })
    }
}

/// Whether an audience is the one that SDKs request from an identity provider for an
/// area. Hubs are named by their address instead, and the REST interface accepts no web
/// tokens.
pub fn is_for_area(area: ServiceArea, audience: &str) -> bool {
    let names: &[&str] = match area {
        ServiceArea::Events => &["https://eventhubs.azure.net"],
        ServiceArea::Durable => &["https://durabletask.io"],
        ServiceArea::Jobs => &[
            "https://management.azure.com",
            "https://management.core.windows.net",
        ],
        ServiceArea::Realtime | ServiceArea::State | ServiceArea::Node => &[],
    };
    names.contains(&audience.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_on_one_entity_meets_no_demand_on_all() {
        let is_met = |scope| {
            let grants = ["send events/houses".parse().unwrap()];
            Demand::new(&[Right::Listen, Right::Send], ServiceArea::Events, scope)
                .is_met_by(&grants)
        };
        assert!(is_met(EntityScope::AnyEntity) && is_met(EntityScope::Entity("houses")));
        assert!(!is_met(EntityScope::Whole) && !is_met(EntityScope::Entity("cars")));
    }

    #[test]
    fn any_key_meets_a_demand_without_rights_and_no_key_meets_one_that_lists_none() {
        let is_met =
            |scope| Demand::new(&[], ServiceArea::Node, scope).is_met_by(&[Grant::everything()]);
        assert!(is_met(EntityScope::AnyKey));
        assert!(!is_met(EntityScope::AnyEntity) && !is_met(EntityScope::Whole));
        assert!(Demand::new(&[], ServiceArea::Node, EntityScope::AnyKey).is_met_by(&[]));
    }

    #[test]
    fn an_area_has_the_audiences_that_sdks_ask_for() {
        assert!(is_for_area(
            ServiceArea::Events,
            "https://eventhubs.azure.net/"
        ));
        assert!(is_for_area(ServiceArea::Durable, "https://durabletask.io"));
        assert!(is_for_area(
            ServiceArea::Jobs,
            "https://management.azure.com"
        ));
        for other in [
            "",
            "http://h/client/?hub=chat",
            "https://durabletask.io",
            "https://eventhubs.azure.net.evil.example",
            "https://eventhubs.azure.net/x",
        ] {
            assert!(!is_for_area(ServiceArea::Events, other), "{other}");
        }
        assert!(!is_for_area(
            ServiceArea::Realtime,
            "https://durabletask.io"
        ));
    }
}
