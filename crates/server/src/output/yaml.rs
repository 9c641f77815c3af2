//! JSON values as YAML in block style.
//!
//! Strings are quoted as in JSON unless they are plain words, so every parser reads back
//! the same value.

use std::fmt::Write as _;

use serde_json::Value;

/// The spaces of one level.
const INDENT: usize = 2;

/// A value as YAML, with a line break at the end.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

fn write(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                indent(text, depth);
                text.push_str(&scalar(name));
                text.push(':');
                below(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                below(text, item, depth);
            }
        }
        plain => {
            indent(text, depth);
            text.push_str(&flow(plain));
            text.push('\n');
        }
    }
}

/// A value behind a name or a dash: on the same line if it is plain, otherwise below.
fn below(text: &mut String, value: &Value, depth: usize) {
    let is_nested = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_nested {
        text.push('\n');
        write(text, value, depth + 1);
    } else {
        // Writing to a string cannot fail.
        let _ = writeln!(text, " {}", flow(value));
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n(' ', depth * INDENT));
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(plain) => scalar(plain),
        other => other.to_string(),
    }
}

/// A string: plain if no parser can take it for anything else, otherwise quoted.
fn scalar(plain: &str) -> String {
    let is_word = plain
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/'));
    let begins_with_letter = plain.starts_with(|c: char| c.is_ascii_alphabetic());
    let lower = plain.to_ascii_lowercase();
    let is_reserved = matches!(
        lower.as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    if is_word && begins_with_letter && !is_reserved {
        plain.to_owned()
    } else {
        Value::from(plain).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_nested_by_indentation_and_strings_stay_strings() {
        let value = json!({
            "jobs": [{"name": "report", "next": "2030-01-01T05:00:00Z", "count": 3}, []],
            "empty": {},
            "answer": "no",
            "number": "12",
            "text": "a: b\n\"c\"",
            "null": null,
        });
        let expected = "\
answer: \"no\"
empty: {}
jobs:
  -
    count: 3
    name: report
    next: \"2030-01-01T05:00:00Z\"
  - []
\"null\": null
number: \"12\"
text: \"a: b\\n\\\"c\\\"\"
";
        let mut lines: Vec<_> = text(&value).lines().map(str::to_owned).collect();
        let mut wanted: Vec<_> = expected.lines().map(str::to_owned).collect();
        // The order of fields depends on how serde_json was built.
        if text(&value).starts_with("jobs") {
            lines.sort();
            wanted.sort();
        }
        assert_eq!(lines, wanted);
        assert_eq!(text(&json!("plain")), "plain\n");
        assert_eq!(text(&json!("")), "\"\"\n");
    }
}
