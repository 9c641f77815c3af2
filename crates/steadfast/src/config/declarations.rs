//! The declarations of a configuration file.
//!
//! Keys, event hubs, task hubs, collections of jobs, regions, upstreams.
//!
//! These are lists of tables, so they have no environment variable and no flag.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::error::{Error, ErrorKind};
use super::file::{ConfigFile, FileErrors};
use super::nearest::nearest;

/// A key with its rights.
#[derive(Clone, Debug, Deserialize)]
pub struct DeclaredKey {
    /// Its name.
    pub name: String,
    /// The primary secret.
    pub primary: DeclaredSecret,
    /// A second valid secret.
    pub secondary: Option<DeclaredSecret>,
    /// Its rights.
    pub rights: Vec<String>,
}

/// An event hub that exists as soon as the node runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DeclaredEventHub {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: Option<u32>,
    /// Its consumer groups, beside `$Default`.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The retention time of events.
    pub retention: Option<String>,
    /// The retention size of a partition, in bytes.
    pub retention_bytes: Option<String>,
}

/// A task hub that exists as soon as the node runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DeclaredTaskHub {
    /// Its name.
    pub name: String,
    /// The retention time of finished instances.
    pub retention: Option<String>,
}

/// A collection of jobs that exists as soon as the node runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DeclaredJobCollection {
    /// The subscription in its address.
    pub subscription: Option<String>,
    /// The resource group in its address.
    pub resource_group: Option<String>,
    /// Its name.
    pub name: String,
    /// How many jobs it may hold.
    pub max_jobs: Option<u32>,
    /// In a region pair, its home; the region of this server unless set.
    pub location: Option<String>,
}

/// A region that is added to those of Azure or replaces one of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DeclaredRegion {
    /// Its display name.
    pub name: String,
    /// The geography, which the data of the region does not leave.
    pub geography: String,
    /// The region that it fails over to.
    pub pair: Option<String>,
    /// Whether writes fail while they cannot be replicated to the other region.
    #[serde(default)]
    pub require_sync: bool,
}

/// An upstream for the clients of hubs without an app server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DeclaredUpstream {
    /// The URL; may contain `{hub}`, `{category}` and `{event}`.
    pub url: String,
    /// The hubs: `*`, a name, or comma-separated names.
    pub hub: Option<String>,
    /// The categories: `connections`, `messages`, or both.
    pub category: Option<String>,
    /// The events: `connected`, `disconnected`, or names of methods.
    pub event: Option<String>,
}

/// A secret in the file. It is never displayed.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DeclaredSecret(pub(crate) String);

impl std::fmt::Debug for DeclaredSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// The lists of tables, with the fields of each.
const LISTS: &[(&str, &[&str])] = &[
    ("key", &["name", "primary", "secondary", "rights"]),
    (
        "event_hub",
        &[
            "name",
            "partitions",
            "groups",
            "retention",
            "retention_bytes",
        ],
    ),
    ("task_hub", &["name", "retention"]),
    (
        "job_collection",
        &[
            "subscription",
            "resource_group",
            "name",
            "max_jobs",
            "location",
        ],
    ),
    ("region", &["name", "geography", "pair", "require_sync"]),
    ("upstream", &["url", "hub", "category", "event"]),
];

/// The end of a new configuration file.
pub(super) const TEMPLATE: &str = r#"
# Keys, event hubs, task hubs and collections of jobs may be declared here. The
# server makes what is missing when it starts, and removes nothing.

# [[key]]
# name = "sender"
# primary = "a long random text"
# rights = ["send events/houses"]

# [[event_hub]]
# name = "houses"
# partitions = 4
# groups = ["analytics"]
# retention = "1d"

# [[task_hub]]
# name = "default"

# [[job_collection]]
# name = "nightly"
# max_jobs = 50
# location = "West US"   # of two regions, the one that runs its jobs

# Regions beside Azure's, whose names and pairs are known.
# [[region]]
# name = "Bremen"
# geography = "Germany"
# pair = "Jena"

# Without app servers (realtime.mode) the first that fits is told of a client.
# [[upstream]]
# url = "https://example.org/{hub}/{category}/{event}"
# hub = "*"
# category = "messages"
"#;

/// A row of a list, with its file and line.
#[derive(Clone, Debug)]
pub(super) struct PlacedRow<T> {
    pub(super) row: T,
    pub(super) place: String,
}

