//! Attacks on rights: proofs and keys that reach too far.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast_client::amqp::AmqpClient;
use steadfast_wire::amqp::sasl;
use steadfast_wire::{jwt, sas};

use crate::running::{self, Server, Start, said, steadfast};

const ROOT: &str = "root-secret-0123456789";
const LATER: i64 = 4_000_000_000;
const VERSION: &str = "api-version=2016-03-01";

/// The secret of a key that `serve` declares.
fn secret(name: &str) -> String {
    format!("{name}-secret-0123456789")
}

/// A server with the key `root`, and others by their names and rights.
fn serve(keys: &[(&str, &[&str])]) -> Server {
    let mut text = String::new();
    for (name, rights) in [("root", &["manage *"] as &[&str])].iter().chain(keys) {
        let secret = secret(name);
        text += &format!("[[key]]\nname = '{name}'\nprimary = '{secret}'\nrights = {rights:?}\n");
    }
    Start::new("serve").config(&text).ready()
}

fn ask(server: &Server, key: &str, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let body = Some(body).filter(|body| !body.is_null());
    server.ask(method, path, &format!("Bearer {}", secret(key)), body)
}

fn collection(name: &str) -> String {
    format!(
        "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
         /jobCollections/{name}"
    )
}

/// The code by which a gRPC method refuses, if it refuses at once.
fn grpc(server: &Server, method: &str, token: &str) -> Option<String> {
    let url = format!("{}/TaskHubSidecarService/{method}", server.url);
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let request = client.build().unwrap().post(url).bearer_auth(token);
    let request = request.header("content-type", "application/grpc");
    let request = request.header("te", "trailers");
    server.block(async {
        let answer = request.send().await.unwrap();
        let code = answer.headers().get("grpc-status")?;
        Some(code.to_str().unwrap().to_owned())
    })
}

/// The status with which AMQP answers a web token.
fn put_web_token(server: &Server, token: &str) -> i64 {
    let port = server.port_of_with("amqp", ROOT);
    server.block(async {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port));
        let init = sasl::SaslInit {
            mechanism: "ANONYMOUS",
            response: b"",
        };
        let mut client = AmqpClient::connect(stream.await.unwrap(), &init)
            .await
            .unwrap();
        let put = client.put_proof(0, "jwt", "sb://localhost/houses", token);
        put.await.unwrap()
    })
}

#[test]
fn a_token_of_a_hub_client_opens_its_hub_and_nothing_else() {
    let server = serve(&[]);
    let mut command = steadfast(server.folder.path());
    command
        .args(["client", "token", "chat", "--user", "alice"])
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", ROOT);
    let (code, made, error) = said(&running::finish(command));
    assert_eq!(code, 0, "{error}");
    let made = made.trim().to_owned();
    // An app server signs tokens for its clients with its own key.
    let claims = json!({"aud": "http://127.0.0.1/client/?hub=chat", "exp": LATER});
    let signed = jwt::token(claims.as_object().unwrap(), ROOT);
    for token in [made, signed] {
        let bearer = format!("Bearer {token}");
        let ask = |method: Method, path: &str, body: Value| {
            let body = Some(body).filter(|body| !body.is_null());
            server.ask(method, path, &bearer, body).0
        };
        let met = ask(Method::POST, "/client/negotiate?hub=chat", Value::Null);
        assert_eq!(met, StatusCode::OK);
        for method in ["StartInstance", "TerminateInstance", "PurgeInstances"] {
            assert_eq!(
                grpc(&server, method, &token).as_deref(),
                Some("7"),
                "{method}"
            );
        }
        let start = "/runtime/webhooks/durabletask/orchestrators/x";
        assert_eq!(ask(Method::POST, start, json!({})), StatusCode::FORBIDDEN);
        let jobs = format!("{}?{VERSION}", collection("stolen"));
        let body = json!({"properties": {"sku": {"name": "Standard"}}});
        assert_eq!(ask(Method::PUT, &jobs, body), StatusCode::FORBIDDEN);
        assert_eq!(put_web_token(&server, &token), 401);
        let status = ask(Method::GET, "/v1/status", Value::Null);
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        for path in [
            "/server/?hub=chat",
            "/api/hubs/chat/users/bob",
            "/client/negotiate?hub=b",
        ] {
            let refused = ask(Method::POST, path, Value::Null);
            assert_eq!(refused, StatusCode::FORBIDDEN, "{path}");
        }
    }
}

