//! Rights: what, where, and on which entity.
//!
//! A grant is written as `send events/houses`, `listen events` or `manage *`. Without
//! an entity it holds for the whole area.

use std::fmt;
use std::str::FromStr;

/// A right of a key. `Manage` includes all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// See everything, change nothing, see no secret.
    Read,
    /// Write: send, signal, start, put.
    Send,
    /// Consume: receive, dequeue, execute work items.
    Listen,
    /// Create, change and delete; look at everything.
    Manage,
}

/// A part of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceArea {
    Events,
    Durable,
    Jobs,
    Realtime,
    /// Collections.
    State,
    /// The server itself: status, drain, keys.
    Node,
}

const RIGHTS: [(&str, Right); 4] = [
    ("read", Right::Read),
    ("send", Right::Send),
    ("listen", Right::Listen),
    ("manage", Right::Manage),
];

const AREAS: [(&str, ServiceArea); 6] = [
    ("events", ServiceArea::Events),
    ("durable", ServiceArea::Durable),
    ("jobs", ServiceArea::Jobs),
    ("realtime", ServiceArea::Realtime),
    ("state", ServiceArea::State),
    ("node", ServiceArea::Node),
];

/// A right in one area or all, on one entity or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    right: Right,
    area: Option<ServiceArea>,
    entity: Option<String>,
}

/// The text is not a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseGrantError(String);

impl fmt::Display for ParseGrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
        let rights = names(&mut RIGHTS.iter().map(|(name, _)| *name));
        let areas = names(&mut AREAS.iter().map(|(name, _)| *name));
        write!(
            f,
            "'{text}' is not a right: write '<right> <area>[/<entity>]', such as \
             'send events/houses' or 'manage *'; rights are {rights}, areas {areas}"
        )
    }
}

impl std::error::Error for ParseGrantError {}

impl Grant {
    /// Everything.
    pub fn everything() -> Self {
        Self {
            right: Right::Manage,
            area: None,
            entity: None,
        }
    }

    /// Whether it holds for this; names are compared without case. Without an
    /// entity, only a grant on the whole area holds.
    pub fn holds(&self, right: Right, area: ServiceArea, entity: Option<&str>) -> bool {
        let is_right = self.right == right || self.right == Right::Manage;
        let is_area = self.area.is_none_or(|own| own == area);
        let is_entity = match (&self.entity, entity) {
            (None, _) => true,
            (Some(own), Some(asked)) => own.eq_ignore_ascii_case(asked),
            (Some(_), None) => false,
        };
        is_right && is_area && is_entity
    }

    /// Whether it includes another grant.
    pub fn contains(&self, other: &Self) -> bool {
        let is_area = self.area.is_none() || self.area == other.area;
        let is_right = self.right == other.right || self.right == Right::Manage;
        let is_entity = match (&self.entity, &other.entity) {
            (None, _) => true,
            (Some(own), Some(other)) => own.eq_ignore_ascii_case(other),
            (Some(_), None) => false,
        };
        is_right && is_area && is_entity
    }

    /// Whether it covers this area.
    pub fn is_in(&self, area: ServiceArea) -> bool {
        self.area.is_none_or(|own| own == area)
    }

    /// The entity that it is limited to.
    pub fn entity(&self) -> Option<&str> {
        self.entity.as_deref()
    }

    /// Whether it holds for some entity of the area.
    pub fn holds_somewhere(&self, right: Right, area: ServiceArea) -> bool {
        let entity = self.entity.as_deref();
        self.holds(right, area, entity)
    }
}

impl FromStr for Grant {
    type Err = ParseGrantError;

