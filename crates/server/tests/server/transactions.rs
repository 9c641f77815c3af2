//! Transactions with effects over REST.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use steadfast_harness::Process;

use crate::running::{KNOWN, PATIENCE, Server, Start, steadfast, until};

const PATH: &str = "/v1/transactions";
const JOBS: &str = "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
                    /jobCollections/reminders";
/// A job collection has any number of jobs.
const NO_QUOTAS: &str = "jobs.quotas=false";
const INSTANCES: &str = "/runtime/webhooks/durabletask/instances";

/// Makes what the effects need.
fn prepare(server: &Server) {
    let hub = json!({"name": "orders", "partitions": 1});
    let made = server.post("/v1/eventhubs", hub);
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let sku = json!({"properties": {"sku": {"name": "Standard"}}});
    let path = format!("{JOBS}?api-version=2016-03-01");
    let key = format!("Bearer {KNOWN}");
    let made = server.ask(Method::PUT, &path, &key, Some(sku));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
}

/// A transaction with everything that can be counted without a worker.
fn order(number: u64) -> Value {
    let target = json!({"eventHub": "orders", "body": format!("job {number}")});
    json!({
        "service": "shop",
        "steps": [
            {"op": "put", "collection": "orders", "key": number.to_string(), "value": "paid"},
            {"op": "enqueue", "collection": "log", "value": number},
        ],
        "effects": [
            {"op": "publish", "hub": "orders", "events": [{"body": format!("order {number}")}]},
            {"op": "start", "orchestration": "ship", "input": number},
            {"op": "create_job", "collection": "reminders", "job": format!("j{number}"),
                "properties": {"action": {"type": "Internal", "internal": target}}},
            {"op": "signal", "entity": "@counter@a", "operation": "add", "input": 1},
            {"op": "push", "hub": "shop", "target": "paid", "arguments": [number]},
        ],
    })
}

/// Sends a transaction with an idempotency key; its status, body, and whether the response
/// is that of an earlier request.
fn commit(server: &Server, key: &str, body: &Value) -> (StatusCode, Value, bool) {
    let request = server.client.post(format!("{}{PATH}", server.url));
    let request = request.bearer_auth(KNOWN).header("Idempotency-Key", key);
    let request = request.json(body);
    server.block(async {
        let answer = request.send().await.unwrap();
        let is_replayed = answer.headers().contains_key("idempotency-replayed");
        let status = answer.status();
        (status, answer.json().await.unwrap_or_default(), is_replayed)
    })
}

/// The bodies of all events, with their counts.
fn events(server: &Server) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut next = 0;
    loop {
        let path = format!("/v1/eventhubs/orders/events?partition=0&from_sequence={next}");
        let (status, page) = server.get(&path);
        assert_eq!(status, StatusCode::OK, "{page}");
        let found = page["events"].as_array().unwrap();
        for event in found {
            let body = event["body"].as_str().unwrap().to_owned();
            *counts.entry(body).or_default() += 1;
        }
        if found.is_empty() {
            return counts;
        }
        next = page["next_sequence"].as_u64().unwrap();
    }
}

/// The inputs of all started orchestrations, with their counts.
fn starts(server: &Server) -> BTreeMap<u64, u64> {
    const NEXT: &str = "x-ms-continuation-token";
    let (mut counts, mut token) = (BTreeMap::new(), String::new());
    loop {
        let request = server.client.get(format!("{}{INSTANCES}", server.url));
        let request = request.bearer_auth(KNOWN).header(NEXT, &token);
        let (next, page) = server.block(async {
            let answer = request.send().await.unwrap().error_for_status().unwrap();
            let next = answer.headers().get(NEXT);
            let next = next.map(|next| next.to_str().unwrap().to_owned());
            (next, answer.json::<Value>().await.unwrap())
        });
        for instance in page.as_array().unwrap() {
            let input = instance["input"].as_u64().unwrap();
            *counts.entry(input).or_default() += 1;
        }
        match next {
            Some(next) if !next.is_empty() => token = next,
            _ => return counts,
        }
    }
}

/// The entries of the queue.
fn queued(server: &Server) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    let mut path = "/v1/state/shop/log/queue/peek?limit=1000".to_owned();
    loop {
        let (status, page) = server.get(&path);
        assert_eq!(status, StatusCode::OK, "{page}");
        for entry in page["entries"].as_array().unwrap() {
            *counts.entry(entry["value"].as_u64().unwrap()).or_default() += 1;
        }
        let Some(next) = page["next"].as_str() else {
            return counts;
        };
        path = format!("/v1/state/shop/log/queue/peek?limit=1000&cursor={next}");
    }
}

