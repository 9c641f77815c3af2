//! Attacks on a server, each as one function.
//!
//! They hold what they opened until it is dropped, so that many can last together. What
//! they write is as much as the server takes.

use std::net::TcpStream;
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::json;
use steadfast_wire::amqp::link::LinkRole;
use steadfast_wire::{jwt, sas};

use super::{MIB, Script, Stranger, connect_from, frame_header, push, websocket};
use crate::running::{KNOWN, PATIENCE};

/// Opens AMQP connections without a key, as fast as a network would bring them.
pub(crate) fn connections(port: u16, count: usize) -> Vec<TcpStream> {
    let script = Script::anonymous();
    let open = |number| {
        if number % 20 == 19 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut stream = connect_from(number, port);
        // It may be let go before it has written all.
        push(&mut stream, &script.0);
        stream
    };
    (0..count).map(open).collect()
}

/// Announces a frame of 4 GiB.
pub(crate) fn endless_frame(port: u16) -> Stranger {
    let mut stranger = Stranger::new(port);
    let mut script = Script::anonymous();
    script.0.extend([0xff; 4]);
    stranger.write(&script.0);
    stranger
}

/// Has replies of `$cbs` wait: 700 MB, if the server took them. It says whether it did.
pub(crate) fn replies(port: u16) -> (Stranger, bool) {
    let mut stranger = Stranger::new(port);
    let mut script = Script::anonymous();
    script.begin(0);
    script.attach(0, 0, "requests", LinkRole::Sender);
    for handle in 1..=120 {
        script.attach(0, handle, &format!("r{handle}"), LinkRole::Receiver);
    }
    let id = "i".repeat(60_000);
    let mut is_open = stranger.write(&script.0);
    for delivery in 0..12_000 {
        if !is_open {
            break;
        }
        let mut script = Script::default();
        script.request(0, delivery, &format!("r{}", delivery % 120 + 1), &id);
        is_open = stranger.write(&script.0);
    }
    (stranger, is_open)
}

/// Attaches links with long names, and says whether the server took them all.
pub(crate) fn link_names(port: u16) -> (Stranger, bool) {
    let mut stranger = Stranger::new(port);
    let mut is_open = stranger.write(&Script::anonymous().0);
    let long = "n".repeat(60_000);
    for link in 0..4_000_u32 {
        if !is_open {
            break;
        }
        let mut script = Script::default();
        let (channel, handle) = ((link / 250) as u16, link % 250);
        if handle == 0 {
            script.begin(channel);
        }
        script.attach(channel, handle, &format!("{link}{long}"), LinkRole::Sender);
        is_open = stranger.write(&script.0);
    }
    (stranger, is_open)
}

/// Opens WebSockets for AMQP, and sends parts of long messages.
pub(crate) fn websockets(port: u16, count: usize) -> Vec<TcpStream> {
    let protocol = "sec-websocket-protocol: AMQPWSB10\r\n";
    long_messages(
        port,
        count,
        "/$servicebus/websocket",
        protocol,
        &frame_header(0x82, 4 * MIB),
    )
}

/// Opens WebSockets of a hub with a token, and sends parts of long messages before the
/// handshake.
pub(crate) fn hub_sockets(port: u16, count: usize, token: &str) -> Vec<TcpStream> {
    let path = format!("/client/?hub=chat&access_token={token}");
    long_messages(port, count, &path, "", &frame_header(0x81, 16 * MIB))
}

fn long_messages(
    port: u16,
    count: usize,
    path: &str,
    protocol: &str,
    header: &[u8],
) -> Vec<TcpStream> {
    let part = vec![0; MIB as usize];
    let open = |_| {
        let mut socket = websocket(port, path, protocol);
        push(&mut socket, header);
        push(&mut socket, &part);
        push(&mut socket, &part);
        socket
    };
    (0..count).map(open).collect()
}

/// Negotiates connections of a hub with one token and long headers; answers how often. A
/// connection with such a head holds more than others: under attack it may be closed.
pub(crate) async fn negotiations(client: &Client, url: &str, token: &str, count: usize) -> usize {
    let filler = "x".repeat(50_000);
    let url = format!("{url}/client/negotiate?hub=chat&negotiateVersion=1");
    let mut answered = 0;
    for _ in 0..count {
        let asked = client.post(&url).bearer_auth(token);
        if let Ok(answer) = asked.header("x-filler", &filler).send().await {
            assert_eq!(answer.status(), 200);
            answered += 1;
        }
    }
    answered
}

/// Asks for a document again and again on connections of HTTP/1, and reads no answer.
pub(crate) fn unread(port: u16, connections: usize, requests: usize) -> Vec<TcpStream> {
    let bytes = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(requests);
    let open = |number| {
        let mut stream = connect_from(number, port);
        push(&mut stream, bytes.as_bytes());
        stream
    };
    (0..connections).map(open).collect()
}

/// Begins heads that do not end.
pub(crate) fn heads(port: u16, connections: usize) -> Vec<TcpStream> {
    let head = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}",
        "x".repeat(60_000)
    );
    let open = |number| {
        let mut stream = connect_from(number, port);
        push(&mut stream, head.as_bytes());
        stream
    };
    (0..connections).map(open).collect()
}

