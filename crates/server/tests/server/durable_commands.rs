//! `steadfast workflow`, `entity` and `lock`.

use std::path::Path;

use serde_json::{Value, json};
use steadfast::durable::{Context, FailureDetails, TaskHubWorker};

use crate::running::{Server, Start, said};

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
        "no worker is connected to the task hub 'default': start one that has code for 'greet'"
    );
    let listed = shown(&server, &["orchestration", "list", "--prefix", "on"]);
    assert_eq!(listed["workflows"][0]["status"], "Pending");
    ok(
        &server,
        &["orchestration", "suspend", "one", "--reason", "a pause"],
    );
    let why = ok(&server, &["orchestration", "why", "one"]);
    assert_eq!(why.trim(), "it is suspended");
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
        "status         Terminated",
        "output         enough",
        "EventRaised input=5 name=go",
        "ExecutionTerminated reason=enough",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let whole = shown(&server, &["orchestration", "export", "one"]);
    let events = whole["history"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["event_type"], "ExecutionCompleted");
    assert_eq!(whole["input"], json!({"a": 1}));
    let (code, _, err) = said(&server.run(&["orchestration", "raise", "one", "go"]));
    assert!(code == 1 && err.contains("STF-6055"), "{err}");
    let purged = shown(&server, &["orchestration", "purge", "--yes", "one"]);
    assert_eq!(purged, json!({"purged": 1}));
    let (code, _, err) = said(&server.run(&["orchestration", "show", "one"]));
    assert!(code == 3 && err.contains("STF-6054"), "{err}");
    // Other task hubs are other worlds.
    ok(
        &server,
        &["orchestration", "start", "greet", "--hub", "blue"],
    );
    let listed = shown(&server, &["orchestration", "list"]);
    assert_eq!(listed["workflows"], json!([]));
}

#[test]
fn start_with_wait_says_by_its_exit_code_how_it_ended() {
    let server = Start::new("dev").ready();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let worker = TaskHubWorker::connect(&format!("Endpoint={};TaskHub=default", server.url))
        .unwrap()
        .functions(|all| {
            all.orchestration("double", |_: Context, n: u64| async move { Ok(2 * n) })
                .orchestration("fail", |_: Context, _: u64| async move {
                    Err::<u64, _>(FailureDetails::new("Planned", "as planned"))
                })
        })
        .start()
        .unwrap();
    runtime.block_on(worker.ready());
    let start = |name: &str, wait: &str| {
        let command = ["orchestration", "start", name];
        let rest = ["--id", name, "--input", "21", "--wait", wait];
        said(&server.run(&[&command[..], &rest].concat()))
    };
    let (code, out, err) = start("double", "30");
    assert_eq!((code, out.trim()), (0, "42"), "{err}");
    let (code, out, err) = start("fail", "30");
    assert_eq!(code, 5, "{out}{err}");
    assert!(err.contains("did not complete: it is Failed"), "{err}");
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status["output"], "as planned");
    let (code, out, err) = start("nobody_has_it", "1");
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("nobody_has_it"), "{out}");
    assert!(err.contains("has not ended within 1 s"), "{err}");
    let (_, help, _) = said(&server.run(&["orchestration", "start", "--help"]));
    for line in [
        "0  it has completed",
        "4  it has not ended",
        "5  it has failed",
    ] {
        assert!(help.contains(line), "{help}");
    }
}

/// The answers that name the absence of workers for an orchestration and an entity.
fn missing_workers(server: &Server, query: &str) -> [String; 3] {
    let base = "/runtime/webhooks/durabletask";
    let ask = |path: &str| {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{base}/{path}{separator}{query}");
        server.post(&path, json!(null))
    };
    let (status, begun) = ask("orchestrators/Greet/one?timeout=1");
    assert_eq!((status.as_u16(), &begun["id"]), (202, &json!("one")));
    let path = format!("{base}/instances/one?timeout=1&{query}");
    let (status, shown) = server.get(&path);
    assert_eq!(status, 202, "{shown}");
    let (status, late) = ask("entities/Counter/a/call?op=get&timeout=1");
    assert_eq!(status, 504, "{late}");
    assert_eq!(late["error"]["code"], "STF-6052");
    let (status, now) = server.get(&format!("{base}/instances/one?{query}"));
    assert!(status == 202 && now["why"].is_null(), "{now}");
    assert_eq!(begun["why"]["state"], "noWorker", "{begun}");
    let texts = [
        &begun["why"]["text"],
        &shown["why"]["text"],
        &late["error"]["message"],
    ];
    texts.map(|text| text.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_wait_that_times_out_without_workers_says_so() {
    let server = Start::new("dev").ready();
    for (text, name) in
        missing_workers(&server, "taskHub=blue")
            .iter()
            .zip(["'Greet'", "'Greet'", "'Counter'"])
    {
        let expected = "no worker is connected to the task hub 'blue': start one that has code";
        assert!(text.starts_with(expected) && text.contains(name), "{text}");
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let worker = TaskHubWorker::connect(&format!("Endpoint={};TaskHub=default", server.url))
        .unwrap()
        .functions(|all| all.orchestration("double", |_: Context, n: u64| async move { Ok(2 * n) }))
        .start()
        .unwrap();
    runtime.block_on(worker.ready());
    for text in missing_workers(&server, "taskHub=default") {
        let expected = "no worker that is connected to the task hub 'default' has code for";
        assert!(text.starts_with(expected), "{text}");
    }
}

/// Commands are understood if they end with anything but the code for that.
#[test]
fn the_commands_of_the_guide_are_understood() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/durable.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let part = text.split("\n## Commands\n").nth(1).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let server = Start::new("dev").ready();
    let mut count = 0;
    for line in part.lines() {
        let Some(line) = line.strip_prefix("steadfast ") else {
            continue;
        };
        let line = line.split("  #").next().unwrap().replace("<id>", "one");
        // No worker would do the work.
        let line = line.replace("--wait 30", "--wait 0");
        let parts = line.split('"').enumerate();
        let words = parts.flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let mut words: Vec<_> = words.collect();
        if words.starts_with(&["entity", "call"]) {
            words.extend(["--wait", "1"]);
        }
        let (code, out, err) = said(&server.run(&words));
        assert_ne!(code, 2, "{line}: {out}{err}");
        count += 1;
    }
    assert!(count >= 8, "{count}");
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
    let release = ["lock", "release", "--yes", "counter", "a", "--section", "x"];
    let (code, _, err) = said(&server.run(&release));
    assert!(code == 3 && err.contains("is not locked"), "{err}");
    let (code, _, err) = said(&server.run(&["orchestration", "start", "f", "--input", "{"]));
    assert!(code == 2 && err.contains("a payload is JSON"), "{err}");
}
