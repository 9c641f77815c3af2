//! Handshakes of TLS that do not end count before a proof.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::StatusCode;

use crate::running::encrypted::{certificate, encrypted};
use crate::running::until;
use crate::strangers::connect_from;

/// Connections, and what each sends of a handshake. All of them together are over the
/// 24 MiB that connections may bring before their proof, by about 40 connections.
const CONNECTIONS: usize = 400;
const PART: usize = 60_000;

/// A record of TLS holds so much.
const RECORD: usize = 16_384;

/// The beginning of a `ClientHello` of 65,280 bytes, in records.
fn beginning() -> Vec<u8> {
    let mut hello = vec![1, 0, 0xff, 0];
    hello.resize(PART, 0);
    let mut records = Vec::new();
    for part in hello.chunks(RECORD) {
        let [high, low] = (part.len() as u16).to_be_bytes();
        records.extend_from_slice(&[22, 3, 1, high, low]);
        records.extend_from_slice(part);
    }
    records
}

/// Whether the server has closed a connection.
fn is_closed(connection: &mut TcpStream) -> bool {
    match connection.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn handshakes_that_do_not_end_are_closed_when_all_hold_too_much() {
    let server = encrypted(&certificate());
    let beginning = beginning();
    let mut all: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut connection = connect_from(number, server.port());
            connection.write_all(&beginning).unwrap();
            connection.set_nonblocking(true).unwrap();
            connection
        })
        .collect();
    until("handshakes are closed", || {
        let closed = all.iter_mut().map(is_closed).filter(|closed| *closed);
        (closed.count() > 0).then_some(())
    });
    // Without that, they are closed after 10 s, because they take too long.
    let log = server.log();
    assert!(log.contains(r#""cause":"Memory""#), "{log}");
    let health = server.block(async {
        let health = server.client.get(format!("{}/livez", server.url));
        health.timeout(Duration::from_secs(5)).send().await
    });
    assert_eq!(health.unwrap().status(), StatusCode::OK);
}
