//! Processors share partitions and handle events.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_collections::Dictionary;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_events::{
    CheckpointCondition, CheckpointPolicy, CloseReason, Context, EventHubDefinition, EventPosition,
    Guarantee, Handler, HandlerResult, PartitionStart, Processor, ProcessorError, ProcessorOptions,
    ReceivedEvent,
};
use steadfast_ownership::strategy::{GroupTiming, Strategy};

use crate::setup::{Node, start};

const INTERVAL: Duration = Duration::from_millis(150);

/// Longer than any stall of a busy machine: no ownership expires.
const LONG: Duration = Duration::from_secs(60);

/// What is waited for after a processor was killed.
const EXPIRATION: Duration = Duration::from_millis(900);
const PATIENCE: Duration = Duration::from_secs(20);

/// Notes everything; fails where it is told to.
#[derive(Default)]
struct Notes {
    seen: Mutex<Vec<(u32, String)>>,
    opened: Mutex<Vec<u32>>,
    closed: Mutex<Vec<(u32, CloseReason)>>,
    troubles: Mutex<Vec<ProcessorError>>,
    /// Bodies that fail, and how often they still do.
    poison: Mutex<BTreeMap<String, usize>>,
    /// Where partitions start, instead of where they should.
    start: Mutex<Option<EventPosition>>,
    /// A checkpoint is written behind these bodies.
    marks: Mutex<Vec<String>>,
    /// Handlers that run now, by partition and in all, and the most at a time.
    running: Mutex<BTreeMap<u32, usize>>,
    most: AtomicUsize,
    slow: Mutex<Duration>,
}

impl Handler for Notes {
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
        let partition = context.partition();
        {
            let mut running = self.running.lock();
            let mine = running.entry(partition).or_default();
            *mine += 1;
            assert_eq!(*mine, 1, "two handlers run in one partition");
            self.most
                .fetch_max(running.values().sum(), Ordering::Relaxed);
        }
        let slow = *self.slow.lock();
        tokio::time::sleep(slow).await;
        *self.running.lock().get_mut(&partition).unwrap() -= 1;
        for event in events {
            let body = String::from_utf8(event.body.to_vec()).unwrap();
            if let Some(left) = self.poison.lock().get_mut(&body)
                && *left > 0
            {
                *left -= 1;
                if body.contains("panic") {
                    panic!("{body} is poison");
                }
                return Err(format!("{body} is poison").into());
            }
            if self.marks.lock().contains(&body) {
                context.checkpoint(event);
            }
            self.seen.lock().push((partition, body));
        }
        Ok(())
    }

    async fn open(&self, opening: &mut PartitionStart) -> HandlerResult {
        self.opened.lock().push(opening.partition);
        if let Some(start) = *self.start.lock() {
            opening.start = start;
        }
        Ok(())
    }

    async fn close(&self, partition: u32, why: CloseReason) {
        self.closed.lock().push((partition, why));
    }

    async fn error(&self, trouble: &ProcessorError) {
        self.troubles.lock().push(trouble.clone());
    }
}

impl Notes {
    fn bodies(&self) -> Vec<String> {
        self.seen
            .lock()
            .iter()
            .map(|(_, body)| body.clone())
            .collect()
    }
}

fn options() -> ProcessorOptions {
    ProcessorOptions {
        timing: GroupTiming::new(INTERVAL, LONG),
        strategy: Strategy::GREEDY,
        pause: Duration::from_millis(5),
        ..ProcessorOptions::default()
    }
}

async fn process(node: &Node, options: ProcessorOptions, notes: &Arc<Notes>) -> Processor {
    let started = node
        .hubs
        .process("a", "$Default", options, Arc::clone(notes));
    started.await.unwrap()
}

async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, wait).await;
    assert!(done.is_ok(), "{what}: not in time");
}

async fn until_seen(notes: &Notes, count: usize) {
    until("events", || async { notes.seen.lock().len() >= count }).await;
}