#[test]
fn a_web_token_opens_the_service_that_its_audience_names() {
    let server = serve(&[]);
    let token = |audience: &str| {
        let claims = json!({"aud": audience, "exp": LATER});
        jwt::token(claims.as_object().unwrap(), ROOT)
    };
    let events = token("https://eventhubs.azure.net/");
    let durable = token("https://durabletask.io");
    let jobs = token("https://management.azure.com");
    assert_eq!(put_web_token(&server, &events), 202);
    assert_eq!(put_web_token(&server, &durable), 401);
    assert_ne!(
        grpc(&server, "StartInstance", &durable).as_deref(),
        Some("7")
    );
    assert_eq!(grpc(&server, "StartInstance", &jobs).as_deref(), Some("7"));
    let list = "/subscriptions/main/providers/Microsoft.Scheduler/jobCollections";
    let list = format!("{list}?{VERSION}");
    for (token, expected) in [(&jobs, StatusCode::OK), (&events, StatusCode::FORBIDDEN)] {
        let answer = server.ask(Method::GET, &list, &format!("Bearer {token}"), None);
        assert_eq!(answer.0, expected);
    }
}

#[test]
fn a_key_for_one_collection_of_jobs_reaches_no_other() {
    let server = serve(&[("a", &["manage jobs/teamA"])]);
    let body = json!({"properties": {"sku": {"name": "Standard"}}});
    for team in ["teamA", "teamB"] {
        let path = format!("{}?{VERSION}", collection(team));
        let made = ask(&server, "root", Method::PUT, &path, body.clone());
        assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    }
    let job = json!({"properties": {"action": {"type": "Http", "request": {
        "uri": "http://192.0.2.1/", "method": "GET"}}}});
    let both = |method: Method, rest: &str, body: &Value| {
        ["teamA", "TEAMA", "teamB"].map(|team| {
            let path = format!("{}{rest}?{VERSION}", collection(team));
            let status = ask(&server, "a", method.clone(), &path, body.clone()).0;
            status == StatusCode::FORBIDDEN
        })
    };
    let null = Value::Null;
    for (method, rest, body) in [
        (Method::GET, "", &null),
        (Method::PATCH, "", &body),
        (Method::PUT, "/jobs/j", &job),
        (Method::GET, "/jobs/j", &null),
        (Method::GET, "/jobs", &null),
        (Method::GET, "/jobs/j/history", &null),
        (Method::POST, "/jobs/j/run", &null),
        (Method::POST, "/disable", &null),
        (Method::POST, "/import", &null),
        (Method::DELETE, "/jobs/j", &null),
    ] {
        let refused = both(method.clone(), rest, body);
        assert_eq!(refused, [false, false, true], "{method} {rest}");
    }
    let list = "/subscriptions/main/providers/Microsoft.Scheduler/jobCollections";
    let (status, seen) = ask(
        &server,
        "a",
        Method::GET,
        &format!("{list}?{VERSION}"),
        null,
    );
    assert_eq!(status, StatusCode::OK);
    let seen: Vec<_> = seen["value"].as_array().unwrap().iter().collect();
    assert!(seen.len() == 1 && seen[0]["name"] == "teamA", "{seen:?}");
}

