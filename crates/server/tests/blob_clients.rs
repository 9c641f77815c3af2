//! Large blobs of an unmodified SDK, against the binary.
//!
//! The scenario stands in `interop/python`. What it needs is installed by
//! `cargo xtask test --only clients`, which also says where.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;

use std::process::{Command, Stdio};
use std::time::Duration;

use running::{Server, Start};
use serde_json::json;
use steadfast_harness::clients::{python, show};

const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const MIB: u64 = 1024 * 1024;

/// Resident bytes of a server.
fn resident(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.process.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kb = line.unwrap().split_whitespace().nth(1).unwrap();
    kb.parse::<u64>().unwrap() * 1024
}

/// Runs a client to its end; answers the resident bytes of the server, sample by sample.
fn sampled(server: &Server, mut command: Command) -> Vec<u64> {
    let mut client = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the client is installed");
    let mut samples = Vec::new();
    while client.try_wait().unwrap().is_none() {
        samples.push(resident(server));
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = client.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}{}", server.log());
    show("blob_clients Python", &output.stdout);
    samples
}

/// One of two bodies, or those of eight slow readers, would go beyond the bound. Below it
/// is what the store takes while it merges its tables.
#[test]
fn blobs_of_256_mebibytes_pass_through_little_memory() {
    let server = Start::new("dev").set("memory=32MiB").ready();
    let idle = resident(&server);
    let mut command = python("eventhub", "python/run.py");
    let told = json!({
        "blob": server.port_of("blob"),
        "account": "devstoreaccount1", "account_key": ACCOUNT_KEY,
    });
    command.arg(told.to_string()).arg("blobs_of_256_mebibytes");
    let most = sampled(&server, command).into_iter().max().unwrap();
    println!("{} MiB idle, {} MiB at most", idle / MIB, most / MIB);
    assert!(most < 640 * MIB, "{} MiB at most", most / MIB);
}
