//! Collections and backups of a running server.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{self, KNOWN, Server, Start, said};

const ALICE: &str = "/v1/state/bank/accounts/alice";

fn put(server: &Server, path: &str, value: Value) -> StatusCode {
    let key = format!("Bearer {KNOWN}");
    server.ask(Method::PUT, path, &key, Some(value)).0
}

/// Asks with one more header; answers the status, the tag and the body.
fn with(
    server: &Server,
    method: Method,
    header: (&str, &str),
    value: Option<Value>,
) -> (StatusCode, String, String) {
    let mut request = server
        .client
        .request(method, format!("{}{ALICE}", server.url))
        .bearer_auth(KNOWN)
        .header(header.0, header.1);
    if let Some(value) = value {
        request = request.json(&value);
    }
    server.block(async {
        let answer = request.send().await.unwrap();
        let tag = answer.headers().get("etag");
        let tag = tag.map(|tag| tag.to_str().unwrap().to_owned());
        (
            answer.status(),
            tag.unwrap_or_default(),
            answer.text().await.unwrap(),
        )
    })
}

#[test]
fn a_key_is_set_read_and_removed_and_a_tag_guards_it() {
    let server = Start::new("dev").ready();
    assert_eq!(put(&server, ALICE, json!(100)), StatusCode::CREATED);
    assert_eq!(server.get(ALICE), (StatusCode::OK, json!(100)));
    let (_, tag, _) = with(&server, Method::GET, ("accept", "*/*"), None);

    let changed = with(&server, Method::PUT, ("if-match", &tag), Some(json!(90)));
    assert_eq!(changed.0, StatusCode::NO_CONTENT);
    let stale = with(&server, Method::PUT, ("if-match", &tag), Some(json!(0)));
    assert_eq!(stale.0, StatusCode::PRECONDITION_FAILED);
    assert!(stale.2.contains("STF-6030"), "{}", stale.2);
    let there = with(&server, Method::PUT, ("if-none-match", "*"), Some(json!(0)));
    assert_eq!(there.0, StatusCode::PRECONDITION_FAILED);
    assert_eq!(server.get(ALICE).1, json!(90));

    let stale = with(&server, Method::DELETE, ("if-match", &tag), None);
    assert_eq!(stale.0, StatusCode::PRECONDITION_FAILED);
    let gone = with(&server, Method::DELETE, ("if-match", "*"), None);
    assert_eq!(gone.0, StatusCode::NO_CONTENT);
    assert_eq!(server.get(ALICE).0, StatusCode::NOT_FOUND);
}

#[test]
fn a_batch_is_one_transaction_or_nothing() {
    let server = Start::new("dev").ready();
    put(&server, ALICE, json!(100));
    let step = |key: &str, value: i64, condition: Value| json!({"op": "put", "collection": "accounts", "key": key, "value": value, "if": condition});
    let transfer = json!({"steps": [
        {"op": "get", "collection": "accounts", "key": "alice"},
        step("alice", 90, json!("present")),
        step("bob", 10, json!("absent")),
        {"op": "enqueue", "collection": "log", "value": "moved 10"},
    ]});
    let (status, answer) = server.post("/v1/state/bank", transfer);
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["results"][0]["value"], json!(100));

    let refused =
        json!({"steps": [step("alice", 0, Value::Null), step("bob", 0, json!("absent"))]});
    let (status, answer) = server.post("/v1/state/bank", refused);
    assert_eq!(status, StatusCode::PRECONDITION_FAILED, "{answer}");
    assert_eq!(server.get(ALICE).1, json!(90));

    let dequeue = json!({"steps": [{"op": "dequeue", "collection": "log"}, {"op": "dequeue", "collection": "log"}]});
    let (_, answer) = server.post("/v1/state/bank", dequeue);
    assert_eq!(answer["results"][0]["value"], json!("moved 10"));
    assert_eq!(answer["results"][1]["found"], json!(false));
}

