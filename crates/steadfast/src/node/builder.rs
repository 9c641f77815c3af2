//! The builder of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_admin::RestoreOutcome;
use steadfast_core::clock::{Clock, SteppedClock, SystemClock};
use steadfast_durable::FailureDetails;
use steadfast_durable::native::{ActivityContext, Context, EntityType, Functions};
use steadfast_events::{EventHubDefinition, Handler, ProcessorOptions};
use steadfast_net::log_ring::LogRing;
use steadfast_partition::cluster::{PROTOCOL, SCHEMA};
use steadfast_partition::{Performer, Runtime, Service, ServiceKind, Services};
use steadfast_realtime::{Hub, HubOptions};

use super::hubs::HubRegistrations;
use super::inner::ConfigReader;
use super::open::KeptMemory;
use super::performers::PerformerFactory;
use super::processors;
use super::running::Node;
use crate::config::{Config, EngineKind};

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
    pub(super) config: Config,
    pub(super) is_serving: bool,
    pub(super) is_development: bool,
    pub(super) clock: Arc<dyn Clock>,
    /// The clock of credentials and requests; it is the system's also if `clock` is not.
    pub(super) session_clock: Arc<dyn Clock>,
    /// The clock, if it is moved by hand.
    pub(super) stepped: Option<SteppedClock>,
    /// State in memory that outlives the node.
    pub(super) kept: Option<KeptMemory>,
    pub(super) source: Option<ConfigReader>,
    pub(super) restored: Option<RestoreOutcome>,
    pub(super) log: Option<Arc<LogRing>>,
    pub(super) services: Services,
    pub(super) makers: BTreeMap<ServiceKind, PerformerFactory>,
    pub(super) functions: BTreeMap<String, Functions>,
    pub(super) event_hubs: Vec<EventHubDefinition>,
    pub(super) processors: Vec<processors::ProcessorStarter>,
    pub(super) hubs: HubRegistrations,
    pub(super) versions: (u32, u32),
}

impl Node {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self {
            config: Config::default(),
            is_serving: false,
            is_development: false,
            session_clock: Arc::clone(&clock),
            clock,
            stepped: None,
            kept: None,
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
        source: impl Fn() -> Result<Config, String> + Send + Sync + 'static,
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
        R: Future<Output = Result<O, FailureDetails>> + Send + 'static,
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
        R: Future<Output = Result<O, FailureDetails>> + Send + 'static,
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
        self.session_clock = Arc::clone(&clock);
        self.clock = clock;
        self.stepped = None;
        self
    }

    /// Runs the node on virtual time: everything that is stored follows this clock, which
    /// stands still until it is moved by [`testing`](crate::testing) or over REST.
    /// Credentials, connections, locks and leases follow the system's clocks.
    ///
    /// ```
    /// use steadfast::clock::{SteppedClock, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = SteppedClock::starting_at(Timestamp(1_767_225_600_000));
    /// let node = steadfast::Node::builder().memory().virtual_time(clock).start().await?;
    /// assert_eq!(node.status().state, "ready");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn virtual_time(mut self, clock: SteppedClock) -> Self {
        self.session_clock = Arc::new(SystemClock::new());
        self.clock = Arc::new(clock.clone());
        self.stepped = Some(clock);
        self
    }

    /// Keeps state in memory that outlives the node.
    pub(crate) fn kept_memory(mut self, kept: KeptMemory) -> Self {
        self.config.engine = EngineKind::Memory;
        self.kept = Some(kept);
        self
    }
}
