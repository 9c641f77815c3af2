//! The built-in services of every node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use steadfast_core::clock::Clock;
use steadfast_core::task::name_task;
use steadfast_durable::{DeliveryOptions, Dispatcher, Instances, TaskHubs, TaskServiceCounts};
use steadfast_events::{Blobs, EventHubDefinition, EventHubs, EventRetention};
use steadfast_jobs::{Deliverer, JobClient, JobRunner, JobScheduler};
use steadfast_net::access::Secret;
use steadfast_net::egress::{ConnectOptions, EgressPolicy, EgressRule, Guard};
use steadfast_net::sealing::SealingKey;
use steadfast_partition::{CollectionReplicas, Performer, Runtime, ServiceKind, Services};
use steadfast_realtime::PushService;
use steadfast_storage::NodeLease;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Result;
use super::job_calls::{self, CallOptions};
use super::message_check::NodeMessageCheck;
use super::performers::PerformerFactory;
use crate::config::{Config, Error as ConfigError, RegionRole};

/// Clients of the built-in services of a node.
pub(super) struct BuiltInServices {
    pub(super) hubs: EventHubs,
    pub(super) blobs: Blobs,
    pub(super) task_hubs: TaskHubs,
    /// AMQP connections.
    pub(super) served: TaskTracker,
    /// Counters of task hub workers.
    pub(super) work: Arc<TaskServiceCounts>,
    pub(super) jobs: JobClient,
    pub(super) replicas: Arc<CollectionReplicas>,
    /// The node's own addresses, which no job may call.
    pub(super) addresses: Arc<RwLock<Vec<SocketAddr>>>,
    /// How calls of jobs are made.
    pub(super) calls: CallOptions,
}

/// Parts that are created before the runtime.
pub(super) struct PreparedServices {
    /// Seals and unseals the keys of event hub policies.
    sealing: SealingKey,
    addresses: Arc<RwLock<Vec<SocketAddr>>>,
    /// How outgoing calls connect.
    pub(super) connect: ConnectOptions,
    pub(super) calls: CallOptions,
    runner: Arc<OnceLock<JobRunner>>,
    dispatcher: Arc<OnceLock<Dispatcher>>,
}

/// Adds the node's own services to those of its user.
pub(super) fn services(
    services: Services,
    prepared: &PreparedServices,
    config: &Config,
) -> Services {
    let sealer = Arc::new(prepared.sealing.clone());
    let services = steadfast_events::register_sealed(services, sealer);
    steadfast_events::limit_blob_accounts(services, config.blob_account_bytes)
        .with(JobScheduler)
        .with(Instances)
        .with(PushService)
}

/// What the services are prepared with.
pub(super) struct ServiceInputs<'a> {
    pub(super) config: &'a Config,
    /// The server's secret.
    pub(super) secret: &'a Secret,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// The clock of the credentials of outgoing calls.
    pub(super) session_clock: &'a Arc<dyn Clock>,
    pub(super) lease: Option<NodeLease>,
    pub(super) is_development: bool,
}

/// Prepares the job runner and the dispatcher, and adds their performer factories.
pub(super) fn prepare(
    inputs: ServiceInputs<'_>,
    makers: &mut BTreeMap<ServiceKind, PerformerFactory>,
) -> Result<PreparedServices> {
    let ServiceInputs {
        config,
        secret: text,
        clock,
        session_clock,
        lease,
        is_development,
    } = inputs;
    let addresses = Arc::new(RwLock::new(Vec::new()));
    let connect = connect(config, Arc::clone(&addresses), is_development)?;
    let calls = job_calls::call_options(config, text, &connect);
    let made = Arc::new(OnceLock::new());
    // Jobs of a region pair run in the spaces of their homes, not in the main space.
    if !matches!(config.regions.role, Some(RegionRole::Region { .. })) {
        let deliverer = job_calls::node_deliverer(calls.clone(), lease, session_clock)?;
        makers.insert(steadfast_jobs::KIND, runner(deliverer, clock, &made));
    }
    Ok(PreparedServices {
        sealing: SealingKey::new(text.reveal()),
        addresses,
        connect,
        calls,
        runner: made,
        dispatcher: dispatcher(clock, makers),
    })
}

/// Returns the factory of the job runner, which is called once the runtime exists.
pub(super) fn runner(
    deliverer: Arc<dyn Deliverer>,
    clock: &Arc<dyn Clock>,
    made: &Arc<OnceLock<JobRunner>>,
) -> PerformerFactory {
    let (made, clock) = (Arc::clone(made), Arc::clone(clock));
    Box::new(move |runtime: &Runtime| {
        let router = Arc::clone(runtime.router());
        let runner = JobRunner::new(router, deliverer, clock);
        let runner = made.get_or_init(|| runner).clone();
        Arc::new(runner) as Arc<dyn Performer>
    })
}

/// How the calls of jobs and upstreams connect.
fn connect(
    config: &Config,
    own: Arc<RwLock<Vec<SocketAddr>>>,
    is_development: bool,
) -> Result<ConnectOptions> {
    let mut connect = ConnectOptions {
        guard: guard(config, own, is_development)?,
        roots: None,
        proxy: config.jobs_proxy.clone(),
    };
    if let Some(file) = &config.jobs_ca {
        let wrong = |error: std::io::Error| ConfigError::value("jobs.ca", file.display(), error);
        connect.roots = Some(std::fs::read(file).map_err(wrong)?);
    }
    Ok(connect)
}

