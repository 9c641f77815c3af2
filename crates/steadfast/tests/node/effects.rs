//! Messages of transactions: to every service, or to none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::clock::{Timestamp, VirtualClock};
use steadfast::collections::{Dictionary, Error, ErrorKind, Scheme, Tx};
use steadfast::config::{Config, Layers};
use steadfast::durable::{
    ActivityContext, Context, EntityContext, EntityOperation, FailureDetails, NewInstance, Task,
    entity, raise, signal, signal_message, start,
};
use steadfast::events::{
    Context as Handling, EventDataBatch, EventHubDefinition, EventPosition, Handler, HandlerResult,
    ProcessorOptions, ReceivedEvent, publish,
};
use steadfast::jobs::recurrence::JobTiming;
use steadfast::jobs::{
    CollectionDraft, CollectionId, JobAction, JobDraft, JobId, JobPolicy, JobRetry, Precondition,
    Target, cancel, create,
};
use steadfast::{Builder, Node, ServicePartition};

/// What has arrived, and how often.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Arrivals {
    counts: BTreeMap<u64, u64>,
}

#[entity]
impl Arrivals {
    fn note(&mut self, number: u64) {
        *self.counts.entry(number).or_default() += 1;
    }

    fn counts(&self) -> BTreeMap<u64, u64> {
        self.counts.clone()
    }
}

/// Sends what it is asked for.
#[derive(Default, Serialize, Deserialize)]
struct Relay {
    sent: u64,
}

#[entity]
impl Relay {
    fn forward(
        &mut self,
        context: &mut EntityContext,
        (number, fails): (u64, bool),
    ) -> Result<u64, FailureDetails> {
        self.sent += 1;
        context.send(publish("telemetry").body(number.to_string()))?;
        context.send(signal("arrivals", "signalled", "note", &number))?;
        context.send(start("note", &number))?;
        context.send(start("await", &()).id(format!("waits {number}")))?;
        context.send(raise(&format!("waits {number}"), "number", &number))?;
        context.send(create(noting_job(&format!("job {number}"), number, false)))?;
        if fails {
            return Err(FailureDetails::new("Test", "it sends nothing"));
        }
        Ok(self.sent)
    }
}

/// How often the activity has run.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Sends, and fails the first time.
async fn forward(context: ActivityContext, number: u64) -> Result<(), FailureDetails> {
    let runs = RUNS.fetch_add(1, Ordering::SeqCst);
    context.send(publish("telemetry").body(number.to_string()))?;
    context.send(signal("arrivals", "signalled", "note", &number))?;
    context.send(start("note", &number))?;
    context.send(start("await", &()).id(format!("waits {number}")))?;
    context.send(raise(&format!("waits {number}"), "number", &number))?;
    context.send(create(noting_job(&format!("job {number}"), number, false)))?;
    match runs {
        0 => Err(FailureDetails::new("Test", "the first run fails")),
        _ => Ok(()),
    }
}

/// Calls the activity until it succeeds.
async fn call_forward(cx: Context, number: u64) -> Result<(), FailureDetails> {
    while cx.activity::<_, ()>("forward", &number).await.is_err() {}
    Ok(())
}

/// Awaits an event, and notes the number that it brings.
async fn note_event(cx: Context, _: ()) -> Result<(), FailureDetails> {
    let number: u64 = cx.event("number").await?;
    Arrivals::at("raised")?.note(&cx, number).await
}

/// Notes its input.
pub(crate) async fn note_start(cx: Context, number: u64) -> Result<(), FailureDetails> {
    Arrivals::at("started")?.note(&cx, number).await
}

pub(crate) fn builder() -> Builder {
    Node::builder()
        .partitions(4)
        .entity::<Arrivals>()
        .orchestration("note", note_start)
        .orchestration("await", note_event)
        .event_hub(EventHubDefinition::new("telemetry", 1))
}

pub(crate) fn job(name: &str) -> JobId {
    let nightly = CollectionId::new("main", "default", "nightly").unwrap();
    nightly.job(name).unwrap()
}

/// A collection for jobs.
pub(crate) async fn make_collection(node: &Node) {
    let draft = CollectionDraft {
        id: job("any").collection,
        document: "{}".to_owned(),
        most_jobs: None,
        is_enabled: None,
    };
    let made = node.jobs().put_collection(draft, Precondition::Nothing);
    made.await.unwrap();
}

