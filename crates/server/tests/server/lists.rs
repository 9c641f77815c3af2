//! Lists of task hubs, hubs, log lines, services and keys.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast::clock::{Clock as _, SystemClock};
use steadfast::durable::{Context, TaskHubWorker};
use steadfast::{AppServer, hub};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::running::{KNOWN, Server, Start, until};

/// A list or an object; the request succeeds.
fn shown(server: &Server, path: &str) -> Value {
    let (status, answer) = server.get(path);
    assert_eq!(status, StatusCode::OK, "{path}: {answer}");
    answer
}

fn refused(server: &Server, path: &str) -> (StatusCode, String) {
    let (status, answer) = server.get(path);
    let code = answer["error"]["code"].as_str().unwrap_or_default();
    (status, code.to_owned())
}

fn names(list: &Value) -> Vec<&str> {
    let all = list.as_array().unwrap().iter();
    all.map(|one| one["name"].as_str().unwrap()).collect()
}

/// Bad pages, of every list.
#[test]
fn a_page_that_cannot_be_is_refused() {
    let server = Start::new("dev").ready();
    let bad = (StatusCode::BAD_REQUEST, "STF-6020".to_owned());
    for list in ["taskhubs", "hubs", "state", "logs"] {
        for query in ["limit=0", "limit=1001", "limit=x", "colour=red"] {
            let path = format!("/v1/{list}?{query}");
            assert_eq!(refused(&server, &path), bad, "{path}");
        }
    }
    for query in ["wait=31", "wait=x", "level=loud", "after=x", "cursor=1"] {
        let path = format!("/v1/logs?{query}");
        assert_eq!(refused(&server, &path), bad, "{path}");
    }
}

