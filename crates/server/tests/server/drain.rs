//! A server leaves: by signal, by command, at once.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use steadfast_harness::FakeDisk;

use crate::running::{self, KNOWN, Server, Start, said, until};

/// A request whose body is not complete yet, so that it is under way.
fn begin_request(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "POST /v1/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\
         content-type: application/json\r\ncontent-length: 45\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server says that it wants the body: so it has the request.
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");
    stream
}

#[test]
fn sigterm_drains_and_prints_the_balance_sheet() {
    let mut server = Start::new("dev").ready();
    server.process.terminate().unwrap();
    let (code, printed) = server.ended();
    assert_eq!(code, 0, "{printed}");
    let lines: Vec<_> = printed.lines().collect();
    for line in [
        "moved      64",
        "completed  0",
        "cut off    0",
        "left       0",
        "no answer  0",
        "lost       0",
    ] {
        assert!(lines.contains(&line), "{line} is not in {printed}");
    }
    let log = server.log();
    assert!(log.contains(r#""event":"node.draining""#), "{log}");
    assert!(
        log.contains(r#""event":"node.drained","moved":64"#),
        "{log}"
    );
}

#[test]
fn a_request_under_way_is_answered_before_the_server_ends() {
    let mut server = Start::new("dev").ready();
    let mut request = begin_request(&server);
    server.process.terminate().unwrap();
    server.logged("node.drained");
    request
        .write_all(br#"{"name": "late", "rights": ["manage events"]}"#)
        .unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.ended().0, 0);
}

#[test]
fn a_second_sigterm_ends_at_once() {
    let mut server = Start::new("dev").ready();
    // It would be waited for.
    let _request = begin_request(&server);
    server.process.terminate().unwrap();
    server.logged("node.drained");
    server.process.terminate().unwrap();
    let (code, printed) = server.ended();
    assert_eq!(code, 1, "{printed}");
    let log = server.log();
    assert!(log.contains("ended by a second signal"), "{log}");
    assert!(log.contains("nothing durable is lost"), "{log}");
}

#[test]
fn drain_by_command_prints_the_sheet_and_ends_the_server() {
    let mut server = Start::new("dev").set("name=a").ready();
    let (code, printed, errors) = said(&server.run(&["drain", "--node", "a", "--json"]));
    assert_eq!(code, 0, "{errors}");
    let sheet: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&sheet["moved"], &sheet["lost"]), (&json!(64), &json!(0)));
    let (code, printed) = server.ended();
    assert_eq!(code, 0);
    assert!(printed.contains("moved      64"), "{printed}");
}

#[test]
fn drain_of_another_node_is_not_found_and_changes_nothing() {
    let server = Start::new("dev").set("name=a").ready();
    let (code, _, errors) = said(&server.run(&["drain", "--node", "b"]));
    assert_eq!(code, 3, "{errors}");
    assert!(
        errors.contains("there is no node 'b' here: this is 'a'"),
        "{errors}"
    );
    assert_eq!(server.get("/readyz").0, StatusCode::OK);
}

#[test]
fn a_server_that_does_not_answer_is_a_time_out() {
    // It accepts, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (code, _, errors) = said(&running::run(folder.path(), &["status", "--url", &url]));
    assert_eq!(code, 4, "{errors}");
    assert!(errors.contains("has not responded within 10 s"), "{errors}");
}

#[test]
fn a_drain_goes_on_when_whoever_asked_for_it_goes_away() {
    let mut server = Start::new("dev").ready();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "POST /v1/drain HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A request whose sender is gone before it was read is never begun.
    server.logged("node.draining");
    drop(stream);
    server.logged("node.drained");
    server.process.terminate().unwrap();
    let (code, printed) = server.ended();
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("moved      64"), "{printed}");
}

#[test]
fn an_absurd_limit_is_refused() {
    let server = Start::new("dev").ready();
    let (status, body) = server.post("/v1/drain", json!({"limit_s": u64::MAX}));
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("STF-6020"))
    );
    assert_eq!(server.get("/readyz").0, StatusCode::OK);
    let (code, ..) = said(&server.run(&["drain", "--limit", "100000"]));
    assert_eq!(code, 2);
}

#[test]
fn sigint_drains_too() {
    let mut server = Start::new("dev").ready();
    server.signal(Signal::INT);
    let (code, printed) = server.ended();
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("moved      64"), "{printed}");
}

#[test]
fn a_drain_that_is_cut_off_says_so() {
    let disk = FakeDisk::mount().unwrap();
    let mut start = Start::new("dev");
    start.command.arg("--data").arg(disk.path().join("data"));
    let mut server = start.ready();
    disk.hold_syncs(true);
    let mut request = begin_request(&server);
    let body = br#"{"name": "late", "rights": ["manage events"]}"#;
    request.write_all(body).unwrap();
    until("the disk is asked", || {
        (disk.held_syncs() > 0).then_some(())
    });
    let (code, printed, error) = said(&server.run(&["drain", "--limit", "1"]));
    assert_eq!(code, 4, "{printed}{error}");
    assert!(printed.contains("lost       0"), "{printed}");
    assert!(
        error.contains("were cut off; nothing durable is lost"),
        "{error}"
    );
    disk.hold_syncs(false);
    server.ended();
}
