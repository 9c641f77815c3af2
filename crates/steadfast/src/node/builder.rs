//! How a node is put together.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_partition::{Alone, Options, Router, Runtime, Services, Space};
use steadfast_protocols::access::Access;
use steadfast_protocols::http::{Health, State};
use steadfast_protocols::listen::Certificate;
use steadfast_protocols::rest::RestoreOutcome;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::error::Result;
use super::inner::{Inner, Source, ring};
use super::keys::KeyFile;
use super::performers::Performers;
use super::running::Node;
use super::{exposure, open, web};
use crate::config::{Config, Engine};

/// The space that holds everything durable.
const MAIN: &str = "main";

/// What a node will be. Without [`Builder::serve`] it opens no port.
pub struct Builder {
    config: Config,
    is_serving: bool,
    is_development: bool,
    clock: Arc<dyn Clock>,
    source: Option<Source>,
    restored: Option<RestoreOutcome>,
}

impl Node {
    /// A node with defaults, for a start.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            is_serving: false,
            is_development: false,
            clock: Arc::new(SystemClock::new()),
            source: None,
            restored: None,
        }
    }
}

impl Builder {
    /// Takes all settings from a configuration.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// How to read the configuration again when it is asked for; only keys, and what
    /// [`Node::on_reload`] has added, follow it.
    #[must_use]
    pub fn reread(
        mut self,
        source: impl Fn() -> std::result::Result<Config, String> + Send + Sync + 'static,
    ) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Keeps state in a folder, which is made if it is not there.
    #[must_use]
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.engine = Engine::Local;
        self.config.data = folder.into();
        self.config.keys_file = self.config.data.join("keys.toml");
        self
    }

    /// Keeps state in memory: it is lost with the process.
    #[must_use]
    pub fn memory(mut self) -> Self {
        self.config.engine = Engine::Memory;
        self
    }

    /// Keeps state in PostgreSQL.
    #[must_use]
    pub fn postgres(mut self, url: impl Into<String>) -> Self {
        self.config.engine = Engine::Postgres;
        self.config.postgres_url = Some(url.into());
        self
    }

    /// Divides state into so many partitions; fixed when it is made.
    #[must_use]
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.config.partitions = partitions;
        self
    }

    /// The node follows one that has left for a restore, which went like this.
    #[must_use]
    pub fn restored(mut self, outcome: Option<RestoreOutcome>) -> Self {
        self.restored = outcome;
        self
    }

    /// Opens the ports of the configuration.
    #[must_use]
    pub fn serve(mut self) -> Self {
        self.is_serving = true;
        self
    }

    /// Lets in whoever has a development key, which everybody knows; on loopback
    /// only.
    #[must_use]
    pub fn development(mut self) -> Self {
        self.is_development = true;
        self
    }

    /// Takes the time from elsewhere, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Starts the node: opens its state, takes its partitions, then serves.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("data");
    /// let node = steadfast::Node::builder().data(&folder).start().await?;
    /// // ... and when it is time to go:
    /// let sheet = node.drain(std::time::Duration::from_secs(30)).await;
    /// assert_eq!(sheet.lost, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(self) -> Result<Node> {
        let (config, clock) = (self.config, self.clock);
        let began = clock.monotonic();
        let keys = KeyFile::new(config.keys_file.clone());
        let declared = config.ring()?;
        let ring = ring(&declared, &keys, self.is_development)?;
        let tls = config.tls.as_ref().filter(|_| self.is_serving);
        let certificate = tls
            .map(|(chain, key)| Certificate::load(chain, key))
            .transpose()?;
        let port = match self.is_serving {
            true => {
                exposure::check(&config, &ring, self.is_development)?;
                Some(web::bind(&config, certificate.as_ref())?)
            }
            false => None,
        };
        let (store, runtime) = runtime(&config, &clock).await?;
        let inner = Arc::new_cyclic(|weak: &std::sync::Weak<Inner>| {
            let weak = weak.clone();
            let checks = move || {
                weak.upgrade()
                    .map(|inner| inner.checks())
                    .unwrap_or_default()
            };
            Inner {
                config,
                is_development: self.is_development,
                access: Arc::new(Access::new(ring, Arc::clone(&clock))),
                clock,
                began,
                store,
                runtime,
                replicas: super::replicas::Replicas::default(),
                keys,
                certificate,
                health: Arc::new(Health::new(checks)),
                addresses: Mutex::new(Vec::new()),
                declared: RwLock::new(declared),
                source: self.source,
                reloads: Mutex::new(Vec::new()),
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
                restores: self.restored.as_ref().map_or(0, |restored| restored.number),
                restored: self.restored,
                wanted: Mutex::new(None),
                left: OnceCell::new(),
                ended: CancellationToken::new(),
            }
        });
        if let Some(port) = port {
            web::start(&inner, port, &web::frame(&inner));
        }
        inner.health.set(State::Ready);
        Ok(Node::new(inner))
    }
}

async fn runtime(
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<steadfast_storage::Store>, Runtime)> {
    let engine = open::engine(config, clock).await?;
    let wanted = Space {
        number: 0,
        name: MAIN.to_owned(),
        partitions: config.partitions,
        incarnation: Uuid::new_v4().as_u128(),
    };
    let space = Space::open(&*engine, wanted).await?;
    let store = Arc::new(open::store(config, engine, clock));
    let options = Options {
        services: Services::new(),
        performer: Arc::new(Performers::default()),
        router: Arc::new(Router::new(Arc::new(Alone))),
        clock: Arc::clone(clock),
    };
    let runtime = Runtime::new(Arc::clone(&store), space, options);
    runtime.serve_all().await?;
    Ok((store, runtime))
}
