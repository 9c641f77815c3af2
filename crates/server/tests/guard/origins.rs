//! Pages of a browser that attack a server.

use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::running::{KNOWN, PATIENCE, Server, Start};

const EVIL: &str = "https://evil.example";

/// What a browser adds to a request of a page of another site.
const CROSS_SITE: [(&str, &str); 2] = [("origin", EVIL), ("sec-fetch-site", "cross-site")];

fn send(
    server: &Server,
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Response {
    let request = server.client.request(method, url);
    let request = if headers.iter().any(|(name, _)| *name == "authorization") {
        request
    } else {
        request.bearer_auth(KNOWN)
    };
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    server.block(async { request.send().await.unwrap() })
}

fn status(server: &Server, method: Method, path: &str, headers: &[(&str, &str)]) -> StatusCode {
    let url = format!("{}{path}", server.url);
    send(server, method, &url, headers, None).status()
}

/// Makes a key; answers the status.
fn make_key(server: &Server, name: &str, headers: &[(&str, &str)]) -> StatusCode {
    let url = format!("{}/v1/keys", server.url);
    let body = json!({"name": name, "rights": ["listen events"]});
    send(server, Method::POST, &url, headers, Some(body)).status()
}

#[test]
fn a_name_that_was_pointed_to_loopback_is_refused() {
    let server = Start::new("dev").ready();
    let url = format!("{}/v1/keys", server.url);
    let answer = send(
        &server,
        Method::GET,
        &url,
        &[("host", "evil.example:7070")],
        None,
    );
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let body: Value = server.block(async { answer.json().await.unwrap() });
    assert_eq!(body["error"]["code"], "STF-6027", "{body}");
    for port in ["http", "blob", "realtime", "durable"] {
        let url = format!("http://127.0.0.1:{}/", server.port_of(port));
        let answer = send(
            &server,
            Method::GET,
            &url,
            &[("host", "evil.example")],
            None,
        );
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{port}");
    }
    for host in [
        "localhost",
        "LocalHost:7070",
        "127.0.0.1",
        "[::1]:7070",
        "account.blob.localhost",
    ] {
        let answer = status(&server, Method::GET, "/v1/keys", &[("host", host)]);
        assert_eq!(answer, StatusCode::OK, "{host}");
    }
}

/// The authority of HTTP/2 is what Host is of HTTP/1.
#[test]
fn a_foreign_authority_of_http_2_is_refused() {
    let server = Start::new("dev").ready();
    let client = Client::builder()
        .http2_prior_knowledge()
        .resolve("evil.example", ([127, 0, 0, 1], server.port()).into())
        .build()
        .unwrap();
    let url = format!("http://evil.example:{}", server.port());
    let keys = client.get(format!("{url}/v1/keys")).bearer_auth(KNOWN);
    let keys = server.block(async { keys.send().await.unwrap() });
    assert_eq!(keys.status(), StatusCode::FORBIDDEN);
    let hello = client
        .post(format!("{url}/TaskHubSidecarService/Hello"))
        .header("content-type", "application/grpc")
        .body(vec![0; 5]);
    let hello = server.block(async { hello.send().await.unwrap() });
    assert_eq!(hello.status(), StatusCode::FORBIDDEN);
}

#[test]
fn names_of_the_setting_are_taken() {
    let server = Start::new("dev")
        .set("http.hosts=steadfast.internal")
        .ready();
    let ask = |host| status(&server, Method::GET, "/v1/keys", &[("host", host)]);
    assert_eq!(ask("steadfast.internal:7070"), StatusCode::OK);
    assert_eq!(ask("localhost"), StatusCode::OK);
    assert_eq!(ask("evil.example"), StatusCode::FORBIDDEN);
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let server = Start::new("dev").ready();
    let same = server.url.as_str();
    for (number, headers) in [
        &CROSS_SITE[..],
        &[("origin", EVIL)],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("origin", "http://localhost.evil.example")],
    ]
    .into_iter()
    .enumerate()
    {
        let made = make_key(&server, &format!("bad{number}"), headers);
        assert_eq!(made, StatusCode::FORBIDDEN, "{headers:?}");
    }
    // Programs, pages of the server itself, and pages of the developer's machine.
    for (number, headers) in [
        &[][..],
        &[("origin", same)],
        &[
            ("origin", "http://localhost:3000"),
            ("sec-fetch-site", "same-site"),
        ],
        &[
            ("origin", "http://[::1]:3000"),
            ("sec-fetch-site", "cross-site"),
        ],
        &[("origin", EVIL), ("sec-fetch-site", "same-origin")],
    ]
    .into_iter()
    .enumerate()
    {
        let made = make_key(&server, &format!("good{number}"), headers);
        assert_eq!(made, StatusCode::CREATED, "{headers:?}");
    }
    let (_, keys) = server.get("/v1/keys");
    assert!(!keys.to_string().contains("bad"), "{keys}");
}

/// Asks for a WebSocket; answers the status.
fn open(server: &Server, url: &str, origin: Option<&str>) -> u16 {
    let mut request =
        tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(
            url.replace("http://", "ws://"),
        )
        .unwrap();
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", "AMQPWSB10".parse().unwrap());
    if let Some(origin) = origin {
        headers.insert("origin", origin.parse().unwrap());
    }
    server.block(async {
        match tokio_tungstenite::connect_async(request).await {
            Ok((_, answer)) => answer.status().as_u16(),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => answer.status().as_u16(),
            Err(error) => panic!("{error}"),
        }
    })
}