/// Each request reads and writes two accounts, half of them in the opposite order.
#[test]
fn transfers_in_opposite_order_do_not_hold_one_another_up() {
    const CLIENTS: usize = 4;
    const TRANSFERS: usize = 50;
    let server = Start::new("dev").ready();
    for name in ["a", "b"] {
        put(
            &server,
            &format!("/v1/state/bank/accounts/{name}"),
            json!(0),
        );
    }
    let url = format!("{}/v1/state/bank", server.url);
    let client = |number: usize| {
        let (client, url) = (server.client.clone(), url.clone());
        async move {
            let names = if number.is_multiple_of(2) {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            for round in 0..TRANSFERS {
                let step = |key: &str, op: &str| {
                    let mut step = json!({"op": op, "collection": "accounts", "key": key});
                    if op == "put" {
                        step["value"] = json!({"by": number, "round": round});
                    }
                    step
                };
                let steps = names
                    .map(|name| [step(name, "get"), step(name, "put")])
                    .concat();
                let sent = client.post(&url).bearer_auth(KNOWN);
                let answer = sent.json(&json!({"steps": steps})).send().await.unwrap();
                let status = answer.status();
                let text = answer.text().await.unwrap();
                assert_eq!(status, StatusCode::OK, "{text}");
                let found: Value = serde_json::from_str(&text).unwrap();
                let (first, second) = (&found["results"][0], &found["results"][2]);
                assert_eq!(
                    first["value"], second["value"],
                    "both were written together"
                );
            }
        }
    };
    server.block(async {
        let all = futures_util::future::join_all((0..CLIENTS).map(client));
        let ended = tokio::time::timeout(Duration::from_secs(20), all).await;
        assert!(ended.is_ok(), "they are not done after 20 s");
    });
}

#[test]
fn a_scan_has_pages_ranges_and_prefixes() {
    let server = Start::new("dev").ready();
    for key in ["a1", "a2", "a3", "b1"] {
        put(
            &server,
            &format!("/v1/state/s/c/{key}"),
            json!({"key": key}),
        );
    }
    let keys = |path: &str| {
        let (status, page) = server.get(path);
        assert_eq!(status, StatusCode::OK, "{page}");
        let entries = page["entries"].as_array().unwrap().clone();
        let keys: Vec<_> = entries
            .iter()
            .map(|entry| entry["key"].as_str().unwrap().to_owned())
            .collect();
        (keys.join(" "), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(
        keys("/v1/state/s/c?limit=2"),
        ("a1 a2".to_owned(), Some("a3".to_owned()))
    );
    assert_eq!(
        keys("/v1/state/s/c?limit=2&from=a3"),
        ("a3 b1".to_owned(), None)
    );
    assert_eq!(
        keys("/v1/state/s/c?prefix=a"),
        ("a1 a2 a3".to_owned(), None)
    );
    assert_eq!(
        keys("/v1/state/s/c?prefix=a&from=a2"),
        ("a2 a3".to_owned(), None)
    );
    assert_eq!(server.get("/v1/state/s/none").0, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/v1/state/none/c").0, StatusCode::NOT_FOUND);
}

#[test]
fn partitions_are_apart_and_a_scheme_stays() {
    let server = Start::new("dev").ready();
    let scheme = json!({"scheme": {"named": ["north", "south"]}});
    assert_eq!(
        put(&server, "/v1/state/houses", scheme.clone()),
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        put(&server, "/v1/state/houses", scheme),
        StatusCode::NO_CONTENT
    );
    let other = json!({"scheme": "singleton"});
    assert_eq!(
        put(&server, "/v1/state/houses", other),
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        put(&server, "/v1/state/houses/h/7?partition=north", json!(1)),
        StatusCode::CREATED
    );
    // The former name of the parameter means the same.
    for name in ["partition", "slot"] {
        let found = server.get(&format!("/v1/state/houses/h/7?{name}=north"));
        assert_eq!(found.1, json!(1));
        let missing = server.get(&format!("/v1/state/houses/h/7?{name}=south"));
        assert_eq!(missing.0, StatusCode::NOT_FOUND);
        let page = server.get(&format!("/v1/state/houses/h?{name}=north"));
        assert_eq!(page.1["entries"][0]["value"], 1);
        let body = json!({(name): "north", "steps": [
            {"op": "get", "collection": "h", "key": "7"},
        ]});
        let key = format!("Bearer {KNOWN}");
        let read = server.ask(Method::POST, "/v1/state/houses", &key, Some(body));
        assert_eq!(read.1["results"][0]["value"], 1);
    }
    assert_eq!(
        server.get("/v1/state/houses/h/7?partition=west").0,
        StatusCode::BAD_REQUEST
    );
}

/// C66: what was in memory is gone with the process, and that is shown.
#[test]
fn a_volatile_service_begins_a_new_life_with_its_process() {
    let start = Start::new("dev").set("data=state");
    let folder = start.folder.path().join("state");
    let mut server = start.ready();
    let volatile = json!({"scheme": "singleton", "volatile": true});
    let cache = "/v1/state/cache";
    assert_eq!(
        put(&server, cache, volatile.clone()),
        StatusCode::NO_CONTENT
    );
    let durable = json!({"scheme": "singleton"});
    assert_eq!(put(&server, cache, durable), StatusCode::BAD_REQUEST);
    let page = "/v1/state/cache/pages/start";
    assert_eq!(put(&server, page, json!("<html>")), StatusCode::CREATED);
    assert_eq!(server.get(page).1, json!("<html>"));
    let mut expected = json!({
        "scheme": "singleton", "volatile": true, "incarnation": 1, "copies": 1,
    });
    assert_eq!(server.get(cache), (StatusCode::OK, expected.clone()));
    assert_eq!(put(&server, ALICE, json!(1)), StatusCode::CREATED);
    let bank = json!({"scheme": "singleton", "volatile": false});
    assert_eq!(server.get("/v1/state/bank").1, bank);
    assert_eq!(server.get("/v1/state/absent").0, StatusCode::NOT_FOUND);
    server.process.kill().unwrap();
    let server = Start::new("dev")
        .set(&format!("data={}", folder.display()))
        .ready();
    assert_eq!(server.get(page).0, StatusCode::NOT_FOUND);
    expected["incarnation"] = json!(2);
    assert_eq!(server.get(cache).1, expected);
    server.logged("volatile.state_lost");
    assert_eq!(put(&server, page, json!("<html>")), StatusCode::CREATED);
    assert_eq!(server.get(cache).1, expected);
}

#[test]
fn rights_on_one_service_are_no_rights_on_another() {
    let server = Start::new("dev").ready();
    let made = server.run(&[
        "key",
        "create",
        "reader",
        "--right",
        "listen state/bank",
        "--json",
    ]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let key = format!("Bearer {}", made["secret"].as_str().unwrap());
    put(&server, ALICE, json!(1));
    put(&server, "/v1/state/other/c/k", json!(1));
    let ask = |method, path: &str, body| server.ask(method, path, &key, body).0;
    assert_eq!(ask(Method::GET, ALICE, None), StatusCode::OK);
    assert_eq!(
        ask(Method::PUT, ALICE, Some(json!(2))),
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        ask(Method::GET, "/v1/state/other/c/k", None),
        StatusCode::FORBIDDEN
    );
    let write = json!({"steps": [{"op": "delete", "collection": "accounts", "key": "alice"}]});
    assert_eq!(
        ask(Method::POST, "/v1/state/bank", Some(write)),
        StatusCode::FORBIDDEN
    );
    assert_eq!(server.get(ALICE).1, json!(1));
}

#[test]
fn bad_requests_change_nothing() {
    let server = Start::new("dev").ready();
    put(&server, ALICE, json!(1));
    let key = format!("Bearer {KNOWN}");
    for body in [
        json!({}),
        json!({"steps": [{"op": "burn"}]}),
        json!({"steps": [], "more": 1}),
    ] {
        let (status, answer) = server.ask(Method::POST, "/v1/state/bank", &key, Some(body));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    }
    // A queue is no dictionary.
    let enqueue = json!({"steps": [{"op": "put", "collection": "accounts", "key": "bob", "value": 1}, {"op": "enqueue", "collection": "accounts", "value": 1}]});
    assert_eq!(
        server.post("/v1/state/bank", enqueue).0,
        StatusCode::CONFLICT
    );
    assert_eq!(
        server.get("/v1/state/bank/accounts/bob").0,
        StatusCode::NOT_FOUND
    );
}

#[test]
fn a_running_server_shows_what_it_holds() {
    let server = Start::new("dev").ready();
    put(&server, ALICE, json!({"balance": 7}));
    let (code, table, _) = said(&server.run(&["inspect", "collections"]));
    assert!(code == 0 && table.contains("accounts"), "{table}");
    let (code, text, _) = said(&server.run(&["inspect", "accounts", "--json"]));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &found["entries"][0]["value"]),
        (0, &json!({"balance": 7}))
    );
    assert_eq!(said(&server.run(&["inspect", "nothing"])).0, 3);
    assert_eq!(said(&server.run(&["inspect", "--partition", "0/99"])).0, 3);
}

#[test]
fn a_running_server_is_backed_up_and_restored() {
    let server = Start::new("dev").ready();
    put(&server, ALICE, json!(100));
    let (code, text, error) = said(&server.run(&["backup", "--to", "backups"]));
    assert!(code == 0 && text.contains("full"), "{text} {error}");
    put(&server, ALICE, json!(200));
    let incremental = ["backup", "--to", "backups", "--incremental", "--json"];
    let (code, text, _) = said(&server.run(&incremental));
    let saved: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, saved["extent"].as_str()), (0, Some("incremental")));
    put(&server, ALICE, json!(300));

    // What is there is newer than the backup: it is not given up unasked.
    let (code, _, error) = said(&server.run(&["restore", "--from", "backups"]));
    assert!(code == 1 && error.contains("STF-2055"), "{error}");
    assert_eq!(server.get(ALICE).1, json!(300));
    let (code, _, error) = said(&server.run(&["restore", "--from", "backups", "--force"]));
    assert_eq!(code, 0, "{error}");
    assert_eq!(server.get(ALICE).1, json!(200));
    assert_eq!(put(&server, ALICE, json!(201)), StatusCode::NO_CONTENT);

    // A chain with a hole is refused before anybody leaves.
    std::fs::remove_dir_all(
        server
            .folder
            .path()
            .join("steadfast-data-backups/backups/000001-full"),
    )
    .unwrap();
    let (code, _, error) = said(&server.run(&["restore", "--from", "backups", "--force"]));
    assert!(code == 1 && error.contains("STF-20"), "{error}");
    assert_eq!(server.get(ALICE).1, json!(201));
}

#[test]
fn what_was_set_survives_a_kill() {
    let mut server = Start::new("dev").ready();
    for n in 0..50 {
        let path = format!("/v1/state/bank/accounts/{n}");
        assert_eq!(put(&server, &path, json!(n)), StatusCode::CREATED);
    }
    server.process.kill().unwrap();
    let (code, text, error) = said(&running::run(
        server.folder.path(),
        &["inspect", "--data", "steadfast-data", "accounts", "--json"],
    ));
    assert_eq!(code, 0, "{error}");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["entries"].as_array().unwrap().len(), 50);
}

