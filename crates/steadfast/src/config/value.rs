//! The types of setting values, and how they are parsed.
//!
//! The environment and flags supply text, a file supplies TOML. Both yield the same
//! checked value.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value as Json;
use toml::Value;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Any text.
    Text,
    /// A text that is never displayed.
    Secret,
    /// An IP address.
    Address,
    /// A whole number from .. to ..
    Number(i64, i64),
    /// Bytes: `512MiB`.
    Size,
    /// Time: `30s`.
    Duration,
    /// `true` or `false`.
    Flag,
    /// Texts; in the environment and in flags comma-separated, or a JSON list.
    List,
    /// One of these.
    Choice(&'static [&'static str]),
}

/// A port; 0 lets the system choose, for tests.
pub(super) const PORT: ValueType = ValueType::Number(0, 65_535);

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text | Self::Secret => f.write_str("text"),
            Self::Address => f.write_str("an IP address"),
            Self::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Size => f.write_str("bytes, such as \"64MiB\""),
            Self::Duration => f.write_str("a duration, such as \"30s\" or \"5m\""),
            Self::Flag => f.write_str("true or false"),
            Self::List => f.write_str("a list of texts"),
            Self::Choice(names) => write!(f, "one of {}", names.join(", ")),
        }
    }
}

impl ValueType {
    /// Parses a text of the environment or of a flag.
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Self::Number(..) => text.trim().parse().map(Value::Integer).ok(),
            Self::Flag => text.trim().parse().map(Value::Boolean).ok(),
            Self::List => Some(list(text)?),
            Self::Text | Self::Secret if serde_json::from_str::<Vec<Json>>(text).is_ok() => {
                return Err("it is one text, not a list".to_owned());
            }
            _ => Some(Value::String(text.to_owned())),
        };
        let value = value.ok_or_else(|| self.wrong(text))?;
        self.check(&value)?;
        Ok(value)
    }

    /// Whether a value fits.
    pub(super) fn check(self, value: &Value) -> Result<(), String> {
        let fits = match (self, value) {
            (Self::Text | Self::Secret, Value::String(_)) | (Self::Flag, Value::Boolean(_)) => true,
            (Self::Address, Value::String(text)) => text.parse::<IpAddr>().is_ok(),
            (Self::Number(least, most), Value::Integer(number)) => (least..=most).contains(number),
            (Self::Size, Value::String(text)) => size(text).is_some(),
            (Self::Duration, Value::String(text)) => duration(text).is_some(),
            (Self::List, Value::Array(parts)) => parts.iter().all(Value::is_str),
            (Self::Choice(names), Value::String(text)) => names.contains(&text.as_str()),
            _ => false,
        };
        if fits {
            Ok(())
        } else if self == Self::Secret {
            Err("it must be text".to_owned())
        } else {
            Err(self.wrong(value))
        }
    }

    fn wrong(self, found: impl fmt::Display) -> String {
        format!("it must be {self}, not {found}")
    }
}

/// A list: texts with commas between them, or JSON.
fn list(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if let Ok(parts) = serde_json::from_str::<Vec<String>>(text) {
        let parts = parts.into_iter().map(Value::String);
        return Ok(Value::Array(parts.collect()));
    }
    let parts = text.split(',').map(str::trim);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    if !parts.iter().all(|part| is_plain(part)) {
        return Err("write a list as a,b or as [\"a\",\"b\"]".to_owned());
    }
    let parts = parts.into_iter().map(|part| Value::String(part.to_owned()));
    Ok(Value::Array(parts.collect()))
}

/// Whether a part of a list has no marks of JSON or TOML. Brackets enclose addresses.
fn is_plain(part: &str) -> bool {
    let is_balanced = part.matches('[').count() == part.matches(']').count();
    let is_address = |text: &str| {
        let is_part = |letter: char| letter.is_ascii_hexdigit() || ":./".contains(letter);
        text.contains(':') && text.chars().all(is_part)
    };
    let bracketed = part.split('[').skip(1);
    let mut bracketed = bracketed.map(|rest| rest.split(']').next().unwrap_or_default());
    is_balanced && !part.contains(['"', '\'', '{', '}']) && bracketed.all(is_address)
}

const UNITS: [(&str, u64); 4] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("B", 1),
];

/// Bytes of `64MiB`.
pub fn size(text: &str) -> Option<u64> {
    let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
    number.checked_mul(*factor)
}

const TIMES: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// The time of `30s`.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = TIMES.iter().find(|(known, _)| *known == unit.trim())?;
    let ms = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    Some(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_have_units() {
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("5 B"), Some(5));
        assert_eq!(duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2 d"), Some(Duration::from_secs(172_800)));
        for text in ["", "5", "MiB", "-1B", "99999999999999999999B", "5MB"] {
            assert_eq!(size(text), None, "{text}");
        }
        for text in ["", "5", "s", "-1s", "1y", "99999999999999999999s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn text_of_the_environment_becomes_the_value_of_a_file() {
        assert_eq!(PORT.read("7070"), Ok(Value::Integer(7070)));
        assert_eq!(ValueType::Flag.read("true"), Ok(Value::Boolean(true)));
        let list = ValueType::List.read("a, b").unwrap();
        assert_eq!(list, Value::Array(vec!["a".into(), "b".into()]));
        assert!(PORT.read("70700").unwrap_err().contains("from 0 to 65535"));
        assert!(ValueType::Address.read("localhost").is_err());
        assert!(
            ValueType::Choice(&["a", "b"])
                .read("c")
                .unwrap_err()
                .contains("one of a, b")
        );
    }

    #[test]
    fn lists_are_separated_by_commas_or_are_json() {
        let texts = |text: &str| match ValueType::List.read(text) {
            Ok(Value::Array(parts)) => {
                let parts = parts.iter().map(|part| part.as_str().unwrap().to_owned());
                Ok(parts.collect::<Vec<_>>())
            }
            other => Err(other),
        };
        for text in [r#"["a","b"]"#, r#" [ "a", "b" ] "#, "a,b", "a, b,"] {
            assert_eq!(texts(text), Ok(vec!["a".into(), "b".into()]), "{text}");
        }
        for text in ["", "[]"] {
            assert_eq!(texts(text), Ok(Vec::new()), "{text}");
        }
        let brackets = "[fd00::/8]:443,http://[::1]:80";
        assert_eq!(
            texts(brackets).unwrap(),
            ["[fd00::/8]:443", "http://[::1]:80"]
        );
        for text in [
            "[a,b]",
            "['a','b']",
            "[a]",
            r#""a","b""#,
            "[1]",
            r#"["a""#,
            r#"{"a":1}"#,
        ] {
            let error = ValueType::List.read(text).unwrap_err();
            assert!(error.contains("write a list as"), "{text}: {error}");
        }
        let error = ValueType::Text.read(r#"["a"]"#).unwrap_err();
        assert_eq!(error, "it is one text, not a list");
    }

    #[test]
    fn a_secret_is_not_repeated_in_a_complaint() {
        let error = ValueType::Secret.check(&Value::Integer(12345)).unwrap_err();
        assert!(!error.contains("12345"), "{error}");
    }
}
