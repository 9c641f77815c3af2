//! Every service through nodes that do not own the data.

use serde_json::{Value, json};

use crate::nodes::{database, three};
use crate::running::{Server, said, until};

/// What a command that succeeds prints.
fn done(server: &Server, arguments: &[&str]) -> String {
    let (code, text, error) = said(&server.run(arguments));
    assert_eq!(code, 0, "{arguments:?}: {error}");
    text
}

fn object(server: &Server, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.extend(["-o", "json"]);
    let text = done(server, &arguments);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn every_node_serves_every_client() {
    let database = database();
    let nodes = three(&database);
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    events(a, b, c);
    jobs(a, b, c);
    orchestrations(a, b, c);
}

/// Created on one node, published on another, read on a third, also by a waiting reader.
fn events(a: &Server, b: &Server, c: &Server) {
    done(a, &["eventhub", "create", "houses", "--partitions", "6"]);
    for partition in 0..6 {
        let (partition, text) = (partition.to_string(), format!("p{partition}"));
        let send = ["event", "send", "houses", "--partition", &partition, &text];
        done(b, &send);
    }
    for server in [a, b, c] {
        let tail = done(
            server,
            &[
                "event", "tail", "houses", "--format", "json", "--wait", "0", "--from", "start",
            ],
        );
        let mut bodies: Vec<_> = tail
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["body"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        bodies.sort_unstable();
        assert_eq!(bodies, ["p0", "p1", "p2", "p3", "p4", "p5"]);
        let shown = object(server, &["eventhub", "show", "houses"]);
        assert_eq!(shown["name"], json!("houses"), "{shown}");
    }
}

/// Collections and jobs are listed whole by everybody.
fn jobs(a: &Server, b: &Server, c: &Server) {
    for number in 0..4 {
        let name = format!("jobs-{number}");
        object(a, &["collection", "create", &name]);
        let call = ["--call", "http://127.0.0.1:9/", "--cron", "30 8 1 1 *"];
        object(
            b,
            &[&["job", "create", &name, "report"], &call[..]].concat(),
        );
    }
    for server in [a, b, c] {
        let listed = object(server, &["collection", "list"]);
        assert_eq!(
            listed["collections"].as_array().unwrap().len(),
            4,
            "{listed}"
        );
        for number in 0..4 {
            let name = format!("jobs-{number}");
            let listed = object(server, &["job", "list", &name]);
            assert_eq!(listed["jobs"][0]["name"], "report", "{listed}");
        }
    }
    object(c, &["job", "run", "jobs-0", "report"]);
    until("an attempt", || {
        let found = object(a, &["job", "history", "jobs-0", "report"]);
        (!found["history"].as_array().unwrap().is_empty()).then_some(())
    });
}

/// Started here, listed and steered there.
fn orchestrations(a: &Server, b: &Server, c: &Server) {
    for number in 0..6 {
        let id = format!("o-{number}");
        object(a, &["orchestration", "start", "greet", "--id", &id]);
    }
    for server in [a, b, c] {
        let listed = object(server, &["orchestration", "list", "--prefix", "o-"]);
        assert_eq!(listed["workflows"].as_array().unwrap().len(), 6, "{listed}");
    }
    for number in 0..6 {
        let id = format!("o-{number}");
        done(b, &["orchestration", "terminate", &id]);
        let shown = object(c, &["orchestration", "show", &id]);
        assert_eq!(shown["status"], "Terminated", "{shown}");
    }
    done(
        a,
        &["entity", "signal", "counter", "x", "add", "--input", "1"],
    );
    for server in [a, b, c] {
        let listed = object(server, &["entity", "list"]);
        let entities = listed["entities"].as_array();
        assert!(entities.is_some(), "{listed}");
    }
}
