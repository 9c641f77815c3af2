//! The HTTP interface of task hubs, beside the gRPC one.

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use steadfast::Node;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::operation_result::ResultType;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;

use crate::task_hub::{Caller, action, done, end, node, node_with_file, url};

/// The key of development.
const KEY: &str = "SAS_KEY_VALUE";

/// A client of the interface.
struct Rest {
    client: Client,
    base: String,
}

type Answer = (u16, HeaderMap, Value);

impl Rest {
    fn new(node: &Node) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = format!("{}/runtime/webhooks/durabletask", url(node, "http"));
        Self {
            client: Client::new(),
            base,
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<(&str, &str)>) -> Answer {
        let address = if path.starts_with("http") {
            path.to_owned()
        } else {
            format!("{}{path}", self.base)
        };
        let mut request = self.client.request(method, address).bearer_auth(KEY);
        if let Some((kind, body)) = body {
            request = request.header(CONTENT_TYPE, kind).body(body.to_owned());
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        (
            status,
            headers,
            serde_json::from_str(&text).unwrap_or_default(),
        )
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        self.send(Method::POST, path, Some(("application/json", &body)))
            .await
    }

    async fn status(&self, method: Method, path: &str) -> u16 {
        self.send(method, path, None).await.0
    }
}

fn text(headers: &HeaderMap, name: impl reqwest::header::AsHeaderName) -> String {
    headers.get(name).unwrap().to_str().unwrap().to_owned()
}

/// Ends the next turn that comes with this result.
async fn end_next(hub: &Caller, result: &str) {
    let mut worker = hub.worker().await;
    let (turn, token) = worker.turn().await;
    let result = done(&turn.instance_id, &token, vec![end(result)]);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
}

/// Fails the next turn that comes.
async fn fail_next(hub: &Caller) {
    let mut worker = hub.worker().await;
    let (turn, token) = worker.turn().await;
    let failed = wire::CompleteOrchestrationAction {
        orchestration_status: wire::OrchestrationStatus::Failed.into(),
        failure_details: Some(wire::TaskFailureDetails {
            error_type: "ValueError".into(),
            error_message: "no".into(),
            ..wire::TaskFailureDetails::default()
        }),
        ..wire::CompleteOrchestrationAction::default()
    };
    let failed = action(-1, OrchestratorActionType::CompleteOrchestration(failed));
    let result = done(&turn.instance_id, &token, vec![failed]);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
}

#[tokio::test]
async fn durable_63_instances_are_started_shown_and_ended() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    let (status, headers, links) = rest.post("/orchestrators/f/one", &json!({"a": 1})).await;
    assert_eq!((status, links["id"].as_str()), (202, Some("one")));
    assert_eq!(text(&headers, RETRY_AFTER), "10");
    assert_eq!(links["statusQueryGetUri"], text(&headers, LOCATION));
    for (link, part) in [
        ("sendEventPostUri", "/raiseEvent/{eventName}?"),
        ("terminatePostUri", "/terminate?reason={text}&"),
        ("rewindPostUri", "/rewind?reason={text}&"),
        ("purgeHistoryDeleteUri", "/instances/one?"),
        ("restartPostUri", "/restart?"),
        ("suspendPostUri", "/suspend?reason={text}&"),
        ("resumePostUri", "/resume?reason={text}&"),
    ] {
        assert!(links[link].as_str().unwrap().contains(part), "{links}");
    }
    assert_eq!(rest.post("/orchestrators/f/one", &json!(2)).await.0, 409);
    let bad = rest
        .send(
            Method::POST,
            "/orchestrators/f",
            Some(("application/json", "{")),
        )
        .await;
    assert_eq!(
        (bad.0, bad.2["error"]["code"].as_str()),
        (400, Some("STF-6050"))
    );
    // The link is good, and gRPC sees the same.
    let (status, headers, shown) = rest.get(links["statusQueryGetUri"].as_str().unwrap()).await;
    assert_eq!(
        (status, shown["runtimeStatus"].as_str()),
        (202, Some("Pending"))
    );
    assert_eq!(
        (text(&headers, RETRY_AFTER), &shown["input"]),
        ("5".into(), &json!({"a": 1}))
    );
    assert!(headers.contains_key(LOCATION));
    assert_eq!(
        hub.get("one").await.unwrap().input.as_deref(),
        Some(r#"{"a":1}"#)
    );
    end_next(&hub, r#"{"b":2}"#).await;
    hub.ended("one").await;
    let (status, _, shown) = rest
        .get("/instances/one?showHistory=true&showInput=false")
        .await;
    assert_eq!(
        (status, &shown["output"], &shown["input"]),
        (200, &json!({"b": 2}), &Value::Null)
    );
    let history = shown["historyEvents"].as_array().unwrap();
    assert_eq!(history.last().unwrap()["EventType"], "ExecutionCompleted");
    assert!(history.last().unwrap().get("Result").is_none());
    let (_, _, shown) = rest
        .get("/instances/one?showHistory=true&showHistoryOutput=true")
        .await;
    let history = shown["historyEvents"].as_array().unwrap();
    assert_eq!(history.last().unwrap()["Result"], json!({"b": 2}));
    assert_eq!(rest.get("/instances/absent").await.0, 404);
    assert_eq!(rest.get("/instances/one?showInput=perhaps").await.0, 400);
}

#[tokio::test]
async fn durable_63_an_end_in_time_is_the_answer() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    let working = tokio::spawn(async move { end_next(&hub, "[7]").await });
    let (status, _, output) = rest
        .post("/orchestrators/f?timeout=20&pollingInterval=1", &json!(1))
        .await;
    assert_eq!((status, output), (200, json!([7])));
    working.await.unwrap();
    let (status, _, links) = rest
        .post("/orchestrators/f/slow?timeout=0.2", &json!(1))
        .await;
    assert_eq!((status, links["id"].as_str()), (202, Some("slow")));
    for wrong in ["-1", "9999", "x"] {
        assert_eq!(
            rest.post(&format!("/orchestrators/f?timeout={wrong}"), &json!(1))
                .await
                .0,
            400
        );
    }
}

#[tokio::test]
async fn durable_63_instances_are_steered() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    rest.post("/orchestrators/f/x", &json!(null)).await;
    assert_eq!(
        rest.post("/instances/x/raiseEvent/go", &json!({"n": 1}))
            .await
            .0,
        202
    );
    assert_eq!(
        rest.post("/instances/absent/raiseEvent/go", &json!(1))
            .await
            .0,
        404
    );
    let plain = rest
        .send(
            Method::POST,
            "/instances/x/raiseEvent/go",
            Some(("text/plain", "1")),
        )
        .await;
    assert_eq!(plain.0, 400);
    let broken = ("application/json", "{");
    assert_eq!(
        rest.send(Method::POST, "/instances/x/raiseEvent/go", Some(broken))
            .await
            .0,
        400
    );
    assert_eq!(
        rest.status(Method::POST, "/instances/x/suspend?reason=pause")
            .await,
        202
    );
    assert_eq!(
        rest.get("/instances/x").await.2["runtimeStatus"],
        "Suspended"
    );
    assert_eq!(rest.get("/instances/x/why").await.2["state"], "suspended");
    assert_eq!(rest.status(Method::POST, "/instances/x/resume").await, 202);
    assert_eq!(rest.get("/instances/x/why").await.2["state"], "noWorker");
    assert_eq!(rest.status(Method::POST, "/instances/x/rewind").await, 400);
    assert_eq!(
        rest.status(Method::POST, "/instances/x/terminate?reason=enough")
            .await,
        202
    );
    assert_eq!(hub.ended("x").await.output.as_deref(), Some("\"enough\""));
    for verb in ["terminate", "suspend", "resume", "rewind"] {
        assert_eq!(
            rest.status(Method::POST, &format!("/instances/x/{verb}"))
                .await,
            410,
            "{verb}"
        );
        assert_eq!(
            rest.status(Method::POST, &format!("/instances/absent/{verb}"))
                .await,
            404,
            "{verb}"
        );
    }
    assert_eq!(
        rest.post("/instances/x/raiseEvent/go", &json!(1)).await.0,
        410
    );
    let (status, _, links) = rest.send(Method::POST, "/instances/x/restart", None).await;
    assert_eq!(status, 202);
    assert_ne!(links["id"], "x");
    let same = rest
        .send(
            Method::POST,
            "/instances/x/restart?restartWithNewInstanceId=false",
            None,
        )
        .await;
    assert_eq!((same.0, same.2["id"].as_str()), (202, Some("x")));
    assert_eq!(
        rest.status(Method::POST, "/instances/absent/restart").await,
        400
    );
}