/// Adds the factory of the dispatcher that delivers work items to workers.
fn dispatcher(
    clock: &Arc<dyn Clock>,
    makers: &mut BTreeMap<ServiceKind, PerformerFactory>,
) -> Arc<OnceLock<Dispatcher>> {
    let dispatcher = Arc::new(OnceLock::new());
    let (made, clock) = (Arc::clone(&dispatcher), Arc::clone(clock));
    let make = move |runtime: &Runtime| {
        let router = Arc::clone(runtime.router());
        let dispatcher = Dispatcher::new(router, clock, DeliveryOptions::default());
        let dispatcher = made.get_or_init(|| dispatcher).clone();
        Arc::new(dispatcher) as Arc<dyn Performer>
    };
    makers.insert(steadfast_durable::KIND, Box::new(make));
    dispatcher
}

/// Creates the clients of the services, once the runtime serves. Task hubs whose functions
/// this process hosts need no declaration; `abroad` is the client of jobs kept in two
/// regions.
pub(super) fn open(
    prepared: PreparedServices,
    config: &Config,
    runtime: &Runtime,
    abroad: Option<&JobClient>,
    clock: &Arc<dyn Clock>,
    hosted: Vec<String>,
) -> BuiltInServices {
    let hubs = EventHubs::new(runtime);
    let own_jobs = || Some(JobClient::new(runtime, prepared.runner.get()?.clone()));
    let jobs = abroad.cloned().or_else(own_jobs);
    let jobs = jobs.expect("performers are made with the runtime");
    let dispatcher = prepared.dispatcher.get().cloned();
    let dispatcher = dispatcher.expect("performers are made with the runtime");
    let kept = config.task_hubs.iter().filter_map(|declared| {
        let retention = crate::config::duration(declared.retention.as_deref()?)?;
        Some((declared.name.clone(), retention))
    });
    let task_hubs = TaskHubs::new(runtime, dispatcher, kept.collect());
    let known = config
        .task_hubs
        .iter()
        .map(|declared| declared.name.clone());
    let task_hubs = if config.unknown_task_hubs {
        task_hubs
    } else {
        task_hubs.only(known.chain(hosted).collect())
    };
    let options = steadfast_collections::Options {
        clock: Arc::clone(clock),
        ..steadfast_collections::Options::default()
    };
    let check = NodeMessageCheck {
        hubs: hubs.clone(),
        task_hubs: task_hubs.clone(),
        jobs: abroad.is_none().then(|| jobs.clone()),
    };
    let replicas = CollectionReplicas::new(Arc::clone(runtime.router()), options);
    BuiltInServices {
        blobs: Blobs::new(runtime, hubs.clone()),
        served: TaskTracker::new(),
        work: Arc::default(),
        task_hubs,
        jobs,
        replicas: Arc::new(replicas.with_check(Arc::new(check))),
        addresses: prepared.addresses,
        calls: prepared.calls,
        hubs,
    }
}

/// Creates the declared event hubs that do not exist yet.
pub(super) async fn declare(config: &Config, own: &BuiltInServices) -> Result<()> {
    for declared in &config.event_hubs {
        let partitions = declared.partitions.unwrap_or(config.events_partitions);
        let mut definition = EventHubDefinition::new(&declared.name, partitions);
        for group in &declared.groups {
            definition = definition.group(group);
        }
        let retention = EventRetention {
            age: declared
                .retention
                .as_deref()
                .and_then(crate::config::duration),
            bytes: declared
                .retention_bytes
                .as_deref()
                .and_then(crate::config::size),
        };
        own.hubs.ensure(definition.retention(retention)).await?;
    }
    Ok(())
}

/// Seals the keys of policies that were stored before sealing existed: reading an event
/// hub seals them. The start does not wait for it, since the partition may belong to a
/// node that has not started yet.
pub(super) fn seal_keys(own: &BuiltInServices, stop: &CancellationToken, tasks: &TaskTracker) {
    let (hubs, stop) = (own.hubs.clone(), stop.clone());
    tasks.spawn(name_task(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            // Event hubs that cannot be read now are sealed when they are next read.
            _ = hubs.list() => {}
        }
    }));
}

/// The egress policy. Private networks are open in development only.
fn guard(
    config: &Config,
    own: Arc<RwLock<Vec<SocketAddr>>>,
    is_development: bool,
) -> Result<Guard> {
    let rules = |key: &str, texts: &[String]| {
        let rules = texts.iter().map(|text| text.parse());
        let rules = rules.collect::<std::result::Result<Vec<EgressRule>, String>>();
        rules.map_err(|why| ConfigError::value(key, "the settings", why))
    };
    Ok(Guard {
        policy: EgressPolicy {
            allow: rules("jobs.allow", &config.jobs_allow)?,
            deny: rules("jobs.deny", &config.jobs_deny)?,
            is_private_open: is_development,
        },
        own,
        ..Guard::default()
    })
}
