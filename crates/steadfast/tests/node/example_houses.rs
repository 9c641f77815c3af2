//! A hundred thousand houses, and processes that are killed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use steadfast::clock::{Clock, SystemClock};
use steadfast::events::partition_of;
use steadfast_harness::Process;
use steadfast_wire::blob::shared_key::{self, Request};

use crate::examples_built;

const ACCOUNT: &str = "devstoreaccount1";
const HOUSES: u32 = 100_000;
const PARTITIONS: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(120);

/// The process, and what a client of its blobs pastes.
fn start(folder: &Path) -> (Process, String) {
    let mut command = Command::new(examples_built::example("houses"));
    command.arg(folder);
    let mut process = Process::spawn(command).unwrap();
    let is_blob = |line: &str| line.starts_with("blob: ");
    let blob = process.wait_for(is_blob, PATIENCE).unwrap();
    (process, blob["blob: ".len()..].to_owned())
}

/// Waits until so many more batches are on the disk.
fn report(process: &mut Process, batches: usize) {
    for _ in 0..batches {
        let is_report = |line: &str| line.ends_with("reported");
        process.wait_for(is_report, PATIENCE).unwrap();
    }
}

/// A part of a connection string.
fn part<'a>(string: &'a str, name: &str) -> &'a str {
    let parts = string.split(';');
    let mut found = parts.filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    found.next().unwrap()
}

/// What the page of a partition's houses shows, by HTTP as clients of Blob storage get it.
async fn page(client: &reqwest::Client, string: &str, partition: u32) -> Value {
    let endpoint = part(string, "BlobEndpoint");
    let path = format!("/{ACCOUNT}/houses/aggregate/{partition}.json");
    let now = Duration::from_millis(SystemClock::new().now().0 as u64);
    let date = httpdate::fmt_http_date(UNIX_EPOCH + now);
    let headers = [("x-ms-date".to_owned(), date)];
    let request = Request {
        verb: "GET",
        path: &path,
        parameters: &[],
        headers: &headers,
    };
    let header = shared_key::header(ACCOUNT, part(string, "AccountKey"), &request).unwrap();
    let url = endpoint.replace(&format!("/{ACCOUNT}"), &path);
    let request = client.get(url).header("x-ms-date", &headers[0].1);
    let answer = request
        .header("authorization", header)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// Consumers come and die while reports come in, and so does all of the process: at the
/// end each house was counted once, and its page says so.
#[tokio::test]
async fn each_house_is_counted_once_whoever_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let (mut process, _) = start(folder.path());
        report(&mut process, 20);
        for (line, count) in [("more", "3 consumers"), ("kill", "2 consumers")] {
            process.write_line(line).unwrap();
            process.wait_for(|line| line == count, PATIENCE).unwrap();
        }
        report(&mut process, 20);
        process.kill().unwrap();
    }
    let (mut process, blob) = start(folder.path());
    let is_end = |line: &str| line.starts_with("all is counted");
    let end = process.wait_for(is_end, PATIENCE).unwrap();
    assert_eq!(end, "all is counted, 0 readers overlapped");

    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let mut pages = Vec::new();
    for partition in 0..PARTITIONS {
        pages.push(page(&client, &blob, partition).await);
    }
    let houses: usize = pages
        .iter()
        .map(|page| page.as_object().unwrap().len())
        .sum();
    assert_eq!(houses, HOUSES as usize);
    for house in 0..HOUSES {
        let partition = partition_of(&format!("house-{house}"), PARTITIONS);
        let expected = serde_json::json!({"reports": 1, "warmth": house % 40});
        let found = &pages[partition as usize][house.to_string()];
        assert_eq!(found, &expected, "house {house}");
    }
}