/// A job that notes a number at once, or in a day.
pub(crate) fn noting_job(name: &str, number: u64, is_later: bool) -> JobDraft {
    let operation = EntityOperation {
        target: "@arrivals@job".to_owned(),
        name: "note".to_owned(),
        input: Some(number.to_string()),
        ..EntityOperation::default()
    };
    let message = signal_message("default", operation).unwrap();
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let target = Target::Inside {
        kind: message.to.kind.0,
        name: words(&message.to.name),
        key: words(&message.to.key),
        body: message.body.to_vec(),
        times: Vec::new(),
    };
    let day = 24 * 60 * 60 * 1000;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    JobDraft {
        id: job(name),
        document: "{}".to_owned(),
        timing: JobTiming {
            start: is_later.then(|| now.as_millis() as i64 + day),
            ..JobTiming::default()
        },
        main: JobAction {
            target,
            retry: JobRetry::NONE,
        },
        error: None,
        dead_letter: None,
        policy: JobPolicy::default(),
        state: None,
    }
}

/// How often each number has arrived under a key.
pub(crate) async fn arrived(node: &Node, key: &str) -> BTreeMap<u64, u64> {
    let hub = node.task_hubs().hub("default").unwrap();
    let entity = Arrivals::at(key).unwrap();
    entity.counts(&hub).await.unwrap()
}

