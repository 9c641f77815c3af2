//! Sends and questions by HTTP, as management SDKs do.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client as Http, Method, Response, StatusCode};
use serde_json::{Value, json};
use steadfast_core::clock::Clock as _;
use steadfast_core::limits;
use steadfast_wire::jwt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::hub_stage::{SECRET, Stage};

const PATIENCE: Duration = Duration::from_secs(10);
const HELLO: &str = "{\"protocol\":\"json\",\"version\":1}\u{1e}";

struct Desk {
    stage: Stage,
    http: Http,
}

impl Desk {
    fn new() -> Self {
        // The clients of these tests encrypt with ring, if they did.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            stage: Stage::start(),
            http: Http::builder().timeout(PATIENCE).build().unwrap(),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        let ends = self.stage.clock.now().0 / 1000 + 60;
        let (bare, _) = path.split_once('?').unwrap_or((path, ""));
        let claims = json!({"aud": format!("http://localhost{bare}"), "exp": ends});
        let token = jwt::token(claims.as_object().unwrap(), SECRET);
        let url = format!("{}{path}", self.stage.url());
        let method: Method = method.parse().unwrap();
        let request = self.http.request(method, url).bearer_auth(token);
        let request = request.header("content-type", "application/json");
        request.body(body.to_owned()).send().await.unwrap()
    }

    /// Status, and what the SDKs read when something is not there.
    async fn status(&self, method: &str, path: &str) -> (u16, Option<String>) {
        let body = r#"{"target":"told","arguments":["x"]}"#;
        let response = self.ask(method, path, body).await;
        let code = response.headers().get("x-ms-error-code");
        let code = code.map(|own| own.to_str().unwrap().to_owned());
        (response.status().as_u16(), code)
    }

    async fn client(&self, user: &str) -> (Client, String) {
        let claims = [("asrs.s.uid", user)];
        let token = self.stage.token_with("room", &claims, PATIENCE);
        let address = self.stage.address;
        let url = format!("ws://{address}/client/?hub=room&access_token={token}");
        let (mut socket, _) = connect_async(url).await.unwrap();
        socket.send(Frame::text(HELLO)).await.unwrap();
        let mut client = Client(socket);
        assert_eq!(client.next().await, json!({}));
        let lobby = self.stage.realtime.connections("room").unwrap();
        let own = lobby.clients();
        let own = own
            .iter()
            .find(|own| own.caller().user.as_deref() == Some(user));
        (client, own.unwrap().id().to_string())
    }
}

struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
        let frame = next.unwrap().unwrap().unwrap();
        let text = frame.into_text().unwrap();
        serde_json::from_str(text.trim_end_matches('\u{1e}')).unwrap()
    }

    async fn told(&mut self) -> Value {
        let said = self.next().await;
        assert_eq!(said["target"], "told", "{said}");
        said["arguments"][0].clone()
    }
}