#[test]
fn a_job_reaches_no_more_than_the_key_that_puts_it() {
    let rights: &[&str] = &["manage jobs", "send events/mine", "send durable/mine"];
    let server = serve(&[("maker", rights)]);
    for hub in ["mine", "others"] {
        let body = json!({"name": hub, "partitions": 1});
        let made = ask(&server, "root", Method::POST, "/v1/eventhubs", body);
        assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    }
    let home = format!("{}?{VERSION}", collection("c"));
    let body = json!({"properties": {"sku": {"name": "Standard"}}});
    assert_eq!(
        ask(&server, "maker", Method::PUT, &home, body).0,
        StatusCode::CREATED
    );
    let path = format!("{}/jobs/j?{VERSION}", collection("c"));
    let inside = |target: &Value| json!({"type": "Internal", "internal": target});
    let outside = json!({"type": "Http", "request": {"uri": "http://192.0.2.1/", "method": "GET"}});
    let targets = |hub: &str| {
        [
            json!({"eventHub": hub}),
            json!({"entity": "@counter@a", "operation": "add", "taskHub": hub}),
            json!({"orchestration": "o", "instanceId": "i", "taskHub": hub}),
        ]
    };
    // Disabled: one that runs comes to its end, and cannot be changed any more.
    let put = |method: Method, mut properties: Value| {
        properties["state"] = "Disabled".into();
        let body = json!({"properties": properties});
        ask(&server, "maker", method, &path, body)
    };
    for (hub, is_allowed) in [("mine", true), ("others", false)] {
        for target in targets(hub) {
            let mut with_error = outside.clone();
            with_error["errorAction"] = inside(&target);
            for properties in [
                json!({"action": inside(&target)}),
                json!({"action": with_error}),
                json!({"action": outside, "steadfast": {"deadLetter": target}}),
            ] {
                let (status, answer) = put(Method::PUT, properties.clone());
                let is_refused = status == StatusCode::FORBIDDEN;
                assert_eq!(!is_refused, is_allowed, "{properties}: {status} {answer}");
                assert!(is_refused || status.is_success(), "{status} {answer}");
            }
        }
    }
    // Without a name it is the default task hub, and an import is no way round.
    let plain = json!({"entity": "@counter@a", "operation": "add"});
    let refused = put(Method::PUT, json!({"action": inside(&plain)}));
    assert_eq!(refused.0, StatusCode::FORBIDDEN, "{}", refused.1);
    let target = json!({"eventHub": "mine"});
    assert!(
        put(Method::PUT, json!({"action": inside(&target)}))
            .0
            .is_success()
    );
    let moved = put(
        Method::PATCH,
        json!({"action": {"internal": {"eventHub": "others"}}}),
    );
    assert_eq!(moved.0, StatusCode::FORBIDDEN, "{}", moved.1);
    let exported = json!([{"name": "c/k", "properties": {
        "action": inside(&json!({"eventHub": "others"}))}}]);
    let import = format!("{}/import?{VERSION}", collection("c"));
    let (_, told) = ask(&server, "maker", Method::POST, &import, exported);
    assert_eq!(told["value"][0]["result"], "refused", "{told}");
}