/// All declarations of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    pub(super) keys: Vec<PlacedRow<DeclaredKey>>,
    pub(super) event_hubs: Vec<PlacedRow<DeclaredEventHub>>,
    pub(super) task_hubs: Vec<PlacedRow<DeclaredTaskHub>>,
    pub(super) job_collections: Vec<PlacedRow<DeclaredJobCollection>>,
    pub(super) regions: Vec<PlacedRow<DeclaredRegion>>,
    pub(super) upstreams: Vec<PlacedRow<DeclaredUpstream>>,
}

/// The rows without their places.
pub(super) fn rows<T: Clone>(placed: &[PlacedRow<T>]) -> Vec<T> {
    placed.iter().map(|placed| placed.row.clone()).collect()
}

/// Whether this top-level key is a list of declarations.
pub(super) fn is_list(key: &str) -> bool {
    LISTS.iter().any(|(name, _)| *name == key)
}

/// The names of the lists.
pub(super) fn lists() -> impl Iterator<Item = &'static str> {
    LISTS.iter().map(|(name, _)| *name)
}

impl Declarations {
    /// Where the first row of a list stands, if the file has one.
    pub(super) fn place(&self, list: &str) -> Option<&str> {
        fn first<T>(rows: &[PlacedRow<T>]) -> Option<&str> {
            rows.first().map(|row| row.place.as_str())
        }
        match list {
            "key" => first(&self.keys),
            "event_hub" => first(&self.event_hubs),
            "task_hub" => first(&self.task_hubs),
            "job_collection" => first(&self.job_collections),
            "region" => first(&self.regions),
            "upstream" => first(&self.upstreams),
            _ => None,
        }
    }

    /// Adds a list of a file.
    pub(super) fn add(
        &mut self,
        list: &str,
        value: Spanned<DeValue<'_>>,
        file: &ConfigFile,
        errors: &mut FileErrors,
    ) {
        match list {
            "key" => self.keys = read(list, value, file, errors),
            "event_hub" => self.event_hubs = read(list, value, file, errors),
            "task_hub" => self.task_hubs = read(list, value, file, errors),
            "job_collection" => self.job_collections = read(list, value, file, errors),
            "region" => self.regions = read(list, value, file, errors),
            _ => self.upstreams = read(list, value, file, errors),
        }
    }
}

fn read<T: for<'a> Deserialize<'a>>(
    list: &str,
    value: Spanned<DeValue<'_>>,
    file: &ConfigFile,
    errors: &mut FileErrors,
) -> Vec<PlacedRow<T>> {
    let span = value.span();
    let DeValue::Array(rows) = value.into_inner() else {
        let why = format!("it is a list of tables: write [[{list}]]");
        errors.push(&span, Error::value(list, file.place(&span), why));
        return Vec::new();
    };
    let fields = LISTS.iter().find(|(name, _)| *name == list);
    let fields = fields.map_or(&[][..], |(_, fields)| fields);
    rows.into_iter()
        .filter_map(|row| read_row(list, fields, row, file, errors))
        .collect()
}

/// One row; `None` if it has an error.
fn read_row<T: for<'a> Deserialize<'a>>(
    list: &str,
    fields: &'static [&'static str],
    row: Spanned<DeValue<'_>>,
    file: &ConfigFile,
    errors: &mut FileErrors,
) -> Option<PlacedRow<T>> {
    let span = row.span();
    let names = row.get_ref().as_table();
    let names = names.into_iter().flat_map(|table| table.keys());
    let unknown: Vec<_> = names
        .filter(|name| !fields.contains(&name.get_ref().as_ref()))
        .collect();
    for name in &unknown {
        let place = file.place(&name.span());
        let error = Error::new(ErrorKind::Unknown {
            key: format!("{list}.{}", name.get_ref()),
            place,
            nearest: nearest(name.get_ref(), fields.iter().copied()),
        });
        errors.push(&name.span(), error);
    }
    if !unknown.is_empty() {
        return None;
    }
    let place = file.place(&span);
    match T::deserialize(ValueDeserializer::from(row)) {
        Ok(row) => Some(PlacedRow { row, place }),
        Err(error) => {
            let span = error.span().unwrap_or(span);
            // The parser's message names the field, never its value.
            let error = Error::value(list, file.place(&span), error.message());
            errors.push(&span, error);
            None
        }
    }
}