#[tokio::test]
async fn realtime_52_every_operation_has_its_status_and_code() {
    let desk = Desk::new();
    let (_one, id) = desk.client("u").await;
    let absent = |code: &str| (404, Some(code.to_owned()));
    let ok = |status: u16| (status, None);
    let new = "/api/hubs/room";
    let old = "/api/v1/hubs/room";
    let no = "Warning.Connection.NotExisted";
    let cases = [
        (
            "POST",
            format!("{new}/:send?api-version=2022-06-01"),
            ok(202),
        ),
        ("POST", format!("{new}/users/u/:send"), ok(202)),
        ("POST", format!("{new}/users/absent/:send"), ok(202)),
        ("POST", format!("{new}/groups/g/:send"), ok(202)),
        ("POST", format!("{new}/connections/{id}/:send"), ok(202)),
        ("POST", old.to_owned(), ok(202)),
        ("POST", format!("{old}/users/u"), ok(202)),
        ("POST", format!("{old}/groups/g"), ok(202)),
        ("POST", format!("{old}/connections/{id}"), ok(202)),
        ("HEAD", format!("{new}/connections/{id}"), ok(200)),
        ("HEAD", format!("{new}/connections/x"), absent(no)),
        ("HEAD", format!("{new}/users/u"), ok(200)),
        (
            "HEAD",
            format!("{new}/users/v"),
            absent("Warning.User.NotExisted"),
        ),
        (
            "HEAD",
            format!("{new}/groups/g"),
            absent("Warning.Group.NotExisted"),
        ),
        ("PUT", format!("{new}/groups/g/connections/{id}"), ok(200)),
        ("HEAD", format!("{new}/groups/g"), ok(200)),
        ("HEAD", format!("{new}/users/u/groups/g"), ok(200)),
        (
            "HEAD",
            format!("{new}/users/u/groups/h"),
            absent("Info.User.NotInGroup"),
        ),
        ("GET", format!("{old}/groups/g/users/u"), ok(200)),
        (
            "PUT",
            format!("{new}/groups/g/connections/x"),
            absent("Error.Connection.NotExisted"),
        ),
        (
            "DELETE",
            format!("{new}/groups/g/connections/{id}"),
            ok(200),
        ),
        ("DELETE", format!("{new}/groups/g/connections/x"), ok(200)),
        ("DELETE", format!("{old}/groups/g/connections/x"), ok(200)),
        ("PUT", format!("{new}/users/u/groups/h"), ok(200)),
        ("DELETE", format!("{new}/users/u/groups/h"), ok(204)),
        ("PUT", format!("{old}/groups/h/users/u"), ok(202)),
        ("DELETE", format!("{old}/groups/h/users/u"), ok(202)),
        ("DELETE", format!("{new}/connections/{id}/groups"), ok(200)),
        ("DELETE", format!("{new}/users/u/groups"), ok(204)),
        ("DELETE", format!("{old}/users/u/groups"), ok(200)),
        ("POST", format!("{new}/groups/g/:closeConnections"), ok(204)),
        (
            "POST",
            format!("{new}/:closeConnections?excluded={id}"),
            ok(204),
        ),
        ("HEAD", format!("{new}/connections/{id}"), ok(200)),
        ("POST", format!("{new}/users/v/:closeConnections"), ok(204)),
        ("DELETE", format!("{old}/connections/x"), ok(202)),
        ("DELETE", format!("{new}/connections/{id}"), ok(200)),
        ("POST", "/api/hubs/1room/:send".to_owned(), ok(400)),
        ("POST", "/api/hubs/ro%20om/:send".to_owned(), ok(400)),
        (
            "POST",
            format!("/api/hubs/{}/:send", "r".repeat(129)),
            ok(400),
        ),
        ("PUT", format!("{new}/groups/%20/connections/x"), ok(400)),
        ("POST", format!("{new}/groups/%20/:send"), ok(400)),
        ("POST", format!("{old}/groups/%20"), ok(400)),
        (
            "POST",
            format!("{new}/groups/%20/:closeConnections"),
            ok(400),
        ),
        (
            "POST",
            format!("{new}/groups/{}/:send", "g".repeat(1025)),
            ok(400),
        ),
        ("PATCH", format!("{new}/groups/g"), ok(404)),
    ];
    for (method, path, expected) in cases {
        assert_eq!(
            desk.status(method, &path).await,
            expected,
            "{method} {path}"
        );
    }
    let missing = desk.ask("POST", "/api/hubs/room/:send", "{}").await;
    assert_eq!(missing.status(), StatusCode::BAD_REQUEST);
    let said: Value = missing.json().await.unwrap();
    assert!(
        said["code"].is_string() && said["message"].is_string(),
        "{said}"
    );
    let large = "x".repeat((1 << 20) + 1);
    let large = desk.ask("POST", "/api/hubs/room/:send", &large).await;
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let url = format!("{}/api/hubs/room/:send", desk.stage.url());
    let unsigned = desk.http.post(&url).body("{}").send().await.unwrap();
    assert_eq!(unsigned.status(), StatusCode::UNAUTHORIZED);
    let client = desk.stage.token("room");
    let other = desk
        .http
        .post(&url)
        .bearer_auth(client)
        .send()
        .await
        .unwrap();
    assert_eq!(other.status(), StatusCode::FORBIDDEN, "a client's token");
}

#[tokio::test]
async fn sends_by_http_reach_clients_and_closes_end_them() {
    let desk = Desk::new();
    let (mut one, id) = desk.client("u").await;
    let (mut other, _) = desk.client("v").await;
    let send = |path: String, word: &str| {
        let body = json!({"target": "told", "arguments": [word]}).to_string();
        let desk = &desk;
        async move { assert_eq!(desk.ask("POST", &path, &body).await.status(), 202) }
    };
    send(format!("/api/hubs/room/:send?excluded={id}"), "others").await;
    send(format!("/api/hubs/Room/connections/{id}/:send"), "one").await;
    send("/api/hubs/room/users/v/:send".to_owned(), "user").await;
    assert_eq!(one.told().await, "one");
    assert_eq!(
        (other.told().await, other.told().await),
        (json!("others"), json!("user"))
    );
    let path = format!("/api/hubs/room/connections/{id}?reason=enough");
    desk.ask("DELETE", &path, "").await;
    assert_eq!(one.next().await, json!({"type": 7, "error": "enough"}));
}