#[test]
fn a_key_grants_no_more_than_it_has() {
    let server = serve(&[
        ("ops", &["manage node", "send events/a"]),
        ("odd", &["manage node/x"]),
    ]);
    let make = |key: &str, name: &str, right: &str| {
        let body = json!({"name": name, "rights": [right]});
        ask(&server, key, Method::POST, "/v1/keys", body).0
    };
    for (right, expected) in [
        ("manage *", StatusCode::FORBIDDEN),
        ("read *", StatusCode::FORBIDDEN),
        ("manage events", StatusCode::FORBIDDEN),
        ("send events", StatusCode::FORBIDDEN),
        ("send events/b", StatusCode::FORBIDDEN),
        ("send events/a", StatusCode::CREATED),
        ("read node", StatusCode::CREATED),
    ] {
        assert_eq!(
            make("ops", right.replace(['/', ' '], "-").as_str(), right),
            expected,
            "{right}"
        );
    }
    // Every right counts, wherever it stands among the others.
    for rights in [["send events/a", "manage *"], ["manage *", "send events/a"]] {
        let body = json!({"name": "several", "rights": rights});
        let made = ask(&server, "ops", Method::POST, "/v1/keys", body).0;
        assert_eq!(made, StatusCode::FORBIDDEN, "{rights:?}");
    }
    // The secret of a mightier key is shown to who rotates it.
    assert_eq!(make("root", "mighty", "manage *"), StatusCode::CREATED);
    let rotate = |key: &str, name: &str| {
        let path = format!("/v1/keys/{name}/rotate");
        ask(&server, key, Method::POST, &path, Value::Null).0
    };
    assert_eq!(rotate("ops", "mighty"), StatusCode::FORBIDDEN);
    assert_eq!(rotate("ops", "read-node"), StatusCode::OK);
    assert_eq!(rotate("root", "mighty"), StatusCode::OK);
    // A right on something in the node is no right on the node.
    assert_eq!(make("odd", "z", "manage node/x"), StatusCode::FORBIDDEN);
    let status = ask(&server, "odd", Method::GET, "/v1/status", Value::Null);
    assert_eq!(status.0, StatusCode::FORBIDDEN);
    // No key may delete the server's own.
    let own = ask(
        &server,
        "root",
        Method::DELETE,
        "/v1/keys/server%2Fclient-tokens",
        Value::Null,
    );
    assert_eq!(own.0, StatusCode::CONFLICT, "{}", own.1);
}

#[test]
fn a_token_of_the_server_opens_nothing_after_the_asking_key_was_deleted() {
    let server = serve(&[]);
    let make = || {
        let body = json!({"name": "desk", "rights": ["manage realtime/chat"]});
        let (status, made) = ask(&server, "root", Method::POST, "/v1/keys", body);
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["secret"].as_str().unwrap().to_owned()
    };
    let token = |secret: &str| {
        let (path, wish) = ("/v1/hubs/chat/tokens", Some(json!({"user": "alice"})));
        let (status, made) = server.ask(Method::POST, path, &format!("Bearer {secret}"), wish);
        assert_eq!(status, StatusCode::OK, "{made}");
        made["token"].as_str().unwrap().to_owned()
    };
    let opens = |token: &str| {
        let (path, bearer) = ("/client/negotiate?hub=chat", format!("Bearer {token}"));
        let (status, said) = server.ask(Method::POST, path, &bearer, None);
        assert!(!said.to_string().contains("desk"), "{said}");
        status
    };
    let (own, of_root) = (token(&make()), token(&secret("root")));
    assert_eq!(opens(&own), StatusCode::OK);
    let gone = ask(
        &server,
        "root",
        Method::DELETE,
        "/v1/keys/desk",
        Value::Null,
    );
    assert_eq!(gone.0, StatusCode::NO_CONTENT);
    assert_eq!(opens(&own), StatusCode::UNAUTHORIZED);
    // Another key of that name is not the one that asked.
    let other = token(&make());
    assert_eq!(opens(&own), StatusCode::UNAUTHORIZED);
    assert_eq!(opens(&other), StatusCode::OK);
    assert_eq!(opens(&of_root), StatusCode::OK);
}

#[test]
fn a_key_that_may_only_send_takes_nothing_out_of_a_queue() {
    let server = serve(&[
        ("sender", &["send state/s"]),
        ("listener", &["listen state/s"]),
        ("reader", &["read state/s"]),
        ("both", &["send state/s", "listen state/s"]),
    ]);
    let made = ask(
        &server,
        "root",
        Method::PUT,
        "/v1/state/s",
        json!({"scheme": "singleton"}),
    );
    assert_eq!(made.0, StatusCode::NO_CONTENT, "{}", made.1);
    let step = |key: &str, op: Value| {
        let body = json!({"steps": [op]});
        ask(&server, key, Method::POST, "/v1/state/s", body)
    };
    let enqueue = json!({"op": "enqueue", "collection": "q", "value": "secret"});
    assert_eq!(step("sender", enqueue.clone()).0, StatusCode::OK);
    assert_eq!(step("reader", enqueue).0, StatusCode::FORBIDDEN);
    let dequeue = json!({"op": "dequeue", "collection": "q"});
    for key in ["sender", "listener", "reader"] {
        assert_eq!(step(key, dequeue.clone()).0, StatusCode::FORBIDDEN, "{key}");
    }
    let taken = step("both", dequeue);
    assert_eq!(taken.1["results"][0]["value"], "secret", "{}", taken.1);
}