#[test]
fn a_task_hub_is_listed_with_its_workers() {
    let server = Start::new("dev").ready();
    assert_eq!(shown(&server, "/v1/taskhubs"), json!({"taskhubs": []}));
    let base = "/runtime/webhooks/durabletask/orchestrators";
    for hub in ["blue", "green"] {
        let start = format!("{base}/work/{hub}?taskHub={hub}");
        assert_eq!(server.post(&start, json!(1)).0, StatusCode::ACCEPTED);
    }
    let queued = until("the items are queued", || {
        let list = shown(&server, "/v1/taskhubs");
        let is_queued = |one: &Value| one["queued"] == 1;
        let all = list["taskhubs"].as_array().unwrap();
        all.iter().all(is_queued).then_some(list)
    });
    assert_eq!(
        queued,
        json!({"taskhubs": [
            {"name": "blue", "workers": 0, "queued": 1, "in_progress": 0},
            {"name": "green", "workers": 0, "queued": 1, "in_progress": 0},
        ]})
    );
    let first = shown(&server, "/v1/taskhubs?limit=1");
    assert_eq!(
        (names(&first["taskhubs"]), &first["next"]),
        (vec!["blue"], &json!("blue"))
    );
    let second = shown(&server, "/v1/taskhubs?limit=1&cursor=blue");
    assert_eq!(
        (names(&second["taskhubs"]), second.get("next")),
        (vec!["green"], None)
    );

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let worker = TaskHubWorker::connect(&format!("Endpoint={};TaskHub=blue", server.url));
    let worker = worker
        .unwrap()
        .functions(|all| {
            all.orchestration("work", |context: Context, _: u64| async move {
                context.event::<u64>("go").await
            })
        })
        .start()
        .unwrap();
    runtime.block_on(worker.ready());
    let hub = until("the item is taken", || {
        let hub = shown(&server, "/v1/taskhubs/blue");
        (hub["queued"] == 0 && hub["in_progress"] == 0).then_some(hub)
    });
    assert_eq!(hub["workers"], 1, "{hub}");
    let kinds = json!({"orchestrations": 0, "activities": 0, "entities": 0});
    assert_eq!(hub["queued_by_kind"], kinds);
    assert_eq!(hub["nodes"][0]["workers"], 1, "{hub}");
    assert!(hub.get("missing").is_none() && hub.get("retention_s").is_none());

    let list = shown(&server, "/v1/taskhubs/blue/workers");
    let one = &list["workers"][0];
    assert_eq!(list["workers"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(one["address"], "127.0.0.1");
    assert_eq!(one["in_progress"], kinds);
    assert_eq!(one["filters"]["orchestrations"][0]["name"], "work");
    assert_eq!(one["filters"]["entities"], json!([]));
    assert!(
        one["limits"]["orchestrations"].as_u64().unwrap() > 0,
        "{one}"
    );
    let id = one["id"].as_str().unwrap();
    let node = one["node"].as_str().unwrap();
    assert!(id.starts_with(&format!("{node}:")), "{one}");
    assert!(one["since"].as_str().unwrap().ends_with('Z'), "{one}");
    let after = format!("/v1/taskhubs/blue/workers?cursor={id}");
    assert_eq!(shown(&server, &after), json!({"workers": []}));

    drop(worker);
    until("the worker has left", || {
        let list = shown(&server, "/v1/taskhubs/blue/workers");
        (list == json!({"workers": []})).then_some(())
    });
    for path in ["/v1/taskhubs/red", "/v1/taskhubs/red/workers"] {
        let absent = (StatusCode::NOT_FOUND, "STF-6021".to_owned());
        assert_eq!(refused(&server, path), absent);
    }
    let bad = refused(&server, "/v1/taskhubs/blue/workers?cursor=x");
    assert_eq!(bad, (StatusCode::BAD_REQUEST, "STF-6020".to_owned()));
}

/// The key of the SignalR emulator, which `steadfast dev` accepts.
const SIGNALR: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

#[derive(Default)]
struct Chat;

#[hub]
impl Chat {
    async fn nothing(&self) {}
}

#[test]
fn hubs_are_listed_with_their_servers() {
    let server = Start::new("dev").ready();
    assert_eq!(shown(&server, "/v1/hubs"), json!({"hubs": []}));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let port = server.port();
    let service = format!("Endpoint=http://127.0.0.1;Port={port};AccessKey={SIGNALR};Version=1.0;");
    let app = AppServer::builder(&service)
        .name("one")
        .hub::<Chat>("chat")
        .hub::<Chat>("news");
    let app = app.start().unwrap();
    runtime.block_on(app.ready());
    let list = shown(&server, "/v1/hubs");
    assert_eq!(names(&list["hubs"]), ["chat", "news"]);
    assert_eq!(list["hubs"][0]["clients"], 0);
    let (_, made) = server.post("/v1/hubs/chat/tokens", json!({"user": "alice"}));
    let token = made["token"].as_str().unwrap();
    let url = format!("ws://127.0.0.1:{port}/client/?hub=chat&access_token={token}");
    let _client = runtime.block_on(async {
        let (mut socket, _) = connect_async(url).await.unwrap();
        let hello = Message::text("{\"protocol\":\"json\",\"version\":1}\u{1e}");
        socket.send(hello).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        assert_eq!(answer, Message::text("{}\u{1e}"));
        socket
    });
    let list = shown(&server, "/v1/hubs");
    assert_eq!(list["hubs"][0]["clients"], 1, "{list}");
    assert_eq!(list["hubs"][1]["clients"], 0, "{list}");
    let servers = list["hubs"][0]["servers"].as_array().unwrap();
    assert!(servers[0].as_str().unwrap().contains("one"), "{list}");
    let first = shown(&server, "/v1/hubs?limit=1");
    assert_eq!(
        (names(&first["hubs"]), &first["next"]),
        (vec!["chat"], &json!("chat"))
    );
    let second = shown(&server, "/v1/hubs?limit=1&cursor=chat");
    assert_eq!(
        (names(&second["hubs"]), second.get("next")),
        (vec!["news"], None)
    );
}

/// Keys that may read one entity of each area.
#[test]
fn a_list_shows_what_its_key_may_read() {
    let text = "[[key]]\nname = 'root'\nprimary = 'root-secret-0123456789'\nrights = ['manage *']\n\
                [[key]]\nname = 'some'\nprimary = 'some-secret-0123456789'\n\
                rights = ['read durable/b', 'read state/b']\n";
    let server = Start::new("serve").config(text).ready();
    let root = "Bearer root-secret-0123456789";
    for name in ["a", "b", "c"] {
        let body = Some(json!({"scheme": "singleton"}));
        let made = server.ask(Method::PUT, &format!("/v1/state/{name}"), root, body);
        assert_eq!(made.0, StatusCode::NO_CONTENT);
        let start = format!("/runtime/webhooks/durabletask/orchestrators/o/i?taskHub={name}");
        let started = server.ask(Method::POST, &start, root, Some(json!(1)));
        assert_eq!(started.0, StatusCode::ACCEPTED);
    }
    for (path, list) in [("/v1/taskhubs", "taskhubs"), ("/v1/state", "services")] {
        let all = server.ask(Method::GET, path, root, None).1;
        assert_eq!(names(&all[list]), ["a", "b", "c"]);
        let some = "Bearer some-secret-0123456789";
        let (_, own) = server.ask(Method::GET, &format!("{path}?limit=1"), some, None);
        assert_eq!((names(&own[list]), own.get("next")), (vec!["b"], None));
    }
}

#[test]
fn the_log_is_shown_and_followed() {
    let server = Start::new("dev").set("log.level=debug").ready();
    let all = shown(&server, "/v1/logs?limit=1000");
    let lines = all["lines"].as_array().unwrap();
    let ready = lines.iter().find(|line| line["event"] == "node.ready");
    let ready = ready.unwrap();
    assert_eq!(ready["level"], "info", "{ready}");
    let addresses = ready["fields"]["addresses"].as_str().unwrap();
    assert!(addresses.contains(&server.url), "{ready}");
    assert!(ready["time"].as_str().unwrap().ends_with('Z'), "{ready}");
    assert_eq!(all["dropped"], 0);
    let node = shown(&server, "/v1/status")["node"].clone();
    assert_eq!(all["node"], node);
    let first = shown(&server, "/v1/logs?after=0&limit=1");
    assert_eq!(
        (&first["lines"][0]["number"], &first["next"]),
        (&json!(1), &json!(1))
    );

    // A line that comes while a request waits for it.
    let errors = |wait: u64| format!("/v1/logs?after={}&wait={wait}&level=error", all["next"]);
    let none = shown(&server, &errors(0));
    assert_eq!(none["lines"], json!([]));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let url = format!("{}{}", server.url, errors(30));
            let client = reqwest::Client::new();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let clock = SystemClock::new();
            let answer: Value = runtime.block_on(async {
                let sent = client.get(url).bearer_auth(KNOWN).send().await.unwrap();
                sent.json().await.unwrap()
            });
            (answer, clock.monotonic())
        });
        // A reload that fails is an error in the log.
        std::fs::write(server.data().join("keys.toml"), "this is no TOML").unwrap();
        server.signal(rustix::process::Signal::HUP);
        let (answer, took) = waiting.join().unwrap();
        assert_eq!(
            answer["lines"][0]["event"], "node.reload_failed",
            "{answer}"
        );
        assert!(took < Duration::from_secs(25), "{took:?}");
    });
}

