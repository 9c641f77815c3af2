//! What a node counts when its database is slow or lost.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;
use steadfast_harness::postgres::PostgresCluster;
use steadfast_harness::{Direction, FaultProxy};

use crate::nodes::slots::{fill, read, try_write};
use crate::nodes::{Caller, metric, settled, steady};
use crate::running::{Server, until};

/// An answer that does not come while the test looks.
const NEVER: Duration = Duration::from_secs(60);

#[test]
fn lag_fences_and_unknown_outcomes_are_counted() {
    let mut database = PostgresCluster::start().unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let mut way = |index: usize| {
        let port = database.server(index).port();
        let address = ([127, 0, 0, 1], port).into();
        runtime.block_on(FaultProxy::start(address)).unwrap()
    };
    let ways = [way(0), way(1), way(2)];
    let behind = ways.each_ref().map(|way| way.address().to_string());
    let far = format!("postgres://postgres@{}/postgres", behind.join(","));
    let first = steady("a", &far).ready();
    settled(&first, 1);
    let asked = Caller::of(&first);
    fill(&asked, "counted");
    lag_shows_and_goes(&mut database, &first, &asked);
    let counts = || ["entries_fenced", "entries_unknown"].map(|name| metric(&first, name));
    assert_eq!(counts(), [0.0, 0.0]);
    // Written, but not answered: the connection is lost before the response.
    let mut commits = || {
        let primary = database.primary();
        let commits = "select sum(commit_no) from steadfast.sf_partition";
        database.server(primary).sql(commits).unwrap()
    };
    let before = commits();
    let (status, answer) = std::thread::scope(|scope| {
        for way in &ways {
            way.delay(Direction::ToClient, NEVER);
        }
        let writing = scope.spawn(|| try_write(&asked, "counted", "s1", 7));
        until("it is written", || (commits() != before).then_some(()));
        for way in &ways {
            way.delay(Direction::ToClient, Duration::ZERO);
            way.cut();
        }
        writing.join().unwrap()
    });
    assert_eq!(status, StatusCode::OK, "{answer}");
    let [fenced, unknown] = counts();
    assert!(fenced == 0.0 && unknown >= 1.0, "{fenced} {unknown}");
    assert_eq!(read(&asked, "counted", "s1"), (StatusCode::OK, json!(7)));
    // Other nodes have owned every partition since.
    let primary = database.primary();
    let others = "update steadfast.sf_partition set epoch = epoch + 1";
    database.server(primary).sql(others).unwrap();
    let (status, answer) = try_write(&asked, "counted", "s1", 8);
    println!("who wrote in an old epoch was told: {status} {answer}");
    assert!(counts()[0] >= 1.0);
    // What the node remembers is void; it takes all of them again.
    until("the slot is served again", || {
        let (status, _) = try_write(&asked, "counted", "s1", 9);
        (status == StatusCode::OK).then_some(())
    });
    assert_eq!(read(&asked, "counted", "s1"), (StatusCode::OK, json!(9)));
    let _inside = runtime.enter();
    drop(ways);
}

/// Standbys receive what is written, and do not replay it.
fn lag_shows_and_goes(database: &mut PostgresCluster, server: &Server, teller: &Caller) {
    const LAG: &str = "postgres_replay_lag_seconds{shard=\"0\"}";
    let mut number = 0;
    for (statement, is_fit) in [
        (
            "select pg_wal_replay_pause()",
            (|lag| lag > 1.0) as fn(f64) -> bool,
        ),
        ("select pg_wal_replay_resume()", |lag| lag < 1.0),
    ] {
        for standby in database.standbys() {
            database.server(standby).sql(statement).unwrap();
        }
        until(statement, || {
            number += 1;
            let (status, answer) = try_write(teller, "counted", "s0", number);
            assert_eq!(status, StatusCode::OK, "{answer}");
            is_fit(metric(server, LAG)).then_some(())
        });
    }
}