/// Waits until something has arrived under a key.
async fn until_arrived(node: &Node, key: &str, number: u64) {
    while !arrived(node, key).await.contains_key(&number) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The bodies of all events.
pub(crate) async fn events(node: &Node) -> Vec<String> {
    let hubs = node.event_hubs();
    let properties = hubs.partition("telemetry", 0).await.unwrap();
    let count = (properties.last_sequence + 1) as usize;
    let start = EventPosition::Earliest;
    let mut reader = hubs.observer("telemetry", 0, start).await.unwrap();
    let mut bodies = Vec::new();
    while bodies.len() < count {
        let mut publication = reader.next().await.unwrap();
        while let Some(event) = publication.next_event().unwrap() {
            bodies.push(String::from_utf8(event.body.to_vec()).unwrap());
        }
    }
    bodies
}

/// Sends one of everything.
fn send_all(tx: &mut Tx, number: u64) -> Result<(), Error> {
    tx.send(publish("telemetry").body(number.to_string()))?;
    tx.send(signal("arrivals", "signalled", "note", &number))?;
    tx.send(start("note", &number))?;
    tx.send(start("await", &()).id(format!("waits {number}")))?;
    tx.send(raise(&format!("waits {number}"), "number", &number))?;
    tx.send(create(noting_job(&format!("job {number}"), number, false)))
}

const KEYS: [&str; 4] = ["signalled", "started", "raised", "job"];

/// All keys have got exactly this, once.
async fn assert_only(node: &Node, number: u64) {
    for key in KEYS {
        until_arrived(node, key, number).await;
        let expected = BTreeMap::from([(number, 1)]);
        assert_eq!(arrived(node, key).await, expected, "{key}");
    }
    assert_eq!(events(node).await, [number.to_string()]);
}

struct Shop {
    node: Node,
    shop: ServicePartition,
    stock: Dictionary<String, u64>,
}

impl Shop {
    async fn open(builder: Builder) -> Self {
        let node = builder.start().await.unwrap();
        make_collection(&node).await;
        let shop = node.singleton("shop").await.unwrap();
        let stock = shop.dictionary("stock").await.unwrap();
        Self { node, shop, stock }
    }

    async fn apples(&self) -> Option<u64> {
        let mut tx = self.shop.replica().begin();
        let found = self.stock.get(&mut tx, "apples").await.unwrap();
        found.map(|count| *count)
    }

    /// A transaction that sets a row and does more; its error.
    async fn refused(&self, more: impl Fn(&mut Tx) -> Result<(), Error>) -> Error {
        let mut tx = self.shop.replica().begin();
        self.stock.set(&mut tx, "apples", 99).await.unwrap();
        tx.send(signal("arrivals", "signalled", "note", &99))
            .unwrap();
        if let Err(error) = more(&mut tx) {
            return error;
        }
        tx.commit().await.unwrap_err()
    }
}

#[tokio::test]
async fn one_transaction_reaches_every_service_or_none() {
    let Shop { node, shop, stock } = Shop::open(builder().memory()).await;
    let attempts = AtomicU32::new(0);
    let failing = shop.transact(async |mut tx| {
        stock.set(&mut tx, "apples", 1).await?;
        send_all(&mut tx, 1)?;
        attempts.fetch_add(1, Ordering::SeqCst);
        Err::<steadfast::collections::Conclusion<()>, _>(Error::new(ErrorKind::Closed))
    });
    failing.await.unwrap_err();
    let rolled_back = shop.transact(async |mut tx| {
        send_all(&mut tx, 2)?;
        Ok(tx.roll_back(()))
    });
    rolled_back.await.unwrap();
    let mut dropped = shop.replica().begin();
    send_all(&mut dropped, 3).unwrap();
    drop(dropped);
    // The first attempt fails for a transient reason: only the second one sends.
    let retried = shop.transact(async |mut tx| {
        stock.set(&mut tx, "apples", 4).await?;
        send_all(&mut tx, 4)?;
        if attempts.fetch_add(1, Ordering::SeqCst) == 1 {
            return Err(Error::new(ErrorKind::Throttled));
        }
        tx.commit(()).await
    });
    retried.await.unwrap();
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
    assert_only(&node, 4).await;
}

#[tokio::test]
async fn a_job_of_a_transaction_can_be_cancelled_by_another() {
    let Shop { node, shop, .. } = Shop::open(builder().memory()).await;
    let made = shop.transact(async |mut tx| {
        tx.send(create(noting_job("later", 1, true)))?;
        tx.commit(()).await
    });
    made.await.unwrap();
    while node.jobs().job(&job("later")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let cancelled = shop.transact(async |mut tx| {
        tx.send(cancel(&job("later")))?;
        // One that does not exist stays so.
        tx.send(cancel(&job("never")))?;
        tx.commit(()).await
    });
    cancelled.await.unwrap();
    while node.jobs().job(&job("later")).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let counts: u64 = poisoned(&node);
    assert_eq!(counts, 0, "nothing became a dead letter");
}

/// How many messages of all partitions became dead letters.
fn poisoned(node: &Node) -> u64 {
    let mailboxes = node.runtime().router().mailboxes();
    let counts = mailboxes.iter().map(|one| one.metrics().counts().poisoned);
    counts.sum()
}

#[tokio::test]
async fn what_cannot_be_applied_is_refused_and_nothing_changes() {
    let layers = Layers::new().flag("durable.unknown_hubs=false").unwrap();
    let config = Config::new(&layers).unwrap();
    let shop = Shop::open(builder().config(config).partitions(4).memory()).await;
    let later = |name: &str| create(noting_job(name, 1, true));
    let made = shop.shop.transact(async |mut tx| {
        tx.send(later("known"))?;
        tx.commit(()).await
    });
    made.await.unwrap();
    while shop.node.jobs().job(&job("known")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (long, payload) = ("x".repeat(1_100_000), "x".repeat(20_000_000));
    let elsewhere = |name: &str| {
        let mut draft = noting_job(name, 1, true);
        draft.id = CollectionId::new("main", "default", "none")
            .unwrap()
            .job(name)
            .unwrap();
        create(draft)
    };
    let mut past = noting_job("past", 1, false);
    past.timing.cron = Some("0 0 30 2 *".to_owned());
    let refusals: [(&str, Error); 12] = [
        (
            "STF-5001",
            shop.refused(|tx| tx.send(publish("unknown").body("1")))
                .await,
        ),
        (
            "STF-5003",
            shop.refused(|tx| tx.send(publish("telemetry").partition(7).body("1")))
                .await,
        ),
        (
            "STF-5007",
            shop.refused(|tx| tx.send(publish("telemetry"))).await,
        ),
        (
            "STF-5006",
            shop.refused(|tx| tx.send(publish("telemetry").body(long.clone())))
                .await,
        ),
        (
            "STF-5101",
            shop.refused(|tx| tx.send(signal("", "a", "note", &1)))
                .await,
        ),
        ("STF-5101", shop.refused(|tx| tx.send(start("", &1))).await),
        (
            "STF-5106",
            shop.refused(|tx| tx.send(raise("x", "number", &payload)))
                .await,
        ),
        (
            "STF-5108",
            shop.refused(|tx| tx.send(start("note", &1).task_hub("unknown")))
                .await,
        ),
        ("STF-5201", shop.refused(|tx| tx.send(elsewhere("j"))).await),
        ("STF-5205", shop.refused(|tx| tx.send(later("known"))).await),
        (
            "STF-5208",
            shop.refused(|tx| tx.send(create(past.clone()))).await,
        ),
        (
            "STF-3011",
            shop.refused(|tx| {
                let most = "x".repeat(700_000);
                tx.send(publish("telemetry").body(most.clone()))?;
                tx.send(publish("telemetry").body(most))
            })
            .await,
        ),
    ];
    for (code, error) in &refusals {
        assert_eq!(error.code().0, *code, "{error}");
    }
    assert_eq!(shop.apples().await, None);
    assert_eq!(events(&shop.node).await, [""; 0]);
    let none = arrived(&shop.node, "signalled").await;
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(shop.shop.replica().locks(), 0);
    assert_eq!(poisoned(&shop.node), 0);

    // A volatile service has no log that the messages could be part of.
    let cache = shop.node.volatile_service("cache", Scheme::Singleton);
    let cache = cache.await.unwrap();
    let cache = cache.partition(steadfast::collections::PartitionKey::Only);
    let mut tx = cache.await.unwrap().replica().begin();
    let refused = tx.send(start("note", &1)).unwrap_err();
    assert_eq!(refused.code().0, "STF-3015");
}

#[tokio::test]
async fn a_staged_command_to_another_partition_is_refused_and_a_message_arrives() {
    let shop = Shop::open(builder().memory()).await;
    let space = shop.node.runtime().space().clone();
    let here = shop.shop.replica().partition();
    let message = |key: &str| {
        let operation = EntityOperation {
            target: format!("@arrivals@{key}"),
            name: "note".to_owned(),
            input: Some("1".to_owned()),
            ..EntityOperation::default()
        };
        signal_message("default", operation).unwrap()
    };
    let keys: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let is_here = |key: &&String| space.partition(&message(key).to) == here;
    let near = keys.iter().find(is_here).unwrap();
    let far = keys.iter().find(|key| !is_here(key)).unwrap();
    let error = shop.refused(|tx| tx.stage(message(far).encode())).await;
    assert_eq!(error.code().0, "STF-4009", "{error}");
    assert_eq!(shop.apples().await, None);

    let mut tx = shop.shop.replica().begin();
    tx.stage(message(near).encode()).unwrap();
    tx.send(signal("arrivals", far, "note", &2)).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(arrived(&shop.node, near).await, BTreeMap::from([(1, 1)]));
    until_arrived(&shop.node, far, 2).await;
    assert_eq!(arrived(&shop.node, far).await, BTreeMap::from([(2, 1)]));
}

/// Forwards events, and fails in the middle once.
struct Forward {
    has_failed: Arc<AtomicU32>,
}

impl Handler for Forward {
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Handling<'_>) -> HandlerResult {
        let tx = context.transaction()?;
        for event in events {
            let number: u64 = std::str::from_utf8(&event.body)?.parse()?;
            let target = if number == 13 { "unknown" } else { "telemetry" };
            tx.send(publish(target).body(number.to_string()))?;
            tx.send(signal("arrivals", "signalled", "note", &number))?;
            tx.send(start("note", &number))?;
        }
        if self.has_failed.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err("once".into());
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_sends_exactly_once_with_its_checkpoint() {
    let has_failed = Arc::new(AtomicU32::new(0));
    let handler = Forward {
        has_failed: Arc::clone(&has_failed),
    };
    let node = builder().memory().start().await.unwrap();
    let hubs = node.event_hubs();
    let made = hubs.create(EventHubDefinition::new("numbers", 1));
    made.await.unwrap();
    let options = ProcessorOptions {
        guarantee: steadfast::events::Guarantee::ExactlyOnce(Arc::clone(node.replicas())),
        attempts: Some(2),
        pause: Duration::from_millis(1),
        ..ProcessorOptions::default()
    };
    let processor = hubs.process("numbers", "$Default", options, Arc::new(handler));
    let processor = processor.await.unwrap();
    let sender = hubs.sender("numbers", None).await.unwrap();
    for number in [1, 13, 2] {
        let body = number.to_string();
        let event = EventDataBatch::of(body.as_bytes()).unwrap();
        sender.send(event).await.unwrap();
    }
    for key in ["signalled", "started"] {
        until_arrived(&node, key, 2).await;
        let expected = BTreeMap::from([(1, 1), (2, 1)]);
        assert_eq!(arrived(&node, key).await, expected, "{key}");
    }
    // What the commit refuses is a failure of the handler: the event is a dead letter.
    let parked = hubs.dead_letters("numbers", "$Default", 0, 0, 10);
    let parked = parked.await.unwrap();
    assert_eq!(parked.len(), 1);
    assert!(
        parked[0].reason.contains("STF-5001"),
        "{}",
        parked[0].reason
    );
    processor.stop().await;
    assert_eq!(events(&node).await, ["1", "2"]);
}

#[tokio::test]
async fn an_operation_of_an_entity_sends_to_every_partition_with_its_commit() {
    let node = builder().entity::<Relay>().memory().start().await.unwrap();
    make_collection(&node).await;
    let hub = node.task_hubs().hub("default").unwrap();
    let relay = Relay::at("a").unwrap();
    assert!(relay.forward(&hub, (1, true)).await.is_err());
    assert_eq!(relay.forward(&hub, (2, false)).await, Ok(1));
    assert_only(&node, 2).await;
    assert_eq!(poisoned(&node), 0);
}

#[tokio::test]
async fn an_activity_sends_with_its_recorded_result() {
    let node = builder()
        .activity("forward", forward)
        .orchestration("call", call_forward)
        .memory();
    let node = node.start().await.unwrap();
    make_collection(&node).await;
    let hub = node.task_hubs().hub("default").unwrap();
    let task = Task::new("call", &7).unwrap();
    let id = hub.start(NewInstance::of(task)).await.unwrap();
    let end = hub.ended(&id, true).await.unwrap();
    assert!(end.failure.is_none(), "{:?}", end.failure);
    assert!(RUNS.load(Ordering::SeqCst) >= 2);
    assert_only(&node, 7).await;
    assert_eq!(poisoned(&node), 0);
}

/// Commits over REST with an idempotency key; whether it was a repetition.
async fn commit_over_rest(node: &Node, key: &str) -> bool {
    let port = node.http_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/v1/transactions");
    // The tests' processes share no provider of cryptography with the node's.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let body = serde_json::json!({"service": "shop",
        "steps": [{"op": "enqueue", "collection": "log", "value": 1}]});
    let request = reqwest::Client::new().post(url).json(&body);
    let request = request.bearer_auth("SAS_KEY_VALUE");
    let answer = request.header("idempotency-key", key).send().await.unwrap();
    let answer = answer.error_for_status().unwrap();
    answer.headers().contains_key("idempotency-replayed")
}

#[tokio::test]
async fn an_idempotency_key_counts_for_a_day_and_is_then_removed() {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp(1_800_000_000_000)));
    let flags = ["http.port=0", "events.amqp_port=0", "events.blob_port=0"];
    let more = ["durable.port=0", "realtime.port=0", "partitions=4"];
    let mut layers = flags.iter().chain(&more);
    let layers = layers.try_fold(Layers::new(), |all, flag| all.flag(flag));
    let config = Config::new(&layers.unwrap()).unwrap();
    let building = Node::builder()
        .config(config)
        .memory()
        .serve()
        .development();
    let node = building
        .clock(Arc::clone(&clock) as _)
        .start()
        .await
        .unwrap();
    assert!(!commit_over_rest(&node, "first").await);
    let day = Duration::from_secs(24 * 60 * 60);
    clock.advance(day);
    assert!(commit_over_rest(&node, "first").await);
    clock.advance(2 * day);
    assert!(!commit_over_rest(&node, "other").await);
    assert!(!commit_over_rest(&node, "first").await);
    let shop = node.singleton("shop").await.unwrap();
    let keys = shop.replica().scope("shop#0\u{1}idempotency").list();
    // The first request of a day waits for those of the day before, in its dictionary.
    assert_eq!(keys.len(), 2, "those of earlier days are removed: {keys:?}");
}
