//! PATCH: a deep merge of the body into the stored document.

use serde_json::{Map, Value};

/// Merges `change` into `stored`: objects are merged, other values replace, and null
/// removes.
pub(crate) fn merge(stored: &mut Value, change: &Value) {
    match (stored, change) {
        (Value::Object(stored), Value::Object(change)) => {
            for (name, value) in change {
                if value.is_null() {
                    stored.remove(name);
                    continue;
                }
                let slot = stored.entry(name.clone()).or_insert(Value::Null);
                if value.is_object() && !slot.is_object() {
                    // Merged into an empty object, so that a null inside it also removes.
                    *slot = Value::Object(Map::new());
                }
                merge(slot, value);
            }
        }
        (stored, change) => *stored = change.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_merge_lists_are_replaced_and_null_removes() {
        let mut stored = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        merge(
            &mut stored,
            &json!({"a": {"c": [3], "e": {"f": null, "g": 1}}, "d": null}),
        );
        assert_eq!(stored, json!({"a": {"b": 1, "c": [3], "e": {"g": 1}}}));
    }
}
