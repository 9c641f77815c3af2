//! Nodes whose partitions are spread over several databases.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_harness::postgres::PostgresCluster;
use steadfast_harness::{Direction, FaultProxy, Process};

use crate::nodes::{
    self, Caller, Over, PARTITIONS, database, node, settled, slots, sql, steady, three_by,
};
use crate::running::{Server, Start, finish, run, said, steadfast, until};

/// A service with a slot in every partition, and another number in each.
fn fill(server: &Caller) {
    slots::fill(server, "spread");
    for (number, slot) in slots::names().enumerate() {
        slots::write(server, "spread", &slot, number as u64);
    }
}

fn expect_all(server: &Caller) {
    for (number, slot) in slots::names().enumerate() {
        let found = slots::read(server, "spread", &slot);
        assert_eq!(found, (StatusCode::OK, json!(number)), "{slot}");
    }
}

#[test]
fn a_cluster_is_backed_up_while_it_runs() {
    let url = database();
    let folder = tempfile::tempdir().unwrap();
    let root = format!("backup.root={}", folder.path().display());
    let nodes = ["a", "b"].map(|name| node(name, &url).set(&root).ready());
    settled(&nodes[0], 2);
    fill(&Caller::of(&nodes[0]));
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (backups, data) = (place("backups"), place("data"));
    let (code, _, error) = said(&nodes[1].run(&["backup", "--to", &backups]));
    assert_eq!(code, 0, "{error}");
    let (key, restore) = (
        place("key"),
        ["restore", "--from", &backups, "--data", &data],
    );
    std::fs::write(&key, nodes::KEY).unwrap();
    let restore = [&restore[..], &["--key", &key]].concat();
    let (code, _, error) = said(&run(folder.path(), &restore));
    assert_eq!(code, 0, "{error}");
    let alone = Start::new("dev")
        .set(&format!("data={data}"))
        .set(&format!("partitions={PARTITIONS}"));
    expect_all(&Caller::of(&alone.ready()));
    // The other nodes were not disturbed.
    settled(&nodes[0], 2);
}

#[test]
fn every_node_shows_what_all_nodes_hold() {
    let url = database();
    let nodes = [node("a", &url).ready(), node("b", &url).ready()];
    settled(&nodes[0], 2);
    fill(&Caller::of(&nodes[0]));
    let inspect = |server: &Server, arguments: &[&str]| {
        let mut all = vec!["inspect", "-o", "json"];
        all.extend(arguments);
        said(&server.run(&all))
    };
    let mut shown = Vec::new();
    for server in &nodes {
        let (code, found, error) = inspect(server, &["texts"]);
        assert_eq!(code, 0, "{error}");
        let found: Value = serde_json::from_str(&found).unwrap();
        let rows = found["entries"].as_array().unwrap().clone();
        assert_eq!(rows.len(), PARTITIONS, "{found}");
        shown.push(rows);
    }
    assert_eq!(shown[0], shown[1]);
    let one = shown[0][3]["partition"].as_str().unwrap().to_owned();
    for server in &nodes {
        let (code, found, error) = inspect(server, &["texts", "--partition", &one]);
        assert_eq!(code, 0, "{error}");
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["entries"].as_array().unwrap().len(), 1, "{found}");
        let (code, _, error) = inspect(server, &["texts", "--key", "\"nowhere\""]);
        assert!(code == 3 && error.contains("has no key"), "{code} {error}");
        let (code, _, error) = inspect(server, &["unheard-of"]);
        assert!(code == 3 && error.contains("no collection"), "{error}");
    }
}

/// A standby with this row would be promoted with it.
#[test]
fn a_row_that_was_changed_is_found_by_scrub() {
    let url = database();
    let nodes = [node("a", &url).ready(), node("b", &url).ready()];
    settled(&nodes[0], 2);
    fill(&Caller::of(&nodes[0]));
    let scrub = || said(&nodes[1].run(&["cluster", "scrub"]));
    let (code, found, error) = scrub();
    assert_eq!(code, 0, "{found}{error}");
    let one = "select part, no from steadfast.sf_log order by no desc limit 1";
    let change = format!(
        "update steadfast.sf_log set body = set_byte(body, 3, get_byte(body, 3) # 1) \
         where (part, no) = ({one}) returning part"
    );
    let part = sql(&url, &change);
    // Standbys are as far a little later.
    let at = sql(&url, "select pg_current_wal_lsn()");
    let there = format!("select count(*) from pg_stat_replication where replay_lsn >= '{at}'");
    until("both standbys", || (sql(&url, &there) == "2").then_some(()));
    let (code, found, error) = scrub();
    assert_eq!(code, 1, "{found}{error}");
    assert!(
        error.contains("3 servers are not fit to be promoted"),
        "{error}"
    );
    let findings = found.lines().filter(|line| line.contains("checksum"));
    assert_eq!(findings.count(), 3, "partition {part}: {found}");
}

/// A node that must not start: what it says.
fn refused(start: Start) -> String {
    let (code, _, error) = said(&finish(start.command));
    assert_ne!(code, 0, "{error}");
    error
}

