//! Event hubs by commands, as a user runs them.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast_harness::Process;

use crate::running::{self, KNOWN, Server, Start, said, steadfast};

fn server() -> Server {
    Start::new("dev").set("events.amqp_port=0").ready()
}

/// What a command that succeeds prints.
fn done(server: &Server, arguments: &[&str]) -> String {
    let (code, text, error) = said(&server.run(arguments));
    assert_eq!(code, 0, "{arguments:?}: {error}");
    text
}

fn object(server: &Server, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.extend(["-o", "json"]);
    serde_json::from_str(&done(server, &arguments)).unwrap()
}

/// A command that fails: its exit code and what it says.
fn failed(server: &Server, arguments: &[&str]) -> (i32, String) {
    let (code, text, error) = said(&server.run(arguments));
    assert_eq!(text, "", "{arguments:?}");
    (code, error)
}

/// The bodies that a tail prints.
fn bodies(server: &Server, arguments: &[&str]) -> Vec<String> {
    let mut all = vec!["event", "tail", "houses", "--format", "json", "--wait", "0"];
    all.extend(arguments);
    let text = done(server, &all);
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let body = |line: &str| read(line)["body"].as_str().unwrap().to_owned();
    text.lines().map(body).collect()
}

#[test]
fn an_event_hub_is_made_listed_shown_and_deleted() {
    let server = server();
    let create = [
        "eventhub",
        "create",
        "Houses",
        "--partitions",
        "3",
        "--group",
        "web",
        "--retention",
        "1d",
        "--retention-size",
        "1GiB",
    ];
    let made = object(&server, &create);
    assert_eq!(made["partitions"], 3);
    assert_eq!(made["groups"], json!(["$Default", "web"]));
    assert_eq!(made["retention_s"], 86_400);
    assert_eq!(made["retention_bytes"], 1 << 30);
    let string = made["connection_strings"]["clients"].as_str().unwrap();
    assert!(string.starts_with("Endpoint=sb://localhost:"), "{string}");
    assert!(string.contains(";EntityPath=Houses;"), "{string}");
    // A second one of the same name, whatever the case, is refused.
    let (code, error) = failed(&server, &["eventhub", "create", "houses"]);
    assert!(code == 1 && error.contains("STF-5004"), "{error}");
    let list = done(&server, &["eventhub", "list"]);
    assert!(
        list.contains("Houses") && list.contains("$Default, web"),
        "{list}"
    );
    let shown = object(&server, &["eventhub", "show", "houses"]);
    assert_eq!(shown["partition_states"].as_array().unwrap().len(), 3);
    assert_eq!(shown["connection_strings"]["clients"], string);
    assert!(done(&server, &["eventhub", "show", "houses"]).contains("SharedAccessKey="));
    done(&server, &["eventhub", "delete", "--yes", "houses"]);
    assert_eq!(
        object(&server, &["eventhub", "list"])["eventhubs"],
        json!([])
    );
}

#[test]
fn an_event_hub_is_changed_and_keeps_everything_else() {
    let server = server();
    let create = ["eventhub", "create", "houses", "--partitions", "2"];
    let made = object(&server, &[&create[..], &["--retention", "1d"]].concat());
    let string = made["connection_strings"]["clients"].clone();
    done(&server, &["event", "send", "houses", "x"]);
    // Groups.
    let web = ["group", "create", "houses", "web"];
    let group = object(&server, &web);
    assert_eq!(group["group"], "web");
    assert_eq!(object(&server, &web), group);
    let shown = object(&server, &["group", "show", "houses", "web"]);
    assert_eq!(shown["partitions"].as_array().unwrap().len(), 2);
    // Retention: one bound at a time, and none again.
    let size = ["eventhub", "update", "houses", "--retention-size", "1GiB"];
    let changed = object(&server, &size);
    assert_eq!(changed["retention_bytes"], 1 << 30);
    assert_eq!(changed["retention_s"], 86_400);
    let forever = ["eventhub", "update", "houses", "--retention", "forever"];
    let changed = object(&server, &forever);
    assert_eq!(changed["retention_s"], Value::Null);
    assert_eq!(changed["retention_bytes"], 1 << 30);
    // Policies: other rights, the same keys.
    let put = [
        "eventhub",
        "put-policy",
        "houses",
        "reader",
        "--right",
        "listen",
    ];
    let reader = object(&server, &put);
    assert_eq!(reader["rights"], json!(["listen"]));
    let both = object(&server, &[&put[..], &["--right", "send"]].concat());
    assert_eq!(both["rights"], json!(["send", "listen"]));
    assert_eq!(both["connection_string"], reader["connection_string"]);
    let shown = object(&server, &["eventhub", "show", "houses"]);
    assert_eq!(shown["groups"], json!(["$Default", "web"]));
    assert_eq!(shown["connection_strings"]["clients"], string);
    let events = shown["partition_states"].as_array().unwrap().iter();
    let count = events.map(|state| state["events"].as_i64().unwrap());
    assert_eq!(count.sum::<i64>(), 1);
    // All of it goes again.
    done(
        &server,
        &["eventhub", "delete-policy", "--yes", "houses", "reader"],
    );
    done(&server, &["group", "delete", "--yes", "houses", "web"]);
    let shown = object(&server, &["eventhub", "show", "houses"]);
    assert_eq!(shown["groups"], json!(["$Default"]));
    assert_eq!(shown["policies"].as_array().unwrap().len(), 1);
    for (arguments, code, word) in [
        (
            &["group", "delete", "--yes", "houses", "web"][..],
            3,
            "STF-5002",
        ),
        (
            &["group", "delete", "--yes", "houses", "$Default"],
            1,
            "STF-5005",
        ),
        (&["group", "create", "none", "web"], 3, "STF-5001"),
        (&["group", "create", "houses", "a b"], 1, "STF-5005"),
        (
            &["eventhub", "update", "none", "--retention", "1d"],
            3,
            "STF-5001",
        ),
        (
            &["eventhub", "update", "houses", "--retention", "0s"],
            1,
            "STF-5005",
        ),
        (
            &["eventhub", "delete-policy", "--yes", "houses", "none"],
            3,
            "STF-5035",
        ),
        (
            &["eventhub", "put-policy", "houses", "p", "--right", "steal"],
            1,
            "STF-6020",
        ),
    ] {
        let (found, error) = failed(&server, arguments);
        assert!(
            found == code && error.contains(word),
            "{arguments:?}: {found} {error}"
        );
    }
}

