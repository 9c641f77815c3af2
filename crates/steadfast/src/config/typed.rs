//! The parsed and checked configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use steadfast_core::limits;
use steadfast_protocols::access::{Grant, Key, KeyRing, Secret};
use steadfast_protocols::egress::EgressRule;
use steadfast_realtime::ServiceMode;
use toml::Value;

use super::declarations::{
    DeclaredEventHub, DeclaredJobCollection, DeclaredKey, DeclaredTaskHub, DeclaredUpstream,
};
use super::error::Error;
use super::layers::Layers;
use super::regions::RegionConfig;
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
    /// Reads the values of all layers.
    pub fn new(layers: &Layers) -> Result<Self, Error> {
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
        let declared = layers.declared.clone();
        let region = |key| text(layers, key);
        let regions = RegionConfig::new(
            &declared.regions,
            region("jobs.region").as_deref(),
            region("jobs.pair"),
            region("jobs.witness"),
        )?;
        let config = Self {
            name: text(layers, "name").unwrap_or_default(),
            engine: match text(layers, "engine").as_deref() {
                Some("memory") => EngineKind::Memory,
                Some("postgres") => EngineKind::Postgres,
                _ => EngineKind::Local,
            },
            partitions: number(layers, "partitions") as u16,
            memory: bytes(layers, "memory"),
            listen: address(layers)?,
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
            blob_account_bytes: bytes(layers, "limits.blob_account_bytes"),
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
            jobs_endpoints: endpoints(layers, &texts("jobs.endpoints"))?,
            jobs_quotas: flag(layers, "jobs.quotas"),
            jobs_allow_seconds: flag(layers, "jobs.allow_seconds"),
            jobs_min_retry_interval: time(layers, "jobs.min_retry_interval"),
            realtime_port: number(layers, "realtime.port") as u16,
            realtime_mode: match text(layers, "realtime.mode").as_deref() {
                Some("serverless") => ServiceMode::Serverless,
                Some("classic") => ServiceMode::Classic,
                _ => ServiceMode::Default,
            },
            tls: tls(layers)?,
            allow_plain: flag(layers, "tls.allow_plain"),
            keys_file: keys_file.unwrap_or_else(|| data.join("keys.toml")),
            drain_limit: time(layers, "drain.limit"),
            log_level: text(layers, "log.level").unwrap_or_default(),
            log_format: match text(layers, "log.format").as_deref() {
                Some("text") => LogFormat::Text,
                Some("json") => LogFormat::Json,
                _ => LogFormat::Auto,
            },
            keys: declared.keys,
            event_hubs: declared.event_hubs,
            task_hubs: declared.task_hubs,
            job_collections: declared.job_collections,
            regions,
            upstreams: declared.upstreams,
            backup_root: backup_root.unwrap_or_else(|| beside(&data)),
            data,
        };
        config.check(layers)?;
        Ok(config)
    }

    /// The size of the unflushed log at which writers wait: four times the flush target.
    pub fn log_limit(&self) -> u64 {
        self.log_target.saturating_mul(4)
    }

    /// The address of a port.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.listen, port)
    }

    /// All ports, by protocol.
    pub fn ports(&self) -> Vec<(&'static str, u16)> {
        let mut ports = vec![
            ("http", self.http_port),
            ("amqp", self.amqp_port),
            ("durable", self.durable_port),
            ("blob", self.blob_port),
            ("realtime", self.realtime_port),
        ];
        if self.tls.is_some() {
            ports.push(("amqps", self.amqps_port));
        }
        ports
    }

    /// The keys that the file declares.
    pub fn ring(&self) -> Result<KeyRing, Error> {
        let mut ring = KeyRing::new();
        for declared in &self.keys {
            let key = key(declared)?;
            if !ring.add(key) {
                let why = format!("there are two keys '{}'", declared.name);
                return Err(Error::value("key", "the configuration", why));
            }
        }
        Ok(ring)
    }

    fn check(&self, layers: &Layers) -> Result<(), Error> {
        let wrong = |key: &str, why: String| Err(Error::value(key, layers.layer(key), why));
        if self.engine == EngineKind::Postgres && self.postgres_url.is_none() {
            return wrong("postgres.url", "the engine postgres needs it".to_owned());
        }
        let key = self.cluster_key.as_ref();
        if key.is_some_and(|key| key.len() < CLUSTER_KEY_BYTES) {
            let why = format!("it needs {CLUSTER_KEY_BYTES} characters at least");
            return wrong("cluster.key", why);
        }
        let is_paired = self.regions.role.is_some();
        if is_paired && (key.is_none() || self.engine != EngineKind::Local) {
            let why = "regions need the engine local and a cluster.key";
            return wrong("jobs.region", why.to_owned());
        }
        if key.is_some() && self.engine != EngineKind::Postgres && !is_paired {
            let why = "only nodes on the engine postgres, and regions, have others";
            return wrong("cluster.key", why.to_owned());
        }
        for declared in &self.job_collections {
            if let Some(why) = self.regions.location_error(declared.location.as_deref()) {
                let why = format!("'{}': {why}", declared.name);
                return wrong("job_collection", why);
            }
        }
        for declared in &self.upstreams {
            if let Err(why) = declared.rule().check() {
                return Err(Error::value("upstream", "the configuration", why));
            }
        }
        if self.cluster_lease < SHORTEST_LEASE || self.cluster_lease > LONGEST_LEASE {
            return wrong(
                "cluster.lease",
                "it is between 1 s and 5 minutes".to_owned(),
            );
        }
        if let Err(why) = steadfast_protocols::telemetry::check_level(&self.log_level) {
            return wrong("log.level", why);
        }
        if self.drain_limit > limits::DRAIN_TIME {
            return wrong("drain.limit", "it is a day at most".to_owned());
        }
        if let Some(origin) = self.cors_origins.iter().find(|own| !is_origin(own)) {
            let why = format!("'{origin}' is no origin such as https://example.com, nor *");
            return wrong("http.cors_origins", why);
        }
        if let Some(host) = self.hosts.iter().find(|own| !is_host(own)) {
            let why = format!("'{host}' is no host name such as steadfast.internal, nor *");
            return wrong("http.hosts", why);
        }
        for (key, rules) in [
            ("jobs.allow", &self.jobs_allow),
            ("jobs.deny", &self.jobs_deny),
        ] {
            let mut rules = rules.iter().map(|rule| rule.parse::<EgressRule>());
            if let Some(why) = rules.find_map(Result::err) {
                return wrong(key, why);
            }
        }
        let proxies = self.trusted_proxies.iter().map(String::as_str);
        if let Err(why) = steadfast_protocols::http::TrustedProxies::new(proxies) {
            return wrong("http.trusted_proxies", why);
        }
        self.ring().map(drop)
    }
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