/// Nothing that authorises anything is in the log, also at its finest level.
#[test]
fn no_secret_is_in_the_log() {
    let server = Start::new("dev").set("log.level=trace").ready();
    let (_, made) = server.post("/v1/keys", json!({"name": "k", "rights": ["read *"]}));
    let secret = made["secret"].as_str().unwrap();
    server.ask(Method::GET, "/v1/status", &format!("Bearer {secret}"), None);
    server.ask(Method::GET, "/v1/status", "Bearer wrong-secret", None);
    let told = shown(&server, "/v1/logs?limit=1000&level=info").to_string();
    assert!(told.contains("audit.key_created"), "{told}");
    let mut after = json!(0);
    loop {
        let page = shown(&server, &format!("/v1/logs?limit=1000&after={after}"));
        let text = page.to_string();
        for part in [secret, "wrong-secret", KNOWN] {
            assert!(!text.contains(part), "{part}");
        }
        // The requests themselves are logged too.
        if page["lines"].as_array().unwrap().len() < 1000 {
            break;
        }
        after = page["next"].clone();
    }
}

#[test]
fn the_log_has_the_level_of_the_server() {
    let server = Start::new("dev").config("[log]\nlevel = 'info'\n").ready();
    let denied = || {
        server.ask(Method::GET, "/v1/status", "Bearer wrong", None);
        let log = shown(&server, "/v1/logs?limit=1000");
        let lines = log["lines"].as_array().unwrap().clone();
        lines.iter().any(|line| line["event"] == "access.denied")
    };
    assert!(!denied());
    let file = server.folder.path().join("steadfast.toml");
    std::fs::write(file, "[log]\nlevel = 'debug'\n").unwrap();
    assert_eq!(server.post("/v1/reload", json!({})).0, StatusCode::OK);
    assert!(denied());
}

