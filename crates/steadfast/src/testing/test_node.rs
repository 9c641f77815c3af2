//! A node in memory whose time and faults a test controls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_core::clock::{Clock, SteppedClock, Timestamp};
use steadfast_durable::FailureDetails;
use steadfast_durable::native::{ActivityContext, Context, EntityType};
use steadfast_events::EventHubDefinition;
use steadfast_net::access::Secret;
use steadfast_storage::Engine;
use steadfast_storage::memory::MemoryEngine;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::fault::Faults;
use super::faulty_engine::FaultyEngine;
use crate::node::{AdvanceOptions, Builder, KeptMemory, Node, Result, TimeReport};

/// 2026-01-01T00:00:00Z, when the time of a test begins.
const BEGIN: Timestamp = Timestamp(1_767_225_600_000);

/// The number of partitions: enough for messages between them.
const PARTITIONS: u16 = 4;

/// A node in memory, on virtual time; see [`testing`](crate::testing).
///
/// ```
/// use steadfast::testing::TestNode;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let world = TestNode::builder().start().await?;
/// assert_eq!(world.node().status().engine, "memory");
/// # Ok(())
/// # }
/// ```
pub struct TestNode {
    configure: Arc<[ConfigureStep]>,
    clock: SteppedClock,
    memory: Arc<MemoryEngine>,
    secret: Secret,
    faults: Faults,
    /// The engine of the node since its last start.
    engine: Arc<FaultyEngine>,
    node: Node,
    /// Ends the node when a fault ends its process.
    crash_watch: AbortHandle,
}

/// Configures the node, at each of its starts.
type ConfigureStep = Box<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Configures a [`TestNode`].
///
/// ```
/// use steadfast::durable::entity;
/// use steadfast::testing::TestNode;
///
/// #[derive(Default, serde::Serialize, serde::Deserialize)]
/// struct Counter(i64);
///
/// #[entity]
/// impl Counter {
///     fn add(&mut self, more: i64) -> i64 {
///         self.0 += more;
///         self.0
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut world = TestNode::builder().entity::<Counter>().start().await?;
/// let hub = world.node().task_hubs().hub("default")?;
/// assert_eq!(Counter::at("clicks")?.add(&hub, 2).await?, 2);
///
/// world.restart().await?;
/// let hub = world.node().task_hubs().hub("default")?;
/// assert_eq!(Counter::at("clicks")?.add(&hub, 3).await?, 5);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct TestNodeBuilder {
    configure: Vec<ConfigureStep>,
    start: Timestamp,
}

impl TestNode {
    /// Returns a builder of a node with 4 partitions and no functions.
    pub fn builder() -> TestNodeBuilder {
        TestNodeBuilder {
            configure: Vec::new(),
            start: BEGIN,
        }
    }

    /// The node. After [`TestNode::restart`] it is another one: handles of the former one
    /// fail, as those of a process that has ended.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The virtual time.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use steadfast::{iso, testing::TestNode};
    ///
    /// let world = TestNode::builder().start().await?;
    /// assert_eq!(Some(world.now()), iso::parse_time("2026-01-01T00:00:00Z"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the time on, and waits until everything that becomes due has ended; see
    /// [`testing`](crate::testing).
    ///
    /// # Errors
    ///
    /// `STF-7072` if something has not ended within 30 s of real time; the time then stands
    /// where it was due. `STF-7071` for more than ten years.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::testing::TestNode;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = TestNode::builder().start().await?;
    /// let begin = world.now();
    /// let report = world.advance(Duration::from_secs(60)).await?;
    /// assert_eq!(report.now.0 - begin.0, 60_000);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance(&self, by: Duration) -> Result<TimeReport> {
        self.advance_with(by, AdvanceOptions::default()).await
    }

    /// Like [`TestNode::advance`], with explicit options; see [`AdvanceOptions`].
    pub async fn advance_with(&self, by: Duration, options: AdvanceOptions) -> Result<TimeReport> {
        self.node.advance_by(by, options).await
    }

    /// Moves the time on to a moment.
    ///
    /// # Errors
    ///
    /// Like [`TestNode::advance`]; `STF-7071` also for a moment in the past.
    ///
    /// ```
    /// use steadfast::{iso, testing::TestNode};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = TestNode::builder().start().await?;
    /// let easter = iso::parse_time("2026-04-05T00:00:00Z").expect("a time");
    /// assert_eq!(world.advance_to(easter).await?.now, easter);
    /// assert_eq!(world.advance_to(easter).await?.moments, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance_to(&self, to: Timestamp) -> Result<TimeReport> {
        self.node.advance_to(to, AdvanceOptions::default()).await
    }

    /// Waits until everything that is due now has ended, and does not move the time.
    ///
    /// # Errors
    ///
    /// `STF-7072` if something has not ended within 30 s of real time.
    ///
    /// ```
    /// use steadfast::durable::{Context, FailureDetails, InstanceStatus, NewInstance, Task};
    /// use steadfast::testing::TestNode;
    ///
    /// async fn double(_: Context, number: i64) -> Result<i64, FailureDetails> {
    ///     Ok(2 * number)
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = TestNode::builder().orchestration("double", double).start().await?;
    /// let hub = world.node().task_hubs().hub("default")?;
    /// let id = hub.start(NewInstance::of(Task::new("double", &21)?)).await?;
    /// world.settle().await?;
    /// let ended = hub.get(&id, true).await?.expect("it was started");
    /// assert_eq!(ended.status, InstanceStatus::Completed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(&self) -> Result<TimeReport> {
        self.node.settle(AdvanceOptions::default()).await
    }

    /// Injects faults; see [`Faults`] for an example.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Ends the node as `kill -9` does, and starts it again on what it had committed. The
    /// time stays; faults that have not struck are dropped.
    ///
    /// See [`TestNodeBuilder`] for an example.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.end();
        self.faults.clear();
        self.engine = engine(&self.memory, &self.faults);
        let kept = kept(&self.engine, &self.secret);
        self.node = open(&self.configure, &self.clock, kept).await?;
        self.crash_watch = watch_crashes(&self.node, &self.faults);
        Ok(())
    }

    /// Ends the node as a crash would.
    fn end(&self) {
        self.crash_watch.abort();
        self.engine.kill();
        self.node.crasher()();
    }
}

