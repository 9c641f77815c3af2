//! Nodes that do not belong to a cluster are not let in.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::{Method, StatusCode};
use serde_json::json;
use steadfast_harness::reserve_port;

use crate::nodes::{Caller, Over, database, get, node, put, settled};
use crate::running::{Start, finish, said};

/// A node that must not start: its exit code and what it says.
fn refused(start: Start) -> String {
    let (code, _, error) = said(&finish(start.command));
    assert_ne!(code, 0, "{error}");
    error
}

#[test]
fn strangers_are_refused_with_a_code_and_change_nothing() {
    let database = database();
    let a = node("a", &database).ready();
    let (status, answer) = put(&a, "kept", "k", "v");
    assert_eq!(status, StatusCode::OK, "{answer}");
    let wrong = "cluster.key=ffffffffffffffffffffffffffffffff";
    let error = refused(node("b", &database).set(wrong));
    assert!(
        error.contains("STF-7010") && error.contains("node a"),
        "{error}"
    );
    let error = refused(node("a", &database));
    assert!(error.contains("STF-7013"), "{error}");
    let alone = node("b", &database)
        .set("cluster.key=")
        .set("jobs.secret_key=./secret");
    let error = refused(alone);
    assert!(error.contains("STF-7014"), "{error}");
    let short = node("b", &database).set("cluster.key=short");
    assert!(refused(short).contains("STF-7002"));
    // The other nodes were not disturbed.
    settled(&a, 1);
    let (status, found) = get(&a, "kept", "k");
    assert_eq!((status, found), (StatusCode::OK, json!("v")));
}

/// A node of one cluster gives the address of a node of another one as its own.
#[test]
fn a_node_of_another_cluster_is_not_asked_for_anything() {
    let there = reserve_port().unwrap();
    let stranger = node("x", &database())
        .set(&format!("cluster.port={there}"))
        .ready();
    let database = database();
    let a = node("a", &database).ready();
    let b = node("b", &database)
        .set(&format!("cluster.advertise=127.0.0.1:{there}"))
        .ready();
    settled(&b, 2);
    // The keys are the same; what is `b`'s is asked for where it says that it is.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        let (caller, is_over) = (Caller::of(&a), &is_over);
        scope.spawn(move || {
            for number in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                caller.ask(Method::GET, &format!("/v1/state/s{number}/texts/k"), None);
            }
        });
        a.logged("STF-7011");
    });
    stranger.logged("STF-7011");
    let (_, standing) = stranger.get("/v1/cluster");
    assert_eq!(standing["nodes"].as_array().unwrap().len(), 1, "{standing}");
}

#[test]
fn a_killed_node_comes_back_under_its_name() {
    let database = database();
    let mut a = node("a", &database).ready();
    put(&a, "kept", "k", "v");
    a.process.kill().unwrap();
    let again = node("a", &database).ready();
    let standing = settled(&again, 1);
    assert_eq!(standing["nodes"].as_array().unwrap().len(), 1, "{standing}");
    assert_eq!(get(&again, "kept", "k").1, json!("v"));
}

/// A node that stood still finds another one under its name: it serves nothing, and what
/// it acknowledges is what the other one has.
#[test]
fn a_node_whose_name_another_one_has_gives_way() {
    let database = database();
    let a = node("a", &database).ready();
    put(&a, "kept", "k", "v");
    a.process.freeze().unwrap();
    let again = node("a", &database).ready();
    settled(&again, 1);
    put(&again, "kept", "k", "later");
    a.process.thaw().unwrap();
    a.logged("cluster.superseded");
    let (status, found) = get(&a, "kept", "k");
    assert!(
        status != StatusCode::OK || found == json!("later"),
        "{found}"
    );
    let (status, _) = put(&a, "kept", "k", "last");
    let expected = match status {
        StatusCode::OK => "last",
        _ => "later",
    };
    assert_eq!(get(&again, "kept", "k").1, json!(expected));
    let standing = settled(&again, 1);
    assert_eq!(standing["nodes"].as_array().unwrap().len(), 1, "{standing}");
}

/// One node on PostgreSQL without a cluster key runs everything, and keeps its lease.
#[test]
fn a_node_without_a_key_is_alone() {
    let database = database();
    let alone = node("a", &database)
        .set("cluster.key=")
        .set("jobs.secret_key=./secret");
    let server = alone.ready();
    settled(&server, 1);
    put(&server, "kept", "k", "v");
    let made = said(&server.run(&["eventhub", "create", "houses"]));
    assert_eq!(made.0, 0, "{made:?}");
    let sent = said(&server.run(&["event", "send", "houses", "warm"]));
    assert_eq!(sent.0, 0, "{sent:?}");
    let started = said(&server.run(&["orchestration", "start", "greet", "--id", "one"]));
    assert_eq!(started.0, 0, "{started:?}");
    let error = refused(node("b", &database));
    assert!(error.contains("STF-7014"), "{error}");
}
