//! The builder of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_admin::RestoreOutcome;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_durable::FailureDetails;
use steadfast_durable::native::{ActivityContext, Context, EntityType, FunctionHost, Functions};
use steadfast_events::{EventHubDefinition, Handler, ProcessorOptions};
use steadfast_net::access::{AccessControl, KeyRing};
use steadfast_net::http::{NodeHealth, State};
use steadfast_net::listen::Certificate;
use steadfast_net::log_ring::LogRing;
use steadfast_partition::cluster::{PROTOCOL, SCHEMA};
use steadfast_partition::{
    NodeTransport, Options, Performer, Router, Runtime, Service, ServiceKind, Services, SingleNode,
    Space,
};
use steadfast_realtime::{Hub, HubOptions, PUSHES, PushPerformer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::cluster::{self, JoinedCluster};
use super::error::Result;
use super::hubs::HubRegistrations;
use super::inner::{ConfigReader, Inner, ring};
use super::keys::KeyFile;
use super::open::OpenedEngine;
use super::owner_rpc::{CLERK, CollectionsOwnerHandler};
use super::performers::{PerformerFactory, Performers};
use super::running::Node;
use super::secret;
use super::watchdog::Watchdog;
use super::{
    amqp, blob, built_in_services, cluster_handlers, durable, listen_policy, open, processors,
    realtime, region, region_server, volatile_services, web,
};
use crate::config::{Config, EngineKind, Error as ConfigError};

/// The space that holds everything durable.
const MAIN: &str = "main";

/// The interval between attempts to create declared job collections.
const DECLARE_PAUSE: Duration = Duration::from_secs(1);

/// The task hub used when none is named.
const DEFAULT_HUB: &str = "default";

/// Configures and starts a node. Without [`Builder::serve`] it opens no port.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = steadfast::Node::builder()
///     .memory() // or .data("./data"), or .postgres("postgres://...")
///     .partitions(8)
///     .start()
///     .await?;
/// assert_eq!(node.status().partitions.len(), 8);
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    config: Config,
    is_serving: bool,
    is_development: bool,
    clock: Arc<dyn Clock>,
    source: Option<ConfigReader>,
    restored: Option<RestoreOutcome>,
    log: Option<Arc<LogRing>>,
    services: Services,
    makers: BTreeMap<ServiceKind, PerformerFactory>,
    functions: BTreeMap<String, Functions>,
    event_hubs: Vec<EventHubDefinition>,
    processors: Vec<processors::ProcessorStarter>,
    hubs: HubRegistrations,
    versions: (u32, u32),
}

impl Node {
    /// Returns a builder with the default settings.
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
            log: None,
            services: Services::new(),
            makers: BTreeMap::new(),
            functions: BTreeMap::new(),
            event_hubs: Vec::new(),
            processors: Vec::new(),
            hubs: HubRegistrations::default(),
            versions: (PROTOCOL, SCHEMA),
        }
    }
}

impl Builder {
    /// Takes all settings from a configuration.
    ///
    /// ```
    /// use steadfast::config::{Config, Layers};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let layers = Layers::new().flag("engine=memory")?.flag("name=here")?;
    /// let config = Config::new(&layers)?;
    /// let node = steadfast::Node::builder().config(config).start().await?;
    /// assert_eq!(node.status().node, "here");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets how a reload reads the configuration again. A reload applies the keys and the
    /// hooks of [`Node::on_reload`] only.
    #[must_use]
    pub fn reread(
        mut self,
        source: impl Fn() -> std::result::Result<Config, String> + Send + Sync + 'static,
    ) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Sets the lines of the process's log, which the REST interface shows.
    #[must_use]
    pub fn log(mut self, ring: Arc<LogRing>) -> Self {
        self.log = Some(ring);
        self
    }