#[test]
fn databases_share_the_partitions_and_one_more_joins() {
    let urls = [database(), database(), database()];
    let two = urls[..2].join(" ");
    let mut nodes = vec![node("a", &two).ready(), node("b", &two).ready()];
    settled(&nodes[0], 2);
    fill(&Caller::of(&nodes[0]));
    expect_all(&Caller::of(&nodes[1]));
    let (_, metrics) = nodes[0].get("/metrics");
    let metrics = metrics.as_str().unwrap().to_owned();
    for shard in ["0", "1"] {
        let label = format!("postgres_commits_total{{shard=\"{shard}\"}}");
        let row = metrics.lines().find(|line| line.contains(&label));
        let count = row.and_then(|row| row.split_whitespace().last());
        assert!(count.unwrap().parse::<u64>().unwrap() > 0, "{row:?}");
        let label = format!("postgres_replay_lag_seconds{{shard=\"{shard}\"}}");
        assert!(metrics.contains(&label), "{metrics}");
    }
    // Every server of every database is read.
    let (code, found, error) = said(&nodes[0].run(&["cluster", "scrub", "-o", "json"]));
    assert_eq!(code, 0, "{error}");
    let found: Value = serde_json::from_str(&found).unwrap();
    let replicas = found["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 6, "{found}");
    for replica in replicas {
        assert_eq!(replica["partitions"], json!(PARTITIONS / 2), "{found}");
    }
    let primaries = replicas.iter().filter(|one| one["is_primary"] == true);
    assert_eq!(primaries.count(), 2, "{found}");
    let (code, _, error) = said(&nodes[0].run(&["backup", "--to", "backups"]));
    assert!(code != 0 && error.contains("STF-7056"), "{error}");
    // A node with other databases is rejected.
    let exchanged = format!("{} {}", urls[1], urls[0]);
    assert!(refused(node("c", &exchanged)).contains("STF-7051"));
    assert!(refused(node("c", &urls[0])).contains("STF-7050"));
    let three = urls.join(" ");
    assert!(refused(node("c", &three)).contains("STF-7053"));
    let folder = tempfile::tempdir().unwrap();
    let order = [
        "cluster",
        "move-shard",
        "--data",
        &three,
        "--from",
        "0",
        "--to",
        "2",
        "-o",
        "json",
    ];
    let (code, _, error) = said(&run(folder.path(), &order));
    assert!(code != 0 && error.contains("STF-2061"), "{error}");
    for server in &mut nodes {
        server.signal(Signal::TERM);
        assert_eq!(server.ended().0, 0);
    }
    // Their leases end soon.
    let moved = until("no node to be there", || {
        let (code, moved, _) = said(&run(folder.path(), &order));
        (code == 0).then_some(moved)
    });
    let moved: Value = serde_json::from_str(&moved).unwrap();
    assert_eq!(moved["partitions"], json!(PARTITIONS / 2), "{moved}");
    assert!(refused(node("a", &two)).contains("STF-7050"));
    let nodes = [node("a", &three).ready(), node("b", &three).ready()];
    settled(&nodes[0], 2);
    for server in &nodes {
        expect_all(&Caller::of(server));
    }
    let (code, found, _) = said(&nodes[1].run(&["cluster", "scrub"]));
    assert_eq!(code, 0, "{found}");
    assert_eq!(found.lines().count(), 10, "{found}");
}

/// What a writer of one slot has seen.
#[derive(Default)]
struct Written {
    /// How many numbers were acknowledged.
    count: AtomicU64,
    /// The last one of them.
    last: AtomicU64,
}

/// Writes ever higher numbers into a slot, until it is over. The last one that was tried.
fn write_on(caller: &Caller, slot: &str, written: &Written, is_over: &AtomicBool) -> u64 {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        if slots::try_write(caller, "spread", slot, number).0 == StatusCode::OK {
            written.last.store(number, Ordering::Relaxed);
            written.count.fetch_add(1, Ordering::Relaxed);
        }
    }
    number
}

/// Waits until so many slots have more numbers than before; which ones.
fn until_written(what: &str, all: &[Written], slots: usize) -> Vec<usize> {
    let count = |one: &Written| one.count.load(Ordering::Relaxed);
    let before: Vec<_> = all.iter().map(count).collect();
    until(what, || {
        let more = all.iter().zip(&before).enumerate();
        let more = more.filter(|(_, (now, before))| count(now) >= **before + 10);
        let more: Vec<_> = more.map(|(slot, _)| slot).collect();
        (more.len() >= slots).then_some(more)
    })
}