#[tokio::test]
async fn durable_63_failures_are_told_and_rewound() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    rest.post("/orchestrators/f/bad", &json!(1)).await;
    fail_next(&hub).await;
    hub.ended("bad").await;
    let (status, _, shown) = rest.get("/instances/bad").await;
    assert_eq!((status, shown["output"].as_str()), (200, Some("no")));
    let told = rest
        .get("/instances/bad?returnInternalServerErrorOnFailure=true")
        .await;
    assert_eq!(told.0, 500);
    assert_eq!(
        rest.status(Method::POST, "/instances/bad/rewind?reason=better")
            .await,
        202
    );
    end_next(&hub, "7").await;
    assert_eq!(hub.ended("bad").await.output.as_deref(), Some("7"));
}

#[tokio::test]
async fn durable_63_instances_are_listed_and_purged() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    for number in 0..5 {
        rest.post(&format!("/orchestrators/f/i{number}"), &json!(number))
            .await;
    }
    let token = "x-ms-continuation-token";
    let (status, headers, first) = rest.get("/instances?top=3&instanceIdPrefix=i").await;
    assert_eq!((status, first.as_array().unwrap().len()), (200, 3));
    let next = rest
        .client
        .get(format!("{}/instances?top=3&instanceIdPrefix=i", rest.base));
    let next = next.bearer_auth(KEY).header(token, text(&headers, token));
    let second: Value = next.send().await.unwrap().json().await.unwrap();
    let ids = [&first, &second]
        .into_iter()
        .flat_map(|page| page.as_array().unwrap());
    let ids: Vec<_> = ids.map(|row| row["instanceId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["i0", "i1", "i2", "i3", "i4"]);
    assert_eq!(
        rest.get("/instances?runtimeStatus=Completed,Failed")
            .await
            .2,
        json!([])
    );
    assert_eq!(
        rest.get("/instances?runtimeStatus=ContinuedAsNew").await.2,
        json!([])
    );
    assert_eq!(rest.get("/instances?runtimeStatus=Lost").await.0, 400);
    assert_eq!(
        rest.get("/instances?createdTimeTo=2001-01-01T00:00:00Z")
            .await
            .2,
        json!([])
    );
    assert_eq!(rest.get("/instances?createdTimeFrom=soon").await.0, 400);
    assert_eq!(rest.status(Method::DELETE, "/instances/i0").await, 404);
    for number in 0..3 {
        rest.status(Method::POST, &format!("/instances/i{number}/terminate"))
            .await;
        hub.ended(&format!("i{number}")).await;
    }
    let (status, _, purged) = rest.send(Method::DELETE, "/instances/i0", None).await;
    assert_eq!((status, purged), (200, json!({"instancesDeleted": 1})));
    assert_eq!(rest.status(Method::DELETE, "/instances").await, 400);
    let all = "/instances?createdTimeFrom=2001-01-01T00:00:00Z&runtimeStatus=Terminated";
    assert_eq!(
        rest.send(Method::DELETE, all, None).await.2,
        json!({"instancesDeleted": 2})
    );
    assert_eq!(rest.status(Method::DELETE, all).await, 404);
    assert_eq!(rest.status(Method::DELETE, "/instances/absent").await, 404);
}

/// Runs the next batch: results are given, the state is theirs.
async fn run_next(hub: &Caller, state: &str, result: Result<&str, &str>) {
    let mut worker = hub.worker().await;
    let (batch, token) = worker.batch().await;
    let result = match result {
        Ok(result) => ResultType::Success(wire::OperationResultSuccess {
            result: Some(result.into()),
            ..wire::OperationResultSuccess::default()
        }),
        Err(kind) => ResultType::Failure(wire::OperationResultFailure {
            failure_details: Some(wire::TaskFailureDetails {
                error_type: kind.into(),
                error_message: "no".into(),
                ..wire::TaskFailureDetails::default()
            }),
            ..wire::OperationResultFailure::default()
        }),
    };
    let results = batch
        .operation_requests
        .iter()
        .map(|_| wire::OperationResult {
            result_type: Some(result.clone()),
        });
    let result = wire::EntityBatchResult {
        results: results.collect(),
        entity_state: Some(state.into()),
        completion_token: token,
        ..wire::EntityBatchResult::default()
    };
    hub.tell("CompleteEntityTask", result).await.unwrap();
}

#[tokio::test]
async fn durable_63_entities_are_signalled_called_and_shown() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    assert_eq!(rest.get("/entities/Counter/a").await.0, 404);
    assert_eq!(
        rest.post("/entities/Counter/a?op=add", &json!(5)).await.0,
        202
    );
    run_next(&hub, r#"{"value":5}"#, Ok("5")).await;
    let (status, _, state) = rest.get("/entities/Counter/a").await;
    assert_eq!((status, state), (200, json!({"value": 5})));
    // A call is answered, and the same call again is not run again.
    let client = rest.client.clone();
    let address = format!("{}/entities/counter/a/call?op=get", rest.base);
    let call = move || {
        let request = client.post(&address).bearer_auth(KEY);
        let request = request.header("Idempotency-Key", "0f8fad5b-d9cb-469f-a165-70867728950e");
        async move { request.send().await.unwrap().json::<Value>().await.unwrap() }
    };
    let (answer, ()) = tokio::join!(call(), run_next(&hub, r#"{"value":6}"#, Ok("6")));
    assert_eq!(answer, json!(6));
    assert_eq!(call().await, json!(6));
    let failing = rest.post("/entities/counter/a/call?op=get", &json!(null));
    let (failed, ()) = tokio::join!(failing, run_next(&hub, r#"{"value":6}"#, Err("ValueError")));
    assert_eq!(
        (failed.0, failed.2["error"]["type"].as_str()),
        (500, Some("ValueError"))
    );
    let late = rest
        .post("/entities/counter/a/call?op=get&timeout=0.2", &json!(null))
        .await;
    assert_eq!(late.0, 504);
    run_next(&hub, r#"{"value":6}"#, Ok("6")).await;
    let text = ("text/plain", "hello");
    assert_eq!(
        rest.send(Method::POST, "/entities/counter/$?op=note", Some(text))
            .await
            .0,
        202
    );
    run_next(&hub, "1", Ok("1")).await;
    let (status, _, listed) = rest.get("/entities/counter?fetchState=true").await;
    let listed = listed.as_array().unwrap();
    assert_eq!((status, listed.len()), (200, 2));
    assert_eq!(listed[0]["entityId"], json!({"name": "counter", "key": ""}));
    assert_eq!(listed[1]["state"], json!({"value": 6}));
    let (_, _, all) = rest.get("/entities?top=1").await;
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert!(all[0].get("state").is_none());
    assert_eq!(rest.post("/entities/counter/a", &json!(1)).await.0, 400);
    assert_eq!(rest.get("/locks").await.2, json!([]));
    assert_eq!(rest.status(Method::DELETE, "/locks/counter/a").await, 400);
    assert_eq!(
        rest.status(Method::DELETE, "/locks/counter/a?section=x")
            .await,
        404
    );
    assert_eq!(
        rest.status(Method::DELETE, "/entities/counter/a").await,
        202
    );
}

#[tokio::test]
async fn durable_64_rest_and_grpc_see_the_same_at_once() {
    let node = node().await;
    let (rest, hub) = (Rest::new(&node), Caller::new(&node, "durable"));
    for number in 0..20 {
        let id = format!("same-{number}");
        rest.post(&format!("/orchestrators/f/{id}"), &json!(1))
            .await;
        assert_eq!(hub.get(&id).await.unwrap().name, "f");
        let other = format!("other-{number}");
        hub.start("g", &other).await.unwrap();
        assert_eq!(
            rest.get(&format!("/instances/{other}")).await.2["name"],
            "g"
        );
    }
    let elsewhere = rest.get("/instances/same-1?taskHub=blue").await;
    assert_eq!(elsewhere.0, 404);
}

#[tokio::test]
async fn durable_63_wrong_methods_and_routes_are_not_found() {
    let node = node().await;
    let rest = Rest::new(&node);
    for (method, path) in [
        (Method::GET, "/orchestrators/f"),
        (Method::PUT, "/instances/x"),
        (Method::GET, "/instances/x/terminate"),
        (Method::POST, "/instances"),
        (Method::POST, "/entities"),
        (Method::GET, "/nothing"),
        (Method::POST, "/instances/x/dance"),
    ] {
        assert_eq!(
            rest.status(method.clone(), path).await,
            404,
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn keys_may_stand_in_the_query() {
    let node = node_with_file(
        "[[key]]\nname = \"reader\"\nprimary = \"reader secret 01234\"\nrights = [\"listen durable\"]\n",
    )
    .await;
    let rest = Rest::new(&node);
    let ask = |query: &'static str| {
        let request = rest.client.get(format!("{}/instances{query}", rest.base));
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(ask("").await, 401);
    assert_eq!(ask("?code=nonsense").await, 401);
    assert_eq!(ask("?code=reader%20secret%2001234").await, 200);
    let start = format!("{}/orchestrators/f?code=reader%20secret%2001234", rest.base);
    let refused = rest.client.post(start).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 403);
}
