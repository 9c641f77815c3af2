//! Clients that send bodies or leave answers unread.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{join_all, select_all};
use futures_util::stream;
use reqwest::header::RETRY_AFTER;
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::running::{KNOWN, PATIENCE, Server, Start};

const MIB: u64 = 1024 * 1024;

const JOBS: &str = "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
                    /jobCollections/nightly?api-version=2016-03-01";

/// Routes that take bodies, by their protocols.
const ROUTES: [(Method, &str); 5] = [
    (Method::PUT, JOBS),
    (Method::POST, "/v1/keys"),
    (
        Method::POST,
        "/runtime/webhooks/durabletask/orchestrators/echo",
    ),
    (Method::POST, "/houses/messages"),
    (Method::POST, "/api/hubs/chat/:send?api-version=2022-06-01"),
];

/// Resident bytes of a server.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kb = line.unwrap().split_whitespace().nth(1).unwrap();
    kb.parse::<u64>().unwrap() * 1024
}

/// A server with an event hub.
fn server() -> Server {
    let server = Start::new("dev").ready();
    let made = server.post("/v1/eventhubs", json!({"name": "houses", "partitions": 1}));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    server
}

/// A client whose requests are streams of one HTTP/2 connection.
fn http2() -> Client {
    let client = Client::builder().http2_prior_knowledge();
    client.timeout(PATIENCE).build().unwrap()
}

/// A body of so many bytes that does not end.
fn endless(bytes: usize) -> Body {
    let chunk = vec![0; bytes.min(16 * 1024)];
    let chunks = stream::iter(0..bytes.div_ceil(chunk.len()));
    let chunks = chunks.map(move |_| Ok::<_, std::io::Error>(chunk.clone()));
    Body::wrap_stream(chunks.chain(stream::pending()))
}

fn request(client: &Client, server: &Server, method: Method, path: &str) -> RequestBuilder {
    client.request(method, format!("{}{path}", server.url))
}

