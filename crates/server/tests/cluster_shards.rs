//! Nodes whose partitions are spread over several databases.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod nodes;
mod running;

use nodes::{Caller, PARTITIONS, database, node, settled, sql};
use reqwest::{Method, StatusCode};
use running::{Server, Start, finish, run, said, until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A service with a slot in every partition.
fn slots() -> Vec<String> {
    (0..PARTITIONS).map(|slot| format!("s{slot}")).collect()
}

fn fill(server: &Caller) {
    let scheme = json!({"scheme": {"named": slots()}});
    let (status, answer) = server.ask(Method::PUT, "/v1/state/spread", Some(scheme));
    assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
    for slot in slots() {
        let step = json!({"op": "put", "collection": "texts", "key": "n", "value": slot});
        let body = json!({"slot": slot, "steps": [step]});
        let (status, answer) = server.ask(Method::POST, "/v1/state/spread", Some(body));
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
}

fn expect_all(server: &Caller) {
    for slot in slots() {
        let step = json!({"op": "get", "collection": "texts", "key": "n"});
        let body = json!({"slot": slot, "steps": [step]});
        let (status, answer) = server.ask(Method::POST, "/v1/state/spread", Some(body));
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["results"][0]["value"], json!(slot));
    }
}

#[test]
fn a_cluster_is_backed_up_while_it_runs() {
    let url = database();
    let nodes = [node("a", &url).ready(), node("b", &url).ready()];
    settled(&nodes[0], 2);
    fill(&Caller::of(&nodes[0]));
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (backups, data) = (place("backups"), place("data"));
    let (code, _, error) = said(&nodes[1].run(&["backup", "--to", &backups]));
    assert_eq!(code, 0, "{error}");
    let restore = ["restore", "--from", &backups, "--data", &data];
    let (code, _, error) = said(&run(folder.path(), &restore));
    assert_eq!(code, 0, "{error}");
    let alone = Start::new("dev")
        .set(&format!("data={data}"))
        .set(&format!("partitions={PARTITIONS}"));
    expect_all(&Caller::of(&alone.ready()));
    // Nobody was disturbed.
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
    // Whoever names the databases otherwise is not let in.
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
    let moved = until("nobody to be there", || {
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