/// Writers that never stop, until the server is gone; answers what was acknowledged.
fn write_until_gone(url: &str, writer: usize) -> Vec<String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let client = reqwest::Client::builder()
        .timeout(running::PATIENCE)
        .build()
        .unwrap();
    let mut acknowledged = Vec::new();
    runtime.block_on(async {
        for n in 0.. {
            let key = format!("{writer}-{n}");
            let put = client.put(format!("{url}/v1/state/bank/accounts/{key}"));
            match put.bearer_auth(KNOWN).json(&n).send().await {
                Ok(answer) if answer.status() == StatusCode::CREATED => acknowledged.push(key),
                // It takes no more: it is leaving.
                Ok(answer) => assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE),
                Err(_) => break,
            }
        }
    });
    acknowledged
}

#[test]
fn a_signal_ends_a_busy_server_in_order_and_loses_nothing() {
    let mut server = Start::new("dev").ready();
    put(&server, ALICE, json!(0));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let url = server.url.clone();
            let name = format!("writer-{writer}");
            let thread = std::thread::Builder::new().name(name);
            thread
                .spawn(move || write_until_gone(&url, writer))
                .unwrap()
        })
        .collect();
    // Only when all are at work.
    running::until("every writer has written", || {
        let seen =
            |writer| server.get(&format!("/v1/state/bank/accounts/{writer}-3")).0 == StatusCode::OK;
        (0..4).all(seen).then_some(())
    });
    server.signal(rustix::process::Signal::TERM);
    let (code, sheet) = server.ended();
    assert_eq!(code, 0, "{sheet} {}", server.log());
    assert!(
        sheet.contains("lost       0") && sheet.contains("left       0"),
        "{sheet}"
    );
    let acknowledged: Vec<_> = writers
        .into_iter()
        .flat_map(|writer| writer.join().unwrap())
        .collect();
    let arguments = [
        "inspect",
        "--data",
        "steadfast-data",
        "accounts",
        "--json",
        "--limit",
        "1000000",
    ];
    let (_, text, error) = said(&running::run(server.folder.path(), &arguments));
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{error}"));
    let found: std::collections::BTreeSet<_> = found["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["key"].as_str().unwrap().to_owned())
        .collect();
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|key| !found.contains(*key))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(acknowledged.len() > 12, "{}", acknowledged.len());
}

