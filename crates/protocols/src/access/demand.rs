//! What a route demands of its caller.

use super::right::{Area, Grant, Right};

/// The rights that a route requires, and the audience that a web token must have.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    /// Any one of them is enough.
    pub rights: &'a [Right],
    pub area: Area,
    pub scope: Scope<'a>,
    /// Whether a web token with this audience is valid here; `None`: no web token is.
    pub audience: Option<&'a dyn Fn(&str) -> bool>,
}

/// On which entities of the area the right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
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
    pub fn new(rights: &'a [Right], area: Area, scope: Scope<'a>) -> Self {
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
        self.scope == Scope::AnyKey || grants.iter().any(|grant| self.is_met_by_grant(grant))
    }

    fn is_met_by_grant(&self, grant: &Grant) -> bool {
        let mut rights = self.rights.iter();
        rights.any(|right| match self.scope {
            Scope::AnyEntity => grant.holds_somewhere(*right, self.area),
            Scope::Whole => grant.holds(*right, self.area, None),
            Scope::Entity(entity) => grant.holds(*right, self.area, Some(entity)),
            Scope::AnyKey => true,
        })
    }
}

/// Whether an audience is the one that SDKs request from an identity provider for an
/// area. Hubs are named by their address instead, and the REST interface accepts no web
/// tokens.
pub fn is_for_area(area: Area, audience: &str) -> bool {
    let names: &[&str] = match area {
        Area::Events => &["https://eventhubs.azure.net"],
        Area::Durable => &["https://durabletask.io"],
        Area::Jobs => &[
            "https://management.azure.com",
            "https://management.core.windows.net",
        ],
        Area::Realtime | Area::State | Area::Node => &[],
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
            Demand::new(&[Right::Listen, Right::Send], Area::Events, scope).is_met_by(&grants)
        };
        assert!(is_met(Scope::AnyEntity) && is_met(Scope::Entity("houses")));
        assert!(!is_met(Scope::Whole) && !is_met(Scope::Entity("cars")));
    }

    #[test]
    fn any_key_meets_a_demand_without_rights_and_no_key_meets_one_that_lists_none() {
        let is_met = |scope| Demand::new(&[], Area::Node, scope).is_met_by(&[Grant::everything()]);
        assert!(is_met(Scope::AnyKey));
        assert!(!is_met(Scope::AnyEntity) && !is_met(Scope::Whole));
        assert!(Demand::new(&[], Area::Node, Scope::AnyKey).is_met_by(&[]));
    }

    #[test]
    fn an_area_has_the_audiences_that_sdks_ask_for() {
        assert!(is_for_area(Area::Events, "https://eventhubs.azure.net/"));
        assert!(is_for_area(Area::Durable, "https://durabletask.io"));
        assert!(is_for_area(Area::Jobs, "https://management.azure.com"));
        for other in [
            "",
            "http://h/client/?hub=chat",
            "https://durabletask.io",
            "https://eventhubs.azure.net.evil.example",
            "https://eventhubs.azure.net/x",
        ] {
            assert!(!is_for_area(Area::Events, other), "{other}");
        }
        assert!(!is_for_area(Area::Realtime, "https://durabletask.io"));
    }
}