/// Each half of the partitions is in a database with standbys of its own.
#[test]
fn a_database_that_dies_holds_up_only_what_is_in_it() {
    let mut databases = [0, 1].map(|_| PostgresCluster::start().unwrap());
    let both = format!("{} {}", databases[0].url(), databases[1].url());
    // Without one of its databases a node cannot renew its lease.
    let mut nodes = three_by(|name| steady(name, &both));
    fill(&Caller::of(&nodes[0]));
    let is_over = AtomicBool::new(false);
    let written: Vec<_> = slots::names().map(|_| Written::default()).collect();
    let callers: Vec<_> = slots::names().map(|_| Caller::of(&nodes[0])).collect();
    let tried: Vec<_> = std::thread::scope(|scope| {
        let over = Over(&is_over);
        let writers = slots::names().zip(&written).zip(&callers);
        let writers = writers.map(|((slot, written), caller)| {
            let is_over = &is_over;
            scope.spawn(move || write_on(caller, &slot, written, is_over))
        });
        let writers: Vec<_> = writers.collect();
        until_written("all slots are written", &written, PARTITIONS);
        // The second database has no primary, and gets none.
        let primary = databases[1].primary();
        databases[1].server(primary).kill().unwrap();
        let going_on = until_written("the other half goes on", &written, PARTITIONS / 2);
        let stuck: Vec<_> = (0..PARTITIONS)
            .filter(|slot| !going_on.contains(slot))
            .collect();
        let frozen: Vec<_> = stuck.iter().map(|slot| &written[*slot]).collect();
        let counts = || frozen.iter().map(|one| one.count.load(Ordering::Relaxed));
        let before: Vec<_> = counts().collect();
        until_written("it still goes on", &written, PARTITIONS / 2);
        assert!(
            counts().eq(before),
            "a commit was acknowledged without a primary"
        );
        databases[1].promote_by_rule().unwrap();
        until_written("all go on", &written, PARTITIONS);
        // And a node.
        let mut killed = nodes.pop().unwrap();
        killed.process.kill().unwrap();
        until_written("all go on without that node", &written, PARTITIONS);
        drop(over);
        writers.into_iter().map(|one| one.join().unwrap()).collect()
    });
    settled(&nodes[0], 2);
    for (index, slot) in slots::names().enumerate() {
        let last = written[index].last.load(Ordering::Relaxed);
        for server in &nodes {
            let (status, found) = slots::read(&Caller::of(server), "spread", &slot);
            let found = found.as_u64().unwrap();
            let is_whole = status == StatusCode::OK && (last..=tried[index]).contains(&found);
            assert!(
                is_whole,
                "{slot}: {last} was acknowledged, {found} is there"
            );
        }
    }
}

/// The first server of a database's address, which is its primary.
fn primary_of(url: &str) -> SocketAddr {
    let (_, servers) = url.split_once('@').unwrap();
    let (first, _) = servers.split_once(',').unwrap();
    first.parse().unwrap()
}

/// The process that moves partitions is killed again and again, each time a bit later.
#[test]
fn a_move_that_is_killed_is_ended_by_the_next_one() {
    let urls = [database(), database()];
    let mut alone = node("a", &urls[0]).ready();
    fill(&Caller::of(&alone));
    alone.signal(Signal::TERM);
    assert_eq!(alone.ended().0, 0);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(FaultProxy::start(primary_of(&urls[1])));
    let proxy = proxy.unwrap();
    // So slow that it can be killed in the middle.
    proxy.throttle(Some(100_000));
    let (_, name) = urls[1].rsplit_once('/').unwrap();
    let slow = format!("postgres://postgres@{}/{name}", proxy.address());
    let data = format!("{} {slow}", urls[0]);
    let place = ["--data", &data, "--from", "0", "--to", "1"];
    let order = [&["cluster", "move-shard"], &place[..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let mut kills = 0;
    loop {
        let before = proxy.bytes(Direction::ToUpstream);
        let mut command = steadfast(folder.path());
        command.args(&order);
        let mut moving = Process::spawn(command).unwrap();
        let ended = until("the move gets further, or ends", || {
            let ended = moving.wait(Duration::from_millis(1)).ok();
            let bytes = proxy.bytes(Direction::ToUpstream) - before;
            (ended.is_some() || bytes >= 2_000 * (kills + 1)).then_some(ended)
        });
        if let Some(ended) = ended {
            assert!(ended.success(), "{ended:?} after {kills} kills");
            break;
        }
        moving.kill().unwrap();
        kills += 1;
        for url in &urls {
            // Thirty seconds later no node waits for the one that was killed.
            let has_schema = sql(url, "select to_regclass('steadfast.sf_node') is not null");
            if has_schema == "t" {
                sql(
                    url,
                    "update steadfast.sf_node set expires = clock_timestamp()",
                );
            }
        }
    }
    println!("the move ended after {kills} kills");
    assert!(kills > 2);
    let left = "select count(*) from steadfast.sf_partition where moved is null";
    assert_eq!(sql(&urls[0], left), "0");
    let nodes = [
        node("a", &urls.join(" ")).ready(),
        node("b", &urls.join(" ")).ready(),
    ];
    settled(&nodes[0], 2);
    for server in &nodes {
        expect_all(&Caller::of(server));
    }
    let (code, found, error) = said(&nodes[0].run(&["cluster", "scrub"]));
    assert_eq!(code, 0, "{found}{error}");
    let _inside = runtime.enter();
    drop(proxy);
}