#[test]
fn a_page_of_another_origin_opens_no_websocket() {
    let server = Start::new("dev").ready();
    let amqp = format!("{}/$servicebus/websocket", server.url);
    let hub = format!(
        "http://localhost:{}/client/?hub=chat",
        server.port_of("realtime")
    );
    assert_eq!(open(&server, &amqp, Some(EVIL)), 403);
    assert_eq!(open(&server, &hub, Some(EVIL)), 403);
    assert_eq!(open(&server, &amqp, None), 101);
    assert_eq!(open(&server, &amqp, Some("http://localhost:3000")), 101);
    // It has no token.
    assert_eq!(open(&server, &hub, Some("http://localhost:3000")), 401);
}

#[test]
fn grpc_is_not_what_a_page_may_send() {
    let server = Start::new("dev").ready();
    let hello = |client: &Client, port: &str, kind: &str| {
        let port = server.port_of(port);
        let url = format!("http://localhost:{port}/TaskHubSidecarService/Hello");
        let request = client
            .post(url)
            .header("content-type", kind)
            .body(vec![0; 5]);
        server.block(async { request.send().await.unwrap() })
    };
    let http2 = Client::builder().http2_prior_knowledge();
    let http2 = http2.timeout(PATIENCE).build().unwrap();
    for port in ["http", "durable"] {
        for kind in ["text/plain", "application/grpc-web", "application/json"] {
            for client in [&server.client, &http2] {
                let answer = hello(client, port, kind);
                assert_eq!(
                    answer.status(),
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "{kind}"
                );
            }
        }
        let answer = hello(&server.client, port, "application/grpc");
        assert_eq!(answer.status(), StatusCode::HTTP_VERSION_NOT_SUPPORTED);
        for kind in ["application/grpc", "application/grpc+proto"] {
            let answer = hello(&http2, port, kind);
            assert_eq!(answer.status(), StatusCode::OK);
            assert!(!answer.headers().contains_key("grpc-status"), "{answer:?}");
        }
    }
}

#[test]
fn a_key_in_an_address_is_not_for_pages() {
    let server = Start::new("dev").ready();
    let path = format!("/runtime/webhooks/durabletask/instances?code={KNOWN}");
    let ask = |headers: &[(&str, &str)]| {
        let request = server.client.get(format!("{}{path}", server.url));
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        server
            .block(async { request.send().await.unwrap() })
            .status()
    };
    assert_eq!(ask(&CROSS_SITE), StatusCode::FORBIDDEN);
    let image = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
    ];
    assert_eq!(ask(&image), StatusCode::FORBIDDEN);
    assert_eq!(ask(&[("host", "evil.example")]), StatusCode::FORBIDDEN);
    assert_eq!(ask(&[]), StatusCode::OK);
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    assert_eq!(ask(&link), StatusCode::OK);
}

/// The headers of an answer that let a page read it.
fn shared(server: &Server, origin: &str) -> (Option<String>, Option<String>) {
    let url = format!("{}/v1/status", server.url);
    let answer = send(server, Method::GET, &url, &[("origin", origin)], None);
    let header = |name| {
        let value: Option<&reqwest::header::HeaderValue> = answer.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    (
        header("access-control-allow-origin"),
        header("access-control-allow-credentials"),
    )
}

#[test]
fn any_origin_gets_answers_without_credentials_only() {
    let server = Start::new("dev")
        .set("http.cors_origins=*,https://good.example")
        .ready();
    assert_eq!(shared(&server, EVIL), (Some("*".to_owned()), None));
    for origin in ["https://good.example", "http://localhost:3000"] {
        let (named, credentials) = shared(&server, origin);
        assert_eq!(named.as_deref(), Some(origin));
        assert_eq!(credentials.as_deref(), Some("true"));
    }
    assert_eq!(make_key(&server, "any", &CROSS_SITE), StatusCode::CREATED);
}

#[test]
fn a_served_server_takes_any_host_and_listed_origins() {
    let secret = "a-secret-of-the-root-key";
    let key = format!("[[key]]\nname = 'root'\nprimary = '{secret}'\nrights = ['manage *']\n");
    let server = Start::new("serve")
        .config(&key)
        .set("http.cors_origins=https://good.example")
        .ready();
    let bearer = format!("Bearer {secret}");
    let make = |name, header| {
        let headers = [("authorization", bearer.as_str()), header];
        make_key(&server, name, &headers)
    };
    let host = ("host", "steadfast.example");
    assert_eq!(make("a", host), StatusCode::CREATED);
    assert_eq!(make("b", ("origin", EVIL)), StatusCode::FORBIDDEN);
    let near = "http://localhost:3000";
    assert_eq!(make("c", ("origin", near)), StatusCode::FORBIDDEN);
    let good = ("origin", "https://good.example");
    assert_eq!(make("d", good), StatusCode::CREATED);
    assert_eq!(shared(&server, near), (None, None));
}