#[test]
fn each_effect_of_a_transaction_needs_the_right_of_its_own_route() {
    let internal = json!({"entity": "@counter@a", "operation": "add", "taskHub": "mine"});
    let properties = json!({"recurrence": {"frequency": "Month"},
        "action": {"type": "Internal", "internal": internal}});
    let job = json!({"op": "create_job", "collection": "mine", "job": "j",
        "properties": properties});
    // The other hub, task hub or collection is never reached.
    let effects = [
        (
            "send events/mine",
            json!({"op": "publish", "hub": "mine", "events": [{"body": "1"}]}),
        ),
        (
            "send durable/mine",
            json!({"op": "signal", "task_hub": "mine", "entity": "@counter@a", "operation": "add"}),
        ),
        (
            "send durable/mine",
            json!({"op": "start", "task_hub": "mine", "orchestration": "o"}),
        ),
        (
            "send durable/mine",
            json!({"op": "raise", "task_hub": "mine", "instance": "i", "event": "e"}),
        ),
        (
            "manage jobs/mine",
            json!({"op": "cancel_job", "collection": "mine", "job": "j"}),
        ),
        (
            "send realtime/mine",
            json!({"op": "push", "hub": "mine", "target": "t"}),
        ),
    ];
    let (state, durable) = ("send state/s", "send durable/mine");
    let server = serve(&[
        ("events", &[state, "send events/mine"]),
        ("durable", &[state, durable]),
        ("jobs", &[state, "manage jobs/mine"]),
        ("realtime", &[state, "send realtime/mine"]),
        ("state", &[state]),
        ("stateless", &["read state/s", "send events/mine", durable]),
        (
            "elsewhere",
            &[
                state,
                "manage events/other",
                "manage durable/other",
                "manage jobs/other",
                "manage realtime/other",
            ],
        ),
        ("creator", &[state, "manage jobs/mine", durable]),
    ]);
    let hub = json!({"name": "mine", "partitions": 1});
    let made = ask(&server, "root", Method::POST, "/v1/eventhubs", hub);
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let collection = "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
                      /jobCollections/mine?api-version=2016-03-01";
    let sku = json!({"properties": {"sku": {"name": "Standard"}}});
    let made = ask(&server, "root", Method::PUT, collection, sku);
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let commit = |key: &str, effect: &Value| {
        let body = json!({"service": "s", "effects": [effect]});
        ask(&server, key, Method::POST, "/v1/transactions", body)
    };
    for (right, effect) in &effects {
        let area = right.split([' ', '/']).nth(1).unwrap();
        for key in [
            "events",
            "durable",
            "jobs",
            "realtime",
            "state",
            "stateless",
            "elsewhere",
        ] {
            let (status, answer) = commit(key, effect);
            let expected = if key == area {
                StatusCode::OK
            } else {
                StatusCode::FORBIDDEN
            };
            assert_eq!(status, expected, "{key}: {effect}: {answer}");
        }
    }
    // A job acts later: its creator needs the rights of its targets.
    let refused = commit("jobs", &job);
    assert_eq!(refused.0, StatusCode::FORBIDDEN, "{}", refused.1);
    let made = commit("creator", &job);
    assert_eq!(made.0, StatusCode::OK, "{}", made.1);
    // A key is a row of the service, so it needs the right to write there.
    let read = json!({"service": "s", "steps": [{"op": "get", "collection": "c", "key": "k"}]});
    let read = |header: bool| {
        let mut request = server
            .client
            .post(format!("{}/v1/transactions", server.url));
        if header {
            request = request.header("idempotency-key", "one");
        }
        let request = request.bearer_auth(secret("stateless")).json(&read);
        server.block(async { request.send().await.unwrap().status() })
    };
    assert_eq!(
        (read(false), read(true)),
        (StatusCode::OK, StatusCode::FORBIDDEN)
    );
}

