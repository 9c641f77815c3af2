//! How the engine on PostgreSQL is set up.
//!
//! Everything has a default except the address. What the address says is checked
//! when it is read, before anything is connected.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_storage::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::ErrorKind;
use crate::tls::Tls;

/// Who keeps a second copy of what is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A standby of PostgreSQL, by synchronous replication.
    Quorum,
    /// No second copy: one server, one disk.
    Single,
    /// The provider of the database, below PostgreSQL.
    Provider,
}

/// Set-up of the engine.
#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host1,host2,host3/database`, with `?sslmode=`,
    /// `sslrootcert=`, `sslcert=` and `sslkey=` if need be. Where partitions are spread
    /// over several databases ([`crate::shards`]), their addresses with white space
    /// between them.
    pub url: String,
    /// Who keeps the second copy.
    pub durability: Durability,
    /// The schema that holds all tables.
    pub schema: String,
    /// The identity that the cluster must have; any if `None`.
    pub cluster: Option<String>,
    /// How much time one segment of events covers.
    pub segment: Duration,
    /// How long a commit may take before its outcome counts as unknown.
    pub deadline: Duration,
    /// How long to look for a primary before giving up.
    pub patience: Duration,
    /// How often settings and wake-ups are checked.
    pub check_every: Duration,
    /// How often all replicas are scrubbed.
    pub scrub_every: Duration,
    /// The clock that ends leases; the database's if `None`. For tests.
    pub lease_clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// The defaults for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            durability: Durability::Quorum,
            schema: "steadfast".to_string(),
            cluster: None,
            segment: Duration::from_secs(60 * 60),
            deadline: Duration::from_secs(5),
            patience: Duration::from_secs(60),
            check_every: Duration::from_secs(5),
            scrub_every: Duration::from_secs(24 * 60 * 60),
            lease_clock: None,
        }
    }

    /// The set-up of each database that the address names, in order. Addresses of
    /// several have white space between them.
    pub fn each(&self) -> Vec<Self> {
        let one = |url: &str| Self {
            url: url.to_string(),
            ..self.clone()
        };
        let all: Vec<_> = self.url.split_ascii_whitespace().map(one).collect();
        if all.is_empty() {
            vec![self.clone()]
        } else {
            all
        }
    }

    /// What all connections have in common, and one configuration per server.
    pub(crate) fn targets(&self) -> Result<Vec<Target>> {
        self.check_schema()?;
        let (url, tls) = Tls::split(&self.url);
        let config: Config = url.parse().map_err(|error| {
            let what = "it cannot be read".to_string();
            Error::caused(ErrorKind::BadAddress { what }, error)
        })?;
        let hosts = config.get_hosts();
        if hosts.is_empty() {
            let what = "it names no host".to_string();
            return Err(Error::new(ErrorKind::BadAddress { what }));
        }
        let ports = config.get_ports();
        let port = |index: usize| match ports {
            [] => 5432,
            [one] => *one,
            many => many.get(index).copied().unwrap_or(5432),
        };
        let targets = hosts.iter().enumerate();
        targets
            .map(|(index, host)| {
                let mode = match host {
                    Host::Tcp(name) => {
                        let has_password = config.get_password().is_some();
                        tls.mode(has_password && !is_loopback(name))?
                    }
                    Host::Unix(_) => SslMode::Disable,
                };
                let mut target = target(&config, host, port(index), tls.connector(mode)?);
                target.config.ssl_mode(mode);
                Ok(target)
            })
            .collect()
    }

    fn check_schema(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let name = &self.schema;
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        if starts_well && name.len() <= 40 && name.chars().all(is_plain) {
            return Ok(());
        }
        let what = format!("schema {name:?} is not made of a-z, 0-9 and _");
        Err(Error::new(ErrorKind::BadAddress { what }))
    }
}

/// One server.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

/// Whether a host is this machine.
fn is_loopback(host: &str) -> bool {
    let address: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

fn target(all: &Config, host: &Host, port: u16, tls: MakeRustlsConnect) -> Target {
    let mut config = Config::new();
    let host = match host {
        Host::Tcp(name) => {
            config.host(name);
            name.clone()
        }
        Host::Unix(path) => {
            config.host_path(path);
            path.display().to_string()
        }
    };
    let name = format!("{host}:{port}");
    config.port(port);
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    config
        .application_name("steadfast")
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
    Target { name, config, tls }
}