#[test]
fn only_a_key_that_manages_an_event_hub_changes_it() {
    let server = server();
    for name in ["houses", "cars"] {
        done(&server, &["eventhub", "create", name]);
    }
    let create = ["key", "create", "m", "--right", "manage events/houses"];
    let made = object(&server, &create);
    let key = format!("Bearer {}", made["secret"].as_str().unwrap());
    let ask = |method: Method, path: &str, body: Option<Value>| {
        let path = format!("/v1/eventhubs{path}");
        server.ask(method, &path, &key, body).0
    };
    let rights = || Some(json!({"rights": ["send"]}));
    for (hub, allowed) in [("houses", true), ("cars", false)] {
        let status = |done: StatusCode| if allowed { done } else { StatusCode::FORBIDDEN };
        let at = |path: &str| format!("/{hub}{path}");
        let kept = Some(json!({"retention_s": 60}));
        let (put, gone) = (Method::PUT, Method::DELETE);
        let made = StatusCode::CREATED;
        let removed = StatusCode::NO_CONTENT;
        assert_eq!(ask(Method::PATCH, &at(""), kept), status(StatusCode::OK));
        assert_eq!(ask(put.clone(), &at("/groups/web"), None), status(made));
        assert_eq!(ask(gone.clone(), &at("/groups/web"), None), status(removed));
        assert_eq!(ask(put, &at("/policies/p"), rights()), status(made));
        assert_eq!(ask(gone, &at("/policies/p"), None), status(removed));
    }
    let unknown = Some(json!({"partitions": 9}));
    let refused = ask(Method::PATCH, "/houses", unknown);
    assert_eq!(refused, StatusCode::BAD_REQUEST);
    let (_, document) = server.get("/openapi.json");
    let paths = &document["paths"];
    assert!(paths["/v1/eventhubs/{hub}"]["patch"].is_object());
    assert!(paths["/v1/eventhubs/{hub}/policies/{policy}"]["put"].is_object());
    assert!(paths["/v1/eventhubs/{hub}/groups/{group}"]["delete"].is_object());
}

