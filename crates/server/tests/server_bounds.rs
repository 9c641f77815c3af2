//! Clients that want too much, or nothing.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::StatusCode;
use running::{KNOWN, PATIENCE, Server, Start};

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
        .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\nGET /l")
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
        "POST /v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KNOWN}\r\n\
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
    let head = "POST /v1/keys HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n{";
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
        .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n")
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

#[test]
fn more_connections_than_allowed_wait_for_their_turn() {
    let server = Start::new("dev").set("http.connections=2").ready();
    let taken = [connect(&server), connect(&server)];
    let mut waiting = connect(&server);
    waiting.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    waiting
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut byte = [0];
    assert!(
        waiting.read_exact(&mut byte).is_err(),
        "it was served as a third one"
    );
    drop(taken);
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(rest(waiting).starts_with("HTTP/1.0 200 OK"));
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
    shell.current_dir(start.folder.path());
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