#[test]
fn services_are_listed_by_name() {
    let server = Start::new("dev").ready();
    assert_eq!(shown(&server, "/v1/state"), json!({"services": []}));
    let key = format!("Bearer {KNOWN}");
    let named = json!({"named": ["north", "south"]});
    let range = json!({"range": {"low": 0, "high": 99, "count": 4}});
    for (name, body) in [
        ("users", json!({"scheme": range})),
        ("houses", json!({"scheme": named})),
        ("cache", json!({"scheme": "singleton", "volatile": true})),
    ] {
        let path = format!("/v1/state/{name}");
        let made = server.ask(Method::PUT, &path, &key, Some(body)).0;
        assert_eq!(made, StatusCode::NO_CONTENT);
    }
    let all = shown(&server, "/v1/state");
    assert_eq!(
        all,
        json!({"services": [
            {"name": "cache", "scheme": "singleton", "partitions": 1, "volatile": true},
            {"name": "houses", "scheme": named, "partitions": 2, "volatile": false},
            {"name": "users", "scheme": range, "partitions": 4, "volatile": false},
        ]})
    );
    let first = shown(&server, "/v1/state?limit=2");
    assert_eq!(
        (names(&first["services"]), &first["next"]),
        (vec!["cache", "houses"], &json!("houses"))
    );
    let rest = shown(&server, "/v1/state?limit=2&cursor=houses");
    assert_eq!(
        (names(&rest["services"]), rest.get("next")),
        (vec!["users"], None)
    );
}

#[test]
fn the_first_entries_of_a_queue_are_shown_and_stay() {
    let server = Start::new("dev").ready();
    let step = |number: u64| json!({"op": "enqueue", "collection": "work", "value": {"n": number}});
    let steps: Vec<_> = (0..5).map(step).collect();
    assert_eq!(
        server.post("/v1/state/bank", json!({"steps": steps})).0,
        StatusCode::OK
    );
    let take = json!({"steps": [{"op": "dequeue", "collection": "work"}]});
    assert_eq!(
        server.post("/v1/state/bank", take.clone()).0,
        StatusCode::OK
    );

    let path = "/v1/state/bank/work/queue/peek";
    let first = shown(&server, &format!("{path}?limit=3"));
    let values = |page: &Value| {
        let entries = page["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["value"]["n"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&first), [1, 2, 3]);
    let next = first["next"].as_str().unwrap();
    assert_eq!(first["entries"][2]["number"].to_string(), next);
    let rest = shown(&server, &format!("{path}?limit=3&cursor={next}"));
    assert_eq!((values(&rest), rest.get("next")), (vec![4], None));
    // All of them are still there.
    assert_eq!(values(&shown(&server, path)), [1, 2, 3, 4]);
    for _ in 0..4 {
        server.post("/v1/state/bank", take.clone());
    }
    assert_eq!(shown(&server, path), json!({"entries": []}));
}

#[test]
fn only_a_queue_is_peeked_into() {
    let server = Start::new("dev").ready();
    let key = format!("Bearer {KNOWN}");
    // A dictionary may have a key of this name.
    for name in ["queue", "peek"] {
        let path = format!("/v1/state/bank/accounts/{name}");
        let put = server.ask(Method::PUT, &path, &key, Some(json!(name)));
        assert_eq!(put.0, StatusCode::CREATED);
        assert_eq!(shown(&server, &path), json!(name));
    }
    let mismatch = refused(&server, "/v1/state/bank/accounts/queue/peek");
    assert_eq!(mismatch, (StatusCode::CONFLICT, "STF-3008".to_owned()));
    let absent = (StatusCode::NOT_FOUND, "STF-6021".to_owned());
    for path in ["bank/nothing", "nothing/work"] {
        assert_eq!(
            refused(&server, &format!("/v1/state/{path}/queue/peek")),
            absent
        );
    }
    let bad = refused(&server, "/v1/state/bank/accounts/queue/peek?cursor=x");
    assert_eq!(bad, (StatusCode::BAD_REQUEST, "STF-6020".to_owned()));
}

#[test]
fn one_key_is_shown_as_in_the_list() {
    let server = Start::new("dev").ready();
    let (_, made) = server.post(
        "/v1/keys",
        json!({"name": "a b", "rights": ["send events/x"]}),
    );
    let one = shown(&server, "/v1/keys/a%20b");
    assert_eq!(one["rights"], json!(["send events/x"]));
    let list = shown(&server, "/v1/keys");
    assert!(list.as_array().unwrap().contains(&one), "{list}");
    assert!(!one.to_string().contains(made["secret"].as_str().unwrap()));
    let absent = refused(&server, "/v1/keys/b");
    assert_eq!(absent, (StatusCode::NOT_FOUND, "STF-6021".to_owned()));
}
