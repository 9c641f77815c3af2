//! What all requests to a server have in common.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{KNOWN, Server, Start};

fn headers(server: &Server, method: Method, origin: &str) -> reqwest::Response {
    let request = server
        .client
        .request(method, format!("{}/v1/status", server.url))
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization");
    server.block(async { request.send().await.unwrap() })
}

#[test]
fn pages_of_known_origins_may_ask_and_others_may_not() {
    let server = Start::new("dev")
        .set("http.cors_origins=https://good.example")
        .ready();
    let answer = headers(&server, Method::OPTIONS, "https://good.example");
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    let header = |name: &str| {
        answer
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap())
    };
    assert_eq!(
        header("access-control-allow-origin"),
        Some("https://good.example")
    );
    assert_eq!(header("access-control-allow-methods"), Some("POST"));
    assert_eq!(
        header("access-control-allow-headers"),
        Some("authorization")
    );
    let answer = headers(&server, Method::GET, "https://good.example");
    assert_eq!(
        answer.headers()["access-control-allow-origin"],
        "https://good.example"
    );
    assert_eq!(answer.headers()["vary"], "Origin");
    for origin in ["https://bad.example", "https://good.example.bad", "null"] {
        let answer = headers(&server, Method::OPTIONS, origin);
        assert!(
            !answer.headers().contains_key("access-control-allow-origin"),
            "{origin}"
        );
    }
}

/// Who the server thinks has asked.
fn client(proxies: &str) -> String {
    let setting = format!("http.trusted_proxies={proxies}");
    let server = Start::new("dev")
        .set("log.level=debug")
        .set(&setting)
        .ready();
    let request = server.client.get(format!("{}/v1/status", server.url));
    let request = request.header("x-forwarded-for", "203.0.113.7");
    server.block(async { request.send().await.unwrap() });
    let log = server.logged("access.denied");
    let line = log
        .lines()
        .find(|line| line.contains("access.denied"))
        .unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    line["client"].as_str().unwrap().to_owned()
}

#[test]
fn forwarded_headers_count_only_from_trusted_proxies() {
    assert_eq!(client(""), "127.0.0.1");
    assert_eq!(client("10.0.0.0/8"), "127.0.0.1");
    assert_eq!(client("127.0.0.0/8"), "203.0.113.7");
}

#[test]
fn the_openapi_document_is_valid() {
    let server = Start::new("dev").ready();
    let (_, document) = server.ask(Method::GET, "/openapi.json", "", None);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let known = ["get", "put", "post", "delete", "patch"];
            assert!(known.contains(&method.as_str()), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            let id = operation["operationId"].as_str().unwrap_or(path).to_owned();
            assert!(ids.insert(id.clone()), "{id} is there twice");
            let responses = operation["responses"].as_object().unwrap();
            assert!(!responses.is_empty());
            for (status, response) in responses {
                assert!(
                    status == "default" || status.parse::<u16>().is_ok(),
                    "{status}"
                );
                let target = match response["$ref"].as_str() {
                    Some(link) => document.pointer(link.strip_prefix('#').unwrap()).unwrap(),
                    None => response,
                };
                assert!(
                    target["description"].is_string(),
                    "{method} {path} {status}"
                );
            }
            let in_path: BTreeSet<_> = path
                .split('/')
                .filter_map(|part| part.strip_prefix('{'))
                .collect();
            let described: Vec<_> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .collect();
            assert_eq!(in_path.len(), described.len(), "{method} {path}");
        }
    }
}

#[test]
fn every_route_of_the_document_is_there_and_guarded() {
    let server = Start::new("dev").ready();
    let (_, document) = server.ask(Method::GET, "/openapi.json", "", None);
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let place = path.replace("{name}", "absent");
        for (method, operation) in item.as_object().unwrap() {
            let verb: Method = method.to_uppercase().parse().unwrap();
            let (without, _) = server.ask(verb.clone(), &place, "", None);
            if operation["security"] == json!([]) {
                assert_eq!(without, StatusCode::OK, "{method} {path}");
            } else {
                assert_eq!(without, StatusCode::UNAUTHORIZED, "{method} {path}");
                // Without its body a drain is not begun.
                let (with, body) = server.ask(verb, &place, &format!("Bearer {KNOWN}"), None);
                let is_route = body["error"]["message"]
                    != json!(format!("there is nothing at {place}: see /openapi.json"));
                assert!(
                    is_route && with != StatusCode::METHOD_NOT_ALLOWED,
                    "{method} {path}"
                );
            }
            count += 1;
        }
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn every_route_of_the_sources_is_in_the_document() {
    let server = Start::new("dev").ready();
    let (_, document) = server.ask(Method::GET, "/openapi.json", "", None);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut routes = BTreeSet::new();
    for folder in ["net/src/http", "admin/src", "steadfast/src/node"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let file = file.unwrap().path();
            if file.is_dir() {
                continue;
            }
            let text = std::fs::read_to_string(file).unwrap();
            let found = text
                .split(".route(")
                .skip(1)
                .filter_map(|rest| rest.split('"').nth(1));
            routes.extend(
                found
                    .filter(|path| path.starts_with('/'))
                    .map(str::to_owned),
            );
        }
    }
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert!(routes.contains(path), "{path} is not in {routes:?}");
    }
    for route in routes {
        assert!(
            document["paths"][&route].is_object(),
            "{route} is not described"
        );
    }
}

