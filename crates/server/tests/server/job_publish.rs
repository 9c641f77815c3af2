//! Jobs that publish to event hubs of the same server.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{KNOWN, Server, Start, said, steadfast, until};

const JOBS: &str = "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
                    /jobCollections/nightly";
const VERSION: &str = "api-version=2016-03-01";

fn put(server: &Server, path: &str, body: Value) -> (StatusCode, Value) {
    let path = format!("{JOBS}{path}?{VERSION}");
    server.ask(Method::PUT, &path, &format!("Bearer {KNOWN}"), Some(body))
}

/// A server whose jobs may run every second.
fn started(start: Start) -> Server {
    start
        .set("jobs.allow_seconds=true")
        .set("jobs.quotas=false")
        .ready()
}

/// A server with an event hub and a collection of jobs.
fn server() -> Server {
    let server = started(Start::new("dev"));
    let made = server.post("/v1/eventhubs", json!({"name": "houses", "partitions": 2}));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let sku = json!({"properties": {"sku": {"name": "Standard"}}});
    assert_eq!(put(&server, "", sku).0, StatusCode::CREATED);
    server
}

fn internal(target: &Value) -> Value {
    json!({"properties": {"action": {"type": "Internal", "internal": target}}})
}

/// All events of the event hub, as objects.
fn events(server: &Server) -> Vec<Value> {
    let tail = "event tail houses --from start --format json --wait 0";
    let tail: Vec<_> = tail.split(' ').collect();
    let (code, text, error) = said(&server.run(&tail));
    assert_eq!(code, 0, "{error}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_run_of_a_job_is_an_event_with_its_properties() {
    let server = server();
    let mut job = internal(&json!({
        "eventHub": "Houses", "body": "{\"turn\":\"on\"}", "contentType": "application/json",
        "partitionKey": "house-42", "properties": {"from": "nightly", "n": 7},
    }));
    job["properties"]["startTime"] = "2030-01-01T00:00:00Z".into();
    let far = put(&server, "/jobs/late", job.clone());
    assert_eq!(
        far.0,
        StatusCode::BAD_REQUEST,
        "18 months at most: {}",
        far.1
    );
    job["properties"]
        .as_object_mut()
        .unwrap()
        .remove("startTime");
    assert_eq!(put(&server, "/jobs/once", job).0, StatusCode::CREATED);
    let found = until("an event", || {
        Some(events(&server)).filter(|found| !found.is_empty())
    });
    assert_eq!(found.len(), 1);
    let event = &found[0];
    assert_eq!(event["body"], "{\"turn\":\"on\"}");
    let properties = &event["properties"];
    assert_eq!(
        (&properties["from"], &properties["n"]),
        (&json!("nightly"), &json!(7))
    );
    assert_eq!(properties["steadfast-job"], "main/default/nightly/once");
    let occurrence = properties["steadfast-occurrence"].as_str().unwrap();
    assert!(
        occurrence.len() == 20 && occurrence.ends_with('Z'),
        "{occurrence}"
    );
    let (_, job) = server.get(&format!("{JOBS}/jobs/once?{VERSION}"));
    assert_eq!(job["properties"]["state"], "Completed", "{job}");
    let (_, history) = server.get(&format!("{JOBS}/jobs/once/history?{VERSION}"));
    assert_eq!(
        history["value"][0]["properties"]["status"], "Completed",
        "{history}"
    );
}

#[test]
fn a_job_that_publishes_is_made_by_one_command() {
    let server = server();
    let create = ["job", "create", "nightly", "greet", "--publish", "houses"];
    let options = ["--body", "good morning", "--key", "house-42"];
    let (code, _, error) = said(&server.run(&[&create[..], &options[..]].concat()));
    assert_eq!(code, 0, "{error}");
    let found = until("an event", || {
        Some(events(&server)).filter(|found| !found.is_empty())
    });
    assert_eq!(found[0]["body"], "good morning");
    assert_eq!(found[0]["key"], "house-42");
    let both = ["--call", "http://127.0.0.1:9/"];
    let (code, _, _) = said(&server.run(&[&create[..], &both[..]].concat()));
    assert_eq!(code, 2, "it calls or publishes");
}

#[test]
fn what_cannot_be_published_is_refused_when_the_job_is_written() {
    let server = server();
    for (target, words) in [
        (json!({"eventHub": "cars"}), "no event hub 'cars'"),
        (
            json!({"eventHub": "houses", "partition": 2}),
            "partitions 0 to 1",
        ),
        (json!({"eventHub": "houses", "topic": "x"}), "'topic'"),
        (json!({"queue": "x"}), "'eventHub'"),
        (json!("houses"), "object"),
    ] {
        let (status, answer) = put(&server, "/jobs/bad", internal(&target));
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(
            answer["error"]["target"], "properties.action.internal",
            "{answer}"
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    let mut job = internal(&json!({"eventHub": "houses"}));
    job["properties"]["action"]["errorAction"] =
        json!({"type": "Internal", "internal": {"eventHub": "cars"}});
    let (_, answer) = put(&server, "/jobs/bad", job);
    assert_eq!(
        answer["error"]["target"],
        "properties.action.errorAction.internal"
    );
    assert!(events(&server).is_empty());
}

#[test]
fn every_occurrence_is_published_once_through_kills() {
    let mut server = server();
    let mut job = internal(&json!({"eventHub": "houses", "body": "tick"}));
    job["properties"]["recurrence"] = json!({"frequency": "Minute", "interval": 1, "count": 12});
    job["properties"]["steadfast"] = json!({"frequency": "Second"});
    let made = put(&server, "/jobs/ticks", job);
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    for kill in 1..=3 {
        until("some events", || {
            (events(&server).len() >= 2 * kill).then_some(())
        });
        server.process.kill().unwrap();
        let mut command = steadfast(server.folder.path());
        command.args(["dev", "--set", "http.port=0"]);
        let folder = std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap());
        server = started(Start { command, folder });
    }
    let path = format!("{JOBS}/jobs/ticks?{VERSION}");
    let is_done = |job: &Value| job["properties"]["state"] == "Completed";
    let job = until("the end", || Some(server.get(&path).1).filter(is_done));
    assert_eq!(job["properties"]["status"]["executionCount"], 12, "{job}");
    let found = until("all events", || {
        Some(events(&server)).filter(|found| found.len() >= 12)
    });
    let times = found
        .iter()
        .map(|event| event["properties"]["steadfast-occurrence"].to_string());
    let times: BTreeSet<_> = times.collect();
    assert_eq!((found.len(), times.len()), (12, 12), "{found:?}");
}

#[test]
fn what_goes_to_an_event_hub_that_is_gone_is_kept_aside() {
    let server = server();
    let mut job = internal(&json!({"eventHub": "houses", "body": "tick"}));
    job["properties"]["recurrence"] = json!({"frequency": "Month"});
    assert_eq!(put(&server, "/jobs/rare", job).0, StatusCode::CREATED);
    until("the first run", || {
        (events(&server).len() == 1).then_some(())
    });
    let known = format!("Bearer {KNOWN}");
    let gone = server.ask(Method::DELETE, "/v1/eventhubs/houses", &known, None);
    assert!(gone.0.is_success(), "{}", gone.1);
    let run = || {
        let path = format!("{JOBS}/jobs/rare/run?{VERSION}");
        let ran = server.ask(Method::POST, &path, &known, None);
        assert_eq!(ran.0, StatusCode::OK, "{}", ran.1);
    };
    run();
    until("it is kept aside", || {
        let (_, text) = server.get("/metrics");
        let text = text.as_str().unwrap_or_default().to_owned();
        let poison = "steadfast_messages_poisoned_total 1";
        text.lines().any(|line| line == poison).then_some(())
    });
    // One of the same name is another event hub; the job finds it.
    let made = server.post("/v1/eventhubs", json!({"name": "houses", "partitions": 1}));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    run();
    until("the next run", || {
        (events(&server).len() == 1).then_some(())
    });
}

#[test]
fn a_hopeless_occurrence_goes_to_an_event_hub() {
    let server = server();
    let dead = json!({"properties": {
        "action": {"type": "Http", "retryPolicy": {"retryType": "None"},
                   "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}},
        "steadfast": {"deadLetter": {"eventHub": "houses", "body": "given up"}},
    }});
    let made = put(&server, "/jobs/dead", dead);
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let found = until("an event", || {
        Some(events(&server)).filter(|found| !found.is_empty())
    });
    assert_eq!(found[0]["body"], "given up");
    assert_eq!(
        found[0]["properties"]["steadfast-job"],
        "main/default/nightly/dead"
    );
}