fn key(declared: &DeclaredKey) -> Result<Key, Error> {
    let DeclaredKey {
        name,
        primary,
        secondary,
        rights,
    } = declared;
    let wrong = |why: String| Error::value(&format!("key '{name}'"), "the configuration", why);
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
fn endpoints(layers: &Layers, texts: &[String]) -> Result<Vec<(String, String)>, Error> {
    let read = |text: &String| match text.split_once('=') {
        Some((name, url))
            if !name.is_empty() && (url.starts_with("http://") || url.starts_with("https://")) =>
        {
            Ok((name.to_owned(), url.to_owned()))
        }
        _ => {
            let why = format!("'{text}' is not a name and an address, such as a=http://b/");
            let key = "jobs.endpoints";
            Err(Error::value(key, layers.layer(key), why))
        }
    };
    texts.iter().map(read).collect()
}

fn address(layers: &Layers) -> Result<IpAddr, Error> {
    let text = text(layers, "listen").unwrap_or_default();
    let address = text.parse();
    address.map_err(|error| Error::value("listen", layers.layer("listen"), error))
}

fn tls(layers: &Layers) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let path = |key| text(layers, key).map(|text| Path::new(&text).to_owned());
    match (path("tls.certificate"), path("tls.key")) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Error::value(
            "tls.key",
            layers.layer("tls.key"),
            "tls.certificate needs it",
        )),
        (None, Some(_)) => Err(Error::value(
            "tls.certificate",
            layers.layer("tls.certificate"),
            "tls.key needs it",
        )),
    }
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
