//! The parsed and checked configuration.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use steadfast_core::limits;
use steadfast_net::access::{Grant, Key, KeyRing, Secret};
use steadfast_net::egress::EgressRule;
use steadfast_realtime::ServiceMode;
use toml::Value;

use super::declarations::{
    DeclaredEventHub, DeclaredJobCollection, DeclaredKey, DeclaredRegion, DeclaredTaskHub,
    DeclaredUpstream, PlacedRow, rows,
};
use super::error::Error;
use super::features;
use super::layers::Layers;
use super::regions::RegionConfig;
use super::upstream;
use super::value::{duration, size};

/// Where state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// In a folder.
    Local,
    /// In memory only.
    Memory,
    /// In a PostgreSQL cluster.
    Postgres,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// All settings. [`Config::default`] returns the defaults.
///
/// ```
/// use steadfast::config::{Config, Layers};
///
/// # fn main() -> Result<(), steadfast::config::Error> {
/// assert_eq!(Config::default().http_port, 7070);
/// let config = Config::new(&Layers::new().flag("http.port=8080")?)?;
/// assert_eq!(config.address(config.http_port).to_string(), "127.0.0.1:8080");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The node's name.
    pub name: String,
    /// The folder of the local engine.
    pub data: PathBuf,
    /// The folder that contains backups taken over the network.
    pub backup_root: PathBuf,
    /// Where state is kept.
    pub engine: EngineKind,
    /// How many partitions there are.
    pub partitions: u16,
    /// Bytes for rows, events and buffers.
    pub memory: u64,
    /// The address of every port.
    pub listen: IpAddr,
    /// The URL of the PostgreSQL cluster; may contain a password.
    pub postgres_url: Option<String>,
    /// The shared secret of all nodes of a cluster.
    pub cluster_key: Option<String>,
    /// The port of other nodes.
    pub cluster_port: u16,
    /// The address under which other nodes reach this one.
    pub cluster_advertise: Option<String>,
    /// How long a node that does not renew its lease keeps its partitions.
    pub cluster_lease: Duration,
    /// The size of the unflushed log that triggers a flush.
    pub log_target: u64,
    /// The port of REST, health and metrics.
    pub http_port: u16,
    /// Connections per port at a time.
    pub connections: usize,
    /// Unauthenticated connections at a time.
    pub unproven_connections: usize,
    /// Memory limit of one authenticated connection.
    pub connection_bytes: u64,
    /// Memory limit of all authenticated connections together.
    pub connections_bytes: u64,
    /// What all blobs of one account take together.
    pub blob_account_bytes: u64,
    /// Origins whose pages may call the server.
    pub cors_origins: Vec<String>,
    /// Host names that requests may use.
    pub hosts: Vec<String>,
    /// Proxies whose forwarding headers are trusted.
    pub trusted_proxies: Vec<String>,
    /// The port of event hubs, not encrypted.
    pub amqp_port: u16,
    /// The port of event hubs, encrypted.
    pub amqps_port: u16,
    /// The port of blobs.
    pub blob_port: u16,
    /// Default number of partitions of an event hub.
    pub events_partitions: u32,
    /// The port of the Durable Task SDKs.
    pub durable_port: u16,
    /// The file of the key that encrypts secrets of jobs.
    pub jobs_secret_key: Option<PathBuf>,
    /// Networks and ports that may be called although they are closed by default.
    pub jobs_allow: Vec<String>,
    /// Networks and ports that may not be called.
    pub jobs_deny: Vec<String>,
    /// A proxy for calls of jobs.
    pub jobs_proxy: Option<String>,
    /// Certificate authorities that calls of jobs trust.
    pub jobs_ca: Option<PathBuf>,
    /// The token authority of jobs.
    pub jobs_token_authority: Option<String>,
    /// Accounts and namespaces at other addresses, with their URLs.
    pub jobs_endpoints: Vec<(String, String)>,
    /// Whether undeclared task hubs are created on first use.
    pub unknown_task_hubs: bool,
    /// Whether plans limit job collections.
    pub jobs_quotas: bool,
    /// Whether jobs may run every second.
    pub jobs_allow_seconds: bool,
    /// The shortest interval of a retry policy.
    pub jobs_min_retry_interval: Duration,
    /// The port of SignalR clients and app servers.
    pub realtime_port: u16,
    /// Whether clients need app servers.
    pub realtime_mode: ServiceMode,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether to listen beyond loopback without TLS.
    pub allow_plain: bool,
    /// The file of keys.
    pub keys_file: PathBuf,
    /// The time limit of a drain.
    pub drain_limit: Duration,
    /// How much is logged.
    pub log_level: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Keys that the file declares.
    pub keys: Vec<DeclaredKey>,
    /// Event hubs that the file declares.
    pub event_hubs: Vec<DeclaredEventHub>,
    /// Task hubs that the file declares.
    pub task_hubs: Vec<DeclaredTaskHub>,
    /// Collections of jobs that the file declares.
    pub job_collections: Vec<DeclaredJobCollection>,
    /// The regions, and this server's role among them.
    pub regions: RegionConfig,
    /// Upstreams for the clients of hubs without an app server.
    pub upstreams: Vec<DeclaredUpstream>,
}

