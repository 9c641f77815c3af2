//! Reserved ports.

use std::collections::BTreeSet;
use std::net::TcpListener;

use steadfast_harness::reserve_port;

/// The first port that Linux may give to the local end of a connection.
fn first_ephemeral() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    range.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn no_port_is_reserved_twice_and_none_belongs_to_connections() {
    let all: Vec<_> = (0..64).map(|_| reserve_port().unwrap()).collect();
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
    assert!(all.iter().all(|port| *port < first_ephemeral()), "{all:?}");
}

#[test]
fn a_port_at_which_a_server_listens_is_passed_over() {
    let next = reserve_port().unwrap() + 1;
    // Another test of this process may have taken it.
    let holder = TcpListener::bind(("127.0.0.1", next));
    let all: Vec<_> = (0..8).map(|_| reserve_port().unwrap()).collect();
    assert!(holder.is_err() || !all.contains(&next), "{next}: {all:?}");
}

#[test]
fn another_process_cannot_lock_a_reserved_port() {
    let port = reserve_port().unwrap();
    let file = std::env::temp_dir()
        .join("steadfast-ports")
        .join(port.to_string());
    let mut other = std::process::Command::new("flock");
    other
        .args(["--nonblock", "--exclusive"])
        .arg(&file)
        .arg("true");
    assert!(!other.status().unwrap().success());
}