#[test]
fn a_repetition_gets_its_response_when_what_it_needed_is_gone() {
    let server = Start::new("dev").ready();
    prepare(&server);
    let (status, first, _) = commit(&server, "one", &order(1));
    assert_eq!(status, StatusCode::OK, "{first}");
    let path = format!("{JOBS}?api-version=2016-03-01");
    let removed = server.ask(Method::DELETE, &path, &format!("Bearer {KNOWN}"), None);
    assert!(removed.0.is_success(), "{}", removed.1);
    let again = commit(&server, "one", &order(1));
    assert_eq!(again, (StatusCode::OK, first, true));
    let other = commit(&server, "two", &order(2));
    assert_eq!(
        (other.0.is_client_error(), other.2),
        (true, false),
        "{}",
        other.1
    );
    let reused = commit(&server, "one", &order(2));
    assert_eq!(reused.1["error"]["code"], "STF-6032", "{}", reused.1);
}

#[test]
fn a_repeated_request_is_committed_once_and_gets_the_first_response() {
    let server = Start::new("dev").ready();
    prepare(&server);
    let (status, first, is_replayed) = commit(&server, "one", &order(1));
    assert_eq!((status, is_replayed), (StatusCode::OK, false), "{first}");
    assert_eq!(first["results"].as_array().unwrap().len(), 2);
    assert!(first["effects"][1]["instance"].is_string(), "{first}");
    for _ in 0..3 {
        let again = commit(&server, "one", &order(1));
        assert_eq!(again, (StatusCode::OK, first.clone(), true));
    }
    let other = commit(&server, "one", &order(2));
    assert_eq!(other.0, StatusCode::CONFLICT);
    assert_eq!(other.1["error"]["code"], "STF-6032", "{}", other.1);
    let (status, second, _) = commit(&server, "two", &order(2));
    assert_eq!(status, StatusCode::OK, "{second}");
    let expected: BTreeMap<String, u64> = ["job 1", "job 2", "order 1", "order 2"]
        .map(|body| (body.to_owned(), 1))
        .into();
    until("all events", || (events(&server).len() == 4).then_some(()));
    assert_eq!(events(&server), expected);
    let once = BTreeMap::from([(1, 1), (2, 1)]);
    until("all starts", || (starts(&server).len() == 2).then_some(()));
    assert_eq!((starts(&server), queued(&server)), (once.clone(), once));
    for bad in ["", &"x".repeat(256)] {
        let refused = commit(&server, bad, &order(3));
        assert_eq!(refused.0, StatusCode::BAD_REQUEST, "{bad:?}");
    }
}

#[test]
fn a_request_that_fails_changes_nothing_and_leaves_no_key() {
    let server = Start::new("dev").ready();
    prepare(&server);
    let with = |effect: Value| {
        let mut body = order(1);
        body["effects"].as_array_mut().unwrap().push(effect);
        body
    };
    let mut unmet = order(1);
    unmet["steps"][0]["if"] = "present".into();
    let refusals = [
        (412, "STF-6030", unmet),
        (
            404,
            "STF-5001",
            with(json!({"op": "publish", "hub": "none", "events": [{"body": "1"}]})),
        ),
        (
            400,
            "STF-5007",
            with(json!({"op": "publish", "hub": "orders", "events": []})),
        ),
        (
            404,
            "STF-5003",
            with(json!({"op": "publish", "hub": "orders", "partition": 5,
            "events": [{"body": "1"}]})),
        ),
        (
            400,
            "STF-6020",
            with(json!({"op": "signal", "entity": "counter", "operation": "add"})),
        ),
        (
            400,
            "STF-5101",
            with(json!({"op": "signal", "entity": "@counter@a", "operation": ""})),
        ),
        (
            404,
            "STF-5201",
            with(json!({"op": "create_job", "collection": "none", "job": "j",
            "properties": {"action": {"type": "Http"}}})),
        ),
        (
            400,
            "STF-6020",
            with(
                json!({"op": "create_job", "collection": "reminders", "job": "j",
            "properties": {"action": {"type": "Internal", "internal": {"eventHub": "none"}}}}),
            ),
        ),
        (
            400,
            "STF-6020",
            with(json!({"op": "push", "hub": "shop", "target": "t",
            "user": "a", "group": "g"})),
        ),
        (400, "STF-6020", with(json!({"op": "unknown"}))),
        (
            400,
            "STF-6020",
            with(json!({"op": "cancel_job", "collection": "c", "job": "j", "x": 1})),
        ),
    ];
    for (status, code, body) in &refusals {
        let (found, answer, _) = commit(&server, "one", body);
        assert_eq!(
            (found.as_u16(), &answer["error"]["code"]),
            (*status, &json!(code)),
            "{answer}"
        );
    }
    let (status, answer) = server.get("/v1/state/shop/orders/1");
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    assert!(events(&server).is_empty());
    assert!(starts(&server).is_empty());
    let (status, done, is_replayed) = commit(&server, "one", &order(1));
    assert_eq!((status, is_replayed), (StatusCode::OK, false), "{done}");
}

