//! Volatile services on nodes that come, go, die and freeze.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast::collections::{Lifecycle, PartitionKey, Result, Scheme, State};
use steadfast::config::{Config, Layers};

use crate::nodes::{
    Caller, KEY, LEASE, PARTITIONS, database, node, now, settled, taken_over, three,
};
use crate::running::{Server, until};

/// The name of the slot in each partition.
fn slots() -> Vec<String> {
    (0..PARTITIONS).map(|slot| format!("s{slot}")).collect()
}

/// A volatile service with a slot in every partition.
fn make(server: &Caller, service: &str) {
    let body = json!({"scheme": {"named": slots()}, "volatile": true});
    let path = format!("/v1/state/{service}");
    let (status, answer) = server.ask(Method::PUT, &path, Some(body));
    assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
}

fn put(server: &Caller, service: &str, slot: &str, key: &str) -> StatusCode {
    let step = json!({"op": "put", "collection": "texts", "key": key, "value": slot});
    let body = json!({"slot": slot, "steps": [step]});
    let path = format!("/v1/state/{service}");
    server.ask(Method::POST, &path, Some(body)).0
}

fn get(server: &Caller, service: &str, slot: &str, key: &str) -> (StatusCode, Value) {
    let step = json!({"op": "get", "collection": "texts", "key": key});
    let body = json!({"slot": slot, "steps": [step]});
    let path = format!("/v1/state/{service}");
    let (status, answer) = server.ask(Method::POST, &path, Some(body));
    (status, answer["results"][0]["found"].clone())
}

/// All keys of a slot.
fn keys(server: &Caller, service: &str, slot: &str) -> BTreeSet<String> {
    let (mut keys, mut from) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/v1/state/{service}/texts?slot={slot}&limit=1000&from={from}");
        let (status, page) = server.ask(Method::GET, &path, None);
        if status == StatusCode::NOT_FOUND {
            return keys;
        }
        assert_eq!(status, StatusCode::OK, "{page}");
        let entries = page["entries"].as_array().unwrap().iter();
        keys.extend(entries.map(|entry| entry["key"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => return keys,
        }
    }
}

/// Which life a slot has, and how many nodes hold it.
fn life(server: &Caller, service: &str, slot: &str) -> (u64, u64) {
    let path = format!("/v1/state/{service}?slot={slot}");
    let (status, answer) = server.ask(Method::GET, &path, None);
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["volatile"], true);
    let number = |field: &str| answer[field].as_u64().unwrap();
    (number("incarnation"), number("copies"))
}

/// Waits until so many nodes hold every slot; none has lost anything.
fn held_by(server: &Caller, service: &str, copies: u64) {
    let began = now();
    for slot in slots() {
        until(&format!("{copies} copies of {slot}"), || {
            let (incarnation, found) = life(server, service, &slot);
            assert_eq!(incarnation, 1, "slot {slot} was lost");
            (found == copies).then_some(())
        });
    }
    println!("{copies} nodes hold every slot after {:?}", began.elapsed());
}

/// What was acknowledged.
#[derive(Default)]
struct Book {
    acknowledged: Mutex<Vec<(String, String)>>,
    refused: AtomicU64,
    /// The longest that a writer has waited.
    slowest: Mutex<Duration>,
    stop: AtomicBool,
}

