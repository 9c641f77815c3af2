//! `steadfast store migrate` and commands on a database.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use steadfast::collections::{Dictionary, Replica};
use steadfast::id::{Owner, Partition, Sequence, StreamId, TableId};
use steadfast::storage::Engine;
use steadfast::storage::engine::{CasOutcome, ReadPosition, Scan};
use steadfast::storage::local::{self, LocalEngine};
use steadfast::storage::postgres::{self, PostgresEngine};
use steadfast::storage::{Options, Store, Writes};
use steadfast_harness::Process;
use steadfast_harness::postgres::PostgresServer;

const PARTITIONS: u32 = 3;
const TABLES: [TableId; 2] = [TableId(1), TableId(900)];
/// One that is read from its begin, one whose begin is trimmed, one that is empty.
const STREAMS: [StreamId; 3] = [StreamId(1), StreamId(2), StreamId(3)];

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work)
}

/// A database of its own on the server that all tests of this process share.
fn database() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("migrate_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let server = PostgresServer::shared();
    server.sql(&format!("create database {name}")).unwrap();
    format!(
        "postgres://postgres:unused@127.0.0.1:{}/{name}",
        server.port()
    )
}

fn owner() -> Owner {
    use std::hash::{BuildHasher, RandomState};
    let incarnation = RandomState::new().hash_one(0).into();
    Owner {
        node: 7,
        incarnation,
    }
}

/// The engine at a place.
async fn open(place: &str) -> Arc<dyn Engine> {
    if place.starts_with("postgres://") {
        return Arc::new(postgres(place).await);
    }
    Arc::new(LocalEngine::open(Path::new(place), &local::Options::default()).unwrap())
}

async fn postgres(url: &str) -> PostgresEngine {
    let mut options = postgres::Options::new(url);
    options.durability = postgres::Durability::Single;
    PostgresEngine::open(options).await.unwrap()
}

fn partitions() -> impl Iterator<Item = Partition> {
    (0..PARTITIONS).map(|index| Partition::new(0, index as u16))
}

/// Adds rows, events and a cluster record; the first half is flushed.
fn write(place: &str, rows: std::ops::Range<u32>) {
    block_on(async {
        let engine = open(place).await;
        let record = engine.list("test/").await.unwrap();
        let version = record.first().map_or(0, |record| record.version);
        let value = format!("up to {}", rows.end).into();
        let swap = engine.cas("test/record", version, value).await.unwrap();
        assert!(matches!(swap, CasOutcome::Done(_)));
        let store = Store::start(engine, Options::new(owner()));
        for partition in partitions() {
            let ledger = store.acquire(partition).await.unwrap();
            for number in rows.clone() {
                let mut writes = Writes::new();
                let key = number.to_be_bytes();
                writes.put(TABLES[0], &key, &[number as u8; 40]);
                // Longer than what PostgreSQL indexes of a key.
                let long = [&[7; 3000], &key[..]].concat();
                writes.put(TABLES[1], &long, &[number as u8; 100]);
                for stream in STREAMS {
                    writes.publish(stream, 2, format!("{number} of {partition}").into());
                }
                ledger.commit(writes).await.unwrap();
                if number == rows.start + rows.len() as u32 / 2 {
                    let mut writes = Writes::new();
                    let head = ledger.stream(STREAMS[1]).unwrap().unwrap();
                    let last = ReadPosition::Sequence(Sequence(head.next.0 - 1));
                    let last = ledger.read_events(STREAMS[1], last, 1).await.unwrap();
                    writes.trim(STREAMS[1], last[0].first, last[0].offset);
                    writes.delete(TABLES[0], &rows.start.to_be_bytes());
                    ledger.commit(writes).await.unwrap();
                    ledger.flush().await.unwrap();
                }
            }
            let mut writes = Writes::new();
            let head = ledger.stream(STREAMS[2]).unwrap().unwrap();
            writes.trim(STREAMS[2], head.next, head.end);
            ledger.commit(writes).await.unwrap();
            // A node that ends in order gives its partitions up.
            store
                .engine()
                .release(partition, ledger.epoch())
                .await
                .unwrap();
        }
        store.close().await;
    });
}

