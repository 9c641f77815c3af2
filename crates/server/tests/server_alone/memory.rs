//! A server gives memory back after large payloads.

use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Client;

use crate::running::{KNOWN, Server, Start, until};

const MIB: u64 = 1024 * 1024;

/// Resident bytes of a server.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kb: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kb * 1024
}

/// Starts instances with inputs of many sizes and reads them again and again, many at
/// a time.
fn load(server: &Server) {
    let rounds = (0..32).map(|round: usize| {
        let base = format!("{}/runtime/webhooks/durabletask", server.url);
        let client = server.client.clone();
        async move {
            for number in 0..8 {
                let id = format!("i-{round}-{number}");
                let bytes = 100_000 + (round * 8 + number) % 13 * 70_000;
                let start = format!("{base}/orchestrators/echo/{id}");
                begin(&client, &start, bytes).await;
                for _ in 0..3 {
                    let found = client.get(format!("{base}/instances/{id}?showInput=true"));
                    let found = found.bearer_auth(KNOWN).send().await.unwrap();
                    assert!(found.bytes().await.unwrap().len() > bytes);
                }
            }
        }
    });
    server.block(join_all(rounds));
}

/// Starts an instance, once the server takes it.
async fn begin(client: &Client, start: &str, bytes: usize) {
    let mut is_lost = false;
    loop {
        let started = client
            .post(start)
            .bearer_auth(KNOWN)
            .header("content-type", "application/json")
            .body(format!("\"{}\"", "x".repeat(bytes)));
        let sent = started.send().await;
        match sent.map(|response| response.status().as_u16()) {
            Ok(202) => return,
            // The response to the attempt before was lost.
            Ok(409) if is_lost => return,
            // The disk is behind.
            Ok(503) => {}
            // The server reads a refused body for 5 s, then it closes: on a busy machine the
            // client may see that before the response.
            Err(error) if error.is_request() => is_lost = true,
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The resident bytes of a server that has calmed down.
fn calm(server: &Server) -> u64 {
    let mut before = resident(server);
    until("it calms down", || {
        std::thread::sleep(Duration::from_secs(2));
        let now = resident(server);
        let is_calm = now.abs_diff(before) < MIB;
        before = now;
        is_calm.then_some(now)
    })
}

#[test]
fn memory_of_large_payloads_is_given_back() {
    let server = Start::new("dev").set("memory=32MiB").ready();
    let idle = resident(&server);
    load(&server);
    let after = calm(&server);
    println!("{} MiB before, {} MiB after", idle / MIB, after / MIB);
    // What is not flushed yet, at most 64 MiB, and cached rows stay.
    assert!(after < 220 * MIB, "{} MiB", after / MIB);
}

#[test]
fn settings_of_the_allocator_by_an_operator_are_left_alone() {
    let environment = |server: &Server| {
        let environment = fs::read(format!("/proc/{}/environ", server.process.id())).unwrap();
        String::from_utf8_lossy(&environment).into_owned()
    };
    let server = Start::new("dev").ready();
    let found = environment(&server);
    assert!(found.contains("MALLOC_MMAP_THRESHOLD_=131072"), "{found}");
    assert!(found.contains("MALLOC_SET_BY=steadfast"), "{found}");
    assert!(found.contains("MALLOC_ARENA_MAX="), "{found}");
    // Where glibc takes its settings away, the mark stays: it is not started again.
    let mut start = Start::new("dev");
    start.command.env("MALLOC_SET_BY", "steadfast");
    let found = environment(&start.ready());
    assert!(!found.contains("MALLOC_MMAP_THRESHOLD_"), "{found}");
    let mut start = Start::new("dev");
    start.command.env("MALLOC_ARENA_MAX", "2");
    let server = start.ready();
    let found = environment(&server);
    assert!(found.contains("MALLOC_ARENA_MAX=2"), "{found}");
    assert!(!found.contains("MALLOC_MMAP_THRESHOLD_"), "{found}");
}
