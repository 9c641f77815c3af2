//! Attacks on a server with 1 GiB of address space.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;
mod strangers;

use reqwest::StatusCode;
use strangers::{attacks, descriptors, http2, within};

/// Several hundred thousand requests, on connections that read no answer.
#[test]
fn unread_answers_without_a_key_end_no_server() {
    descriptors();
    let server = within(1024 * 1024);
    let port = server.port();
    let unread = http2::unread(port, 1000, 300, "/openapi.json");
    let others = attacks::unread(port, 500, 300);
    assert_eq!(server.get("/v1/status").0, StatusCode::OK);
    drop((unread, others));
    assert_eq!(server.get("/readyz").0, StatusCode::OK);
}
