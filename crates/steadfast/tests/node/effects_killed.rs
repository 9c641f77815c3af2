//! Transactions with messages to every service, under kills.
//!
//! A process commits transactions that change a row, publish, signal, start, create a job
//! and push. It is killed with -9 at random moments and started again. At the end every
//! message of a committed transaction has arrived exactly once, and none of another one;
//! pushes, which have no row, at most once and never before their commit.
//! `STEADFAST_ROUNDS` says how often it is killed; each time it has committed eight
//! transactions on average.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::collections::{Dictionary, Error, Tx};
use steadfast::durable::{signal, start};
use steadfast::events::publish;
use steadfast::jobs::create;
use steadfast::realtime::gateway::Recipients;
use steadfast::realtime::{
    ClientConnection, ClientIdentity, ClientOptions, ClientOutput, ClientReader, ClientTransport,
    KeepAlive, push,
};
use steadfast::{Bytes, Node, ServicePartition, hub};
use steadfast_harness::{Process, own_test};

use crate::effects::{arrived, builder, events, make_collection, noting_job};

const FOLDER: &str = "STEADFAST_EFFECTS_FOLDER";
const LAST: &str = "STEADFAST_EFFECTS_LAST";
const TEST: &str = "every_effect_of_a_transaction_happens_once_or_not_at_all_under_kills";
const PATIENCE: Duration = Duration::from_secs(120);

/// Concurrent writers, each with numbers of its own.
const WRITERS: u64 = 4;

/// Lines of progress before a kill, on average.
const STEPS: usize = 9;

/// The numbers of transactions that are rolled back are above this.
const NEVER: u64 = 1_000_000_000;

#[derive(Default)]
struct Desk;

#[hub]
impl Desk {}

/// A client of the hub, without a socket.
struct Guest {
    client: Arc<ClientConnection>,
    _reader: ClientReader,
}

impl Guest {
    async fn connect(node: &Node) -> Self {
        let caller = ClientIdentity {
            user: Some("alice".to_owned()),
            ..ClientIdentity::default()
        };
        let options = ClientOptions::default();
        let ticket = node.realtime().negotiate("desk", caller, options, true);
        let ticket = ticket.unwrap();
        let open = ticket.open(ClientTransport::WebSockets, 100_000).unwrap();
        let client = Arc::clone(&open.client);
        let hub = Arc::clone(&ticket.hub);
        let mut reader = ClientReader::new(Arc::clone(&client), hub, 100_000);
        let hello = json!({"protocol": "json", "version": 1});
        let hello = Bytes::from(format!("{hello}\u{1e}"));
        reader.take(hello).await.unwrap();
        Self {
            client,
            _reader: reader,
        }
    }

    /// The numbers of the next pushes.
    async fn next(&self) -> Vec<u64> {
        let ClientOutput::Data(bytes) = self.client.outgoing(0, KeepAlive::Pings).await else {
            panic!("the connection has ended");
        };
        let text = std::str::from_utf8(&bytes).unwrap();
        let records = text.split('\u{1e}').filter(|record| !record.is_empty());
        let records = records.map(|record| serde_json::from_str::<Value>(record).unwrap());
        let pushes = records.filter(|record| record["target"] == "paid");
        pushes
            .map(|record| record["arguments"][0].as_u64().unwrap())
            .collect()
    }
}

/// Sends one of everything.
fn send_all(tx: &mut Tx, number: u64) -> Result<(), Error> {
    let to = Recipients::Users(vec!["alice".to_owned()]);
    tx.send(publish("telemetry").body(number.to_string()))?;
    tx.send(signal("arrivals", "signalled", "note", &number))?;
    tx.send(start("note", &number))?;
    tx.send(create(noting_job(&format!("job {number}"), number, false)))?;
    tx.send(push("desk", to, "paid", &(number,)))
}

/// What the process does that is killed.
async fn write(node: &Node, shop: &ServicePartition, done: &Dictionary<u64, u64>) {
    let guest = Guest::connect(node).await;
    println!("step: ready");
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (shop, done) = (shop.clone(), done.clone());
        writers.push(tokio::spawn(async move {
            loop {
                let number = shop.transact(async |mut tx| {
                    let last = done.get(&mut tx, &writer).await?;
                    let round = last.map_or(0, |last| *last / WRITERS) + 1;
                    let number = round * WRITERS + writer;
                    if round % 4 == 3 && fastrand::bool() {
                        send_all(&mut tx, NEVER + number)?;
                        return Ok(tx.roll_back(None));
                    }
                    done.set(&mut tx, writer, number).await?;
                    send_all(&mut tx, number)?;
                    tx.commit(Some(number)).await
                });
                if let Some(number) = number.await.unwrap() {
                    println!("step: {number}");
                }
            }
        }));
    }
    loop {
        for number in guest.next().await {
            // Its transaction can be read, so it is durable.
            let mut tx = shop.replica().begin();
            let last = done.get(&mut tx, &(number % WRITERS)).await.unwrap();
            let is_durable = last.is_some_and(|last| *last >= number);
            println!("pushed {number} {is_durable}");
        }
    }
}

