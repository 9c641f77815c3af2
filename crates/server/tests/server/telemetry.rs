//! Logs for machines and people; spans for a collector.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};

use serde_json::Value;

use crate::running::{KNOWN, PATIENCE, Start};

/// A collector: takes what is exported to it by HTTP.
struct Collector {
    endpoint: String,
    exports: Receiver<(String, Vec<u8>)>,
}

fn collector() -> Collector {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", socket.local_addr().unwrap());
    let (send, exports) = mpsc::channel();
    let name = "collector".to_owned();
    let serve = move || {
        for stream in socket.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            while let Some(export) = read(&mut stream) {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
                if send.send(export).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name(name).spawn(serve).unwrap();
    Collector { endpoint, exports }
}

/// One request: its first line and headers, and its body.
fn read(stream: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) if line == "\r\n" => break,
            Ok(_) => head += &line.to_lowercase(),
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// The values of a field of a protobuf message that has bytes or messages.
fn fields(mut message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                varint(&mut message);
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (value, rest) = message.split_at(length);
        if tag >> 3 == wanted && tag & 7 == 2 {
            found.push(value);
        }
        message = rest;
    }
    found
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first().unwrap();
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Trace, parent and everything else of each exported span.
fn spans(export: &[u8]) -> Vec<(String, String, String)> {
    let resources = fields(export, 1).into_iter();
    let scopes = resources.flat_map(|resource| fields(resource, 2));
    let spans = scopes.flat_map(|scope| fields(scope, 2));
    let one = |number, span| fields(span, number).first().map(|bytes| hex(bytes));
    spans
        .map(|span| {
            let text = String::from_utf8_lossy(span).into_owned();
            (
                one(1, span).unwrap(),
                one(4, span).unwrap_or_default(),
                text,
            )
        })
        .collect()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[test]
fn a_span_of_a_request_goes_to_the_collector_under_the_callers_trace() {
    let collector = collector();
    // The log level says nothing about spans.
    let mut start = Start::new("dev").set("log.level=error");
    start
        .command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    start.command.env("OTEL_SERVICE_NAME", "house");
    start.command.env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let server = start.ready();
    let request = server
        .client
        .get(format!("{}/v1/status", server.url))
        .bearer_auth(KNOWN);
    let request = request.header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
    server.block(async { request.send().await.unwrap() });
    let (head, body) = collector.exports.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let spans = spans(&body);
    let (_, parent, text) = spans.iter().find(|(trace, ..)| trace == TRACE).unwrap();
    assert_eq!(parent, PARENT);
    assert!(
        text.contains("/v1/status") && text.contains("127.0.0.1"),
        "{text}"
    );
    assert!(!text.contains(KNOWN), "{text}");
    assert!(body.windows(5).any(|part| part == b"house"));
}

#[test]
fn spans_that_wait_are_exported_when_the_server_ends() {
    let collector = collector();
    let mut start = Start::new("dev");
    start
        .command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    start.command.env("OTEL_BSP_SCHEDULE_DELAY", "3600000");
    let mut server = start.ready();
    server.get("/v1/status");
    server.process.terminate().unwrap();
    let (_, body) = collector.exports.recv_timeout(PATIENCE).unwrap();
    assert!(!spans(&body).is_empty());
    assert_eq!(server.ended().0, 0);
}

#[test]
fn a_collector_that_is_not_there_disturbs_nobody() {
    let mut start = Start::new("dev");
    start
        .command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let mut server = start.ready();
    assert_eq!(server.get("/v1/status").0, reqwest::StatusCode::OK);
    server.process.terminate().unwrap();
    assert_eq!(server.ended().0, 0);
}

#[test]
fn logs_are_json_with_stable_events_where_there_is_no_terminal() {
    let mut server = Start::new("dev").ready();
    server.process.terminate().unwrap();
    server.ended();
    let log = server.log();
    let events: Vec<String> = log
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect(line);
            assert!(
                line["timestamp"].is_string() && line["level"].is_string(),
                "{line}"
            );
            line["event"]
                .as_str()
                .expect("every line has an event")
                .to_owned()
        })
        .collect();
    assert_eq!(events, ["node.ready", "node.draining", "node.drained"]);
}

#[test]
fn logs_are_text_for_people_if_they_want_them() {
    let server = Start::new("dev").set("log.format=text").ready();
    let log = server.logged("node.ready");
    assert!(
        serde_json::from_str::<Value>(log.lines().next().unwrap()).is_err(),
        "{log}"
    );
    assert!(log.contains("INFO"), "{log}");
}