impl Default for Config {
    fn default() -> Self {
        Self::new(&Layers::new()).expect("a test reads the defaults")
    }
}

impl Config {
    /// Reads the values of all layers; the error names everything that is wrong.
    pub fn new(layers: &Layers) -> Result<Self, Error> {
        let mut errors = layers.errors().to_vec();
        errors.extend(features::missing(layers));
        let config = Self::read(layers, &mut errors);
        let contradictions = config.contradictions(layers).into_iter();
        let contradictions = contradictions.filter(|(keys, _)| {
            // What follows from a refused value is no error of its own.
            !keys.iter().any(|key| layers.is_refused(key))
        });
        errors.extend(contradictions.map(|(_, error)| error));
        match Error::combined(errors) {
            Some(error) => Err(error),
            None => Ok(config),
        }
    }

    /// The values, with the errors that each of them has alone.
    fn read(layers: &Layers, errors: &mut Vec<Error>) -> Self {
        let texts = |key: &str| match layers.value(key) {
            Some(Value::Array(parts)) => parts
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        };
        let data = PathBuf::from(text(layers, "data").unwrap_or_default());
        let keys_file = text(layers, "access.keys").map(PathBuf::from);
        let backup_root = text(layers, "backup.root").map(PathBuf::from);
        let declared = &layers.declared;
        let listen = text(layers, "listen").and_then(|text| text.parse().ok());
        let config = Self {
            name: text(layers, "name").unwrap_or_default(),
            engine: match text(layers, "engine").as_deref() {
                Some("memory") => EngineKind::Memory,
                Some("postgres") => EngineKind::Postgres,
                _ => EngineKind::Local,
            },
            partitions: number(layers, "partitions") as u16,
            memory: bytes(layers, "memory"),
            // Every layer has checked its own.
            listen: listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            postgres_url: text(layers, "postgres.url"),
            cluster_key: text(layers, "cluster.key"),
            cluster_port: number(layers, "cluster.port") as u16,
            cluster_advertise: text(layers, "cluster.advertise"),
            cluster_lease: time(layers, "cluster.lease"),
            log_target: bytes(layers, "storage.log_target"),
            http_port: number(layers, "http.port") as u16,
            connections: number(layers, "http.connections") as usize,
            unproven_connections: number(layers, "limits.unproven_connections") as usize,
            connection_bytes: bytes(layers, "limits.connection_bytes"),
            connections_bytes: bytes(layers, "limits.connections_bytes"),
            blob_account_bytes: match bytes(layers, "limits.blob_account_bytes") {
                0 => u64::MAX,
                limit => limit,
            },
            cors_origins: texts("http.cors_origins"),
            hosts: texts("http.hosts"),
            trusted_proxies: texts("http.trusted_proxies"),
            amqp_port: number(layers, "events.amqp_port") as u16,
            amqps_port: number(layers, "events.amqps_port") as u16,
            blob_port: number(layers, "events.blob_port") as u16,
            events_partitions: number(layers, "events.partitions") as u32,
            durable_port: number(layers, "durable.port") as u16,
            unknown_task_hubs: flag(layers, "durable.unknown_hubs"),
            jobs_secret_key: text(layers, "jobs.secret_key").map(PathBuf::from),
            jobs_allow: texts("jobs.allow"),
            jobs_deny: texts("jobs.deny"),
            jobs_proxy: text(layers, "jobs.proxy"),
            jobs_ca: text(layers, "jobs.ca").map(PathBuf::from),
            jobs_token_authority: text(layers, "jobs.token_authority"),
            jobs_endpoints: endpoints(layers, &texts("jobs.endpoints"), errors),
            jobs_quotas: flag(layers, "jobs.quotas"),
            jobs_allow_seconds: flag(layers, "jobs.allow_seconds"),
            jobs_min_retry_interval: time(layers, "jobs.min_retry_interval"),
            realtime_port: number(layers, "realtime.port") as u16,
            realtime_mode: match text(layers, "realtime.mode").as_deref() {
                Some("serverless") => ServiceMode::Serverless,
                Some("classic") => ServiceMode::Classic,
                _ => ServiceMode::Default,
            },
            tls: tls(layers),
            allow_plain: flag(layers, "tls.allow_plain"),
            keys_file: keys_file.unwrap_or_else(|| data.join("keys.toml")),
            drain_limit: time(layers, "drain.limit"),
            log_level: text(layers, "log.level").unwrap_or_default(),
            log_format: match text(layers, "log.format").as_deref() {
                Some("text") => LogFormat::Text,
                Some("json") => LogFormat::Json,
                _ => LogFormat::Auto,
            },
            keys: rows(&declared.keys),
            event_hubs: rows(&declared.event_hubs),
            task_hubs: rows(&declared.task_hubs),
            job_collections: rows(&declared.job_collections),
            regions: regions(layers, errors),
            upstreams: rows(&declared.upstreams),
            backup_root: backup_root.unwrap_or_else(|| beside(&data)),
            data,
        };
        config.check_values(layers, errors);
        config.check_rows(layers, errors);
        config
    }