#[test]
fn what_the_file_declares_is_there_and_stays_as_it_was_changed() {
    let file = r#"
        [[key]]
        name = "own"
        primary = "a secret of sixteen or more"
        rights = ["listen state"]
        [[event_hub]]
        name = "houses"
        partitions = 3
        groups = ["analytics"]
        retention = "1d"
        [[job_collection]]
        name = "nightly"
        max_jobs = 7
    "#;
    let server = Start::new("dev").config(file).ready();
    let (_, text, error) = said(&server.run(&["eventhub", "show", "houses", "--json"]));
    let hub: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{error}"));
    assert!(hub.to_string().contains("analytics"), "{hub}");
    let (code, text, error) = said(&server.run(&["collection", "list"]));
    assert!(code == 0 && text.contains("nightly"), "{text} {error}");
    let sent = server.run(&["event", "send", "houses", "warm"]);
    assert_eq!(said(&sent).0, 0, "{}", said(&sent).2);
    let (_, metrics) = server.get("/metrics");
    let metrics = metrics.as_str().unwrap_or_default().to_owned();
    assert!(metrics.contains("steadfast_events_in_total 1"), "{metrics}");
    assert!(
        metrics.contains("steadfast_event_owner_overlaps_total 0"),
        "{metrics}"
    );
    let key = "Bearer a secret of sixteen or more";
    let (status, _) = server.ask(Method::GET, "/v1/state/none/c/k", key, None);
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = server.ask(Method::GET, "/v1/status", key, None);
    assert_eq!(status, StatusCode::FORBIDDEN);
}