/// A server that is killed and started again on the same port.
fn child(folder: &Path, port: u16) -> Process {
    let mut command = steadfast(folder);
    command.args([
        "dev",
        "--set",
        &format!("http.port={port}"),
        "--set",
        NO_QUOTAS,
    ]);
    let log = File::options().append(true).open(folder.join("log"));
    command.stderr(log.unwrap());
    let mut process = Process::spawn(command).unwrap();
    let is_ready = |line: &str| line.contains("is ready");
    process.wait_for(is_ready, PATIENCE).unwrap();
    process
}

/// Sends one transaction after the other, each until it is acknowledged.
async fn write(client: Client, url: String, next: Arc<AtomicU64>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::SeqCst) {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let body = order(number);
        loop {
            let request = client.post(format!("{url}{PATH}")).bearer_auth(KNOWN);
            let request = request.header("Idempotency-Key", format!("order {number}"));
            let Ok(answer) = request.json(&body).send().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let status = answer.status();
            if status == StatusCode::OK {
                break;
            }
            let text = answer.text().await.unwrap_or_default();
            assert!(status.is_server_error(), "{number}: {status} {text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[test]
fn requests_that_are_repeated_under_kills_are_committed_once() {
    let rounds = std::env::var("STEADFAST_ROUNDS");
    let rounds = rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let mut server = Start::new("dev").set(NO_QUOTAS).ready();
    prepare(&server);
    let (next, is_over) = (
        Arc::new(AtomicU64::new(1)),
        Arc::new(AtomicBool::new(false)),
    );
    let writers = server.block(async {
        let start = |_| {
            let (client, url) = (server.client.clone(), server.url.clone());
            tokio::spawn(write(client, url, Arc::clone(&next), Arc::clone(&is_over)))
        };
        (0..3).map(start).collect::<Vec<_>>()
    });
    let port = server.port();
    for _ in 0..rounds {
        let begun = next.load(Ordering::SeqCst);
        let more = fastrand::u64(3..12);
        until("requests", || {
            (next.load(Ordering::SeqCst) >= begun + more).then_some(())
        });
        server.process.kill().unwrap();
        server.process = child(server.folder.path(), port);
    }
    is_over.store(true, Ordering::SeqCst);
    server.block(async {
        for writer in writers {
            writer.await.unwrap();
        }
    });
    let count = next.load(Ordering::SeqCst);
    let once: BTreeMap<u64, u64> = (1..count).map(|number| (number, 1)).collect();
    assert_eq!(queued(&server), once);
    until("all starts", || {
        (starts(&server).len() >= once.len()).then_some(())
    });
    assert_eq!(starts(&server), once);
    let published: BTreeMap<String, u64> = ["job", "order"]
        .iter()
        .flat_map(|kind| (1..count).map(move |number| (format!("{kind} {number}"), 1)))
        .collect();
    until("all events", || {
        (events(&server).len() >= published.len()).then_some(())
    });
    assert_eq!(events(&server), published);
    println!("{rounds} kills, {} transactions, each once", once.len());
}

#[test]
fn the_commands_of_the_guide_to_transactions_succeed() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/transactions.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let server = Start::new("dev").ready();
    let blocks = text.split("```sh\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 3);
    let script = blocks
        .concat()
        .replace("http://127.0.0.1:7070", &server.url);
    let script = script.replace("curl ", "curl --silent --show-error --fail-with-body ");
    let mut command = Command::new("bash");
    let output = command.args(["-euc", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains(r#""instance":"ship-7""#), "{said}");
    assert_eq!(server.get("/v1/state/shop/orders/7").1, "paid");
}