#[test]
fn what_is_not_there_ends_with_3_and_what_is_wrong_with_1_or_2() {
    let server = server();
    done(
        &server,
        &["eventhub", "create", "houses", "--partitions", "1"],
    );
    for arguments in [
        &["eventhub", "show", "none"][..],
        &["eventhub", "delete", "--yes", "none"],
        &["event", "send", "none", "x"],
        &["event", "tail", "none", "--wait", "0"],
        &["event", "tail", "houses", "--partition", "7", "--wait", "0"],
        &["group", "list", "none"],
        &["group", "show", "houses", "none"],
        &["group", "reset", "none", "$Default", "--to", "start"],
        &["parked", "list", "none"],
        &["parked", "replay", "houses", "none"],
    ] {
        let (code, error) = failed(&server, arguments);
        assert!(
            code == 3 && error.contains("STF-500"),
            "{arguments:?}: {code} {error}"
        );
    }
    for (arguments, word) in [
        (&["eventhub", "create", "-a-"][..], "unexpected argument"),
        (
            &["eventhub", "create", "a", "--retention", "soon"],
            "such as 90s",
        ),
        (
            &["event", "tail", "houses", "--from", "noon"],
            "sequence number",
        ),
        (&["group", "reset", "houses", "$Default"], "--to"),
    ] {
        let (code, error) = failed(&server, arguments);
        assert!(
            code == 2 && error.contains(word),
            "{arguments:?}: {code} {error}"
        );
    }
    std::fs::write(server.folder.path().join("no.key"), "no\n").unwrap();
    for (arguments, word) in [
        (&["eventhub", "create", "a/b"][..], "STF-5005"),
        (
            &["eventhub", "create", "a", "--partitions", "0"],
            "STF-5005",
        ),
        (
            &["event", "--key-file", "no.key", "send", "houses", "x"],
            "STF-600",
        ),
        (
            &["event", "tail", "houses", "--from", "9", "--wait", "0"],
            "STF-5008",
        ),
        (
            &["group", "reset", "houses", "$Default", "--to", "9"],
            "STF-5008",
        ),
    ] {
        let (code, error) = failed(&server, arguments);
        assert!(
            code == 1 && error.contains(word),
            "{arguments:?}: {code} {error}"
        );
    }
}

#[test]
fn events_are_sent_and_shown_from_every_place() {
    let server = server();
    done(
        &server,
        &["eventhub", "create", "houses", "--partitions", "2"],
    );
    let first = object(
        &server,
        &["event", "send", "houses", "one", "--partition", "1"],
    );
    assert_eq!(first, json!({"sent": 1, "partition": 1, "sequence": 0}));
    let send = [
        "event",
        "send",
        "houses",
        "two",
        "--partition",
        "1",
        "--property",
        "n=5",
        "--property",
        "name=x",
        "--content-type",
        "text/plain",
    ];
    done(&server, &send);
    std::fs::write(server.folder.path().join("lines"), "three\n\nfour\n").unwrap();
    let sent = object(
        &server,
        &[
            "event",
            "send",
            "houses",
            "--file",
            "lines",
            "--partition",
            "1",
        ],
    );
    assert_eq!(sent["sent"], 2);

    assert_eq!(
        bodies(&server, &["--from", "start"]),
        ["one", "two", "three", "four"]
    );
    let at = |from: &str| bodies(&server, &["--partition", "1", "--from", from]);
    assert_eq!(at("2"), ["three", "four"]);
    assert_eq!(at("4"), [""; 0]);
    assert_eq!(at("end"), [""; 0]);
    assert_eq!(at("2026-01-01T00:00:00+02:00").len(), 4);
    assert_eq!(at("2200-01-01"), [""; 0]);
    assert_eq!(
        bodies(&server, &["--from", "start", "--count", "3"]).len(),
        3
    );

    let tail = [
        "event",
        "tail",
        "houses",
        "--from",
        "1",
        "--partition",
        "1",
        "--count",
        "1",
    ];
    let shown = object(&server, &tail);
    assert_eq!(shown["properties"], json!({"n": 5, "name": "x"}));
    assert_eq!(shown["content_type"], "text/plain");
    // From the time of an event on, there it is.
    let time = shown["enqueued_time"].as_str().unwrap();
    assert!(at(time).contains(&"two".to_owned()));
    let text = done(&server, &tail);
    assert_eq!(text, format!("1/1  {time}  two\n"));
    let hex = done(&server, &[&tail[..], &["--format", "hex"]].concat());
    assert_eq!(hex, format!("1/1  {time}  74776f\n"));
}

#[test]
fn a_tail_from_the_end_shows_what_comes_afterwards_in_every_partition() {
    let server = server();
    done(
        &server,
        &["eventhub", "create", "houses", "--partitions", "2"],
    );
    done(
        &server,
        &["event", "send", "houses", "before", "--partition", "0"],
    );
    let mut command = steadfast(server.folder.path());
    command.env("STEADFAST_URL", &server.url);
    command.args(["event", "tail", "houses", "--count", "4"]);
    let mut tail = Process::spawn(command).unwrap();
    // There is no signal that it follows, so send until it has received an event.
    let heard = |tail: &mut Process, partition: &str| {
        running::until("an event", || {
            done(
                &server,
                &["event", "send", "houses", "now", "--partition", partition],
            );
            tail.next_line(std::time::Duration::from_millis(500)).ok()
        })
    };
    let line = heard(&mut tail, "1");
    assert!(line.starts_with("1/") && line.ends_with("now"), "{line}");
    let line = heard(&mut tail, "0");
    assert!(line.ends_with("now"), "{line}");
    done(
        &server,
        &["event", "send", "houses", "now", "--partition", "0"],
    );
    done(
        &server,
        &["event", "send", "houses", "now", "--partition", "0"],
    );
    assert!(tail.wait(running::PATIENCE).unwrap().success());
}

