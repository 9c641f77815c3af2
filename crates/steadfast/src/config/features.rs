//! Settings that belong to a feature of the crate.
//!
//! A setting of a feature that is not compiled in is refused, never ignored.

use toml::Value;

use super::error::{Error, ErrorKind};
use super::layers::Layers;

/// A feature, and what it brings to a configuration.
struct Feature {
    name: &'static str,
    is_present: bool,
    /// Settings and lists of declarations. A setting may need several features; `setting=value`
    /// is one that needs it for this value only.
    keys: &'static [&'static str],
}

/// All features that have settings.
const FEATURES: &[Feature] = &[
    Feature {
        name: "eventhubs",
        is_present: cfg!(feature = "eventhubs"),
        keys: &[
            "events.amqp_port",
            "events.amqps_port",
            "events.blob_port",
            "limits.connection_bytes",
            "limits.connections_bytes",
        ],
    },
    Feature {
        name: "durabletask",
        is_present: cfg!(feature = "durabletask"),
        keys: &["durable.port"],
    },
    Feature {
        name: "postgres",
        is_present: cfg!(feature = "postgres"),
        keys: &["engine=postgres", "postgres.url"],
    },
    Feature {
        name: "scheduler",
        is_present: cfg!(feature = "scheduler"),
        keys: &[
            "jobs.token_authority",
            "jobs.endpoints",
            "jobs.quotas",
            "jobs.allow_seconds",
            "jobs.min_retry_interval",
            "jobs.region",
            "jobs.pair",
            "jobs.witness",
            "job_collection",
            "region",
        ],
    },
    // Upstreams of SignalR are called under the same policy as the targets of jobs.
    Feature {
        name: "scheduler",
        is_present: cfg!(any(feature = "scheduler", feature = "signalr")),
        keys: &["jobs.allow", "jobs.deny", "jobs.proxy", "jobs.ca"],
    },
    Feature {
        name: "signalr",
        is_present: cfg!(feature = "signalr"),
        keys: &["realtime.port", "realtime.mode", "upstream"],
    },
    Feature {
        name: "cluster",
        is_present: cfg!(feature = "cluster"),
        keys: &[
            "cluster.key",
            "cluster.port",
            "cluster.advertise",
            "jobs.region",
            "jobs.pair",
            "jobs.witness",
            "region",
        ],
    },
];

/// The errors of settings whose feature is not compiled in.
pub(super) fn missing(layers: &Layers) -> Vec<Error> {
    missing_of(FEATURES, layers)
}

/// Whether the port of this setting can be open.
pub(super) fn has(key: &str) -> bool {
    let mut all = FEATURES.iter().filter(|one| one.keys.contains(&key));
    all.all(|feature| feature.is_present)
}

fn missing_of(features: &[Feature], layers: &Layers) -> Vec<Error> {
    let absent = features.iter().filter(|feature| !feature.is_present);
    let keys = absent.flat_map(|feature| feature.keys.iter().map(|key| (feature.name, *key)));
    let set = keys.filter_map(|(feature, key)| {
        let (key, value) = parts(key);
        let found = layers.value(key).and_then(Value::as_str);
        if value.is_some_and(|value| found != Some(value)) {
            return None;
        }
        let place = layers.place_of_own(key)?;
        Some(Error::new(ErrorKind::Feature {
            key: key.to_owned(),
            place: place.to_owned(),
            feature,
        }))
    });
    set.collect()
}

/// A key of a feature: the setting, and the value that needs the feature.
fn parts(key: &str) -> (&str, Option<&str>) {
    let parts = key.split_once('=');
    parts.map_or((key, None), |(key, value)| (key, Some(value)))
}

#[cfg(test)]
mod tests {
    use super::super::declarations;
    use super::super::setting::find;
    use super::*;

    #[test]
    fn every_key_is_a_setting_or_a_list() {
        for key in FEATURES.iter().flat_map(|feature| feature.keys) {
            let (key, _) = parts(key);
            assert!(find(key).is_some() || declarations::is_list(key), "{key}");
        }
    }

    #[test]
    fn what_belongs_to_an_absent_feature_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steadfast.toml");
        let text = "[realtime]\nport = 1\n\n[[upstream]]\nurl = 'http://h/'\n";
        std::fs::write(&file, text).unwrap();
        let layers = Layers::new().file(&file).unwrap();
        let absent = |is_present| {
            let feature = Feature {
                name: "signalr",
                is_present,
                keys: &["realtime.port", "realtime.mode", "upstream"],
            };
            missing_of(&[feature], &layers)
        };
        let errors: Vec<_> = absent(false).iter().map(Error::to_string).collect();
        let [port, upstream] = &errors[..] else {
            panic!("{errors:?}");
        };
        for (error, key, line) in [(port, "realtime.port", 2), (upstream, "upstream", 4)] {
            let start = format!("STF-7007: '{key}' (");
            let place = format!("steadfast.toml:{line})");
            assert!(
                error.starts_with(&start) && error.contains(&place),
                "{error}"
            );
            assert!(error.contains("the feature 'signalr'"), "{error}");
        }
        assert!(absent(true).is_empty());
    }

    #[test]
    fn a_value_of_an_absent_feature_is_refused_and_others_are_not() {
        let missing = |engine: &str| {
            let layers = Layers::new().flag(&format!("engine={engine}")).unwrap();
            let feature = Feature {
                name: "postgres",
                is_present: false,
                keys: &["engine=postgres", "postgres.url"],
            };
            let errors = missing_of(&[feature], &layers);
            errors.iter().map(Error::to_string).collect::<Vec<_>>()
        };
        let [error] = &missing("postgres")[..] else {
            panic!("{:?}", missing("postgres"));
        };
        assert!(error.starts_with("STF-7007: 'engine' ("), "{error}");
        assert_eq!(missing("memory"), [""; 0]);
    }

    #[test]
    fn defaults_belong_to_no_feature() {
        let feature = Feature {
            name: "signalr",
            is_present: false,
            keys: &["realtime.port"],
        };
        assert!(missing_of(&[feature], &Layers::new()).is_empty());
    }
}