impl Book {
    /// Writes key after key, to one slot after the other, until it is stopped.
    fn write(&self, server: &Caller, service: &str, who: &str) {
        let slots = slots();
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let slot = &slots[number % slots.len()];
            let key = format!("{who}{number}");
            let began = now();
            let status = put(server, service, slot, &key);
            let mut slowest = self.slowest.lock().unwrap();
            *slowest = slowest.max(began.elapsed());
            drop(slowest);
            match status {
                StatusCode::OK => {
                    let mut acknowledged = self.acknowledged.lock().unwrap();
                    acknowledged.push((slot.clone(), key));
                }
                _ => drop(self.refused.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Waits until something more was acknowledged for every slot.
    fn goes_on(&self) {
        let before = self.count();
        until("more to be written", || {
            (self.count() > before + 2 * PARTITIONS).then_some(())
        });
    }

    /// Tells what became of the writers since it was last told.
    fn tell(&self, what: &str) {
        let slowest = std::mem::take(&mut *self.slowest.lock().unwrap());
        let (written, refused) = (self.count(), self.refused.load(Ordering::Relaxed));
        println!(
            "{what}: {written} writes so far, {refused} refused; the longest wait {slowest:?}"
        );
    }

    /// Everything that was acknowledged is there.
    fn check(&self, server: &Caller, service: &str) {
        let acknowledged = self.acknowledged.lock().unwrap();
        for slot in slots() {
            let found = keys(server, service, &slot);
            let of_slot = acknowledged.iter().filter(|(own, _)| *own == slot);
            let missing: Vec<_> = of_slot.filter(|(_, key)| !found.contains(key)).collect();
            assert!(missing.is_empty(), "{slot} misses {missing:?}");
        }
    }
}

/// A node leaves, one joins, one is killed with -9 and another one after it: what was
/// acknowledged is there, and no loss is reported.
#[test]
fn c66_acknowledged_volatile_state_survives_its_owners() {
    let database = database();
    let mut nodes = three(&database);
    let first = Caller::of(&nodes[0]);
    make(&first, "cache");
    slots().iter().for_each(|slot| {
        assert_eq!(put(&first, "cache", slot, "first"), StatusCode::OK);
    });
    held_by(&first, "cache", 3);
    let book = Book::default();
    std::thread::scope(|scope| {
        for who in ["x", "y"] {
            let (book, first) = (&book, &first);
            scope.spawn(move || book.write(first, "cache", who));
        }
        book.goes_on();
        book.tell("three nodes");
        let mut leaving = nodes.pop().unwrap();
        leaving.signal(Signal::TERM);
        let (code, sheet) = leaving.ended();
        assert_eq!(code, 0, "{sheet}");
        assert!(sheet.contains("lost       0"), "{sheet}");
        taken_over(&nodes[0], 2, now());
        book.goes_on();
        book.tell("a clean leave");
        nodes.push(node("d", &database).ready());
        settled(&nodes[0], 3);
        held_by(&first, "cache", 3);
        book.tell("a newcomer");
        let killed = nodes.remove(1);
        let began = now();
        drop(killed);
        let took = taken_over(&nodes[0], 2, began);
        book.goes_on();
        println!(
            "kill -9: served again after {took:?}, written again after {:?}",
            began.elapsed()
        );
        held_by(&first, "cache", 2);
        book.tell("kill -9");
        drop(nodes.remove(1));
        taken_over(&nodes[0], 1, now());
        book.goes_on();
        book.stop.store(true, Ordering::Relaxed);
    });
    book.tell("another kill -9");
    book.check(&first, "cache");
    held_by(&first, "cache", 1);
    let log = nodes[0].log();
    assert!(!log.contains("volatile.lost") && !log.contains("volatile.state_lost"));
}

/// A node stands still for longer than its lease; when it goes on, it neither shows what
/// it remembers nor acknowledges what no other node has.
#[test]
fn c61_a_frozen_owner_of_volatile_state_acknowledges_nothing() {
    let database = database();
    let nodes = three(&database);
    let (first, paused) = (&nodes[0], &nodes[1]);
    let (teller, asked) = (Caller::of(first), Caller::of(paused));
    make(&teller, "pause");
    for slot in slots() {
        assert_eq!(put(&asked, "pause", &slot, "before"), StatusCode::OK);
    }
    held_by(&teller, "pause", 3);
    paused.process.freeze().unwrap();
    taken_over(first, 2, now());
    for slot in slots() {
        assert_eq!(put(&teller, "pause", &slot, "after"), StatusCode::OK);
    }
    paused.process.thaw().unwrap();
    let mut refused = 0;
    for slot in slots() {
        let (status, is_there) = get(&asked, "pause", &slot, "after");
        if status == StatusCode::OK {
            assert_eq!(is_there, true, "{slot}: it showed what it remembered");
        }
        // What it acknowledges is there for everybody.
        match put(&asked, "pause", &slot, "late") {
            StatusCode::OK => {
                let seen = get(&teller, "pause", &slot, "late");
                assert_eq!(seen, (StatusCode::OK, json!(true)), "{slot}");
            }
            _ => refused += 1,
        }
    }
    println!("after it went on, {refused} writes through the frozen node were refused");
    settled(first, 3);
    held_by(&teller, "pause", 3);
    for slot in slots() {
        for key in ["before", "after"] {
            let found = get(&asked, "pause", &slot, key);
            assert_eq!(found, (StatusCode::OK, json!(true)), "{slot} {key}");
        }
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Diary(Mutex<Vec<u64>>);

impl Lifecycle for Diary {
    async fn on_data_loss(&self, state: &State, incarnation: u64) -> Result<bool> {
        assert!(state.list().is_empty());
        self.0.lock().unwrap().push(incarnation);
        Ok(false)
    }
}

/// A node of the library, in this process.
async fn library(database: &str) -> steadfast::Node {
    let mut layers = Layers::new();
    for setting in [
        "name=library".to_owned(),
        "engine=postgres".to_owned(),
        format!("postgres.url={database}"),
        format!("partitions={PARTITIONS}"),
        "cluster.port=0".to_owned(),
        format!("cluster.key={KEY}"),
        format!("cluster.lease={}s", LEASE.as_secs()),
    ] {
        layers = layers.flag(&setting).unwrap();
    }
    let config = Config::new(&layers).unwrap();
    let node = steadfast::Node::builder().config(config).start().await;
    let node = node.unwrap();
    // The dead ones keep theirs until their leases end.
    let mut changes = node.runtime().changes();
    while node.runtime().serving().len() < PARTITIONS {
        changes.changed().await.unwrap();
    }
    node
}

#[test]
fn c66_the_loss_of_all_holders_is_told_once() {
    let database = database();
    let nodes = three(&database);
    let teller = Caller::of(&nodes[0]);
    make(&teller, "gone");
    for slot in slots() {
        assert_eq!(put(&teller, "gone", &slot, "k"), StatusCode::OK);
    }
    held_by(&teller, "gone", 3);
    nodes
        .into_iter()
        .for_each(|mut server: Server| server.process.kill().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let library = runtime.block_on(library(&database));
    let names = slots();
    runtime.block_on(async {
        let diary = Diary::default();
        let gone = library.volatile_service("gone", Scheme::Named(names.clone()));
        let gone = gone.await.unwrap();
        for round in 1..=2 {
            for name in &names {
                let partition = gone
                    .partition_with(PartitionKey::Name(name), &diary)
                    .await
                    .unwrap();
                assert_eq!(partition.incarnation(), 2, "round {round}");
            }
            // Once per slot, and never again.
            assert_eq!(*diary.0.lock().unwrap(), vec![2; PARTITIONS]);
        }
    });
    // It continues, empty; the loss is reported once, wherever its slots move.
    let fresh = node("e", &database).ready();
    settled(&fresh, 2);
    let asked = Caller::of(&fresh);
    for slot in &names {
        assert_eq!(
            get(&asked, "gone", slot, "k"),
            (StatusCode::OK, json!(false))
        );
        assert_eq!(put(&asked, "gone", slot, "new"), StatusCode::OK);
        assert_eq!(life(&asked, "gone", slot).0, 2);
    }
    assert!(!fresh.log().contains("volatile.state_lost"));
    runtime.block_on(library.drain(Duration::from_secs(5)));
    for slot in &names {
        assert_eq!(
            get(&asked, "gone", slot, "new"),
            (StatusCode::OK, json!(true))
        );
    }
}