    /// The size of the unflushed log at which writers wait: four times the flush target.
    pub fn log_limit(&self) -> u64 {
        self.log_target.saturating_mul(4)
    }

    /// The address of a port.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.listen, port)
    }

    /// All ports that this program can open, by protocol.
    pub fn ports(&self) -> Vec<(&'static str, u16)> {
        let mut ports = vec![
            ("http", "http.port", self.http_port),
            ("amqp", "events.amqp_port", self.amqp_port),
            ("durable", "durable.port", self.durable_port),
            ("blob", "events.blob_port", self.blob_port),
            ("realtime", "realtime.port", self.realtime_port),
        ];
        if self.tls.is_some() {
            ports.push(("amqps", "events.amqps_port", self.amqps_port));
        }
        let ports = ports.into_iter().filter(|(_, key, _)| features::has(key));
        ports.map(|(name, _, port)| (name, port)).collect()
    }

    /// The keys that the file declares.
    pub fn ring(&self) -> Result<KeyRing, Error> {
        let mut ring = KeyRing::new();
        let place = "the configuration";
        for declared in &self.keys {
            if !ring.add(key(declared, place)?) {
                return Err(twice(declared, place));
            }
        }
        Ok(ring)
    }

    /// Values that no server can use, whatever the others are.
    fn check_values(&self, layers: &Layers, errors: &mut Vec<Error>) {
        let mut wrong = |key: &str, why: String| {
            errors.push(Error::value(key, layers.place(key), why));
        };
        let key = self.cluster_key.as_ref();
        if key.is_some_and(|key| key.len() < CLUSTER_KEY_BYTES) {
            let why = format!("it needs {CLUSTER_KEY_BYTES} characters at least");
            wrong("cluster.key", why);
        }
        if self.cluster_lease < SHORTEST_LEASE || self.cluster_lease > LONGEST_LEASE {
            wrong(
                "cluster.lease",
                "it is between 1 s and 5 minutes".to_owned(),
            );
        }
        if let Err(why) = steadfast_net::telemetry::check_level(&self.log_level) {
            wrong("log.level", why);
        }
        if self.drain_limit > limits::DRAIN_TIME {
            wrong("drain.limit", "it is a day at most".to_owned());
        }
        for origin in self.cors_origins.iter().filter(|own| !is_origin(own)) {
            let why = format!("'{origin}' is no origin such as https://example.com, nor *");
            wrong("http.cors_origins", why);
        }
        for host in self.hosts.iter().filter(|own| !is_host(own)) {
            let why = format!("'{host}' is no host name such as steadfast.internal, nor *");
            wrong("http.hosts", why);
        }
        for (key, rules) in [
            ("jobs.allow", &self.jobs_allow),
            ("jobs.deny", &self.jobs_deny),
        ] {
            let rules = rules.iter().map(|rule| rule.parse::<EgressRule>());
            for why in rules.filter_map(Result::err) {
                wrong(key, why);
            }
        }
        let proxies = self.trusted_proxies.iter().map(String::as_str);
        if let Err(why) = steadfast_net::http::TrustedProxies::new(proxies) {
            wrong("http.trusted_proxies", why);
        }
    }

    /// Declarations that no server can use.
    fn check_rows(&self, layers: &Layers, errors: &mut Vec<Error>) {
        let declared = &layers.declared;
        let mut ring = KeyRing::new();
        for PlacedRow { row, place } in &declared.keys {
            match key(row, place) {
                Ok(key) => {
                    if !ring.add(key) {
                        errors.push(twice(row, place));
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        for PlacedRow { row, place } in &declared.job_collections {
            if let Some(why) = self.regions.location_error(row.location.as_deref()) {
                let why = format!("'{}': {why}", row.name);
                errors.push(Error::value("job_collection", place, why));
            }
        }
        for PlacedRow { row, place } in &declared.upstreams {
            if let Err(why) = upstream::check(row) {
                errors.push(Error::value("upstream", place, why));
            }
        }
    }

    /// Values that exclude one another, each with all settings that take part.
    fn contradictions(&self, layers: &Layers) -> Vec<(&'static [&'static str], Error)> {
        const DATABASE: &[&str] = &["engine", "postgres.url"];
        const CLUSTER: &[&str] = &["engine", "cluster.key", "jobs.region"];
        const TLS: &[&str] = &["tls.certificate", "tls.key"];
        let wrong = |key: &str, why: &str| Error::value(key, layers.place(key), why);
        let mut found = Vec::new();
        if self.engine == EngineKind::Postgres && self.postgres_url.is_none() {
            let why = format!("the engine postgres ({}) needs it", layers.place("engine"));
            found.push((DATABASE, wrong("postgres.url", &why)));
        }
        let has_key = self.cluster_key.is_some();
        let is_paired = self.regions.role.is_some();
        if is_paired && (!has_key || self.engine != EngineKind::Local) {
            let why = "regions need the engine local and a cluster.key";
            found.push((CLUSTER, wrong("jobs.region", why)));
        }
        let is_region = text(layers, "jobs.region").is_some();
        if has_key && self.engine != EngineKind::Postgres && !is_region {
            let why = "only nodes on the engine postgres, and regions, have others";
            found.push((CLUSTER, wrong("cluster.key", why)));
        }
        for (own, other) in [(TLS[0], TLS[1]), (TLS[1], TLS[0])] {
            if text(layers, own).is_some() && text(layers, other).is_none() {
                let why = format!("{own} ({}) needs it", layers.place(own));
                found.push((TLS, wrong(other, &why)));
            }
        }
        found
    }
}

/// The regions; none if there is an error.
fn regions(layers: &Layers, errors: &mut Vec<Error>) -> RegionConfig {
    let declared = &layers.declared.regions;
    let value = |key| text(layers, key);
    let read = RegionConfig::new(
        &rows(declared),
        value("jobs.region").as_deref(),
        value("jobs.pair"),
        value("jobs.witness"),
    );
    read.unwrap_or_else(|error| {
        if !layers.is_refused("jobs.pair") {
            // The declaration that it names, or else the setting that asks for regions.
            let is_named = |row: &&PlacedRow<DeclaredRegion>| error.names(&row.row.name);
            let rows = declared.iter().filter(is_named);
            let row = rows.max_by_key(|row| row.row.name.len());
            let place = row.map_or(layers.place("jobs.region"), |row| row.place.as_str());
            errors.push(error.at(place));
        }
        RegionConfig::default()
    })
}

/// Whether this is a host name without scheme, port and path.
fn is_host(text: &str) -> bool {
    let is_part = |own: char| own.is_alphanumeric() || "-._".contains(own);
    text == "*" || !text.is_empty() && text.chars().all(is_part)
}

/// Whether a browser could send this as the origin of a page.
fn is_origin(text: &str) -> bool {
    let rest = text.split_once("://").map(|(_, rest)| rest);
    let rest = rest.map(|rest| rest.trim_end_matches('/'));
    text == "*" || rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
}

fn twice(declared: &DeclaredKey, place: &str) -> Error {
    let why = format!("there are two keys '{}'", declared.name);
    Error::value("key", place, why)
}

fn key(declared: &DeclaredKey, place: &str) -> Result<Key, Error> {
    let DeclaredKey {
        name,
        primary,
        secondary,
        rights,
    } = declared;
    let wrong = |why: String| Error::value(&format!("key '{name}'"), place, why);
    let grants = rights.iter().map(|right| right.parse::<Grant>());
    let grants = grants.collect::<Result<_, _>>();
    let secrets = std::iter::once(primary).chain(secondary);
    if secrets.clone().any(|secret| secret.0.len() < SECRET_BYTES) {
        return Err(wrong(format!(
            "a secret needs {SECRET_BYTES} characters at least"
        )));
    }
    Ok(Key {
        name: name.clone(),
        grants: grants.map_err(|error| wrong(error.to_string()))?,
        primary: Secret::new(primary.0.clone()),
        secondary: secondary
            .as_ref()
            .map(|secret| Secret::new(secret.0.clone())),
    })
}

/// Shortest secret.
const SECRET_BYTES: usize = 16;

/// Shortest cluster key.
const CLUSTER_KEY_BYTES: usize = 32;

/// The bounds of `cluster.lease`.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const LONGEST_LEASE: Duration = Duration::from_secs(300);

fn text(layers: &Layers, key: &str) -> Option<String> {
    let text = layers.value(key)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(layers: &Layers, key: &str) -> i64 {
    layers
        .value(key)
        .and_then(Value::as_integer)
        .unwrap_or_default()
}

fn flag(layers: &Layers, key: &str) -> bool {
    layers
        .value(key)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn bytes(layers: &Layers, key: &str) -> u64 {
    text(layers, key)
        .and_then(|text| size(&text))
        .unwrap_or_default()
}

fn time(layers: &Layers, key: &str) -> Duration {
    text(layers, key)
        .and_then(|text| duration(&text))
        .unwrap_or_default()
}

/// Names and addresses, of `name=url`.
fn endpoints(layers: &Layers, texts: &[String], errors: &mut Vec<Error>) -> Vec<(String, String)> {
    let mut read = Vec::with_capacity(texts.len());
    for text in texts {
        match text.split_once('=') {
            Some((name, url))
                if !name.is_empty()
                    && (url.starts_with("http://") || url.starts_with("https://")) =>
            {
                read.push((name.to_owned(), url.to_owned()));
            }
            _ => {
                let why = format!("'{text}' is not a name and an address, such as a=http://b/");
                let key = "jobs.endpoints";
                errors.push(Error::value(key, layers.place(key), why));
            }
        }
    }
    read
}

/// Certificate and key, if both are set.
fn tls(layers: &Layers) -> Option<(PathBuf, PathBuf)> {
    let path = |key| text(layers, key).map(PathBuf::from);
    path("tls.certificate").zip(path("tls.key"))
}

/// The folder of backups beside a data folder: its name with `-backups` behind it.
fn beside(data: &Path) -> PathBuf {
    match data.file_name() {
        Some(name) => {
            let mut name = name.to_owned();
            name.push("-backups");
            data.with_file_name(name)
        }
        None => data.join("../steadfast-backups"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_read() {
        let config = Config::default();
        assert_eq!((config.http_port, config.partitions), (7070, 64));
        assert_eq!(config.drain_limit, Duration::from_secs(30));
        assert_eq!(config.keys_file, Path::new("./steadfast-data/keys.toml"));
        assert!(config.listen.is_loopback());
    }

    #[test]
    fn endpoints_are_names_and_addresses() {
        let layers = Layers::new().flag("jobs.endpoints=a=http://b:1/a,c=https://d");
        let config = Config::new(&layers.unwrap()).unwrap();
        let pair = |name: &str, url: &str| (name.to_owned(), url.to_owned());
        assert_eq!(
            config.jobs_endpoints,
            [pair("a", "http://b:1/a"), pair("c", "https://d")]
        );
    }

    #[test]
    fn upstreams_with_unknown_categories_or_placeholders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steadfast.toml");
        for (line, is_good) in [
            ("url = 'http://h/{hub}/{category}/{event}'", true),
            ("url = 'http://h'\ncategory = 'connections,messages'", true),
            ("url = 'http://h/{who}'", false),
            ("url = 'http://h'\ncategory = 'events'", false),
        ] {
            std::fs::write(&file, format!("[[upstream]]\n{line}\n")).unwrap();
            let read = Layers::new().file(&file);
            let read = read.and_then(|layers| Config::new(&layers));
            let code = read.err().map(|error| error.code().0);
            let expected = (!is_good).then_some("STF-7002");
            assert_eq!(code, expected, "{line}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_named_and_nothing_that_follows_from_it() {
        let mut layers = Layers::new();
        for flag in [
            "http.hosts=a/b,c/d",
            "engine=postgers",
            "cluster.key=0123456789abcdef0123456789abcdef",
            "tls.key=a",
            "jobs.endpoints=a,b=http://c",
        ] {
            layers.add_flag(flag);
        }
        let error = Config::new(&layers).err().unwrap().to_string();
        let keys: Vec<_> = error
            .lines()
            .map(|line| line.split('\'').nth(1).unwrap())
            .collect();
        // Without the engine it is unknown whether a cluster key fits.
        let expected = [
            "engine",
            "jobs.endpoints",
            "http.hosts",
            "http.hosts",
            "tls.certificate",
        ];
        assert_eq!(keys, expected, "{error}");
    }

    #[test]
    fn declarations_are_refused_with_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steadfast.toml");
        let text = "[[key]]\nname = 'a'\nprimary = 'short'\nrights = []\n\n\
                    [[upstream]]\nurl = 'http://h/{who}'\n\n\
                    [[region]]\nname = 'Bremen'\ngeography = 'Germany'\npair = 'West Europe'\n";
        std::fs::write(&file, text).unwrap();
        let mut layers = Layers::new();
        layers.add_file(&file);
        let error = Config::new(&layers).err().unwrap().to_string();
        let mut lines = error.lines();
        for (start, line) in [
            ("STF-7030: ", "steadfast.toml:9)"),
            ("STF-7002: 'key 'a''", "steadfast.toml:1)"),
            ("STF-7002: 'upstream'", "steadfast.toml:6)"),
        ] {
            let found = lines.next().unwrap();
            assert!(found.starts_with(start) && found.contains(line), "{error}");
        }
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn values_that_contradict_one_another_are_refused() {
        for flags in [
            &["tls.key=a"][..],
            &["engine=postgres"],
            &["http.trusted_proxies=x"],
            &["http.cors_origins=example.com"],
            &["http.cors_origins=https://example.com/app"],
            &["http.hosts=http://example.com"],
            &["http.hosts=example.com:80"],
            &["drain.limit=25h"],
            &["cluster.lease=1ms"],
            &["cluster.key=short", "engine=postgres", "postgres.url=x"],
            &["cluster.key=0123456789abcdef0123456789abcdef"],
            &["jobs.region=witness"],
            &["jobs.allow=example.com"],
            &["jobs.deny=*:0"],
            &["jobs.endpoints=orders"],
            &["jobs.endpoints=orders=ftp://x"],
            &["log.level=loud"],
            &["log.level=info,loud"],
            &["log.level=steadfast=loud"],
        ] {
            let layers = flags
                .iter()
                .try_fold(Layers::new(), |layers, flag| layers.flag(flag));
            let error = Config::new(&layers.unwrap()).err().unwrap();
            assert_eq!(error.code().0, "STF-7002", "{error}");
        }
    }
}
