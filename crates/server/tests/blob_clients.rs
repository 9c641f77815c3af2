//! Large blobs of unmodified SDKs, against the binary.
//!
//! The scenarios stand in `interop/python`, `interop/java/event-hubs` and `interop/go`. What
//! they need is installed by `cargo xtask test --only clients`, which also says where.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod running;

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use running::{Server, Start};
use serde_json::json;
use steadfast_harness::clients::{go, java, python, show};

const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const MIB: u64 = 1024 * 1024;

#[derive(Debug)]
enum Client {
    /// azure-storage-blob 12.31.1 of Python.
    Python,
    /// azure-storage-blob 12.36.0 of Java.
    Java,
    /// azblob 1.8.1.
    Go,
}

use Client::{Go, Java, Python};

impl Client {
    fn command(&self) -> Command {
        match self {
            Python => python("eventhub", "python/run.py"),
            Java => java("event-hubs", "steadfast.events.Run"),
            Go => go("events"),
        }
    }
}

/// Resident bytes of a server.
fn resident(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.process.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kb = line.unwrap().split_whitespace().nth(1).unwrap();
    kb.parse::<u64>().unwrap() * 1024
}

/// Runs a client to its end; answers the resident bytes of the server, sample by sample.
fn sampled(server: &Server, by: &Client, mut command: Command) -> Vec<u64> {
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
    show(&format!("blob_clients {by:?}"), &output.stdout);
    samples
}

/// One scenario at a time: together they would wait for one disk, and a server whose disk is
/// behind holds more.
static TURN: Mutex<()> = Mutex::new(());

/// One of two bodies, or those of eight slow readers, would go beyond the bound. Below it
/// is what the store takes while it merges its tables.
fn run(client: &Client, scenario: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Start::new("dev").set("memory=32MiB").ready();
    let idle = resident(&server);
    let mut command = client.command();
    let told = json!({
        "blob": server.port_of("blob"),
        "account": "devstoreaccount1", "account_key": ACCOUNT_KEY,
    });
    command.arg(told.to_string()).arg(scenario);
    let most = sampled(&server, client, command).into_iter().max().unwrap();
    println!("{} MiB idle, {} MiB at most", idle / MIB, most / MIB);
    assert!(most < 640 * MIB, "{} MiB at most", most / MIB);
}

/// One test per line: its name, and the scenario that it runs.
macro_rules! scenarios {
    ($($name:ident: ($client:expr, $scenario:literal);)+) => {
        $(#[test]
        fn $name() {
            run(&$client, $scenario);
        })+
    };
}

scenarios! {
    blobs_of_256_mebibytes_pass_through_little_memory: (Python, "blobs_of_256_mebibytes");
    blobs_of_256_mebibytes_of_java_pass_through_little_memory: (Java, "blobsOf256Mebibytes");
    blobs_of_256_mebibytes_of_go_pass_through_little_memory: (Go, "blobs_of_256_mebibytes");
}
