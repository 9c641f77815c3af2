//! Nodes that join, leave, are killed and stand still.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::nodes::slots::{fill, question, read, try_write, write};
use crate::nodes::{
    self, Caller, LEASE, Over, database, get, metric, node, now, owner, put, settled, shares,
    standing, taken_over, three,
};
use crate::running::stalls::Stalls;
use crate::running::{self, KNOWN, PATIENCE, until};

/// What a takeover may take beside the lease.
const SOON: Duration = Duration::from_secs(2);

/// Asks a node that stands still: the question waits in its socket.
fn ask_sleeper(port: u16, service: &str, slot: &str) -> TcpStream {
    let body = question(slot).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST /v1/state/{service} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\
         content-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn answer_of(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn nodes_join_leave_and_are_killed() {
    let stalls = Stalls::watch();
    let database = database();
    let mut nodes = three(&database);
    let state = standing(&nodes[0]);
    println!("shares of three nodes: {:?}", shares(&state));
    let first = Caller::of(&nodes[0]);
    fill(&first, "life");
    // Every node reaches every partition.
    for server in nodes.iter().map(Caller::of) {
        let server = &server;
        for slot in 0..nodes::PARTITIONS {
            let slot = format!("s{slot}");
            assert_eq!(read(server, "life", &slot), (StatusCode::OK, json!(0)));
            write(server, "life", &slot, 1);
            write(server, "life", &slot, 0);
        }
    }
    // A clean drain during writes.
    let mut leaving = nodes.pop().unwrap();
    let stop = AtomicBool::new(false);
    let (gap, left) = std::thread::scope(|scope| {
        let _over = Over(&stop);
        let (writer, stopped) = (&first, &stop);
        let writing = scope.spawn(move || {
            let (mut last, mut gap, mut number) = (now(), Duration::ZERO, 0);
            while !stopped.load(Ordering::Relaxed) {
                for slot in 0..nodes::PARTITIONS {
                    number += 1;
                    write(writer, "life", &format!("s{slot}"), number);
                    gap = gap.max(last.elapsed());
                    last = now();
                }
            }
            gap
        });
        let began = now();
        leaving.signal(Signal::TERM);
        let (code, said) = leaving.ended();
        assert_eq!(code, 0, "{said}");
        for line in ["moved      4", "left       0", "lost       0"] {
            assert!(said.lines().any(|found| found == line), "{line}: {said}");
        }
        let sheet = said.rsplit_once("moved").map_or("", |(_, sheet)| sheet);
        println!("the node that left: moved {}", sheet.replace('\n', "; "));
        let left = began.elapsed();
        let whole = taken_over(&nodes[0], 2, began);
        println!(
            "after SIGTERM the node was gone in {left:?}, everything was served again in {whole:?}"
        );
        stop.store(true, Ordering::Relaxed);
        (writing.join().unwrap(), whole.saturating_sub(left))
    });
    println!("a clean leave: the longest wait of a writer was {gap:?}");
    let soon = SOON + stalls.lost();
    assert!(left < soon && gap < soon, "{left:?} {gap:?}");
    settled(&nodes[0], 2);
    // A crash.
    let mut killed = nodes.pop().unwrap();
    let before = (0..nodes::PARTITIONS).map(|slot| read(&first, "life", &format!("s{slot}")).1);
    let before: Vec<_> = before.collect();
    let began = now();
    killed.process.kill().unwrap();
    let took = taken_over(&nodes[0], 1, began);
    println!("a crash: everything was served again in {took:?}; the lease is {LEASE:?}");
    assert!(took < LEASE + SOON + stalls.lost(), "{took:?}");
    for (slot, value) in before.iter().enumerate() {
        let found = read(&first, "life", &format!("s{slot}"));
        assert_eq!(found, (StatusCode::OK, value.clone()), "slot {slot}");
    }
    // And a new node.
    let fresh = node("d", &database).ready();
    settled(&fresh, 2);
    let fresh_caller = Caller::of(&fresh);
    for (slot, value) in before.iter().enumerate() {
        let found = read(&fresh_caller, "life", &format!("s{slot}"));
        assert_eq!(found, (StatusCode::OK, value.clone()), "slot {slot}");
    }
}

/// The name shows two items: the test inside is about what such a node shows, too.
mod c61_a_fenced_out_primary_acknowledges_nothing {
    use super::*;

    /// T12 and C61: a node stands still for longer than its lease, others follow it, and
    /// when it goes on it neither shows what it remembers nor acknowledges anything.
    #[test]
    fn t12_a_paused_owner_shows_nothing_from_memory() {
        let database = database();
        let nodes = three(&database);
        let (first, paused) = (&nodes[0], &nodes[1]);
        let (teller, asked) = (Caller::of(first), Caller::of(paused));
        fill(&teller, "pause");
        // In its memory.
        for slot in 0..nodes::PARTITIONS {
            assert_eq!(read(&asked, "pause", &format!("s{slot}")).1, json!(0));
        }
        for round in 1..=2u64 {
            paused.process.freeze().unwrap();
            let began = now();
            taken_over(first, 2, began);
            println!(
                "round {round}: after a freeze everything was served again in {:?}",
                began.elapsed()
            );
            for slot in 0..nodes::PARTITIONS {
                write(&teller, "pause", &format!("s{slot}"), round);
            }
            // What it finds when it wakes up: questions that wait at its door.
            let waiting: Vec<_> = (0..nodes::PARTITIONS)
                .map(|slot| ask_sleeper(paused.port(), "pause", &format!("s{slot}")))
                .collect();
            paused.process.thaw().unwrap();
            for (slot, waiting) in waiting.into_iter().enumerate() {
                let answer = answer_of(waiting);
                let shown = format!("\"value\":{round}");
                let is_right = !answer.contains(" 200 ") || answer.contains(&shown);
                assert!(is_right, "slot {slot}, not {round}: {answer}");
            }
            for slot in 0..nodes::PARTITIONS {
                let (status, value) = read(&asked, "pause", &format!("s{slot}"));
                if status == StatusCode::OK {
                    assert_eq!(
                        value,
                        json!(round),
                        "slot {slot}: it showed what it remembered"
                    );
                }
                // What it acknowledges is there for everybody.
                let (status, _) = try_write(&asked, "pause", &format!("s{slot}"), round + 100);
                if status == StatusCode::OK {
                    let seen = read(&teller, "pause", &format!("s{slot}"));
                    assert_eq!(seen, (StatusCode::OK, json!(round + 100)), "slot {slot}");
                }
            }
            settled(first, 3);
            paused.logged("cluster.lease_ended");
        }
        let count = |name: &str| metric(paused, name);
        assert!(count("cluster_lapses") >= 1.0);
        assert!(count("cluster_taken") >= 4.0 && count("cluster_epochs") >= 4.0);
        assert_eq!((count("cluster_nodes"), count("cluster_lease")), (3.0, 1.0));
    }
}

#[test]
fn a_partition_is_moved_by_hand() {
    let database = database();
    let (a, b) = (node("a", &database).ready(), node("b", &database).ready());
    settled(&b, 2);
    let state = settled(&a, 2);
    put(&a, "hand", "k", "v");
    let partition =
        (0..nodes::PARTITIONS as u64).find(|one| owner(&state, *one).as_deref() == Some("a"));
    let partition = partition.unwrap().to_string();
    // The one that is to take it is asked by the other.
    let said = running::said(&a.run(&["cluster", "move", &partition, "--to", "b"]));
    assert_eq!(said.0, 0, "{said:?}");
    let number: u64 = partition.parse().unwrap();
    until("the other node to have it", || {
        (owner(&standing(&a), number).as_deref() == Some("b")).then_some(())
    });
    let (code, text, _) = running::said(&a.run(&["cluster", "status"]));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("NODE") && text.contains(" up "), "{text}");
    assert_eq!(get(&b, "hand", "k").1, json!("v"));
    let refused = running::said(&a.run(&["cluster", "move", &partition, "--to", "x"]));
    assert_ne!(refused.0, 0);
}
