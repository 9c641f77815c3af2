//! Instances as the command line shows them.
//!
//! The Durable Functions interface names its fields in two styles; the command line has
//! one. Payloads keep theirs.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::output::display_value;
use crate::taskhub::TaskHubHttpClient;

/// An instance with its history and all payloads.
pub(super) fn whole(hub: &TaskHubHttpClient, id: &str) -> Result<Value> {
    let yes = || "true".to_owned();
    let query = [("showHistory", yes()), ("showHistoryOutput", yes())];
    let found = hub.quick(Method::GET, &["instances", id], &query, None)?;
    let mut whole = instance(&found);
    let events = found["historyEvents"].as_array();
    let events = events.into_iter().flatten().map(snake_fields);
    whole["history"] = events.collect();
    Ok(whole)
}

/// An instance with its payloads.
pub(super) fn instance(found: &Value) -> Value {
    let mut instance = summary(found.clone());
    for (name, field) in [
        ("input", "input"),
        ("custom_status", "customStatus"),
        ("output", "output"),
    ] {
        instance[name] = found[field].clone();
    }
    instance
}

/// An instance in a list.
pub(super) fn summary(mut found: Value) -> Value {
    let mut take = |name: &str| found[name].take();
    json!({
        "id": take("instanceId"),
        "name": take("name"),
        "status": take("runtimeStatus"),
        "created": take("createdTime"),
        "updated": take("lastUpdatedTime"),
    })
}

/// An object with field names such as `event_type`.
pub(super) fn snake_fields(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (snake(name), value.clone()));
    fields.collect::<Map<_, _>>().into()
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut was_upper = true;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !was_upper {
            snake.push('_');
        }
        was_upper = letter.is_ascii_uppercase();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// An event in one line: time, type and details.
pub(super) fn line(event: &Value) -> String {
    let mut details = Vec::new();
    for (name, value) in event.as_object().into_iter().flatten() {
        let is_head = matches!(name.as_str(), "timestamp" | "event_type" | "event_id");
        if !is_head && !value.is_null() {
            details.push(format!("{name}={}", display_value(value)));
        }
    }
    let time = display_value(&event["timestamp"]);
    let kind = display_value(&event["event_type"]);
    let line = format!("{time:<25} {kind} {}", details.join(" "));
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_in_one_style() {
        for (name, expected) in [
            ("EventType", "event_type"),
            ("Timestamp", "timestamp"),
            ("customStatus", "custom_status"),
            ("ParentID", "parent_id"),
        ] {
            assert_eq!(snake(name), expected);
        }
        let event = json!({"EventType": "TaskCompleted", "Result": {"aB": 1}});
        let expected = json!({"event_type": "TaskCompleted", "result": {"aB": 1}});
        assert_eq!(snake_fields(&event), expected);
    }
}