#[test]
fn a_group_shows_its_lag_and_is_reset() {
    let server = server();
    done(
        &server,
        &[
            "eventhub",
            "create",
            "houses",
            "--partitions",
            "2",
            "--group",
            "web",
        ],
    );
    for body in ["a", "b", "c"] {
        done(
            &server,
            &["event", "send", "houses", body, "--partition", "1"],
        );
    }
    let show = || object(&server, &["group", "show", "houses", "web"])["partitions"][1].clone();
    assert_eq!(
        (&show()["lag"], &show()["checkpoint"]),
        (&json!(3), &Value::Null)
    );
    let reset = |to: &str| {
        let arguments = [
            "group",
            "reset",
            "houses",
            "web",
            "--to",
            to,
            "--partition",
            "1",
        ];
        object(&server, &arguments)["partitions"][0]["next_sequence"].clone()
    };
    assert_eq!(reset("2"), 2);
    assert_eq!(
        (&show()["lag"], &show()["checkpoint"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(reset("end"), 3);
    assert_eq!(show()["lag"], 0);
    assert_eq!(reset("2026-01-01"), 0);
    assert_eq!(show()["lag"], 3);
    // Without a partition, all are moved.
    let all = object(&server, &["group", "reset", "houses", "web", "--to", "end"]);
    let next = json!([{"partition": 0, "next_sequence": 0}, {"partition": 1, "next_sequence": 3}]);
    assert_eq!(all["partitions"], next);
    let list = object(&server, &["group", "list", "houses"]);
    let lags: Vec<_> = list["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["lag"])
        .collect();
    assert_eq!(lags, [3, 0]);
    assert!(done(&server, &["group", "show", "houses"]).starts_with("PARTITION"));
    let parked = object(&server, &["parked", "list", "houses", "web"]);
    assert_eq!(parked["dead_letters"], json!([]));
    let replayed = object(&server, &["parked", "replay", "houses", "web"]);
    assert_eq!(replayed["partitions"], json!([]));
}

#[test]
fn a_key_reaches_only_the_event_hubs_it_is_for() {
    let server = server();
    for name in ["houses", "cars"] {
        done(&server, &["eventhub", "create", name]);
    }
    let key = |name: &str, right: &str| {
        let made = object(&server, &["key", "create", name, "--right", right]);
        made["secret"].as_str().unwrap().to_owned()
    };
    let (send, listen) = (
        key("s", "send events/houses"),
        key("l", "listen events/houses"),
    );
    let ask = |method: Method, path: &str, key: &str, body: Option<Value>| {
        server.ask(
            method,
            &format!("/v1/eventhubs{path}"),
            &format!("Bearer {key}"),
            body,
        )
    };
    let event = || Some(json!({"events": [{"body": "x"}]}));
    let created = StatusCode::CREATED;
    assert_eq!(
        ask(Method::POST, "/houses/events", &send, event()).0,
        created
    );
    assert_eq!(
        ask(Method::POST, "/cars/events", &send, event()).0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        ask(Method::POST, "/houses/events", &listen, event()).0,
        StatusCode::FORBIDDEN
    );
    let read = "/houses/events?partition=0";
    assert_eq!(ask(Method::GET, read, &listen, None).0, StatusCode::OK);
    assert_eq!(ask(Method::GET, read, &send, None).0, StatusCode::FORBIDDEN);
    assert_eq!(
        ask(Method::DELETE, "/houses", &listen, None).0,
        StatusCode::FORBIDDEN
    );
    let (_, list) = ask(Method::GET, "", &listen, None);
    let names = list["eventhubs"].as_array().unwrap().iter();
    assert_eq!(
        names.map(|hub| &hub["name"]).collect::<Vec<_>>(),
        ["houses"]
    );
    // Secrets are for those who manage it.
    let (_, shown) = ask(Method::GET, "/houses", &listen, None);
    assert_eq!(shown["connection_strings"], Value::Null);
    let (_, document) = server.get("/openapi.json");
    assert!(document["paths"]["/v1/eventhubs/{hub}/events"]["get"].is_object());
}

#[test]
fn what_plain_http_sends_is_shown() {
    let server = server();
    done(
        &server,
        &["eventhub", "create", "houses", "--partitions", "1"],
    );
    let key = format!("Bearer {KNOWN}");
    let sent = server.ask(
        Method::POST,
        "/houses/messages",
        &key,
        Some(json!({"warm": true})),
    );
    assert_eq!(sent.0, StatusCode::CREATED, "{}", sent.1);
    assert_eq!(bodies(&server, &["--from", "start"]), [r#"{"warm":true}"#]);
}
