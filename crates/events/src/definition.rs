//! Event hubs and their definitions.
//!
//! A [`EventHubDefinition`] is the requested configuration; an [`EventHub`] is the created
//! resource. The number of partitions never changes.

use std::time::Duration;

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::error::{Error, ErrorKind, Result};
use crate::keys::folded;

/// The group that every event hub has.
pub const DEFAULT_GROUP: &str = "$Default";

/// Retention bounds; events outside either bound are deleted. Without bounds all stay.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Retention", closed)]
pub struct EventRetention {
    /// Older events are deleted.
    #[n(0)]
    pub age: Option<Duration>,
    /// The oldest events of a partition are deleted until the rest fits in this many bytes.
    #[n(1)]
    pub bytes: Option<u64>,
}

impl EventRetention {
    /// Rejects bounds that keep nothing.
    pub(crate) fn check(self) -> Result<()> {
        if self.age.is_some_and(|age| age.is_zero()) || self.bytes == Some(0) {
            Err(bad(
                "a retention bound of zero keeps no events; leave it out",
            ))
        } else {
            Ok(())
        }
    }
}

/// The rights that a policy grants.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Rights {
    #[n(0)]
    pub send: bool,
    #[n(1)]
    pub listen: bool,
    #[n(2)]
    pub manage: bool,
}

/// A named key of one event hub.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Policy", closed)]
pub struct AccessPolicy {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub rights: Rights,
    /// The keys in plain text; either is accepted.
    #[n(2)]
    pub primary: String,
    #[n(3)]
    pub secondary: String,
}

/// The requested configuration of an event hub.
///
/// ```
/// use steadfast_events::EventHubDefinition;
///
/// let telemetry = EventHubDefinition::new("telemetry", 16).group("website");
/// assert!(telemetry.check().is_ok());
/// ```
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Definition", closed)]
pub struct EventHubDefinition {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub partitions: u32,
    #[n(2)]
    pub retention: EventRetention,
    /// Consumer groups besides the default one.
    #[n(3)]
    pub groups: Vec<String>,
    #[n(4)]
    pub policies: Vec<AccessPolicy>,
}

impl EventHubDefinition {
    /// An event hub without retention bounds.
    pub fn new(name: impl Into<String>, partitions: u32) -> Self {
        Self {
            name: name.into(),
            partitions,
            retention: EventRetention::default(),
            groups: Vec::new(),
            policies: Vec::new(),
        }
    }

    /// With a consumer group.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.groups.push(name.into());
        self
    }

    /// With retention bounds.
    pub fn retention(mut self, retention: EventRetention) -> Self {
        self.retention = retention;
        self
    }

    /// Rejects an invalid definition.
    pub fn check(&self) -> Result<()> {
        check_hub_name(&self.name)?;
        let most = limits::EVENT_HUB_PARTITIONS;
        if self.partitions == 0 || self.partitions > most {
            return Err(bad(format!(
                "an event hub has 1 to {most} partitions, not {}; choose such a number",
                self.partitions
            )));
        }
        self.retention.check()?;
        self.groups
            .iter()
            .try_for_each(|name| check_group_name(name))?;
        if self.policies.len() > limits::HUB_POLICIES
            || self.groups.len() >= limits::CONSUMER_GROUPS
        {
            return Err(bad("too many policies or consumer groups; remove some"));
        }
        Ok(())
    }
}

/// A consumer group.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Group", closed)]
pub struct ConsumerGroup {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub created: Timestamp,
}

/// An event hub.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct EventHub {
    /// Never reused, not even for an event hub of the same name.
    #[n(0)]
    pub id: u64,
    /// The number of changes so far.
    #[n(1)]
    pub revision: u64,
    /// In the letter case used at creation.
    #[n(2)]
    pub name: String,
    #[n(3)]
    pub partitions: u32,
    #[n(4)]
    pub created: Timestamp,
    #[n(5)]
    pub retention: EventRetention,
    /// All consumer groups, the default one first.
    #[n(6)]
    pub groups: Vec<ConsumerGroup>,
    #[n(7)]
    pub policies: Vec<AccessPolicy>,
}

impl EventHub {
    pub(crate) fn of(id: u64, definition: &EventHubDefinition, now: Timestamp) -> Self {
        let mut hub = Self {
            id,
            revision: 1,
            name: definition.name.clone(),
            partitions: definition.partitions,
            created: now,
            retention: definition.retention,
            groups: Vec::new(),
            policies: definition.policies.clone(),
        };
        hub.add_group(DEFAULT_GROUP, now);
        for group in &definition.groups {
            hub.add_group(group, now);
        }
        hub
    }

    /// Adds a group unless it exists; returns whether it was added.
    pub(crate) fn add_group(&mut self, name: &str, created: Timestamp) -> bool {
        if self.group(name).is_some() {
            return false;
        }
        let name = name.to_owned();
        self.groups.push(ConsumerGroup { name, created });
        true
    }

    /// The group of this name, in any letter case.
    pub fn group(&self, name: &str) -> Option<&ConsumerGroup> {
        let wanted = folded(name);
        self.groups
            .iter()
            .find(|group| folded(&group.name) == wanted)
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&AccessPolicy> {
        self.policies.iter().find(|policy| policy.name == name)
    }

    /// The ids that clients know the partitions by.
    pub fn partition_ids(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.partitions).map(|partition| partition.to_string())
    }

    /// The settings that a hub partition needs.
    pub(crate) fn terms(&self) -> EventHubTerms {
        EventHubTerms {
            hub: self.id,
            revision: self.revision,
            retention: self.retention,
        }
    }
}

/// The settings of an event hub that its partitions need.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct EventHubTerms {
    #[n(0)]
    pub(crate) hub: u64,
    #[n(1)]
    pub(crate) revision: u64,
    #[n(2)]
    pub(crate) retention: EventRetention,
}

pub(crate) fn check_hub_name(name: &str) -> Result<()> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_good = name.chars().all(is_inside)
        && is_edge(name.chars().next())
        && is_edge(name.chars().next_back())
        && name.len() <= limits::EVENT_HUB_NAME;
    if is_good {
        Ok(())
    } else {
        Err(bad(format!(
            "'{}' cannot name an event hub: use up to {} letters, digits, '.', '-' and '_', \
             and begin and end with a letter or digit",
            name.escape_debug(),
            limits::EVENT_HUB_NAME
        )))
    }
}

pub(crate) fn check_group_name(name: &str) -> Result<()> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '$');
    let length = name.chars().count();
    let is_good =
        name.chars().all(is_inside) && (1..=limits::CONSUMER_GROUP_NAME).contains(&length);
    if is_good {
        Ok(())
    } else {
        Err(bad(format!(
            "'{}' cannot name a consumer group: use 1 to {} letters, digits, '.', '-', '_'",
            name.escape_debug(),
            limits::CONSUMER_GROUP_NAME
        )))
    }
}

fn bad(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadDefinition, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_out_of_bounds_are_refused() {
        let check =
            |name: &str, partitions| EventHubDefinition::new(name, partitions).check().is_ok();
        assert!(check("telemetry-1.x_Y", 1) && check("a", 1024));
        for name in [
            "",
            "-a",
            "a-",
            "a/b",
            "Straße",
            "$Default",
            &"a".repeat(257),
        ] {
            assert!(!check(name, 4), "{name}");
        }
        assert!(!check("a", 0) && !check("a", 1025));
        let group = |name: &str| EventHubDefinition::new("a", 1).group(name).check().is_ok();
        assert!(group("$Default") && group("web_site") && !group("") && !group(&"g".repeat(51)));
    }
}
