//! Memory of a server while large blobs are written and read.
//!
//! Alone in its process, so that no other test takes any.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blob_face::{Face, OWNER, status};
use steadfast_core::limits::BLOB_BYTES;
use tokio::io::AsyncWriteExt as _;

mod amqp_setup;
mod blob_face;

const PART: usize = 1024 * 1024;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let digits: String = line.unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Memory that was resident, sample by sample.
struct Samples {
    taken: Arc<Mutex<Vec<u64>>>,
    is_over: Arc<AtomicBool>,
}

impl Samples {
    fn start() -> Self {
        let own = Self {
            taken: Arc::default(),
            is_over: Arc::default(),
        };
        let (taken, is_over) = (Arc::clone(&own.taken), Arc::clone(&own.is_over));
        let sample = move || {
            while !is_over.load(Ordering::Relaxed) {
                taken.lock().unwrap().push(resident());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let thread = std::thread::Builder::new().name("samples".into());
        thread.spawn(sample).unwrap();
        own
    }

    /// The least of the second half: the store takes more for moments, while it merges
    /// its tables, and the allocator gives some of that back late.
    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let taken = self.taken.lock().unwrap();
        taken[taken.len() / 2..].iter().copied().min().unwrap()
    }
}

async fn send(face: &Face, path: &str, headers: &[(&str, &str)], parts: std::ops::Range<usize>) {
    let length = parts.len() * PART;
    let mut stream = face.begin(path, headers, length).await;
    for number in parts {
        // An answer before the end is an error; its status is shown below.
        if stream.write_all(&part(number)).await.is_err() {
            break;
        }
    }
    assert_eq!(status(&mut stream).await, 201);
}

fn part(number: usize) -> Vec<u8> {
    vec![number as u8; PART]
}

/// Reads a blob as it comes, and compares it.
async fn check(face: &Face, path: &str) {
    let url = format!("http://127.0.0.1:{}{path}", face.port);
    let mut request = face.client.get(url);
    for (name, value) in face.signed(&OWNER, ("GET", path), &[], 0) {
        request = request.header(name, value);
    }
    let mut answer = request.send().await.unwrap();
    let mut at = 0;
    while let Some(bytes) = answer.chunk().await.unwrap() {
        for (number, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte, ((at + number) / PART) as u8);
        }
        at += bytes.len();
    }
    assert_eq!(at, BLOB_BYTES);
}

/// Writes a blob of the greatest length in one request.
async fn put_whole(face: &Face, path: &str) {
    let kind = [("x-ms-blob-type", "BlockBlob")];
    send(face, path, &kind, 0..BLOB_BYTES / PART).await;
}

/// Writes a blob of the greatest length in four blocks.
async fn put_blocks(face: &Face, blob: &str) {
    let all = BLOB_BYTES / PART;
    let mut list = String::from("<BlockList>");
    for (number, first) in (0..all).step_by(all / 4).enumerate() {
        let path = format!("{blob}?comp=block&blockid=AAA{number}");
        send(face, &path, &[], first..first + all / 4).await;
        list.push_str(&format!("<Latest>AAA{number}</Latest>"));
    }
    list.push_str("</BlockList>");
    let path = format!("{blob}?comp=blocklist");
    let written = face.ask("PUT", &path, &[], list).await;
    assert_eq!(written.status, 201, "{}", written.text());
}

/// If bodies were held, the two that come at the same time would take 256 MiB from the
/// middle on, beside what the store takes.
#[tokio::test(flavor = "multi_thread")]
async fn blobs_of_256_mebibytes_are_never_in_memory_as_a_whole() {
    let face = Face::start_small().await;
    let container = "/devstoreaccount1/box?restype=container";
    assert_eq!(face.ask("PUT", container, &[], "").await.status, 201);
    let before = resident();
    let samples = Samples::start();
    let (whole, blocks) = (
        "/devstoreaccount1/box/whole",
        "/devstoreaccount1/box/blocks",
    );
    tokio::join!(put_whole(&face, whole), put_blocks(&face, blocks));
    let grown = samples.end().saturating_sub(before);
    check(&face, whole).await;
    check(&face, blocks).await;
    assert!(grown < 256 * 1024, "{grown} KiB more for two blobs");
    println!("{grown} KiB more for two blobs");
}