/// All that a place holds, as text.
fn content(place: &str) -> Vec<String> {
    block_on(async {
        let engine = open(place).await;
        let mut found = Vec::new();
        for record in engine.list("test/").await.unwrap() {
            found.push(format!("{} {:?}", record.key, record.value));
        }
        let store = Store::start(engine, Options::new(owner()));
        for partition in partitions() {
            let ledger = store.acquire(partition).await.unwrap();
            let snapshot = ledger.snapshot().unwrap();
            for table in TABLES {
                let rows = snapshot.scan(table, Scan::all(10_000)).await.unwrap();
                let row = |row| format!("{partition} {table:?} {row:?}");
                found.extend(rows.into_iter().map(row));
            }
            for stream in STREAMS {
                found.push(format!("{:?}", ledger.stream(stream).unwrap()));
                let from = ReadPosition::Sequence(Sequence(0));
                let batches = ledger.read_events(stream, from, usize::MAX).await.unwrap();
                found.extend(batches.iter().map(|batch| format!("{partition} {batch:?}")));
            }
            store
                .engine()
                .release(partition, ledger.epoch())
                .await
                .unwrap();
        }
        store.close().await;
        found
    })
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments).current_dir(folder);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["-o", "json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The command fails and says this.
fn fail(folder: &Path, arguments: &[&str], text: &str) {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    assert!(errors.contains(text), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
}

fn migrate<'a>(from: &'a str, to: &'a str) -> [&'a str; 7] {
    let durability = ["--durability", "single"];
    let [name, value] = durability;
    ["migrate", "--from", from, "--to", to, name, value]
}

fn expect_no_scratch(folder: &Path) {
    for entry in folder.read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with("steadfast-migration"), "{name} is left");
    }
}

#[test]
fn a_store_moves_to_postgres_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let path = |name: &str| root.join(name).to_str().unwrap().to_string();
    let url = database();
    write(&path("data"), 0..60);
    let before = content(&path("data"));

    let moved = succeed(root, &migrate("local:data", &url));
    assert_eq!(moved["partitions"], PARTITIONS);
    assert_eq!(moved["rows"], PARTITIONS * (59 + 60));
    assert_eq!(moved["compared"], true);
    let shown = moved["to"].as_str().unwrap();
    assert!(!shown.contains("unused"), "a password is shown: {shown}");
    assert_eq!(content(&url), before);
    assert_eq!(content(&path("data")), before, "the source has changed");

    // Numbers go on where they ended, also after what was restored was flushed.
    write(&url, 60..90);
    let after = content(&url);
    assert_ne!(after, before);
    succeed(root, &migrate(&url, "local:back"));
    assert_eq!(content(&path("back")), after);
    assert_eq!(content(&url), after, "the source has changed");
    write(&path("back"), 90..100);

    // From a database to another one, with a folder of its own to work in.
    let other = database();
    let scratch = [&migrate(&url, &other)[..], &["--scratch", "."]].concat();
    succeed(root, &scratch);
    assert_eq!(content(&other), after);
    expect_no_scratch(root);
}

#[test]
fn what_cannot_be_moved_is_said_with_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = root.join("data").to_str().unwrap().to_string();
    let (full, empty) = (database(), database());
    write(&data, 0..10);
    write(&full, 0..20);
    let (in_folder, in_database) = (content(&data), content(&full));

    fail(root, &migrate("local:data", &full), "STF-2060");
    fail(root, &migrate(&full, "local:data"), "STF-2060");
    fail(root, &migrate("local:nothing", &empty), "STF-2014");
    fail(root, &migrate(&empty, "local:fresh"), "STF-2037");
    fail(
        root,
        &["migrate", "--from", "data", "--to", &empty],
        "STF-2030",
    );
    let open = LocalEngine::open(&root.join("data"), &local::Options::default()).unwrap();
    fail(root, &migrate("local:data", &empty), "STF-2001");
    drop(open);

    // A node that is alive, on either side.
    let alive = owner();
    block_on(async {
        let engine = postgres(&full).await;
        engine.renew(alive, Duration::from_secs(600)).await.unwrap();
    });
    fail(root, &migrate(&full, "local:fresh"), "STF-2061");
    let forced = ["restore", "--from", "backups", "--data", &full, "--force"];
    let forced = [&forced[..], &["--durability", "single"]].concat();
    succeed(
        root,
        &["backup", "--data", "data", "--to", "backups", "--plain"],
    );
    fail(root, &forced, "STF-2061");
    assert!(!root.join("fresh").exists(), "something was written");
    expect_no_scratch(root);
    block_on(async {
        let engine = postgres(&full).await;
        engine.renew(alive, Duration::ZERO).await.unwrap();
    });
    assert_eq!((content(&data), content(&full)), (in_folder, in_database));
    // The empty one is still that.
    succeed(root, &migrate("local:data", &empty));
}