impl fmt::Debug for TestNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestNode")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.end();
    }
}

impl TestNodeBuilder {
    /// Sets the time at which the test begins; see [`testing`](crate::testing).
    ///
    /// ```
    /// use steadfast::{iso, testing::TestNode};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let leap_day = iso::parse_time("2028-02-29T12:00:00Z").expect("a time");
    /// let world = TestNode::builder().starting_at(leap_day).start().await?;
    /// assert_eq!(world.now(), leap_day);
    /// # Ok(())
    /// # }
    /// ```
    pub fn starting_at(mut self, start: Timestamp) -> Self {
        self.start = start;
        self
    }

    /// Runs the entities of a type, in the task hub `default`; see [`TestNodeBuilder`].
    pub fn entity<E: EntityType>(self) -> Self {
        self.configure(|node| node.entity::<E>())
    }

    /// Runs an orchestration, in the task hub `default`; see [`testing`](crate::testing).
    pub fn orchestration<I, O, F, R>(self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send,
        O: Serialize,
        F: Fn(Context, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = std::result::Result<O, FailureDetails>> + Send + 'static,
    {
        let name = name.to_owned();
        self.configure(move |node| node.orchestration(&name, function.clone()))
    }

    /// Runs an activity, in the task hub `default`.
    ///
    /// ```
    /// use steadfast::durable::{ActivityContext, FailureDetails};
    /// use steadfast::testing::TestNode;
    ///
    /// async fn send(_: ActivityContext, to: String) -> Result<(), FailureDetails> {
    ///     println!("sent to {to}");
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = TestNode::builder().activity("send", send).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn activity<I, O, F, R>(self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send,
        O: Serialize,
        F: Fn(ActivityContext, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = std::result::Result<O, FailureDetails>> + Send + 'static,
    {
        let name = name.to_owned();
        self.configure(move |node| node.activity(&name, function.clone()))
    }

    /// Creates an event hub.
    ///
    /// ```
    /// use steadfast::events::EventHubDefinition;
    /// use steadfast::testing::TestNode;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let telemetry = EventHubDefinition::new("telemetry", 2);
    /// let world = TestNode::builder().event_hub(telemetry).start().await?;
    /// assert_eq!(world.node().event_hubs().get("telemetry").await?.partitions, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn event_hub(self, definition: EventHubDefinition) -> Self {
        self.configure(move |node| node.event_hub(definition.clone()))
    }

    /// Applies any other setting of [`Builder`], at each start of the node. Its engine and
    /// its clock are those of the test.
    ///
    /// ```
    /// use steadfast::testing::TestNode;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = TestNode::builder().configure(|node| node.partitions(16)).start().await?;
    /// assert_eq!(world.node().status().partitions.len(), 16);
    /// # Ok(())
    /// # }
    /// ```
    pub fn configure(
        mut self,
        configure: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Starts the node. It stops when the [`TestNode`] is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::start`].
    ///
    /// See [`TestNode`] for an example.
    pub async fn start(self) -> Result<TestNode> {
        let configure: Arc<[ConfigureStep]> = self.configure.into();
        let clock = SteppedClock::starting_at(self.start);
        let memory = Arc::new(MemoryEngine::new());
        let secret = Secret::new(Uuid::new_v4().to_string());
        let faults = Faults::new();
        let engine = engine(&memory, &faults);
        let node = open(&configure, &clock, kept(&engine, &secret)).await?;
        let crash_watch = watch_crashes(&node, &faults);
        Ok(TestNode {
            configure,
            clock,
            memory,
            secret,
            faults,
            engine,
            node,
            crash_watch,
        })
    }
}

/// The engine of one process.
fn engine(memory: &Arc<MemoryEngine>, faults: &Faults) -> Arc<FaultyEngine> {
    let memory = Arc::clone(memory) as Arc<dyn Engine>;
    Arc::new(FaultyEngine::new(memory, faults.clone()))
}

/// What the next start of the node finds.
fn kept(engine: &Arc<FaultyEngine>, secret: &Secret) -> KeptMemory {
    KeptMemory {
        engine: Arc::clone(engine) as Arc<dyn Engine>,
        secret: secret.clone(),
    }
}

async fn open(configure: &[ConfigureStep], clock: &SteppedClock, kept: KeptMemory) -> Result<Node> {
    let mut builder = Node::builder().partitions(PARTITIONS);
    for step in configure {
        builder = step(builder);
    }
    let builder = builder.kept_memory(kept).virtual_time(clock.clone());
    builder.start().await
}

/// Ends the node as soon as a fault ends its process: callers get an error at once.
fn watch_crashes(node: &Node, faults: &Faults) -> AbortHandle {
    let (crash, mut crashes) = (node.crasher(), faults.crashes());
    crashes.mark_unchanged();
    let watch = tokio::spawn(async move {
        if crashes.changed().await.is_ok() {
            crash();
        }
    });
    watch.abort_handle()
}