#[test]
fn bodies_of_strangers_are_not_read() {
    let server = server();
    let before = resident(&server);
    for key in [None, Some("Bearer wrong")] {
        let client = http2();
        // 150 streams on which nearly as much comes as a body may have.
        let sent = (0..150).map(|_| {
            let request = request(&client, &server, Method::PUT, JOBS).body(endless(4_000_000));
            let request = key.iter().fold(request, |request, key| {
                request.header("authorization", *key)
            });
            async { request.send().await.unwrap().status() }
        });
        for status in server.block(join_all(sent)) {
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
        let held = resident(&server).saturating_sub(before);
        assert!(held < 48 * MIB, "{} MiB", held / MIB);
    }
}

/// A connection of a client that has little room for what the server has not taken yet,
/// as on a slow network.
fn narrow(port: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_send_buffer_size(128 * 1024).unwrap();
    let to: SocketAddr = ([127, 0, 0, 1], port).into();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Many clients write all of a body before they read. Closed with unread bytes, the
/// connection is reset under them.
#[test]
fn a_stranger_reads_its_refusal_after_a_long_body() {
    let server = server();
    let body = vec![b'x'; MIB as usize];
    for round in 0..10 {
        for (length, chunk) in [
            ("content-length: 1048576", ""),
            ("transfer-encoding: chunked", "100000\r\n"),
        ] {
            let mut stream = narrow(server.port());
            let head = format!(
                "POST /v1/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\
                 content-type: application/json\r\n{length}\r\n\r\n{chunk}"
            );
            let mut answer = Vec::new();
            let talk = stream
                .write_all(&[head.as_bytes(), &body].concat())
                .and_then(|()| stream.read_to_end(&mut answer));
            let answer = String::from_utf8_lossy(&answer);
            assert!(talk.is_ok(), "{length}, {round}: {talk:?}: {answer}");
            assert!(answer.starts_with("HTTP/1.1 401"), "{length}: {answer}");
        }
    }
}

#[test]
fn every_route_refuses_a_stranger_before_the_body() {
    let server = server();
    let client = http2();
    for (method, path) in ROUTES {
        let request = request(&client, &server, method, path).body(endless(1_000_000));
        let answer = server.block(async { request.send().await.unwrap() });
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[test]
fn every_route_gives_up_a_body_that_does_not_come() {
    let server = server();
    let client = http2();
    let slow = ROUTES.into_iter().take(4).map(|(method, path)| {
        let request = request(&client, &server, method, path).bearer_auth(KNOWN);
        let request = request.header("content-type", "application/json");
        let request = request.body(endless(1));
        async move { (path, request.send().await.unwrap()) }
    });
    let grpc = "/TaskHubSidecarService/StartInstance";
    let message = request(&client, &server, Method::POST, grpc)
        .header("content-type", "application/grpc")
        .body(endless(1));
    let (answers, message) = server.block(async {
        let message = async { message.send().await.unwrap() };
        futures_util::join!(join_all(slow), message)
    });
    for (path, answer) in answers {
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
    }
    // DEADLINE_EXCEEDED
    assert_eq!(message.headers()["grpc-status"], "4", "{message:?}");
}

#[test]
fn a_call_of_grpc_has_one_message() {
    let server = server();
    let client = http2();
    // Messages of a MiB each, with a field that the call does not have.
    let content = [&[0x0a, 0x80, 0x80, 0x40][..], &vec![0; MIB as usize]].concat();
    let length = (content.len() as u32).to_be_bytes();
    let message = [&[0][..], &length, &content].concat();
    let messages = stream::iter(0..90).map(move |_| Ok::<_, std::io::Error>(message.clone()));
    let path = "/TaskHubSidecarService/Hello";
    let call = request(&client, &server, Method::POST, path)
        .header("content-type", "application/grpc")
        .body(Body::wrap_stream(messages.chain(stream::pending())));
    let answer = server.block(async { call.send().await.unwrap() });
    // RESOURCE_EXHAUSTED
    assert_eq!(answer.headers()["grpc-status"], "8", "{answer:?}");
}

#[test]
fn large_bodies_with_a_good_key_share_one_room() {
    let server = server();
    let before = resident(&server);
    let client = http2();
    let send = |body| {
        let request = request(&client, &server, Method::PUT, JOBS).bearer_auth(KNOWN);
        let request = request.header("content-type", "application/json");
        request.body(body)
    };
    // 100 bodies of 4 MiB that do not end: the room is 96 MiB.
    let waiting = (0..100).map(|_| {
        let request = send(endless(4 * MIB as usize - 20_000));
        Box::pin(async { request.send().await.unwrap() })
    });
    let (refused, rest) = server.block(async {
        let (first, _, mut rest): (Response, _, Vec<_>) = select_all(waiting).await;
        let mut refused = vec![first];
        while refused.len() < 70 {
            let (next, _, left) = select_all(rest).await;
            refused.push(next);
            rest = left;
        }
        (refused, rest)
    });
    let held = resident(&server).saturating_sub(before);
    assert!(held < 192 * MIB, "{} MiB", held / MIB);
    // On a slow machine some bodies find room first, and then take too long.
    let (late, refused): (Vec<_>, Vec<_>) = refused
        .into_iter()
        .partition(|answer| answer.status() == StatusCode::REQUEST_TIMEOUT);
    assert!(late.len() < 35, "{} took too long", late.len());
    for answer in refused {
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()[RETRY_AFTER], "1");
    }
    // What a body held is free when its client goes.
    drop(rest);
    drop(client);
    let client = http2();
    let made = json!({"properties": {"sku": {"name": "Standard"}, "x": "x".repeat(3_000_000)}});
    let request = request(&client, &server, Method::PUT, JOBS).bearer_auth(KNOWN);
    let request = request.json(&made);
    let answer = server.block(async { request.send().await.unwrap() });
    assert_eq!(answer.status(), StatusCode::CREATED);
}

/// A server in which two clients have a key each.
fn shared() -> Server {
    let key = |name: &str| {
        format!("[[key]]\nname = '{name}'\nprimary = '{name:0<28}'\nrights = ['manage *']\n")
    };
    let keys = key("greedy") + &key("modest");
    Start::new("serve").config(&keys).ready()
}

/// Sends requests with endless bodies, and waits until one finds no room. The others go
/// on while what is answered lives.
fn crowd(server: &Server, requests: Vec<RequestBuilder>) -> impl Sized {
    let waiting = requests.into_iter().map(|request| {
        let sent = async { request.send().await.unwrap().status() };
        Box::pin(sent)
    });
    server.block(async {
        let (first, _, rest) = select_all(waiting).await;
        assert_eq!(first, StatusCode::SERVICE_UNAVAILABLE);
        rest
    })
}

#[test]
fn a_client_that_fills_its_share_leaves_room_for_another_key() {
    let server = shared();
    let client = http2();
    let greedy = (0..300).map(|_| {
        let request = request(&client, &server, Method::PUT, JOBS);
        let request = request.bearer_auth(format!("{:0<28}", "greedy"));
        let request = request.header("content-type", "application/json");
        request.body(endless(MIB as usize - 20_000))
    });
    let held = crowd(&server, greedy.collect());
    let made = json!({"properties": {"sku": {"name": "Standard"}, "x": "x".repeat(3_000_000)}});
    let request = request(&http2(), &server, Method::PUT, JOBS);
    let request = request
        .bearer_auth(format!("{:0<28}", "modest"))
        .json(&made);
    let answer = server.block(async { request.send().await.unwrap() });
    assert_eq!(answer.status(), StatusCode::CREATED);
    drop(held);
}

#[test]
fn a_client_of_a_hub_that_fills_its_share_leaves_room_for_another_address() {
    let server = shared();
    let key = format!("Bearer {:0<28}", "modest");
    let wish = Some(json!({"user": "alice"}));
    let (_, made) = server.ask(Method::POST, "/v1/hubs/chat/tokens", &key, wish);
    let token = made["token"].as_str().unwrap();
    let path = "/client/?hub=chat&id=unknown";
    let greedy = http2();
    let all = (0..200).map(|_| {
        let request = request(&greedy, &server, Method::POST, path).bearer_auth(token);
        request.body(endless(MIB as usize - 20_000))
    });
    let held = crowd(&server, all.collect());
    let other = Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let other = other.timeout(PATIENCE).build().unwrap();
    let request = request(&other, &server, Method::POST, path).bearer_auth(token);
    let request = request.body("x".repeat(900_000));
    let answer = server.block(async { request.send().await.unwrap() });
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    drop(held);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// A client of HTTP/2 that has a window of 0 for every stream.
struct Unreading(TcpStream);

impl Unreading {
    fn new(server: &Server) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE
        stream
            .write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]))
            .unwrap();
        Self(stream)
    }

    /// Asks for a path on the next odd stream.
    fn get(&mut self, stream: u32, path: &str) {
        // GET, http, and two literals: a path of up to 126 bytes and the authority.
        let mut head = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        assert!(path.len() < 127);
        head.extend(path.as_bytes());
        head.extend([0x41, 9]);
        head.extend(b"localhost");
        self.0.write_all(&frame(HEADERS, 5, stream, &head)).unwrap();
    }

    /// The kind of the next frame; pings are answered. Nothing at the end, or if nothing
    /// comes in time.
    fn next(&mut self, patience: Duration) -> Result<u8, ErrorKind> {
        let mut pings = 0;
        self.0.set_read_timeout(Some(patience)).unwrap();
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).map_err(|error| error.kind())?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0
                .read_exact(&mut payload)
                .map_err(|error| error.kind())?;
            match head[3] {
                // They come every 30 seconds.
                PING if pings > 2 => return Err(ErrorKind::TimedOut),
                PING if head[4] & 1 == 0 => {
                    pings += 1;
                    let _ = self.0.write_all(&frame(PING, 1, 0, &payload));
                }
                kind => return Ok(kind),
            }
        }
    }

    /// How many answers begin before there is silence.
    fn answers(&mut self, most: usize, patience: Duration) -> usize {
        let mut count = 0;
        while count < most {
            match self.next(patience) {
                Ok(HEADERS) => count += 1,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        count
    }
}

#[test]
fn a_client_that_does_not_read_its_answer_is_disconnected() {
    let server = Start::new("dev").set("log.level=debug").ready();
    let mut client = Unreading::new(&server);
    // With a key: a connection without one ends for that.
    let path = format!("/runtime/webhooks/durabletask/instances?code={KNOWN}");
    client.get(1, &path);
    assert_eq!(client.answers(1, PATIENCE), 1);
    let ended = loop {
        if let Err(ended) = client.next(PATIENCE) {
            break ended;
        }
    };
    let is_cut = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&ended);
    assert!(is_cut, "{ended}");
    server.logged("http.stalled_client");
}

#[test]
fn a_connection_with_unread_answers_gets_no_further_ones() {
    let server = server();
    let start = "/runtime/webhooks/durabletask/orchestrators/echo/big";
    let begun = server.post(start, json!("x".repeat(900_000)));
    assert_eq!(begun.0, StatusCode::ACCEPTED, "{}", begun.1);
    let path = format!("/runtime/webhooks/durabletask/instances/big?showInput=true&code={KNOWN}");
    let before = resident(&server);
    let mut client = Unreading::new(&server);
    let mut streams = (1..).step_by(2);
    // One after the other, so that each is asked for when those before it are unread.
    let mut answered = 0;
    for _ in 0..100 {
        client.get(streams.next().unwrap(), &path);
        match client.answers(1, Duration::from_secs(2)) {
            0 => break,
            _ => answered += 1,
        }
    }
    assert!((10..40).contains(&answered), "{answered} answers");
    let held = resident(&server).saturating_sub(before);
    assert!(held < 96 * MIB, "{} MiB", held / MIB);
    // Others are served.
    assert_eq!(server.get("/livez").0, StatusCode::OK);
}