async fn node(partitions: u32) -> Node {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", partitions))
        .await
        .unwrap();
    node
}

async fn checkpoint(node: &Node, partition: u32) -> i64 {
    let found = node
        .hubs
        .checkpoint("a", "$Default", partition)
        .await
        .unwrap();
    found.map_or(-1, |found| found.sequence)
}

#[tokio::test]
async fn every_event_is_handled_in_order_and_the_close_handlers_come_last() {
    let node = node(4).await;
    for partition in 0..4 {
        node.send("a", partition, &["1", "2", "3"]).await;
    }
    let notes = Arc::new(Notes::default());
    let processor = process(&node, options(), &notes).await;
    until_seen(&notes, 12).await;
    node.send("a", 2, &["4"]).await;
    until_seen(&notes, 13).await;
    assert_eq!(processor.owned(), [0, 1, 2, 3]);
    processor.stop().await;
    for partition in 0..4 {
        let seen = notes.seen.lock();
        let mine = seen.iter().filter(|(other, _)| *other == partition);
        let mine: Vec<_> = mine.map(|(_, body)| body.as_str()).collect();
        let expected: &[&str] = if partition == 2 {
            &["1", "2", "3", "4"]
        } else {
            &["1", "2", "3"]
        };
        assert_eq!(mine, expected);
    }
    let mut opened = notes.opened.lock().clone();
    opened.sort_unstable();
    assert_eq!(opened, [0, 1, 2, 3]);
    let mut closed = notes.closed.lock().clone();
    closed.sort_unstable_by_key(|(partition, _)| *partition);
    let shutdown = |partition| (partition, CloseReason::Shutdown);
    assert_eq!(closed, [0, 1, 2, 3].map(shutdown));
    // All handled events are checkpointed, and no partition has an owner.
    assert_eq!(checkpoint(&node, 2).await, 3);
    let ownerships = node.hubs.ownerships("a", "$Default").await.unwrap();
    assert!(
        ownerships
            .iter()
            .all(|ownership| ownership.owner.is_empty())
    );
    assert!(
        notes.troubles.lock().is_empty(),
        "{:?}",
        notes.troubles.lock()
    );
}

#[tokio::test]
async fn handlers_run_in_parallel_across_partitions_only() {
    let node = node(4).await;
    for partition in 0..4 {
        node.send("a", partition, &["1", "2", "3", "4"]).await;
    }
    let notes = Arc::new(Notes::default());
    *notes.slow.lock() = Duration::from_millis(30);
    let one_by_one = ProcessorOptions {
        batch: 1,
        ..options()
    };
    let _processor = process(&node, one_by_one, &notes).await;
    until_seen(&notes, 16).await;
    assert!(
        notes.most.load(Ordering::Relaxed) > 1,
        "partitions waited for one another"
    );
}

/// Waits until all partitions are owned and evenly shared.
async fn until_balanced(processors: &[Processor], partitions: usize) {
    let fair = partitions / processors.len();
    until("balance", || async {
        let counts: Vec<_> = processors.iter().map(|one| one.owned().len()).collect();
        counts.iter().sum::<usize>() == partitions
            && counts.iter().all(|count| (fair..=fair + 1).contains(count))
    })
    .await;
}

/// What a busy machine may add to any time.
const SLACK: Duration = Duration::from_secs(10);