#[test]
fn a_killed_migration_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = root.join("data").to_str().unwrap().to_string();
    write(&data, 0..80);
    let expected = content(&data);
    let url = database();
    let (_, name) = url.rsplit_once('/').unwrap();
    let schema = |schema: &str| {
        let mut options = postgres::Options::new(&url);
        options.durability = postgres::Durability::Single;
        options.schema = schema.to_string();
        options
    };
    let mut kills = 0;
    for round in 0..200u64 {
        let mut process = Process::spawn(command(root, &migrate("local:data", &url))).unwrap();
        // The moments are spread over what the whole takes.
        if process.wait(Duration::from_millis(20 + 25 * round)).is_ok() {
            break;
        }
        process.kill().unwrap();
        kills += 1;
    }
    assert!(kills >= 2, "{name} was filled before anything was killed");
    // Either the last kill came too late to matter, or the last run was whole.
    assert_eq!(content(&url), expected);
    block_on(async {
        let left = PostgresEngine::open(schema("steadfast_restoring"))
            .await
            .unwrap();
        assert_eq!(left.partitions().await.unwrap(), [], "something is left");
    });
}

#[test]
fn a_database_is_backed_up_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (url, other) = (database(), database());
    let single = ["--durability", "single"];
    write(&url, 0..30);
    std::fs::write(root.join("key"), "the key of the cluster").unwrap();
    let single = [&single[..], &["--key", "key"]].concat();
    let backup = [&["backup", "--data", &url, "--to", "backups"], &single[..]].concat();
    let incremental = [&backup[..], &["--incremental"]].concat();
    let first = succeed(root, &backup);
    assert_eq!(first["rows"], PARTITIONS * (29 + 30));
    let before = content(&url);
    write(&url, 30..50);
    let after = content(&url);
    let second = succeed(root, &incremental);
    assert_eq!(second["extent"], "incremental");

    let from = first["backup"].as_str().unwrap();
    let restore = [&["restore", "--from", from, "--data", &other], &single[..]].concat();
    succeed(root, &restore);
    assert_eq!(content(&other), before);
    let newest = [
        &["restore", "--from", "backups", "--data", &other],
        &single[..],
    ]
    .concat();
    fail(root, &newest, "STF-2060");
    assert_eq!(content(&other), before);
    succeed(root, &[&newest[..], &["--force"]].concat());
    assert_eq!(content(&other), after);
}

#[test]
fn a_database_is_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let url = database();
    block_on(async {
        let store = Store::start(open(&url).await, Options::new(owner()));
        let ledger = store.acquire(Partition::new(0, 1)).await.unwrap();
        let replica = Replica::primary(ledger, Default::default()).await.unwrap();
        let houses: Dictionary<String, u64> = replica.state().get_or_add("houses").await.unwrap();
        for (key, is_flushed) in [("north", true), ("south", false)] {
            let mut tx = replica.begin();
            houses.add(&mut tx, key.to_owned(), 7).await.unwrap();
            tx.commit().await.unwrap();
            if is_flushed {
                store.flush().await.unwrap();
            }
        }
        store.close().await;
    });
    let inspect = ["inspect", "--data", &url, "--durability", "single"];
    let with = |more: &[&'static str]| [&inspect[..], more].concat();
    let listed = succeed(root, &with(&["collections"]));
    assert_eq!(listed["collections"][0]["name"], "urn:houses", "{listed}");
    assert_eq!(listed["collections"][0]["count"], 2, "flushed or not");
    let shown = succeed(root, &with(&["houses"]));
    assert_eq!(shown["entries"][1]["key"], "south", "{shown}");
    let one = succeed(root, &with(&["houses", "--key", "\"north\""]));
    assert_eq!(one["entries"].as_array().unwrap().len(), 1, "{one}");
    let partitions = succeed(root, &inspect);
    assert_eq!(partitions["partitions"].as_array().unwrap().len(), 1);
    let nothing = command(root, &with(&["nothing"])).output().unwrap();
    assert_eq!(nothing.status.code(), Some(3));
    let foreign = with(&["--partition", "9"]);
    assert_eq!(
        command(root, &foreign).output().unwrap().status.code(),
        Some(3)
    );

    // A node that lives has it: it is asked, not bypassed. A command that has ended
    // is no node.
    let node = owner();
    let lease = |time| block_on(async { open(&url).await.renew(node, time).await.unwrap() });
    lease(Duration::from_secs(60));
    fail(root, &inspect, "STF-2061");
    lease(Duration::ZERO);
    succeed(root, &inspect);
    fail(
        root,
        &["inspect", "--data", &database(), "--durability", "single"],
        "STF-2037",
    );
}
