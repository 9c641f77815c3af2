//! Event hub definitions from the emulator's file.
//!
//! Reads the `Config.json` of the official emulator: namespaces, their entities,
//! partition counts and consumer groups. Everything else in the file is ignored.

use serde_json::Value;

use crate::definition::{DEFAULT_GROUP, EventHubDefinition};
use crate::error::{Error, ErrorKind, Result};

/// The event hubs that an emulator's `Config.json` declares, in all its namespaces.
///
/// ```
/// let text = r#"{"UserConfig": {"NamespaceConfig": [{"Type": "EventHub", "Name": "ns",
///     "Entities": [{"Name": "eh1", "PartitionCount": "2",
///         "ConsumerGroups": [{"Name": "cg1"}]}]}]}}"#;
/// let hubs = steadfast_events::emulator_definitions(text)?;
/// assert_eq!((hubs[0].name.as_str(), hubs[0].partitions), ("eh1", 2));
/// assert_eq!(hubs[0].groups, ["cg1"]);
/// # Ok::<(), steadfast_events::Error>(())
/// ```
pub fn emulator_definitions(text: &str) -> Result<Vec<EventHubDefinition>> {
    let root: Value = serde_json::from_str(text)
        .map_err(|error| bad(&format!("the file is not JSON ({error})")))?;
    let namespaces = root.pointer("/UserConfig/NamespaceConfig");
    let namespaces = namespaces.and_then(Value::as_array);
    let namespaces = namespaces.ok_or_else(|| bad("UserConfig.NamespaceConfig is missing"))?;
    let mut found: Vec<EventHubDefinition> = Vec::new();
    for entity in namespaces.iter().flat_map(|space| list(space, "Entities")) {
        let definition = definition(entity)?;
        let name = definition.name.to_lowercase();
        if found.iter().any(|other| other.name.to_lowercase() == name) {
            // Clients may use any namespace, so names must be unique across them.
            return Err(bad(&format!("'{}' is declared twice", definition.name)));
        }
        found.push(definition);
    }
    Ok(found)
}

fn definition(entity: &Value) -> Result<EventHubDefinition> {
    let name = text(entity, "Name").ok_or_else(|| bad("an entity has no Name"))?;
    let count = match entity.get("PartitionCount") {
        Some(Value::Number(count)) => count.as_u64(),
        Some(Value::String(count)) => count.trim().parse().ok(),
        _ => None,
    };
    let count = count.and_then(|count| u32::try_from(count).ok());
    let count =
        count.ok_or_else(|| bad(&format!("the PartitionCount of '{name}' is not a number")))?;
    let mut definition = EventHubDefinition::new(name, count);
    for group in list(entity, "ConsumerGroups") {
        let group = text(group, "Name").ok_or_else(|| bad("a consumer group has no Name"))?;
        if !group.eq_ignore_ascii_case(DEFAULT_GROUP) {
            definition.groups.push(group.to_owned());
        }
    }
    definition.check()?;
    Ok(definition)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let found = value.get(name).and_then(Value::as_array);
    found.into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn bad(what: &str) -> Error {
    let words = format!("the emulator's configuration cannot be used: {what}; correct it");
    Error::new(ErrorKind::BadDefinition, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entities: &str) -> Result<Vec<EventHubDefinition>> {
        let text = format!(
            r#"{{"UserConfig": {{"NamespaceConfig": [{{"Type": "EventHub", "Name": "emulatorns1",
            "Entities": {entities}}}], "LoggingConfig": {{"Type": "File"}}}}}}"#
        );
        emulator_definitions(&text)
    }

    #[test]
    fn entities_become_definitions() {
        let hubs = read(
            r#"[{"Name": "eh1", "PartitionCount": "2", "ConsumerGroups": [{"Name": "cg1"}]},
                {"Name": "EH2", "PartitionCount": 32,
                 "ConsumerGroups": [{"Name": "$default"}, {"Name": "a"}, {"Name": "b"}]},
                {"Name": "eh3", "PartitionCount": "1"}]"#,
        );
        let expected = [
            EventHubDefinition::new("eh1", 2).group("cg1"),
            EventHubDefinition::new("EH2", 32).group("a").group("b"),
            EventHubDefinition::new("eh3", 1),
        ];
        assert_eq!(hubs.unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for entities in [
            r#"[{"PartitionCount": "2"}]"#,
            r#"[{"Name": "a"}]"#,
            r#"[{"Name": "a", "PartitionCount": "many"}]"#,
            r#"[{"Name": "a", "PartitionCount": 0}]"#,
            r#"[{"Name": "a b", "PartitionCount": 1}]"#,
            r#"[{"Name": "a", "PartitionCount": 1}, {"Name": "A", "PartitionCount": 1}]"#,
        ] {
            assert_eq!(
                read(entities).unwrap_err().kind(),
                ErrorKind::BadDefinition,
                "{entities}"
            );
        }
        assert!(emulator_definitions("{}").is_err() && emulator_definitions("[").is_err());
    }
}