    fn from_str(text: &str) -> Result<Self, ParseGrantError> {
        let bad = || ParseGrantError(text.to_owned());
        // It is written to headers, logs and responses.
        if text.trim().contains(char::is_control) {
            return Err(bad());
        }
        let (right, place) = text.trim().split_once(' ').ok_or_else(bad)?;
        let (area, entity) = match place.trim().split_once('/') {
            Some((area, "*")) => (area, None),
            Some((_, "")) => return Err(bad()),
            Some((area, entity)) => (area, Some(entity.to_owned())),
            None => (place.trim(), None),
        };
        let area = match area {
            "*" if entity.is_none() => None,
            name => Some(find(&AREAS, name).ok_or_else(bad)?),
        };
        let right = find(&RIGHTS, right).ok_or_else(bad)?;
        Ok(Self {
            right,
            area,
            entity,
        })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let area = self.area.map_or("*", |area| name(&AREAS, area));
        write!(f, "{} {area}", name(&RIGHTS, self.right))?;
        match &self.entity {
            Some(entity) => write!(f, "/{entity}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(&RIGHTS, *self))
    }
}

impl fmt::Display for ServiceArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(&AREAS, *self))
    }
}

fn find<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    let found = names.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

fn name<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, known)| *known == value);
    found.map_or("", |(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_written_as_they_are_read() {
        for text in ["send events/houses", "listen durable", "manage *"] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        let all: Grant = "send events/*".parse().unwrap();
        assert_eq!(all.to_string(), "send events");
    }

    #[test]
    fn what_is_no_grant_is_refused_with_the_known_words() {
        for text in [
            "",
            "send",
            "Send events",
            "send houses",
            "send */x",
            "send events/",
            "send events/a\u{7f}",
            "send events/a\nb",
            "send events/a\u{85}b",
        ] {
            let error = text.parse::<Grant>().unwrap_err().to_string();
            assert!(error.contains("areas events, durable"), "{error}");
        }
    }

    #[test]
    fn a_grant_contains_what_permits_no_more() {
        let grant = |text: &str| text.parse::<Grant>().unwrap();
        for (outer, inner) in [
            ("manage *", "send events/houses"),
            ("manage events", "read events"),
            ("send events", "send events/houses"),
            ("send events/Houses", "send events/houses"),
        ] {
            assert!(grant(outer).contains(&grant(inner)), "{outer}: {inner}");
            assert_eq!(
                grant(inner).contains(&grant(outer)),
                outer == "send events/Houses"
            );
        }
        assert!(!grant("read *").contains(&grant("listen events")));
        assert!(!grant("manage node").contains(&grant("manage *")));
        for other in [
            "send events/garden",
            "send events/house",
            "send jobs/houses",
        ] {
            assert!(!grant("send events/houses").contains(&grant(other)));
        }
    }

    #[test]
    fn reading_is_part_of_managing_and_of_nothing_else() {
        let holds = |text: &str, right| {
            let grant: Grant = text.parse().unwrap();
            grant.holds(right, ServiceArea::Events, None)
        };
        assert!(holds("manage *", Right::Read) && holds("read *", Right::Read));
        assert!(!holds("listen *", Right::Read) && !holds("send *", Right::Read));
        for right in [Right::Send, Right::Listen, Right::Manage] {
            assert!(!holds("read *", right), "{right}");
        }
    }

    #[test]
    fn a_grant_holds_for_its_right_area_and_entity_only() {
        let grant: Grant = "send events/houses".parse().unwrap();
        assert!(grant.holds(Right::Send, ServiceArea::Events, Some("Houses")));
        assert!(!grant.holds(Right::Listen, ServiceArea::Events, Some("houses")));
        assert!(!grant.holds(Right::Send, ServiceArea::Jobs, Some("houses")));
        for other in ["cars", "house", "houses2", ""] {
            assert!(!grant.holds(Right::Send, ServiceArea::Events, Some(other)));
        }
        assert!(!grant.holds(Right::Send, ServiceArea::Events, None));
        assert!(grant.holds_somewhere(Right::Send, ServiceArea::Events));
        assert!(Grant::everything().holds(Right::Send, ServiceArea::Node, None));
    }
}