    /// Keeps state in a folder, which is created if it does not exist.
    #[must_use]
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.engine = EngineKind::Local;
        self.config.data = folder.into();
        self.config.keys_file = self.config.data.join("keys.toml");
        self
    }

    /// Keeps state in memory: it is lost with the process.
    #[must_use]
    pub fn memory(mut self) -> Self {
        self.config.engine = EngineKind::Memory;
        self
    }

    /// Keeps state in PostgreSQL.
    #[must_use]
    pub fn postgres(mut self, url: impl Into<String>) -> Self {
        self.config.engine = EngineKind::Postgres;
        self.config.postgres_url = Some(url.into());
        self
    }

    /// Sets the number of partitions; fixed when the state is created.
    #[must_use]
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.config.partitions = partitions;
        self
    }

    /// Sets the outcome of the restore that the previous node stopped for.
    #[must_use]
    pub fn restored(mut self, outcome: Option<RestoreOutcome>) -> Self {
        self.restored = outcome;
        self
    }

    /// Overrides the protocol and schema versions that the node announces to its cluster,
    /// for tests of upgrades.
    #[doc(hidden)]
    #[must_use]
    pub fn versions(mut self, protocol: u32, schema: u32) -> Self {
        self.versions = (protocol, schema);
        self
    }

    /// Opens the ports of the configuration.
    #[must_use]
    pub fn serve(mut self) -> Self {
        self.is_serving = true;
        self
    }

    /// Accepts the well-known development keys; the node then listens on loopback only.
    #[must_use]
    pub fn development(mut self) -> Self {
        self.is_development = true;
        self
    }

    /// Registers a service that runs in the partitions, in place of an earlier one of its
    /// kind. Call it by [`Node::handle`]. Kinds below 16 are reserved for applications.
    ///
    /// ```
    /// use steadfast::Bytes;
    /// use steadfast::partition::{Address, TurnOutcome, TurnError, ServiceKind, Service, Turn, service_table};
    ///
    /// /// Counts how often it was called.
    /// struct Visits;
    ///
    /// impl Service for Visits {
    ///     type Command = ();
    ///     type Response = Bytes;
    ///
    ///     fn kind(&self) -> ServiceKind {
    ///         ServiceKind(1)
    ///     }
    ///
    ///     fn handle(
    ///         &self,
    ///         turn: &mut Turn<'_>,
    ///         to: &Address,
    ///         _: &(),
    ///     ) -> Result<TurnOutcome<Bytes>, TurnError> {
    ///         let table = service_table(ServiceKind(1), 0);
    ///         let former = turn.get(table, &to.key)?.unwrap_or_default();
    ///         let visits = Bytes::from([&former[..], b"I"].concat());
    ///         turn.put(table, &to.key, visits.clone());
    ///         Ok(TurnOutcome::Now(visits)) // the caller gets it when it is durable
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().service(Visits).start().await?;
    /// let visits = node.handle::<Visits>();
    /// let house = Address::new(ServiceKind(1), "visits", "house 7");
    /// assert_eq!(visits.call(house.clone(), ()).await?, "I");
    /// assert_eq!(visits.call(house, ()).await?, "II");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn service(mut self, service: impl Service) -> Self {
        self.services = self.services.with(service);
        self
    }

    /// Registers the performer of external effects for instances of this kind. It is
    /// created after the runtime and before the first partition is acquired, so that it
    /// can report the result of an effect to the service.
    #[must_use]
    pub fn performer(
        mut self,
        kind: ServiceKind,
        make: impl FnOnce(&Runtime) -> Arc<dyn Performer> + Send + 'static,
    ) -> Self {
        self.makers.insert(kind, Box::new(make));
        self
    }

    /// Runs the entities of a type, in the task hub `default`; see
    /// [`durable`](crate::durable) for an example.
    #[must_use]
    pub fn entity<E: EntityType>(self) -> Self {
        self.functions(DEFAULT_HUB, Functions::entities::<E>)
    }

    /// Runs an orchestration, in the task hub `default`.
    #[must_use]
    pub fn orchestration<I, O, F, R>(self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send,
        O: Serialize,
        F: Fn(Context, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = std::result::Result<O, FailureDetails>> + Send + 'static,
    {
        self.functions(DEFAULT_HUB, |all| all.orchestration(name, function))
    }

    /// Runs an activity, in the task hub `default`.
    #[must_use]
    pub fn activity<I, O, F, R>(self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send,
        O: Serialize,
        F: Fn(ActivityContext, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = std::result::Result<O, FailureDetails>> + Send + 'static,
    {
        self.functions(DEFAULT_HUB, |all| all.activity(name, function))
    }

    /// Adds functions that this process runs for a task hub.
    #[must_use]
    pub fn functions(mut self, hub: &str, add: impl FnOnce(Functions) -> Functions) -> Self {
        let functions = self.functions.remove(hub).unwrap_or_default();
        self.functions.insert(hub.to_owned(), add(functions));
        self
    }

    /// Creates an event hub, or updates the one of that name to the definition.
    #[must_use]
    pub fn event_hub(mut self, definition: EventHubDefinition) -> Self {
        self.event_hubs.push(definition);
        self
    }

    /// Processes the events of a consumer group while the node runs. What the handler
    /// writes to collections in its transaction is committed exactly once per event. Each
    /// call adds a member to the group; the event hub must exist.
    ///
    /// ```
    /// use steadfast::collections::Dictionary;
    /// use steadfast::events::{EventDataBatch, Context, EventHubDefinition, HandlerResult, Handler, ReceivedEvent};
    ///
    /// /// Counts the events of each partition.
    /// struct Count(tokio::sync::mpsc::UnboundedSender<i64>);
    ///
    /// impl Handler for Count {
    ///     async fn handle(&self, events: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
    ///         let counts: Dictionary<String, i64> = context.state()?.get_or_add("counts").await?;
    ///         let more = events.len() as i64;
    ///         let tx = context.transaction()?;
    ///         let count = counts.add_or_update(tx, "all", || more, |n| n + more).await?;
    ///         self.0.send(*count)?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (count, mut counted) = tokio::sync::mpsc::unbounded_channel();
    /// let node = steadfast::Node::builder()
    ///     .memory()
    ///     .event_hub(EventHubDefinition::new("telemetry", 1))
    ///     .processor("telemetry", "$Default", Count(count))
    ///     .start()
    ///     .await?;
    /// let mut batch = EventDataBatch::new();
    /// batch.push(b"21 degrees")?;
    /// node.event_hubs().sender("telemetry", None).await?.send(batch).await?;
    /// assert_eq!(counted.recv().await, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn processor<H: Handler>(
        mut self,
        hub: impl Into<String>,
        group: impl Into<String>,
        handler: H,
    ) -> Self {
        let start = processors::exactly_once(hub.into(), group.into(), handler);
        self.processors.push(start);
        self
    }

    /// Like [`Builder::processor`], with explicit options.
    #[must_use]
    pub fn processor_with<H: Handler>(
        mut self,
        hub: impl Into<String>,
        group: impl Into<String>,
        options: ProcessorOptions,
        handler: H,
    ) -> Self {
        let start = processors::with_options(hub.into(), group.into(), options, handler);
        self.processors.push(start);
        self
    }

    /// Hosts a hub for SignalR clients, by its path and as `/client/?hub=<name>`; the
    /// name is the last part of the path. Clients need a token that a key of this
    /// node has signed.
    ///
    /// ```
    /// use steadfast::hub;
    /// use steadfast::realtime::{Context, HubResult};
    ///
    /// #[derive(Default)]
    /// struct Chat;
    ///
    /// #[hub]
    /// impl Chat {
    ///     async fn send(&self, context: &Context, text: String) -> HubResult<()> {
    ///         let from = context.connection_id();
    ///         context.clients().all().send("said", &(from, text)).await?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().hub::<Chat>("/chat").start().await?;
    /// node.realtime().clients("chat")?.all().send("said", &("server", "hello")).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hub<H: Hub + Default>(self, path: &str) -> Self {
        self.hub_with(path, H::default(), HubOptions::default())
    }

    /// Like [`Builder::hub`], with an existing hub value and explicit options.
    #[must_use]
    pub fn hub_with<H: Hub>(mut self, path: &str, hub: H, options: HubOptions) -> Self {
        self.hubs.add(path, hub, options);
        self
    }

    /// Sets the clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Starts the node: opens its state, acquires its partitions, then serves.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("data");
    /// let node = steadfast::Node::builder().data(&folder).start().await?;
    /// // ... and to shut down:
    /// let sheet = node.drain(std::time::Duration::from_secs(30)).await;
    /// assert_eq!(sheet.lost, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(self) -> Result<Node> {
        // The future is large: boxing it keeps the futures of callers small.
        Box::pin(self.launch()).await
    }

    async fn launch(self) -> Result<Node> {
        let StartInputs {
            keys,
            declared,
            mut ring,
            certificate,
        } = self.checked()?;
        let (config, clock) = (self.config, self.clock);
        let began = clock.monotonic();
        // The ports come first: a port that is in use is reported before any state is opened.
        let port = if self.is_serving {
            Some(web::bind(&config, certificate.as_ref())?)
        } else {
            None
        };
        let amqp_ports = if self.is_serving {
            amqp::bind(&config, certificate.as_ref())?
        } else {
            Vec::new()
        };
        let durable_port = if self.is_serving {
            Some(durable::bind(&config, certificate.as_ref())?)
        } else {
            None
        };
        let blob_port = if self.is_serving {
            Some(blob::bind(&config, certificate.as_ref())?)
        } else {
            None
        };
        let hub_port = if self.is_serving {
            Some(realtime::bind(&config, certificate.as_ref())?)
        } else {
            None
        };
        let mut nodes_port = cluster::bind(&config, certificate.as_ref())?;
        let hosted = self.hubs.open(&config.name, &clock)?;
        let OpenedEngine { engine, shards } = open::engine(&config, &clock).await?;
        let client_key = secret::client_key(&config)?;
        let backup_key = secret::backup_key(&config)?;
        ring.add(client_key.clone());
        let access = Arc::new(AccessControl::new(ring, Arc::clone(&clock)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let watchdog = Watchdog::start(&clock);
        let joined = match &shards {
            Some(shards) => {
                let identity = shards.cluster();
                let port = nodes_port.take();
                let place = cluster::join(&config, self.versions, &engine, identity, port);
                Some(place.await?)
            }
            None => None,
        };
        let mut makers = self.makers;
        let lease = joined.as_ref().map(|joined| joined.lease.clone());
        let is_development = self.is_development;
        let prepared = built_in_services::prepare(
            &config,
            &clock,
            &mut makers,
            lease.clone(),
            is_development,
        )?;
        hosted.set_mode(&config, &prepared.outbound.connect, &access)?;
        let pusher = PushPerformer::new(hosted.realtime.clone());
        makers.insert(PUSHES, Box::new(move |_| pusher as Arc<dyn Performer>));
        let services = built_in_services::services(self.services, &prepared, &config);
        let outbound = &prepared.outbound;
        let (paired, entrance) =
            region::start(&config, &engine, nodes_port, outbound, &clock).await?;
        let beneath = Arc::clone(&engine);
        let (store, runtime) =
            runtime(&config, engine, &clock, services, makers, joined.as_ref()).await?;
        let forwarded = joined.as_ref().map(|joined| Arc::clone(&joined.forward));
        let cluster = match joined {
            Some(joined) => {
                let certificate = certificate.clone();
                let started = joined.start(&runtime, &store, certificate, &stop, &tasks);
                Some(started.await?)
            }
            None => {
                runtime.serve_all().await?;
                None
            }
        };
        let under = (Arc::clone(&beneath), lease);
        let memories = volatile_services::start(&config, &runtime, &clock, under, cluster.as_ref());
        let own_hubs = self.functions.keys().cloned().collect();
        let abroad = paired.as_ref().map(|paired| paired.jobs());
        let own = built_in_services::open(prepared, &config, &runtime, abroad, &clock, own_hubs);
        if let Some(cluster) = &cluster {
            cluster_handlers::connect_task_hubs(cluster, &own.task_hubs);
        }
        built_in_services::declare(&config, &own).await?;
        let mut hosts = Vec::new();
        for (hub, functions) in self.functions {
            hosts.push(FunctionHost::start(own.task_hubs.hub(&hub)?, functions));
        }
        for definition in self.event_hubs {
            own.hubs.ensure(definition).await?;
        }
        built_in_services::seal_keys(&own, &stop, &tasks);
        let inner = Arc::new_cyclic(|weak: &std::sync::Weak<Inner>| {
            let me = weak.clone();
            let checks = move || me.upgrade().map(|inner| inner.checks()).unwrap_or_default();
            Inner {
                me: weak.clone(),
                governor: Arc::new(web::governor(&config)),
                config,
                is_development: self.is_development,
                access,
                clock,
                began,
                engine: beneath,
                store,
                shards,
                runtime,
                cluster,
                paired,
                forwarder: forwarded,
                services: own,
                volatile: memories,
                hosts: Mutex::new(hosts),
                hosted,
                keys,
                client_key,
                backup_key,
                key_lock: Mutex::new(()),
                certificate,
                health: Arc::new(NodeHealth::new(checks)),
                addresses: Mutex::new(Vec::new()),
                declared: RwLock::new(declared),
                source: self.source,
                log: self.log,
                reloads: Mutex::new(Vec::new()),
                hooks: Mutex::new(Vec::new()),
                leaving: CancellationToken::new(),
                stop,
                tasks,
                watchdog,
                restores: self.restored.as_ref().map_or(0, |restored| restored.number),
                restored: self.restored,
                backup: Mutex::new(None),
                pending_restore: Mutex::new(None),
                is_leaving: AtomicBool::new(false),
                left: watch::channel(None).0,
                ended: CancellationToken::new(),
            }
        });
        if inner.cluster.is_some() {
            let lender = Arc::new(CollectionsOwnerHandler(Arc::downgrade(&inner)));
            inner.runtime.router().register(CLERK, lender);
        }
        if let Some(cluster) = &inner.cluster {
            cluster_handlers::connect_realtime_hubs(cluster, realtime::context(&inner));
        }
        if let Some(entrance) = entrance {
            region_server::open(entrance, &inner);
        }
        match &inner.paired {
            None => declare_jobs(&inner).await?,
            Some(_) => declare_later(&inner),
        }
        processors::run(&inner, self.processors).await?;
        if let (Some(port), Some(durable_port)) = (port, durable_port) {
            let context = amqp::context(&inner);
            let frame = web::frame(&inner);
            web::start(&inner, port, &frame, &context);
            amqp::start(&inner, amqp_ports, &context);
            if let Some(port) = hub_port {
                realtime::start(&inner, port, &frame);
            }
            durable::start(&inner, durable_port, &frame);
            if let Some(port) = blob_port {
                blob::start(&inner, port, &frame);
            }
        }
        inner.health.set(State::Ready);
        Ok(Node::new(inner))
    }

    /// Checks, without opening any state, whether the node could start: the keys and the
    /// certificate are readable, and no port would be open without authentication.
    ///
    /// ```
    /// use steadfast::config::{Config, Layers};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let open = Config::new(&Layers::new().flag("listen=0.0.0.0")?)?;
    /// let refused = steadfast::Node::builder().config(open).serve().check();
    /// assert_eq!(refused.unwrap_err().code().0, "STF-7004");
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<()> {
        self.checked().map(drop)
    }

    fn checked(&self) -> Result<StartInputs> {
        let config = &self.config;
        let keys = KeyFile::new(config.keys_file.clone());
        let declared = config.ring()?;
        let ring = ring(&declared, &keys, self.is_development)?;
        let is_reached = self.is_serving || cluster::is_wanted(config);
        let tls = config.tls.as_ref().filter(|_| is_reached);
        let certificate = tls.map(|(chain, key)| Certificate::load(chain, key));
        if self.is_serving {
            listen_policy::check(config, &ring, self.is_development)?;
        }
        Ok(StartInputs {
            keys,
            declared,
            ring,
            certificate: certificate.transpose()?,
        })
    }
}

/// Inputs that are read before any state is opened.
struct StartInputs {
    keys: KeyFile,
    declared: KeyRing,
    ring: KeyRing,
    certificate: Option<Arc<Certificate>>,
}

/// Creates the job collections that the configuration declares.
async fn declare_jobs(inner: &Inner) -> Result<()> {
    let context = web::jobs(inner, false);
    let mut refused = Ok(());
    for declared in &inner.config.job_collections {
        let declared = steadfast_scheduler::CollectionDeclaration {
            subscription: declared.subscription.as_deref().unwrap_or("main"),
            group: declared.resource_group.as_deref().unwrap_or("default"),
            name: &declared.name,
            most_jobs: declared.max_jobs,
            location: declared.location.as_deref(),
        };
        if let Err(why) = steadfast_scheduler::declare(&context, declared).await {
            let why = format!("'{}': {why}", declared.name);
            let error = ConfigError::value("job_collection", "the configuration", why);
            refused = Err(error.into());
        }
    }
    refused
}

/// Creates them in the background, once the owners of the pair's jobs are known.
fn declare_later(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    let stop = inner.stop.clone();
    inner
        .tasks
        .spawn(stop.run_until_cancelled_owned(async move {
            let mut said = String::new();
            loop {
                tokio::time::sleep(DECLARE_PAUSE).await;
                let Some(inner) = weak.upgrade() else {
                    return;
                };
                let Err(error) = declare_jobs(&inner).await else {
                    return;
                };
                let why = error.to_string();
                if why != said {
                    tracing::info!(event = "jobs.not_declared", why);
                    said = why;
                }
            }
        }));
}

async fn runtime(
    config: &Config,
    engine: Arc<dyn steadfast_storage::Engine>,
    clock: &Arc<dyn Clock>,
    services: Services,
    makers: BTreeMap<ServiceKind, PerformerFactory>,
    joined: Option<&JoinedCluster>,
) -> Result<(Arc<steadfast_storage::Store>, Arc<Runtime>)> {
    let wanted = Space {
        number: 0,
        name: MAIN.to_owned(),
        partitions: config.partitions,
        incarnation: Uuid::new_v4().as_u128(),
    };
    let space = Space::open(&*engine, wanted).await?;
    let store = Arc::new(open::store(config, engine, clock, joined));
    let beyond: Arc<dyn NodeTransport> = match joined {
        Some(joined) => Arc::clone(&joined.forward) as Arc<dyn NodeTransport>,
        None => Arc::new(SingleNode),
    };
    let performers = Arc::new(Performers::default());
    let options = Options {
        services,
        performer: Arc::clone(&performers) as Arc<dyn Performer>,
        router: Arc::new(Router::new(beyond)),
        clock: Arc::clone(clock),
    };
    let runtime = Arc::new(Runtime::new(Arc::clone(&store), space, options));
    performers.make(makers, &runtime);
    Ok((store, runtime))
}