/// Processors of one strategy come, are killed and leave; answers how long each
/// change took until the partitions were shared evenly again, and how long some
/// were without an owner after the kill.
async fn come_and_go(node: &Node, strategy: Strategy) -> (Vec<Duration>, Duration) {
    let clock = SystemClock::new();
    let notes = Arc::new(Notes::default());
    let options = || ProcessorOptions {
        strategy,
        timing: GroupTiming::new(INTERVAL, EXPIRATION),
        ..options()
    };
    let (mut processors, mut took) = (Vec::new(), Vec::new());
    let mut begun = clock.monotonic();
    let mut lap = || {
        let now = clock.monotonic();
        std::mem::replace(&mut begun, now).abs_diff(now)
    };
    for count in [1, 2, 4] {
        lap();
        while processors.len() < count {
            processors.push(process(node, options(), &notes).await);
        }
        until_balanced(&processors, 16).await;
        took.push(lap());
    }
    // One is killed, the others leave.
    drop(processors.pop());
    until("owners", || async {
        processors
            .iter()
            .map(|one| one.owned().len())
            .sum::<usize>()
            == 16
    })
    .await;
    let orphaned = lap();
    until_balanced(&processors, 16).await;
    took.push(orphaned + lap());
    while processors.len() > 1 {
        processors.pop().unwrap().stop().await;
    }
    lap();
    until_balanced(&processors, 16).await;
    took.push(lap());
    processors.pop().unwrap().stop().await;
    (took, orphaned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_39_processors_come_and_go_and_share_sixteen_partitions() {
    let node = node(16).await;
    for strategy in [Strategy::GREEDY, Strategy::SHARE, Strategy::BALANCED] {
        let (took, orphaned) = come_and_go(&node, strategy).await;
        // Who takes one partition per interval needs as many intervals.
        if strategy == Strategy::GREEDY {
            let limit = 2 * INTERVAL + EXPIRATION + SLACK;
            assert!(took.iter().all(|took| *took <= limit), "{took:?}");
            assert!(orphaned <= EXPIRATION + INTERVAL + SLACK, "{orphaned:?}");
        }
    }
    assert_eq!(node.hubs.reader_counts().overlaps, 0);
}

#[tokio::test]
async fn events_40_a_stable_set_keeps_what_it_has() {
    let node = node(8).await;
    let notes = Arc::new(Notes::default());
    let mut processors = Vec::new();
    for _ in 0..3 {
        processors.push(process(&node, options(), &notes).await);
    }
    until_balanced(&processors, 8).await;
    let owned = || processors.iter().map(Processor::owned).collect::<Vec<_>>();
    let before = owned();
    // Whatever was given up on the way here is closed by then.
    tokio::time::sleep(2 * INTERVAL).await;
    let closed = notes.closed.lock().len();
    for _ in 0..20 {
        tokio::time::sleep(INTERVAL).await;
        assert_eq!(owned(), before);
    }
    assert_eq!(notes.closed.lock().len(), closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_41_a_killed_processor_loses_nothing_and_repeats_little() {
    let node = node(2).await;
    let first = Arc::new(Notes::default());
    let each = ProcessorOptions {
        checkpoint: CheckpointPolicy::events(10),
        batch: 1,
        ..options()
    };
    let killed = process(&node, each.clone(), &first).await;
    let bodies: Vec<_> = (0..95).map(|number| number.to_string()).collect();
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    node.send("a", 0, &bodies).await;
    node.send("a", 1, &bodies).await;
    until_seen(&first, 190).await;
    drop(killed);
    node.send("a", 0, &["end"]).await;
    let second = Arc::new(Notes::default());
    let fresh = ProcessorOptions {
        owner: "second".into(),
        timing: GroupTiming::new(INTERVAL, EXPIRATION),
        ..each
    };
    let _processor = process(&node, fresh, &second).await;
    until("the end", || async {
        second.bodies().contains(&"end".to_owned())
    })
    .await;
    until_seen(&second, 11).await;
    // The last checkpoint was behind the ninetieth.
    let expected = ["90", "91", "92", "93", "94"];
    for partition in 0..2 {
        let seen = second.seen.lock();
        let again = seen
            .iter()
            .filter(|(other, body)| *other == partition && body != "end");
        let again: Vec<_> = again.map(|(_, body)| body.as_str()).collect();
        assert_eq!(again, expected);
    }
}

#[tokio::test]
async fn checkpoints_are_written_by_time_and_by_hand() {
    let node = node(1).await;
    let notes = Arc::new(Notes::default());
    let by_time = CheckpointPolicy::time(Duration::from_millis(50));
    let timed = ProcessorOptions {
        checkpoint: by_time,
        ..options()
    };
    let processor = process(&node, timed, &notes).await;
    node.send("a", 0, &["1", "2"]).await;
    // Without another event.
    until("a checkpoint", || async { checkpoint(&node, 0).await == 1 }).await;
    processor.stop().await;
    let by_hand = ProcessorOptions {
        checkpoint: CheckpointPolicy::BY_HAND,
        batch: 1,
        ..options()
    };
    notes.marks.lock().push("4".into());
    let processor = process(&node, by_hand, &notes).await;
    node.send("a", 0, &["3", "4", "5"]).await;
    until_seen(&notes, 5).await;
    processor.stop().await;
    assert_eq!(checkpoint(&node, 0).await, 3);
}

#[tokio::test]
async fn without_a_checkpoint_the_start_is_as_set() {
    let node = node(2).await;
    node.send("a", 0, &["1", "2", "3"]).await;
    node.send("a", 1, &["4", "5", "6"]).await;
    let notes = Arc::new(Notes::default());
    let mut set = ProcessorOptions {
        start: EventPosition::Latest,
        ..options()
    };
    let second = EventPosition::Sequence {
        sequence: 1,
        inclusive: true,
    };
    set.starts.insert(1, second);
    let processor = process(&node, set.clone(), &notes).await;
    until_seen(&notes, 2).await;
    until("both", || async { node.hubs.reader_counts().attached == 2 }).await;
    node.send("a", 0, &["7"]).await;
    until_seen(&notes, 3).await;
    processor.stop().await;
    assert_eq!(notes.bodies(), ["5", "6", "7"]);
    // The open handler has the last word, also over a checkpoint.
    let notes = Arc::new(Notes::default());
    *notes.start.lock() = Some(EventPosition::Earliest);
    let processor = process(&node, set, &notes).await;
    until_seen(&notes, 7).await;
    processor.stop().await;
}

#[tokio::test]
async fn a_reset_lets_a_running_processor_replay() {
    let node = node(1).await;
    let notes = Arc::new(Notes::default());
    let _processor = process(&node, options(), &notes).await;
    node.send("a", 0, &["1", "2", "3"]).await;
    until_seen(&notes, 3).await;
    let second = EventPosition::Sequence {
        sequence: 1,
        inclusive: true,
    };
    let next = node.hubs.reset("a", "$Default", 0, second).await.unwrap();
    assert_eq!(next, 1);
    until_seen(&notes, 5).await;
    assert_eq!(notes.bodies(), ["1", "2", "3", "2", "3"]);
    assert!(notes.closed.lock().is_empty(), "it stays the owner");
}

#[tokio::test]
async fn a_failed_event_comes_again_and_others_go_on() {
    let node = node(2).await;
    let notes = Arc::new(Notes::default());
    notes.poison.lock().insert("bad".into(), 4);
    notes.poison.lock().insert("panic".into(), 2);
    let _processor = process(&node, options(), &notes).await;
    node.send("a", 0, &["1", "bad", "panic", "2"]).await;
    node.send("a", 1, &["3"]).await;
    // How often events of a failed batch come again is left open.
    let mut count = 5;
    while !notes.bodies().iter().any(|body| body == "2") {
        until_seen(&notes, count).await;
        count += 1;
    }
    let seen = notes.seen.lock().clone();
    let mine = seen.iter().filter(|(partition, _)| *partition == 0);
    let mine: Vec<_> = mine.map(|(_, body)| body.as_str()).collect();
    // An event of a failed batch may come twice, but never out of order.
    let mut once = mine.clone();
    once.dedup();
    assert_eq!(once, ["1", "bad", "panic", "2"], "{mine:?}");
    let troubles = notes.troubles.lock();
    assert!(
        troubles
            .iter()
            .any(|trouble| trouble.message.contains("panicked"))
    );
    assert!(troubles.iter().all(|trouble| trouble.partition == Some(0)));
}

#[tokio::test]
async fn a_processor_ends_with_its_event_hub() {
    let node = node(2).await;
    let notes = Arc::new(Notes::default());
    let processor = process(&node, options(), &notes).await;
    node.send("a", 0, &["1"]).await;
    until_seen(&notes, 1).await;
    node.hubs.delete("a").await.unwrap();
    node.hubs
        .create(EventHubDefinition::new("a", 2))
        .await
        .unwrap();
    node.send("a", 0, &["2"]).await;
    until("the end", || async { notes.closed.lock().len() == 2 }).await;
    processor.stop().await;
    // The new event hub is none of its business.
    assert_eq!(notes.bodies(), ["1"]);
    assert_eq!(checkpoint(&node, 0).await, -1);
}

/// Fails, also at reporting failures.
struct Hopeless;

impl Handler for Hopeless {
    async fn handle(&self, events: &[ReceivedEvent], _: &mut Context<'_>) -> HandlerResult {
        panic!("{} events", events.len());
    }

    async fn error(&self, _: &ProcessorError) {
        panic!("not even that");
    }
}

#[tokio::test]
async fn an_error_handler_that_fails_stops_nothing() {
    let node = node(1).await;
    let parking = ProcessorOptions {
        attempts: Some(2),
        ..options()
    };
    let _processor = node
        .hubs
        .process("a", "$Default", parking, Arc::new(Hopeless))
        .await
        .unwrap();
    node.send("a", 0, &["1", "2"]).await;
    until("parked events", || async {
        node.hubs
            .dead_letters("a", "$Default", 0, 0, 100)
            .await
            .unwrap()
            .len()
            == 2
    })
    .await;
}

#[tokio::test]
async fn poison_is_parked_and_can_be_replayed() {
    let node = node(1).await;
    let notes = Arc::new(Notes::default());
    notes.poison.lock().insert("bad".into(), 3);
    let parking = ProcessorOptions {
        attempts: Some(3),
        batch: 1,
        ..options()
    };
    let processor = process(&node, parking, &notes).await;
    node.send("a", 0, &["1", "bad", "2"]).await;
    until_seen(&notes, 2).await;
    assert_eq!(notes.bodies(), ["1", "2"]);
    let parked = node
        .hubs
        .dead_letters("a", "$Default", 0, 0, 100)
        .await
        .unwrap();
    assert_eq!(
        (parked.len(), parked[0].sequence, parked[0].attempts),
        (1, 1, 3)
    );
    assert_eq!(
        (&parked[0].body[..], parked[0].reason.as_str()),
        (&b"bad"[..], "bad is poison")
    );
    // Once more in vain, and then not.
    notes.poison.lock().insert("bad".into(), 1);
    assert!(
        node.hubs
            .replay_dead_letters("a", "$Default", 0)
            .await
            .unwrap()
    );
    until("another attempt", || async {
        let parked = node
            .hubs
            .dead_letters("a", "$Default", 0, 0, 100)
            .await
            .unwrap();
        parked.first().is_some_and(|parked| parked.attempts == 4)
    })
    .await;
    assert!(
        node.hubs
            .replay_dead_letters("a", "$Default", 0)
            .await
            .unwrap()
    );
    until("no parked event", || async {
        node.hubs
            .dead_letters("a", "$Default", 0, 0, 100)
            .await
            .unwrap()
            .is_empty()
    })
    .await;
    assert_eq!(notes.bodies(), ["1", "2", "bad"]);
    processor.stop().await;
    assert!(
        !node
            .hubs
            .replay_dead_letters("a", "$Default", 0)
            .await
            .unwrap()
    );
}

/// Adds up numbers in a collection.
struct Sum;

impl Handler for Sum {
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
        let state = context.state()?;
        let sums: Dictionary<String, u64> = state.get_or_add("sums").await?;
        let tx = context.transaction()?;
        for event in events {
            let number: u64 = std::str::from_utf8(&event.body)?.parse()?;
            let sum = sums.get(tx, "sum").await?.map_or(0, |sum| *sum);
            sums.set(tx, "sum", sum + number).await?;
        }
        Ok(())
    }
}

async fn sum(node: &Node, partition: u32) -> u64 {
    let hub = node.hubs.get("a").await.unwrap();
    let kind = steadfast_events::HUB_PARTITION;
    let place = node.runtime.space().partition_of(kind, "a", partition);
    let replica = node.replicas.of(place).await.unwrap();
    let scope = format!("events/{}/$default/{partition}", hub.id);
    let sums: Dictionary<String, u64> = replica.scope(&scope).get_or_add("sums").await.unwrap();
    let mut tx = replica.begin();
    sums.get(&mut tx, "sum")
        .await
        .unwrap()
        .map_or(0, |sum| *sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_and_checkpoint_are_one_commit() {
    let node = node(3).await;
    let replicas = Arc::clone(&node.replicas);
    let once = || ProcessorOptions {
        guarantee: Guarantee::ExactlyOnce(Arc::clone(&replicas)),
        batch: 7,
        timing: GroupTiming::new(INTERVAL, EXPIRATION),
        ..options()
    };
    // Killed again and again while events come.
    let numbers: Vec<_> = (1..=100).map(|number: u32| number.to_string()).collect();
    let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
    for _ in 0..10 {
        let killed = node
            .hubs
            .process("a", "$Default", once(), Arc::new(Sum))
            .await
            .unwrap();
        let other = node
            .hubs
            .process("a", "$Default", once(), Arc::new(Sum))
            .await
            .unwrap();
        for partition in 0..3 {
            node.send("a", partition, &numbers).await;
        }
        drop(killed);
        other.stop().await;
    }
    let _last = node
        .hubs
        .process("a", "$Default", once(), Arc::new(Sum))
        .await
        .unwrap();
    for partition in 0..3 {
        until("the end", || async {
            checkpoint(&node, partition).await == 999
        })
        .await;
        assert_eq!(sum(&node, partition).await, 10 * 5050);
    }
}

#[tokio::test]
async fn poison_in_a_transaction_is_parked_and_passed_in_one_commit() {
    let node = node(1).await;
    let once = ProcessorOptions {
        guarantee: Guarantee::ExactlyOnce(Arc::clone(&node.replicas)),
        attempts: Some(2),
        ..options()
    };
    node.send("a", 0, &["1", "2", "no number", "4"]).await;
    let sum_up = node.hubs.process("a", "$Default", once, Arc::new(Sum));
    let processor = sum_up.await.unwrap();
    until("the end", || async { checkpoint(&node, 0).await == 3 }).await;
    processor.stop().await;
    assert_eq!(sum(&node, 0).await, 1 + 2 + 4);
    let parked = node
        .hubs
        .dead_letters("a", "$Default", 0, 0, 100)
        .await
        .unwrap();
    assert_eq!((parked.len(), parked[0].sequence), (1, 2));
    assert_eq!(&parked[0].body[..], b"no number");
}

#[tokio::test]
async fn a_checkpoint_that_somebody_moved_is_respected() {
    let node = node(1).await;
    let replicas = Arc::clone(&node.replicas);
    let once = ProcessorOptions {
        guarantee: Guarantee::ExactlyOnce(replicas),
        ..options()
    };
    node.send("a", 0, &["1", "2", "4"]).await;
    let _processor = node
        .hubs
        .process("a", "$Default", once, Arc::new(Sum))
        .await
        .unwrap();
    until("the end", || async { checkpoint(&node, 0).await == 2 }).await;
    // Without a word to the processor: its next commit finds out.
    node.hubs
        .advance("a", "$Default", 0, (1, 0), CheckpointCondition::Always)
        .await
        .unwrap();
    node.send("a", 0, &["8"]).await;
    until("the end", || async { checkpoint(&node, 0).await == 3 }).await;
    assert_eq!(sum(&node, 0).await, 1 + 2 + 4 + 4 + 8);
}
