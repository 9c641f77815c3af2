//! Clients that want too much, or nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::StatusCode;

use crate::running::{self, KNOWN, PATIENCE, Server, Start};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What a server says until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it is still open: {error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn whoever_says_nothing_or_not_enough_is_let_go() {
    let server = Start::new("dev").ready();
    let silent = connect(&server);
    // The beginning of HTTP/2, of a request, and of a second request.
    let mut half = connect(&server);
    half.write_all(b"PRI * HTTP").unwrap();
    let mut head = connect(&server);
    head.write_all(b"GET /livez HTTP/1.1\r\nhost:").unwrap();
    let mut second = connect(&server);
    second
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\nGET /l")
        .unwrap();
    assert_eq!(rest(silent), "");
    rest(half);
    assert!(!rest(head).contains("200 OK"));
    assert!(rest(second).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let server = Start::new("dev").ready();
    let mut slow = connect(&server);
    let head = format!(
        "POST /v1/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\
         content-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn a_stranger_is_refused_before_the_body() {
    let server = Start::new("dev").ready();
    let mut stranger = connect(&server);
    let head = "POST /v1/keys HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999\r\n\r\n{";
    stranger.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[test]
fn a_head_without_end_is_refused() {
    let server = Start::new("dev").ready();
    let mut stream = connect(&server);
    let line = format!("x-filler: {}\r\n", "x".repeat(1000));
    let sent = stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n")
        .and_then(|()| (0..1000).try_for_each(|_| stream.write_all(line.as_bytes())));
    // It may hang up while we still talk.
    let answer = if sent.is_ok() {
        rest(stream)
    } else {
        String::new()
    };
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    assert_eq!(server.get("/livez").0, StatusCode::OK);
}

/// A connection that has shown a key.
fn connect_with_key(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    let head = format!(
        "GET /v1/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    let length = answer.split("content-length: ").nth(1).unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    stream
}

/// A further connection is served when the others are gone, and not before.
fn waits_for<T>(others: T, server: &Server) {
    let mut waiting = connect(server);
    waiting.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    waiting
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut byte = [0];
    let served = waiting.read_exact(&mut byte);
    assert!(served.is_err(), "it was served beside the others");
    drop(others);
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(rest(waiting).starts_with("HTTP/1.0 200 OK"));
}

#[test]
fn more_connections_than_allowed_wait_for_their_turn() {
    let server = Start::new("dev").set("http.connections=2").ready();
    let taken = [connect_with_key(&server), connect_with_key(&server)];
    waits_for(taken, &server);
}

/// HTTP hands the connection of a WebSocket on; it still counts.
#[test]
fn websockets_count_as_connections() {
    let server = Start::new("dev").set("http.connections=1").ready();
    let mut socket = connect_with_key(&server);
    socket
        .write_all(
            b"GET /$servicebus/websocket HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\n\
              upgrade: websocket\r\nsec-websocket-version: 13\r\n\
              sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
              sec-websocket-protocol: amqp\r\n\r\n",
        )
        .unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    waits_for(socket, &server);
}

#[test]
fn a_server_without_file_descriptors_goes_on_when_it_has_some_again() {
    let mut start = Start::new("dev");
    // As many files as a new server has open, and some more.
    let program = start.command.get_program().to_owned();
    let arguments: Vec<_> = start.command.get_args().map(ToOwned::to_owned).collect();
    let mut command = running::steadfast(start.folder.path());
    std::mem::swap(&mut start.command, &mut command);
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "ulimit -n 100; exec \"$0\" \"$@\""])
        .arg(program)
        .args(arguments);
    running::settle(&mut shell, start.folder.path());
    start.command = shell;
    let server = start.ready();
    let many: Vec<_> = (0..150).map(|_| connect(&server)).collect();
    server.logged("listen.accept_failed");
    let log = server.log();
    assert!(log.contains("Too many open files"), "{log}");
    drop(many);
    assert_eq!(server.get("/livez").0, StatusCode::OK);
    let lines = server.log().matches("listen.accept_failed").count();
    assert!(lines < 12, "{lines} lines");
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

/// The next frame: its kind and payload.
fn next_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).unwrap();
    (head[3], payload)
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;

fn connect_http2(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

#[test]
fn http_2_announces_its_limits() {
    let server = Start::new("dev").ready();
    let mut stream = connect_http2(&server);
    let (kind, settings) = next_frame(&mut stream);
    assert_eq!(kind, SETTINGS);
    let value = |id: u16| {
        let mut all = settings.chunks(6);
        let found = all.find(|setting| setting[..2] == id.to_be_bytes())?;
        Some(u32::from_be_bytes(found[2..].try_into().unwrap()))
    };
    // The number of streams, and the length of all headers.
    assert_eq!(value(3), Some(1000));
    assert_eq!(value(6), Some(65_536));
}

#[test]
fn a_client_that_cancels_all_that_it_asks_for_is_disconnected() {
    let server = Start::new("dev").ready();
    let mut stream = connect_http2(&server);
    // GET / of x, in the words of the static table.
    let head = [0x82, 0x86, 0x84, 0x41, 1, b'x'];
    let mut burst = Vec::new();
    for stream in (1..4000).step_by(2) {
        burst.extend(frame(HEADERS, 5, stream, &head));
        burst.extend(frame(RESET, 0, stream, &8u32.to_be_bytes()));
    }
    // It may hang up while we still talk, and long before a proof is due.
    let _ = stream.write_all(&burst);
    let soon = Duration::from_secs(15);
    stream.set_read_timeout(Some(soon)).unwrap();
    rest(stream);
    assert_eq!(server.get("/livez").0, StatusCode::OK);
}
