//! The declarations of a configuration file.
//!
//! Keys, event hubs, task hubs, collections of jobs, regions, upstreams.
//!
//! These are lists of tables, so they have no environment variable and no flag.

use serde::Deserialize;
use steadfast_protocols::realtime::UpstreamRule;
use toml::{Table, Value};

use super::error::{Error, ErrorKind};
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

impl DeclaredUpstream {
    /// Its rule; a field that is not set matches everything.
    pub(crate) fn rule(&self) -> UpstreamRule {
        let or_all = |own: &Option<String>| own.clone().unwrap_or_else(|| "*".to_owned());
        UpstreamRule {
            url: self.url.clone(),
            hub: or_all(&self.hub),
            category: or_all(&self.category),
            event: or_all(&self.event),
        }
    }
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

/// All declarations of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    pub(super) keys: Vec<DeclaredKey>,
    pub(super) event_hubs: Vec<DeclaredEventHub>,
    pub(super) task_hubs: Vec<DeclaredTaskHub>,
    pub(super) job_collections: Vec<DeclaredJobCollection>,
    pub(super) regions: Vec<DeclaredRegion>,
    pub(super) upstreams: Vec<DeclaredUpstream>,
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
    /// Takes the declarations out of a file.
    pub(super) fn take(file: &mut Table, place: &str) -> Result<Self, Error> {
        Ok(Self {
            keys: take(file, "key", place)?,
            event_hubs: take(file, "event_hub", place)?,
            task_hubs: take(file, "task_hub", place)?,
            job_collections: take(file, "job_collection", place)?,
            regions: take(file, "region", place)?,
            upstreams: take(file, "upstream", place)?,
        })
    }
}

fn take<T: for<'a> Deserialize<'a>>(
    file: &mut Table,
    list: &str,
    place: &str,
) -> Result<Vec<T>, Error> {
    let Some(value) = file.remove(list) else {
        return Ok(Vec::new());
    };
    let Value::Array(rows) = value else {
        let why = format!("it is a list of tables: write [[{list}]]");
        return Err(Error::value(list, place, why));
    };
    let fields = LISTS.iter().find(|(name, _)| *name == list);
    let fields = fields.map_or(&[][..], |(_, fields)| fields);
    rows.into_iter()
        .map(|row| read(row, list, fields, place))
        .collect()
}

fn read<T: for<'a> Deserialize<'a>>(
    row: Value,
    list: &str,
    fields: &'static [&'static str],
    place: &str,
) -> Result<T, Error> {
    let names = row.as_table().into_iter().flat_map(Table::keys);
    let mut unknown = names.filter(|name| !fields.contains(&name.as_str()));
    if let Some(name) = unknown.next() {
        return Err(Error::new(ErrorKind::Unknown {
            key: format!("{list}.{name}"),
            place: place.to_owned(),
            nearest: nearest(name, fields.iter().copied()),
        }));
    }
    // The parser's message names the field, never its value.
    row.try_into()
        .map_err(|error: toml::de::Error| Error::value(list, place, error.message()))
}