/// Waits until everything has arrived, and prints what has.
async fn report(node: &Node, done: &Dictionary<u64, u64>, shop: &ServicePartition) {
    let mut committed = BTreeSet::new();
    let mut tx = shop.replica().begin();
    for writer in 0..WRITERS {
        if let Some(last) = done.get(&mut tx, &writer).await.unwrap() {
            let numbers = 1..=*last / WRITERS;
            committed.extend(numbers.map(|round| round * WRITERS + writer));
        }
    }
    drop(tx);
    // What is sent last arrives last, so no repetition is still on its way.
    let marker = NEVER - 1;
    let sent = shop.transact(async |mut tx| {
        send_all(&mut tx, marker)?;
        tx.commit(()).await
    });
    sent.await.unwrap();
    committed.insert(marker);
    let expected: BTreeMap<u64, u64> = committed.iter().map(|number| (*number, 1)).collect();
    let mut found = BTreeMap::new();
    for key in ["signalled", "started", "job"] {
        let mut counts = arrived(node, key).await;
        while expected.keys().any(|number| !counts.contains_key(number)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            counts = arrived(node, key).await;
        }
        found.insert(key, counts == expected);
    }
    let mut counts = BTreeMap::new();
    while expected.keys().any(|number| !counts.contains_key(number)) {
        counts.clear();
        for body in events(node).await {
            *counts.entry(body.parse::<u64>().unwrap()).or_insert(0) += 1;
        }
    }
    found.insert("published", counts == expected);
    let all: Vec<_> = committed
        .iter()
        .filter(|number| **number < marker)
        .collect();
    println!("end {found:?} {}", json!(all));
}

#[test]
fn every_effect_of_a_transaction_happens_once_or_not_at_all_under_kills() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(serve(Path::new(&folder)));
    }
    let rounds = std::env::var("STEADFAST_ROUNDS");
    let rounds = rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(25_usize);
    let folder = tempfile::tempdir().unwrap();
    let spawn = |is_last: bool| {
        let mut command = own_test(module_path!(), TEST);
        command.env(FOLDER, folder.path().join("data"));
        if is_last {
            command.env(LAST, "yes");
        }
        Process::spawn(command).unwrap()
    };
    let (mut acknowledged, mut pushed) = (BTreeSet::new(), BTreeSet::new());
    let mut note = |line: &str| {
        if let Some(number) = line
            .strip_prefix("step: ")
            .and_then(|n| n.parse::<u64>().ok())
        {
            assert!(acknowledged.insert(number), "{number} was committed twice");
        }
        if let Some(push) = line.strip_prefix("pushed ") {
            let (number, is_durable) = push.split_once(' ').unwrap();
            let number: u64 = number.parse().unwrap();
            assert!(pushed.insert(number), "{number} was pushed twice");
            assert_eq!(is_durable, "true", "{number} was pushed before its commit");
        }
    };
    let (mut kills, mut steps) = (0, 0);
    while kills < rounds || steps < STEPS * rounds {
        let mut child = spawn(false);
        let mut left = fastrand::usize(1..=2 * STEPS);
        steps += left;
        let is_enough = |line: &str| {
            note(line);
            left -= usize::from(line.starts_with("step"));
            left == 0
        };
        child.wait_for(is_enough, PATIENCE).unwrap();
        child.kill().unwrap();
        kills += 1;
    }
    let mut child = spawn(true);
    let end = child.wait_for(|line: &str| line.starts_with("end "), PATIENCE);
    let end = end.unwrap();
    let (found, committed) = end.rsplit_once(' ').unwrap();
    assert_eq!(
        found,
        r#"end {"job": true, "published": true, "signalled": true, "started": true}"#
    );
    let committed: BTreeSet<u64> = serde_json::from_str(committed).unwrap();
    assert!(
        acknowledged.is_subset(&committed),
        "an acknowledged one is lost"
    );
    assert!(
        pushed.is_subset(&committed),
        "one that is absent was pushed"
    );
    println!(
        "{kills} kills, {} transactions, {} pushes seen",
        committed.len(),
        pushed.len()
    );
}

async fn serve(folder: &Path) {
    let node = builder().data(folder).hub::<Desk>("/desk");
    let node = node.start().await.unwrap();
    let nightly = crate::effects::job("any").collection;
    if node.jobs().collection(&nightly).await.is_err() {
        make_collection(&node).await;
    }
    let shop = node.singleton("shop").await.unwrap();
    let done = shop.dictionary::<u64, u64>("done").await.unwrap();
    if std::env::var_os(LAST).is_some() {
        report(&node, &done, &shop).await;
        // Until we are killed.
        std::future::pending().await
    }
    write(&node, &shop, &done).await;
}
