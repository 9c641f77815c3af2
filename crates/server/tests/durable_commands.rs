//! `steadfast orchestration`, `entity` and `lock`.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;

use running::{Server, Start, said};
use serde_json::{Value, json};

/// What a command prints, if it does what it is asked for.
fn ok(server: &Server, arguments: &[&str]) -> String {
    let (code, out, err) = said(&server.run(arguments));
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    out
}

fn shown(server: &Server, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&ok(server, &arguments)).unwrap()
}

#[test]
fn orchestrations_are_started_explained_steered_and_forgotten() {
    let server = Start::new("dev").ready();
    let started = shown(
        &server,
        &[
            "orchestration",
            "start",
            "greet",
            "--id",
            "one",
            "--input",
            r#"{"a":1}"#,
        ],
    );
    assert_eq!(started, json!({"started": "one"}));
    let why = ok(&server, &["orchestration", "why", "one"]);
    assert_eq!(
        why.trim(),
        "no worker that is connected has code for 'greet'"
    );
    let listed = shown(&server, &["orchestration", "list", "--prefix", "on"]);
    assert_eq!(listed["orchestrations"][0]["runtimeStatus"], "Pending");
    ok(
        &server,
        &["orchestration", "suspend", "one", "--reason", "a pause"],
    );
    let why = ok(&server, &["orchestration", "why", "one"]);
    assert_eq!(why.trim(), "somebody has suspended it");
    ok(&server, &["orchestration", "resume", "one"]);
    ok(
        &server,
        &["orchestration", "raise", "one", "go", "--data", "[5]"],
    );
    let (code, _, err) = said(&server.run(&["orchestration", "rewind", "one"]));
    assert!(code == 1 && err.contains("has not failed"), "{err}");
    ok(
        &server,
        &["orchestration", "terminate", "one", "--reason", "enough"],
    );
    let told = ok(&server, &["orchestration", "show", "one"]);
    for line in [
        "runtimeStatus    Terminated",
        "output           enough",
        "EventRaised Input=5 Name=go",
        "ExecutionTerminated Reason=enough",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let whole = shown(&server, &["orchestration", "export", "one"]);
    let events = whole["historyEvents"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["EventType"], "ExecutionCompleted");
    assert_eq!(whole["input"], json!({"a": 1}));
    let (code, _, err) = said(&server.run(&["orchestration", "raise", "one", "go"]));
    assert!(code == 1 && err.contains("STF-6055"), "{err}");
    let purged = shown(&server, &["orchestration", "purge", "one"]);
    assert_eq!(purged, json!({"purged": 1}));
    let (code, _, err) = said(&server.run(&["orchestration", "show", "one"]));
    assert!(code == 3 && err.contains("STF-6054"), "{err}");
    // Other task hubs are other worlds.
    ok(
        &server,
        &["orchestration", "start", "greet", "--hub", "blue"],
    );
    let listed = shown(&server, &["orchestration", "list"]);
    assert_eq!(listed["orchestrations"], json!([]));
}

#[test]
fn entities_are_signalled_and_locks_are_listed() {
    let server = Start::new("dev").ready();
    ok(
        &server,
        &["entity", "signal", "Counter", "a", "add", "--input", "5"],
    );
    let (code, _, err) = said(&server.run(&["entity", "get", "counter", "a"]));
    assert!(code == 3 && err.contains("no entity"), "{err}");
    let late = server.run(&["entity", "call", "counter", "a", "get", "--wait", "1"]);
    let (code, _, err) = said(&late);
    assert!(code == 4 && err.contains("STF-6052"), "{err}");
    let listed = shown(&server, &["entity", "list"]);
    assert_eq!(
        listed["entities"],
        json!([]),
        "without a state it is not shown"
    );
    assert_eq!(shown(&server, &["lock", "list"])["locks"], json!([]));
    let release = ["lock", "release", "counter", "a", "--section", "x"];
    let (code, _, err) = said(&server.run(&release));
    assert!(code == 3 && err.contains("is not locked"), "{err}");
    let (code, _, err) = said(&server.run(&["orchestration", "start", "f", "--input", "{"]));
    assert!(code == 1 && err.contains("a payload is JSON"), "{err}");
}
