//! Task hubs on a virtual clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::id::Owner;
use steadfast_durable::native::{FunctionHost, Functions};
use steadfast_durable::{
    DeliveryOptions, Dispatcher, EntityId, EntityOperation, EventKind, InstanceEvent, InstanceView,
    Instances, Moment, NewInstance, Task, TaskHub, TaskHubs,
};
use steadfast_partition::{Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Store};
use tokio::time::Instant;

/// Follows the paused time of the runtime.
pub(crate) struct Paused {
    began: Instant,
    /// How far the wall clock was set, in milliseconds.
    set: AtomicI64,
}

impl Paused {
    /// Sets the wall clock.
    pub(crate) fn set_by(&self, ms: i64) {
        self.set.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        let elapsed = self.began.elapsed().as_millis() as i64;
        Timestamp(1_700_000_000_000 + elapsed + self.set.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A machine whose disk outlives its processes.
pub(crate) struct Hall {
    engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<Paused>,
    pub(crate) delivery: DeliveryOptions,
    pub(crate) kept: BTreeMap<String, Duration>,
    /// Bytes of a log that is never flushed at which nothing more is written.
    pub(crate) log_limit: Option<u64>,
}

/// A process.
pub(crate) struct Node {
    pub(crate) hubs: TaskHubs,
    pub(crate) hub: TaskHub,
    runtime: Runtime,
    _store: Arc<Store>,
}

impl Hall {
    pub(crate) fn new() -> Self {
        Self {
            engine: Arc::new(MemoryEngine::new()),
            clock: Arc::new(Paused {
                began: Instant::now(),
                set: AtomicI64::new(0),
            }),
            delivery: DeliveryOptions::default(),
            kept: BTreeMap::new(),
            log_limit: None,
        }
    }

    /// A machine whose commits take a while: other tasks run first.
    pub(crate) fn slow() -> Self {
        let faults = EngineFaults {
            delay: 95,
            ..EngineFaults::default()
        };
        let hall = Self::new();
        Self {
            engine: Arc::new(HostileEngine::new(Arc::clone(&hall.engine), faults, 7)),
            ..hall
        }
    }

    /// A process without workers.
    pub(crate) async fn start(&self) -> Node {
        let owner = Owner {
            node: 1,
            incarnation: fastrand::u128(..),
        };
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let mut options = steadfast_storage::Options::new(owner);
        options.clock = Arc::clone(&clock);
        if let Some(limit) = self.log_limit {
            (options.log_target, options.log_limit) = (u64::MAX, limit);
        }
        let store = Arc::new(Store::start(Arc::clone(&self.engine), options));
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let dispatcher = Dispatcher::new(Arc::clone(&router), Arc::clone(&clock), self.delivery);
        let options = Options {
            services: Services::new().with(Instances),
            performer: Arc::new(dispatcher.clone()),
            router,
            clock,
        };
        let wanted = Space {
            number: 0,
            name: "main".into(),
            partitions: 4,
            incarnation: 1,
        };
        let space = Space::open(&*self.engine, wanted).await.unwrap();
        let runtime = Runtime::new(Arc::clone(&store), space, options);
        runtime.serve_all().await.unwrap();
        let hubs = TaskHubs::new(&runtime, dispatcher, self.kept.clone());
        Node {
            hub: hubs.hub("default").unwrap(),
            hubs,
            runtime,
            _store: store,
        }
    }

    /// A process with these functions.
    pub(crate) async fn run(&self, functions: Functions) -> (Node, FunctionHost) {
        let node = self.start().await;
        let host = FunctionHost::start(node.hub.clone(), functions);
        (node, host)
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::from(self.clock.now())
    }

    /// So many milliseconds from now.
    pub(crate) fn later(&self, ms: i64) -> Moment {
        Moment::from(Timestamp(self.clock.now().0 + ms))
    }
}

impl Node {
    /// All partitions are lost, and after a while taken again.
    pub(crate) async fn take_again(&self) {
        for partition in self.runtime.serving() {
            self.runtime.abandon(partition);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.runtime.serve_all().await.unwrap();
    }

    /// Makes room in the log.
    pub(crate) async fn flush(&self) {
        for door in self.runtime.router().mailboxes() {
            door.ledger().flush().await.unwrap();
        }
    }

    /// How many commands all partitions have handled.
    pub(crate) fn commands(&self) -> u64 {
        let doors = self.runtime.router().mailboxes();
        let counts = doors.iter().map(|door| door.metrics().counts());
        counts.map(|counts| counts.commands).sum()
    }

    /// Starts an orchestration.
    pub(crate) async fn begin(&self, name: &str, instance: &str, input: &str) -> String {
        let new = NewInstance {
            instance: instance.into(),
            task: task(name, input),
            ..NewInstance::default()
        };
        self.hub.start(new).await.unwrap()
    }

    /// Starts an orchestration and waits for its end.
    pub(crate) async fn run(&self, name: &str, instance: &str, input: &str) -> InstanceView {
        let instance = self.begin(name, instance, input).await;
        self.hub.ended(&instance, true).await.unwrap()
    }

    /// Everything that happened.
    pub(crate) async fn history(&self, instance: &str) -> Vec<InstanceEvent> {
        let turns = self.hub.history(instance, None).await.unwrap();
        turns.iter().flat_map(|turn| turn.iter().cloned()).collect()
    }

    /// Sends an operation.
    pub(crate) async fn signal(&self, entity: &str, name: &str, input: &str) {
        self.hub
            .signal(operation(entity, name, input))
            .await
            .unwrap();
    }

    /// The state of an entity.
    pub(crate) async fn state(&self, entity: &str) -> Option<String> {
        let found = self.hub.entity(entity, true).await.unwrap();
        found.and_then(|found| found.state)
    }
}

pub(crate) fn task(name: &str, input: &str) -> Task {
    Task {
        name: name.into(),
        input: Some(input.into()),
        ..Task::default()
    }
}

pub(crate) fn operation(entity: &str, name: &str, input: &str) -> EntityOperation {
    EntityOperation {
        name: name.into(),
        target: entity.into(),
        input: Some(input.into()),
        ..EntityOperation::default()
    }
}

pub(crate) fn entity(name: &str, key: &str) -> EntityId {
    EntityId::new(name, key).unwrap()
}

/// How many events are such.
pub(crate) fn count(events: &[InstanceEvent], is_such: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| is_such(&event.what)).count()
}

/// An account: `add` answers the new balance, `get` the balance, `fail` changes it
/// and then fails.
pub(crate) fn with_accounts(functions: Functions) -> Functions {
    functions.entity("account", |context| {
        Box::pin(async move {
            let mut balance: i64 = context.state()?;
            match context.operation() {
                "add" => balance += context.input::<i64>()?,
                "get" => {}
                "delete" => {
                    context.delete();
                    return Ok(None);
                }
                "fail" => {
                    context.set_state(&-1)?;
                    context.signal(&EntityId::new("account", "other").unwrap(), "add", &7)?;
                    return Err(steadfast_durable::FailureDetails::new("Refused", "no"));
                }
                other => panic!("what is {other}?"),
            }
            context.set_state(&balance)?;
            Ok(Some(balance.to_string()))
        })
    })
}
