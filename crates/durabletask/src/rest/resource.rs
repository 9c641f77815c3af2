//! The resource that a path names.

use percent_encoding::percent_decode_str;

/// A resource below the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DurableResource {
    Start {
        name: String,
        instance: Option<String>,
    },
    Instances,
    Instance(String),
    Raise {
        instance: String,
        event: String,
    },
    Verb {
        instance: String,
        verb: Verb,
    },
    /// What an instance waits for.
    Why(String),
    Locks,
    Lock {
        name: String,
        key: String,
    },
    Entities {
        name: Option<String>,
    },
    Entity {
        name: String,
        key: String,
    },
    Call {
        name: String,
        key: String,
    },
}

/// An action on an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Terminate,
    Suspend,
    Resume,
    Rewind,
    Restart,
}

const VERBS: [(&str, Verb); 5] = [
    ("terminate", Verb::Terminate),
    ("suspend", Verb::Suspend),
    ("resume", Verb::Resume),
    ("rewind", Verb::Rewind),
    ("restart", Verb::Restart),
];

impl DurableResource {
    /// Parses a path relative to the base path.
    pub(super) fn read(path: &str) -> Option<Self> {
        let parts = path.trim_end_matches('/').split('/').map(decoded);
        let parts = parts.collect::<Option<Vec<_>>>()?;
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let (word, rest) = parts.split_first()?;
        let text = |text: &str| text.to_owned();
        Some(match (word.to_ascii_lowercase().as_str(), rest) {
            ("orchestrators", [name]) => Self::Start {
                name: text(name),
                instance: None,
            },
            ("orchestrators", [name, instance]) => Self::Start {
                name: text(name),
                instance: Some(text(instance)),
            },
            ("instances", []) => Self::Instances,
            ("instances", [instance]) => Self::Instance(text(instance)),
            ("instances", [instance, word, event]) if word.eq_ignore_ascii_case("raiseEvent") => {
                Self::Raise {
                    instance: text(instance),
                    event: text(event),
                }
            }
            ("instances", [instance, word]) if word.eq_ignore_ascii_case("why") => {
                Self::Why(text(instance))
            }
            ("instances", [instance, word]) => Self::Verb {
                instance: text(instance),
                verb: verb(word)?,
            },
            ("locks", []) => Self::Locks,
            ("locks", [name, own]) => Self::Lock {
                name: text(name),
                key: key(own),
            },
            ("entities", []) => Self::Entities { name: None },
            ("entities", [name]) => Self::Entities {
                name: Some(text(name)),
            },
            ("entities", [name, own]) => Self::Entity {
                name: text(name),
                key: key(own),
            },
            ("entities", [name, own, word]) if word.eq_ignore_ascii_case("call") => Self::Call {
                name: text(name),
                key: key(own),
            },
            _ => return None,
        })
    }
}

impl DurableResource {
    /// Its path, with parameters in braces.
    pub(super) fn described(&self) -> &'static str {
        match self {
            Self::Start { instance: None, .. } => "orchestrators/{name}",
            Self::Start { .. } => "orchestrators/{name}/{id}",
            Self::Instances => "instances",
            Self::Instance(_) => "instances/{id}",
            Self::Raise { .. } => "instances/{id}/raiseEvent/{event}",
            Self::Verb { verb, .. } => match verb {
                Verb::Terminate => "instances/{id}/terminate",
                Verb::Suspend => "instances/{id}/suspend",
                Verb::Resume => "instances/{id}/resume",
                Verb::Rewind => "instances/{id}/rewind",
                Verb::Restart => "instances/{id}/restart",
            },
            Self::Why(_) => "instances/{id}/why",
            Self::Locks => "locks",
            Self::Lock { .. } => "locks/{name}/{key}",
            Self::Entities { name: None } => "entities",
            Self::Entities { .. } => "entities/{name}",
            Self::Entity { .. } => "entities/{name}/{key}",
            Self::Call { .. } => "entities/{name}/{key}/call",
        }
    }
}

fn verb(word: &str) -> Option<Verb> {
    let mut verbs = VERBS.iter();
    let found = verbs.find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, verb)| *verb)
}

/// A key; a dollar sign stands for the empty key.
fn key(text: &str) -> String {
    match text {
        "$" => String::new(),
        text => text.to_owned(),
    }
}

fn decoded(part: &str) -> Option<String> {
    let text = percent_decode_str(part).decode_utf8().ok()?;
    (!text.is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let read = |path| DurableResource::read(path).unwrap();
        assert_eq!(
            read("orchestrators/f/my%20id"),
            DurableResource::Start {
                name: "f".into(),
                instance: Some("my id".into())
            }
        );
        assert_eq!(read("instances/"), DurableResource::Instances);
        assert_eq!(
            read("instances/i/raiseevent/go"),
            DurableResource::Raise {
                instance: "i".into(),
                event: "go".into()
            }
        );
        assert_eq!(
            read("instances/i/Rewind"),
            DurableResource::Verb {
                instance: "i".into(),
                verb: Verb::Rewind
            }
        );
        assert_eq!(
            read("entities/Counter/$"),
            DurableResource::Entity {
                name: "Counter".into(),
                key: String::new()
            }
        );
        for bad in [
            "",
            "x",
            "orchestrators",
            "instances/a/b/c",
            "entities//a",
            "instances/%FF",
        ] {
            assert_eq!(DurableResource::read(bad), None, "{bad}");
        }
    }
}