#[tokio::test]
async fn one_connection_and_one_user_are_in_few_groups() {
    let desk = Desk::new();
    let (_one, id) = desk.client("u").await;
    let hub = desk.stage.realtime.hub("room").unwrap();
    for number in 0..limits::CLIENT_GROUPS {
        hub.join(&id, &format!("g{number}")).unwrap();
        hub.join_user("absent", &format!("g{number}"), None)
            .unwrap();
    }
    assert!(hub.join(&id, "late").is_err() && !hub.has_group("late"));
    assert!(hub.join_user("absent", "late", None).is_err());
    assert!(!hub.is_user_in("absent", "late"));
    // Those that they are in already stay.
    hub.join(&id, "g7").unwrap();
    hub.join_user("absent", "g7", None).unwrap();
}

#[tokio::test]
async fn realtime_53_users_are_in_groups_before_they_come_and_until_their_time() {
    let desk = Desk::new();
    let put = "/api/hubs/room/users/u/groups/early";
    assert_eq!(desk.status("PUT", put).await.0, 200);
    let short = "/api/hubs/room/users/u/groups/short?ttl=5";
    assert_eq!(desk.status("PUT", short).await.0, 200);
    let (mut client, id) = desk.client("u").await;
    let lobby = desk.stage.realtime.connections("room").unwrap();
    assert_eq!(lobby.groups_of(&id), ["early", "short"]);
    assert_eq!(
        desk.status("POST", "/api/hubs/room/groups/early/:send")
            .await
            .0,
        202
    );
    assert_eq!(client.told().await, "x");
    let gone = tokio::time::timeout(PATIENCE, async {
        while lobby.groups_of(&id).len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    gone.await.expect("its time is over");
    assert_eq!(lobby.groups_of(&id), ["early"]);
}

#[tokio::test]
async fn realtime_54_health_needs_no_token_and_tells_of_a_drain() {
    let desk = Desk::new();
    for path in ["/api/health", "/api/v1/health"] {
        let url = format!("{}{path}", desk.stage.url());
        assert_eq!(desk.http.head(&url).send().await.unwrap().status(), 200);
        assert_eq!(desk.http.get(&url).send().await.unwrap().status(), 200);
    }
    desk.stage.realtime.drain(Duration::from_millis(10)).await;
    let url = format!("{}/api/health", desk.stage.url());
    assert_eq!(desk.http.head(&url).send().await.unwrap().status(), 503);
}

#[tokio::test]
async fn a_send_is_read_in_the_case_that_the_management_sdk_writes() {
    let desk = Desk::new();
    let (mut client, _) = desk.client("u").await;
    for (body, word) in [
        (r#"{"Target":"told","Arguments":["one"]}"#, "one"),
        (r#"{"TARGET":"told","aRGUMENTS":["two"]}"#, "two"),
    ] {
        let answer = desk.ask("POST", "/api/hubs/room/:send", body).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED, "{body}");
        assert_eq!(client.told().await, word);
    }
    let body = r#"{"Target":"told","Arguments":null}"#;
    let answer = desk.ask("POST", "/api/hubs/room/:send", body).await;
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    assert_eq!(client.next().await["arguments"], json!([]));
    for body in [
        r#"{"Target":7}"#,
        r#"{"Arguments":[]}"#,
        r#"{"target":"x","arguments":{}}"#,
    ] {
        let answer = desk.ask("POST", "/api/hubs/room/:send", body).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_after_all_of_it_was_written() {
    let desk = Desk::new();
    let path = "/api/hubs/room/:send";
    let ends = desk.stage.clock.now().0 / 1000 + 60;
    let claims = json!({"aud": format!("http://localhost{path}"), "exp": ends});
    let token = jwt::token(claims.as_object().unwrap(), SECRET);
    let mut socket = TcpStream::connect(desk.stage.address).await.unwrap();
    let length = 20 << 20;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    // The SDK reads nothing before it has written everything.
    let body = vec![b'x'; length];
    socket.write_all(&body).await.expect("all of it is taken");
    let mut answer = [0; 12];
    let reading = tokio::time::timeout(PATIENCE, socket.read_exact(&mut answer));
    reading.await.expect("an answer").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
}
