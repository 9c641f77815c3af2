//! The start of a node, in five phases.
//!
//! 1. Check the settings, the keys and the certificate.
//! 2. Bind the ports: a port that is in use is reported before any state is opened.
//! 3. Open the state and join the cluster; no partition is owned yet.
//! 4. Acquire partitions, and create what the settings and the builder declare.
//! 5. Serve other nodes and clients.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use steadfast_backup::BackupKey;
use steadfast_core::clock::Clock;
use steadfast_core::iso::format_time;
use steadfast_durable::native::FunctionHost;
use steadfast_net::access::{AccessControl, Key, KeyRing};
use steadfast_net::http::{NodeHealth, State};
use steadfast_net::listen::Certificate;
use steadfast_partition::cluster::{Cluster, Forwarder};
use steadfast_partition::{
    NodeTransport, Options, Performer, Router, Runtime, ServiceKind, Services, SingleNode, Space,
};
use steadfast_realtime::{PUSHES, PushPerformer};
use steadfast_storage::{Engine, NodeLease, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::builder::Builder;
use super::built_in_services::{self, BuiltInServices, PreparedServices, ServiceInputs};
use super::cluster::{self, JoinedCluster};
use super::cluster_port::NodeListener;
use super::error::Result;
use super::hubs::RealtimeHubs;
use super::inner::{Inner, ring};
use super::keys::KeyFile;
use super::open::{KeptMemory, OpenedEngine};
use super::owner_rpc::{CLERK, CollectionsOwnerHandler};
use super::performers::{PerformerFactory, Performers};
use super::postgres::ShardedEngine;
use super::region::{PairMember, RegionListener};
use super::running::Node;
use super::secret;
use super::time::VirtualTime;
use super::volatile_services::{self, VolatileServices};
use super::watchdog::Watchdog;
use super::web::ClientPorts;
use super::{
    cluster_handlers, cluster_port, listen_policy, open, postgres, processors, region,
    region_server, scheduler, signalr, web,
};
use crate::config::{Config, EngineKind, Error as ConfigError};

/// The space that holds everything durable.
const MAIN: &str = "main";

/// Inputs that are read before any state is opened.
struct StartInputs {
    keys: KeyFile,
    declared: KeyRing,
    ring: KeyRing,
    certificate: Option<Arc<Certificate>>,
}

/// The ports of a node, open but not served yet.
struct BoundPorts {
    clients: Option<ClientPorts>,
    nodes: Option<NodeListener>,
}

/// The state of a node that owns no partition yet.
struct OpenedState {
    began: Duration,
    keys: KeyFile,
    declared: KeyRing,
    certificate: Option<Arc<Certificate>>,
    access: Arc<AccessControl>,
    client_key: Key,
    backup_key: Option<BackupKey>,
    hosted: RealtimeHubs,
    engine: Arc<dyn Engine>,
    shards: Option<Arc<ShardedEngine>>,
    store: Arc<Store>,
    runtime: Arc<Runtime>,
    paired: Option<Arc<PairMember>>,
    watchdog: Watchdog,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What becomes something else when partitions are acquired.
struct StartParts {
    joined: Option<JoinedCluster>,
    prepared: PreparedServices,
    lease: Option<NodeLease>,
    regions: Option<RegionListener>,
}

/// What a node has that serves its partitions.
struct ServingParts {
    cluster: Option<Arc<Cluster>>,
    forwarder: Option<Arc<Forwarder>>,
    services: BuiltInServices,
    volatile: VolatileServices,
    hosts: Vec<FunctionHost>,
}

/// How far the clocks of two starts may differ without a warning.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// Refuses state that nodes on other clocks share.
fn virtual_time_alone(config: &Config) -> Result<()> {
    let key = match (config.engine, &config.regions.role) {
        (EngineKind::Postgres, _) => "engine",
        (_, Some(_)) => "jobs.region",
        _ => return Ok(()),
    };
    let why = "virtual time is for a single node on the engine memory or local";
    Err(ConfigError::value(key, "virtual time", why).into())
}

impl Builder {
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
        self.inputs().map(drop)
    }

    async fn launch(mut self) -> Result<Node> {
        let began = self.clock.monotonic();
        let inputs = self.inputs()?;
        let BoundPorts { clients, nodes } = self.bind(&inputs)?;
        let (opened, mut parts) = self.open(inputs, nodes, began).await?;
        let regions = parts.regions.take();
        let serving = self.acquire(&opened, parts).await?;
        self.serve_all(opened, serving, regions, clients).await
    }

    /// Phase 1: reads what the start needs, and refuses an unsafe configuration.
    fn inputs(&self) -> Result<StartInputs> {
        let config = &self.config;
        postgres::check(config)?;
        if self.stepped.is_some() {
            virtual_time_alone(config)?;
        }
        let keys = KeyFile::new(config.keys_file.clone());
        let declared = config.ring()?;
        let ring = ring(&declared, &keys, self.is_development)?;
        let is_reached = self.is_serving || cluster_port::is_wanted(config);
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

    /// Phase 2: opens the ports.
    fn bind(&self, inputs: &StartInputs) -> Result<BoundPorts> {
        let (config, certificate) = (&self.config, inputs.certificate.as_ref());
        let clients = self.is_serving.then(|| web::bind(config, certificate));
        Ok(BoundPorts {
            clients: clients.transpose()?,
            nodes: cluster_port::bind(config, certificate)?,
        })
    }

    /// Phase 3: opens the state and joins the cluster.
    async fn open(
        &mut self,
        inputs: StartInputs,
        mut nodes: Option<NodeListener>,
        began: Duration,
    ) -> Result<(OpenedState, StartParts)> {
        let StartInputs {
            keys,
            declared,
            mut ring,
            certificate,
        } = inputs;
        let (config, clock) = (&self.config, &self.clock);
        let hosted = take(&mut self.hubs).open(&config.name, &self.session_clock)?;
        let (OpenedEngine { engine, shards }, secret) = match take(&mut self.kept) {
            Some(KeptMemory { engine, secret }) => {
                let shards = None;
                (OpenedEngine { engine, shards }, secret)
            }
            None => (open::engine(config, clock).await?, secret::text(config)?),
        };
        let client_key = secret::client_key(&secret);
        let backup_key = secret::backup_key(config)?;
        ring.add(client_key.clone());
        let access = Arc::new(AccessControl::new(ring, Arc::clone(&self.session_clock)));
        let watchdog = Watchdog::start(clock);
        let joined = match &shards {
            Some(shards) => {
                let (identity, port) = (shards.cluster(), nodes.take());
                let joining = cluster::join(config, self.versions, &engine, identity, port);
                Some(joining.await?)
            }
            None => None,
        };
        let lease = joined.as_ref().map(|joined| joined.lease.clone());
        let mut makers = take(&mut self.makers);
        let inputs = ServiceInputs {
            config,
            secret: &secret,
            clock,
            session_clock: &self.session_clock,
            lease: lease.clone(),
            is_development: self.is_development,
        };
        let prepared = built_in_services::prepare(inputs, &mut makers)?;
        signalr::set_mode(&hosted, config, &prepared.connect, &access)?;
        let pusher = PushPerformer::new(hosted.realtime.clone());
        makers.insert(PUSHES, Box::new(move |_| pusher as Arc<dyn Performer>));
        let services = built_in_services::services(take(&mut self.services), &prepared, config);
        let opening = region::start(config, &engine, nodes, &prepared.calls, clock);
        let (paired, regions) = opening.await?;
        let (store, runtime) =
            runtime(config, &engine, clock, services, makers, joined.as_ref()).await?;
        let opened = OpenedState {
            began,
            keys,
            declared,
            certificate,
            access,
            client_key,
            backup_key,
            hosted,
            engine,
            shards,
            store,
            runtime,
            paired,
            watchdog,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let parts = StartParts {
            joined,
            prepared,
            lease,
            regions,
        };
        Ok((opened, parts))
    }

    /// Phase 4: acquires partitions, and creates what is declared.
    async fn acquire(&mut self, opened: &OpenedState, parts: StartParts) -> Result<ServingParts> {
        let (config, clock, runtime) = (&self.config, &self.clock, &opened.runtime);
        let (stop, tasks) = (&opened.stop, &opened.tasks);
        let forwarder = parts.joined.as_ref();
        let forwarder = forwarder.map(|joined| Arc::clone(&joined.forward));
        let cluster = match parts.joined {
            Some(joined) => {
                let certificate = opened.certificate.clone();
                let started = joined.start(runtime, &opened.store, certificate, stop, tasks);
                Some(started.await?)
            }
            None => {
                runtime.serve_all().await?;
                self.catch_up(runtime);
                None
            }
        };
        let under = (Arc::clone(&opened.engine), parts.lease);
        let volatile = volatile_services::start(config, runtime, clock, under, cluster.as_ref());
        let functions = take(&mut self.functions);
        let own_hubs = functions.keys().cloned().collect();
        let paired = opened.paired.as_ref().map(|paired| paired.jobs());
        let services =
            built_in_services::open(parts.prepared, config, runtime, paired, clock, own_hubs);
        if let Some(cluster) = &cluster {
            cluster_handlers::connect_task_hubs(cluster, &services.task_hubs);
        }
        built_in_services::declare(config, &services).await?;
        let mut hosts = Vec::new();
        for (hub, functions) in functions {
            hosts.push(FunctionHost::start(
                services.task_hubs.hub(&hub)?,
                functions,
            ));
        }
        for definition in take(&mut self.event_hubs) {
            services.hubs.ensure(definition).await?;
        }
        built_in_services::seal_keys(&services, stop, tasks);
        Ok(ServingParts {
            cluster,
            forwarder,
            services,
            volatile,
            hosts,
        })
    }

    /// Moves virtual time to the latest that was stored: time never goes back. On the
    /// system's clock it says if the state is of the future, where timers would wait.
    fn catch_up(&self, runtime: &Runtime) {
        let mailboxes = runtime.router().mailboxes();
        let latest = mailboxes.iter().map(|mailbox| mailbox.ledger().time());
        let latest = latest.max().unwrap_or_default();
        match &self.stepped {
            Some(stepped) => stepped.move_to(latest),
            None if latest > self.clock.now().plus(CLOCK_TOLERANCE) => tracing::warn!(
                event = "node.state_of_the_future",
                latest = format_time(latest),
                "the state was written at a later time, on virtual time or by another clock: \
                 its timers wait until then",
            ),
            None => {}
        }
    }

    /// Phase 5: serves other nodes, other regions and clients.
    async fn serve_all(
        mut self,
        opened: OpenedState,
        serving: ServingParts,
        regions: Option<RegionListener>,
        clients: Option<ClientPorts>,
    ) -> Result<Node> {
        let processors = take(&mut self.processors);
        let inner = self.into_inner(opened, serving);
        if let Some(cluster) = &inner.cluster {
            let lender = Arc::new(CollectionsOwnerHandler(Arc::downgrade(&inner)));
            inner.runtime.router().register(CLERK, lender);
            cluster_handlers::connect_realtime_hubs(cluster, &inner.hosted.realtime);
            signalr::connect(cluster, &inner);
        }
        if let Some(listener) = regions {
            region_server::open(listener, &inner);
        }
        scheduler::declare(&inner).await?;
        processors::run(&inner, processors).await?;
        if let Some(ports) = clients {
            web::start(&inner, ports);
        }
        inner.health.set(State::Ready);
        Ok(Node::new(inner))
    }

    fn into_inner(self, opened: OpenedState, serving: ServingParts) -> Arc<Inner> {
        let Self {
            config,
            is_development,
            clock,
            session_clock,
            stepped,
            source,
            log,
            restored,
            ..
        } = self;
        let governor = Arc::new(web::governor(&config));
        Arc::new_cyclic(|weak: &Weak<Inner>| {
            let me = weak.clone();
            let checks = move || me.upgrade().map(|inner| inner.checks()).unwrap_or_default();
            Inner {
                me: weak.clone(),
                governor,
                config,
                is_development,
                access: opened.access,
                clock,
                session_clock,
                virtual_time: stepped.map(VirtualTime::new),
                began: opened.began,
                engine: opened.engine,
                store: opened.store,
                shards: opened.shards,
                runtime: opened.runtime,
                cluster: serving.cluster,
                paired: opened.paired,
                forwarder: serving.forwarder,
                services: serving.services,
                volatile: serving.volatile,
                hosts: Mutex::new(serving.hosts),
                hosted: opened.hosted,
                keys: opened.keys,
                client_key: opened.client_key,
                backup_key: opened.backup_key,
                key_lock: Mutex::new(()),
                certificate: opened.certificate,
                health: Arc::new(NodeHealth::new(checks)),
                addresses: Mutex::new(Vec::new()),
                declared: RwLock::new(opened.declared),
                source,
                log,
                reloads: Mutex::new(Vec::new()),
                hooks: Mutex::new(Vec::new()),
                leaving: CancellationToken::new(),
                stop: opened.stop,
                tasks: opened.tasks,
                watchdog: opened.watchdog,
                restores: restored.as_ref().map_or(0, |restored| restored.number),
                restored,
                backup: Mutex::new(None),
                pending_restore: Mutex::new(None),
                is_leaving: AtomicBool::new(false),
                left: watch::channel(None).0,
                ended: CancellationToken::new(),
            }
        })
    }
}

async fn runtime(
    config: &Config,
    engine: &Arc<dyn Engine>,
    clock: &Arc<dyn Clock>,
    services: Services,
    makers: BTreeMap<ServiceKind, PerformerFactory>,
    joined: Option<&JoinedCluster>,
) -> Result<(Arc<Store>, Arc<Runtime>)> {
    let wanted = Space {
        number: 0,
        name: MAIN.to_owned(),
        partitions: config.partitions,
        incarnation: Uuid::new_v4().as_u128(),
    };
    let space = Space::open(&**engine, wanted).await?;
    let store = Arc::new(open::store(config, Arc::clone(engine), clock, joined));
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
