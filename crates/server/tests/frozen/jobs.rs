//! Jobs, their secrets and their effects.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use super::durable::{HUB, worker};
use super::{get, ok, post};
use crate::running::{PATIENCE, Server, until};

const JOBS: &str = "/subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler/\
                    jobCollections/nightly/jobs";
const VERSION: &str = "api-version=2016-03-01";

/// A proxy that answers every call of a job with 200.
pub(super) struct Proxy {
    pub(super) port: u16,
    requests: Mutex<Receiver<String>>,
}

impl Proxy {
    pub(super) fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let (sender, requests) = channel();
        let answering = move || {
            for stream in socket.incoming() {
                let mut stream = stream.unwrap();
                let mut text = Vec::new();
                let mut part = [0; 4096];
                while !text.windows(4).any(|own| own == b"\r\n\r\n") {
                    match stream.read(&mut part).unwrap() {
                        0 => break,
                        count => text.extend_from_slice(&part[..count]),
                    }
                }
                // A caller that has left needs no answer.
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                );
                if sender.send(String::from_utf8(text).unwrap()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("proxy".into());
        thread.spawn(answering).unwrap();
        Self {
            port,
            requests: Mutex::new(requests),
        }
    }
}

/// Jobs of before run: with their secrets, into event hubs, and as orchestrations.
pub(super) fn go_on(server: &Server, proxy: &Proxy) {
    run(server, "call");
    let request = proxy
        .requests
        .lock()
        .unwrap()
        .recv_timeout(PATIENCE)
        .unwrap();
    assert!(
        request.starts_with("POST http://target.example/hook"),
        "{request}"
    );
    let lower = request.to_lowercase();
    assert!(lower.contains("x-house: 42"), "{request}");
    let proof = STANDARD.encode("frozen:made-up-password");
    assert!(request.contains(&format!("Basic {proof}")), "{request}");

    let count = || {
        let events = get(server, "/v1/eventhubs/houses/events?partition=1&from=start");
        let events = events["events"].as_array().unwrap().clone();
        events
            .iter()
            .filter(|event| event["body"] == "from a job")
            .count()
    };
    let before = count();
    run(server, "publish");
    until("the event of a job", || {
        (count() == before + 1).then_some(())
    });

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let worker = worker(server);
    runtime.block_on(worker.ready());
    run(server, "start");
    until("the orchestration of a job", || {
        let list = get(
            server,
            &format!("{HUB}/instances?instanceIdPrefix=by-job&showOutput=true"),
        );
        let first = list.as_array().unwrap().first()?;
        (first["runtimeStatus"] == "Completed").then_some(())
    });
    assert_eq!(
        get(server, &format!("{HUB}/instances/by-job"))["output"],
        json!(12)
    );
}

fn run(server: &Server, job: &str) {
    let enabled = json!({"properties": {"state": "Enabled"}});
    let path = format!("{JOBS}/{job}?{VERSION}");
    ok(server, &Method::PATCH, &path, Some(enabled));
    post(server, &format!("{JOBS}/{job}/run?{VERSION}"), json!(null));
}