/// Begins bodies with a key that do not go on.
pub(crate) fn slow_bodies(port: u16, connections: usize) -> Vec<TcpStream> {
    let head = format!(
        "POST /v1/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\
         content-type: application/json\r\ncontent-length: 4000000\r\n\r\n{}",
        "x".repeat(15_000)
    );
    let open = |number| {
        let mut stream = connect_from(number, port);
        push(&mut stream, head.as_bytes());
        stream
    };
    (0..connections).map(open).collect()
}

/// A request that is refused.
struct Refused {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
}

const TEAM_B: &str = "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
                      /jobCollections/teamB?api-version=2016-03-01";

/// A call of gRPC, and a key in an address: what a page can send unasked.
const HELLO: &str = "/TaskHubSidecarService/Hello";
const CODE: &str = "/runtime/webhooks/durabletask/instances?code=";

/// What a browser adds to what a page of another site asks for.
fn from_page() -> Vec<(&'static str, String)> {
    vec![
        ("origin", "https://evil.example".into()),
        ("sec-fetch-site", "cross-site".into()),
        ("connection", "upgrade".into()),
        ("upgrade", "websocket".into()),
        ("sec-websocket-version", "13".into()),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==".into()),
    ]
}

/// Proofs that are wrong, expired, of another audience or of too few rights; and requests
/// of pages of other sites.
fn refused(team_key: &str, token: &str) -> Vec<Refused> {
    let bearer = |secret: &str| vec![("authorization", format!("Bearer {secret}"))];
    let row = |method, path: &str, headers| Refused {
        method,
        path: path.to_owned(),
        headers,
    };
    let page = |name, value: &str| {
        let mut headers = bearer(KNOWN);
        headers.push((name, value.to_owned()));
        headers
    };
    let start = "/runtime/webhooks/durabletask/orchestrators/x";
    let expired = json!({"aud": "https://management.azure.com", "exp": 1_500_000_000});
    let expired = jwt::token(expired.as_object().unwrap(), KNOWN);
    let unknown = sas::token("sb://localhost/houses", 4_000_000_000, "absent", "wrong");
    vec![
        row(Method::GET, "/v1/status", vec![]),
        row(Method::GET, "/v1/status", bearer("wrong")),
        row(Method::GET, "/v1/status", bearer(token)),
        row(Method::GET, TEAM_B, bearer(&expired)),
        row(
            Method::POST,
            "/houses/messages",
            vec![("authorization", unknown)],
        ),
        row(Method::POST, start, bearer(token)),
        row(Method::PUT, TEAM_B, bearer(token)),
        row(Method::GET, TEAM_B, bearer(team_key)),
        row(Method::GET, "/v1/keys", bearer(team_key)),
        row(
            Method::POST,
            HELLO,
            vec![("content-type", "text/plain".into())],
        ),
        row(Method::GET, "/$servicebus/websocket", from_page()),
        row(Method::GET, &format!("{CODE}{KNOWN}"), from_page()),
        row(Method::GET, "/v1/keys", page("host", "evil.example")),
        row(
            Method::POST,
            "/v1/keys",
            page("origin", "https://evil.example"),
        ),
    ]
}

/// Sends every request that is refused, so many times.
pub(crate) async fn refusals(
    client: &Client,
    url: &str,
    team_key: &str,
    token: &str,
    rounds: usize,
) {
    let refused = refused(team_key, token);
    for row in (0..rounds).flat_map(|_| &refused) {
        let request = client.request(row.method.clone(), format!("{url}{}", row.path));
        let headers = row.headers.iter();
        let request = headers.fold(request, |request, (name, value)| {
            request.header(*name, value)
        });
        let status = request.send().await.unwrap().status().as_u16();
        let what = (&row.path, &row.headers);
        assert!([401, 403, 415].contains(&status), "{status}: {what:?}");
    }
}

/// The key of hubs that `steadfast dev` knows.
pub(super) const HUB_KEY: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

/// Writes numbers without end: what once was a panic.
pub(crate) async fn numbers(client: &Client, url: &str, durable: u16, rounds: usize) {
    // A filter of PurgeInstances by a span of 2^63-1 s.
    let mut seconds = vec![0x08];
    seconds.extend([0xff; 8]);
    seconds.push(0x7f);
    let span = [&[0x22, seconds.len() as u8][..], &seconds].concat();
    let filter = [&[0x12, span.len() as u8][..], &span].concat();
    let message = [&[0, 0, 0, 0, filter.len() as u8][..], &filter].concat();
    let http2 = Client::builder().http2_prior_knowledge();
    let http2 = http2.timeout(PATIENCE).build().unwrap();
    let path = "/api/hubs/chat/users/ada/groups/g";
    let claims = json!({"aud": format!("http://localhost{path}"), "exp": 9_999_999_999_u64});
    let token = jwt::token(claims.as_object().unwrap(), HUB_KEY);
    for _ in 0..rounds {
        let to = format!("http://127.0.0.1:{durable}/TaskHubSidecarService/PurgeInstances");
        let purge = http2.post(to).header("content-type", "application/grpc");
        let purge = purge.header("te", "trailers").bearer_auth(KNOWN);
        let answer = purge.body(message.clone()).send().await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "3", "{answer:?}");
        let put = client.put(format!("{url}{path}?ttl=9223372036854775807"));
        let answer = put.bearer_auth(&token).send().await.unwrap();
        assert_eq!(answer.status(), 400);
    }
}
