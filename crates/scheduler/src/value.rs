//! Typed access to JSON bodies, with paths for errors.
//!
//! Enumeration words are accepted in any case and returned in canonical spelling.

use serde_json::{Map, Value};
use steadfast_core::clock::{Timestamp, whole_ms};
use steadfast_core::iso;

use super::error::SchedulerError;

/// An object of the body and its path.
#[derive(Clone)]
pub(crate) struct JsonObject<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> JsonObject<'a> {
    /// The object at `path`.
    pub(crate) fn new(value: &'a Value, path: impl Into<String>) -> Result<Self, SchedulerError> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            _ => Err(SchedulerError::member(path, "an object is expected")),
        }
    }

    /// The path of a member.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_string()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// An error about a member.
    pub(crate) fn wrong(&self, name: &str, message: impl Into<String>) -> SchedulerError {
        SchedulerError::member(self.at(name), message)
    }

    /// A member, unless it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<JsonObject<'a>>, SchedulerError> {
        self.get(name)
            .map(|value| JsonObject::new(value, self.at(name)))
            .transpose()
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, SchedulerError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a text is expected")),
        }
    }

    pub(crate) fn required_text(&self, name: &str) -> Result<&'a str, SchedulerError> {
        match self.text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.wrong(name, "it is required")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, SchedulerError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(name, "a whole number is expected")),
            },
        }
    }

    /// A number within bounds.
    pub(crate) fn number_in(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, SchedulerError> {
        match self.number(name)? {
            Some(number) if !range.contains(&number) => {
                let message = format!("it must be {} to {}", range.start(), range.end());
                Err(self.wrong(name, message))
            }
            number => Ok(number),
        }
    }

    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, SchedulerError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match iso::parse_time(text) {
            Some(time) => Ok(Some(time)),
            None => Err(self.wrong(name, "a time such as 2025-06-01T10:00:00Z is expected")),
        }
    }

    /// A duration in milliseconds.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<u64>, SchedulerError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match iso::parse_duration(text) {
            Some(duration) => Ok(Some(whole_ms(duration))),
            None => Err(self.wrong(name, "a duration such as PT30S is expected")),
        }
    }

    /// One of a list of words, in the spelling of the list.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&'static str, T)],
    ) -> Result<Option<T>, SchedulerError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let found = words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text));
        match found {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(self.wrong(name, format!("it must be one of {}", known.join(", "))))
            }
        }
    }

    /// A list; a single value is a list of one.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&'a Value>> {
        match self.get(name)? {
            Value::Array(list) => Some(list.iter().collect()),
            value => Some(vec![value]),
        }
    }

    /// The members of an object whose values are texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<(&'a str, String)>, SchedulerError> {
        let Some(object) = self.object(name)? else {
            return Ok(Vec::new());
        };
        let pairs = object.map.iter().filter(|(_, value)| !value.is_null());
        pairs
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key.as_str(), text.clone())),
                Value::Number(number) => Ok((key.as_str(), number.to_string())),
                Value::Bool(flag) => Ok((key.as_str(), flag.to_string())),
                _ => Err(object.wrong(key, "a text is expected")),
            })
            .collect()
    }
}

/// The canonical spelling of a value.
pub(crate) fn spell<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    let found = words.iter().find(|(_, known)| known == value);
    found.map_or("", |(word, _)| *word)
}