#[test]
fn metrics_can_be_read_by_prometheus() {
    let server = Start::new("dev").ready();
    server.get("/v1/status");
    let (status, text) = server.ask(Method::GET, "/metrics", "", None);
    assert_eq!(status, StatusCode::OK);
    let text = text.as_str().unwrap().to_owned();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut kinds = std::collections::BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{name} twice"
            );
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().expect(line);
            let name = name.split('{').next().unwrap();
            let of = |suffix: &str| {
                name.strip_suffix(suffix)
                    .is_some_and(|name| kinds.contains_key(name))
            };
            let is_known = kinds.contains_key(name)
                || ["_total", "_bucket", "_sum", "_count"].into_iter().any(of);
            assert!(is_known && name.starts_with("steadfast_"), "{line}");
        }
    }
    assert_eq!(kinds["steadfast_http_seconds"], "histogram");
    assert!(text.contains("steadfast_partitions 64"), "{text}");
    assert!(
        text.contains(r#"steadfast_http_requests_total{status="200"} 1"#),
        "{text}"
    );
}

#[test]
fn mistakes_are_answered_in_one_form() {
    let server = Start::new("dev").ready();
    let key = format!("Bearer {KNOWN}");
    let code = |(status, body): (StatusCode, Value)| {
        (
            status.as_u16(),
            body["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let expected = |status, code: &str| (status, code.to_owned());
    assert_eq!(code(server.get("/nothing")), expected(404, "STF-6021"));
    let wrong_way = server.ask(Method::DELETE, "/v1/status", &key, None);
    assert_eq!(code(wrong_way), expected(405, "STF-6023"));
    assert_eq!(
        code(server.post("/v1/keys", json!({"nam": "a"}))),
        expected(400, "STF-6020")
    );
    let long = json!({"name": "x".repeat(5 << 20), "rights": []});
    assert_eq!(
        code(server.post("/v1/keys", long)),
        expected(413, "STF-6024")
    );
}

#[test]
fn a_message_does_not_begin_with_a_code() {
    let server = Start::new("dev").config("").ready();
    let file = server.folder.path().join("steadfast.toml");
    std::fs::write(file, "[lgo]\nlevel = 'loud'\n").unwrap();
    let (status, wrong) = server.post("/v1/reload", json!(null));
    assert_eq!(
        (status.as_u16(), &wrong["error"]["code"]),
        (400, &json!("STF-7001"))
    );
    let (status, gone) = server.get("/v1/hubs/none/clients/x");
    assert_eq!(status, 404, "{gone}");
    let durable = "/runtime/webhooks/durabletask";
    let answers = [
        wrong,
        gone,
        server.get("/nothing").1,
        server.get("/v1/hubs/bad%20name%00/clients").1,
        server.get("/v1/eventhubs/none/groups").1,
        server.get("/v1/jobs/none").1,
        server.get(&format!("{durable}/instances/none")).1,
        server.get(&format!("{durable}/instances/none/why")).1,
        server
            .post(&format!("{durable}/entities/a%00b/c"), json!(1))
            .1,
        server
            .post("/v1/keys", json!({"name": "a", "rights": ["fly"]}))
            .1,
        server.post("/v1/backup", json!({"to": "../outside"})).1,
        server.post("/v1/restore", json!({"from": "missing"})).1,
        server
            .post("/v1/inspect", json!({"what": "none", "limit": 1}))
            .1,
        server
            .ask(Method::GET, "/v1/status", "Bearer wrong", None)
            .1,
        server.ask(Method::GET, "/v1/status", "", None).1,
    ];
    for answer in answers {
        let error = &answer["error"];
        let code = error["code"].as_str().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or_default();
        assert!(code.starts_with("STF-") && !message.is_empty(), "{answer}");
        assert!(!message.contains("STF-"), "{answer}");
    }
}

#[test]
fn health_says_what_is_well() {
    let server = Start::new("dev").ready();
    let (status, body) = server.ask(Method::GET, "/healthz", "", None);
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&body["state"], &body["ok"]),
        (&json!("ready"), &json!(true))
    );
    assert_eq!(body["checks"][0]["name"], "partitions");
}