#[test]
fn an_application_name_does_not_leave_the_scope_of_a_hub() {
    let server = serve(&[("chat", &["send realtime/chat"])]);
    let path = "/api/hubs/chat/:send";
    let claims = json!({"aud": format!("http://127.0.0.1{path}"), "exp": LATER});
    let token = jwt::token(claims.as_object().unwrap(), &secret("chat"));
    let body = json!({"target": "t", "arguments": []});
    let send = |query: &str| {
        let path = format!("{path}?api-version=2022-06-01{query}");
        let bearer = format!("Bearer {token}");
        server
            .ask(Method::POST, &path, &bearer, Some(body.clone()))
            .0
    };
    assert_eq!(send(""), StatusCode::ACCEPTED);
    assert_eq!(send("&application=admin"), StatusCode::FORBIDDEN);
}

#[test]
fn an_unknown_key_name_is_answered_like_a_wrong_secret() {
    let server = serve(&[]);
    let refused = |path: &str, name: &str| {
        let token = sas::token(&format!("{}{path}", server.url), LATER, name, "wrong");
        let method = if path.starts_with("/v1") {
            Method::GET
        } else {
            Method::POST
        };
        let (status, answer) = server.ask(method, path, &token, None);
        (status, answer.to_string())
    };
    for path in ["/v1/status", "/houses/messages"] {
        let (status, words) = refused(path, "root");
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}: {words}");
        assert_eq!(refused(path, "absent"), (status, words));
    }
    let port = server.port_of_with("blob", ROOT);
    let blob = |account: &str| {
        let url = format!("http://127.0.0.1:{port}/{account}/c?restype=container");
        let request = server.client.get(url);
        let request = request.header("authorization", format!("SharedKey {account}:d3Jvbmc="));
        let request = request.header("x-ms-version", "2021-12-02");
        server.block(async {
            let answer = request.send().await.unwrap();
            let code = answer.headers().get("x-ms-error-code").cloned();
            (answer.status(), code)
        })
    };
    assert_eq!(blob("root"), blob("absent"));
    assert!(!blob("root").0.is_success());
}

#[test]
fn a_key_that_may_only_read_sees_no_secret() {
    let server = serve(&[("reader", &["read *"])]);
    let hub = json!({"name": "houses", "partitions": 1});
    let made = ask(&server, "root", Method::POST, "/v1/eventhubs", hub);
    assert!(made.1["connection_strings"].is_object() || made.1["connection_strings"].is_array());
    let see = |path: &str| {
        let (status, answer) = ask(&server, "reader", Method::GET, path, Value::Null);
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer.to_string()
    };
    for path in [
        "/v1/status",
        "/v1/keys",
        "/v1/eventhubs",
        "/v1/eventhubs/houses",
    ] {
        let seen = see(path);
        assert!(
            !seen.contains("connection_strings") && !seen.contains(ROOT),
            "{seen}"
        );
    }
    for path in [
        "/v1/hubs/chat/tokens",
        "/v1/drain",
        "/v1/keys",
        "/v1/eventhubs",
    ] {
        let refused = ask(&server, "reader", Method::POST, path, json!({}));
        assert_eq!(refused.0, StatusCode::FORBIDDEN, "{path}");
    }
    let mut command = steadfast(server.folder.path());
    command
        .arg("status")
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", secret("reader"));
    let (code, _, error) = said(&running::finish(command));
    assert_eq!(code, 0, "{error}");
}
