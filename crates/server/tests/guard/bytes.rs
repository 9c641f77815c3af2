//! Bytes that clients make a server keep without a key.

use reqwest::StatusCode;
use steadfast_wire::amqp::link::LinkRole;

use crate::running::{self, KNOWN, Server, Start, said, steadfast, until};
use crate::strangers::{MIB, Script, Stranger, attacks, resident, within};

/// Asserts that an attack left little behind, while it lasts and at its end.
fn assert_small(server: &Server, before: u64, most: u64, attack: impl FnOnce()) {
    let during = resident(server);
    assert!(
        during < before + most * MIB,
        "{} MiB before, {} MiB under attack",
        before / MIB,
        during / MIB
    );
    attack();
    assert_eq!(server.get("/livez").0, StatusCode::OK);
    until("memory is given back", || {
        (resident(server) < before + 64 * MIB).then_some(())
    });
}

/// A token of a client of the hub `chat`.
fn token(server: &Server) -> String {
    let mut command = steadfast(server.folder.path());
    command.args(["client", "token", "chat", "--user", "alice"]);
    command
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", KNOWN);
    let (code, token, error) = said(&running::finish(command));
    assert_eq!(code, 0, "{error}");
    token.trim().to_owned()
}

#[test]
fn a_frame_of_four_gibibytes_is_refused_before_room_is_made_for_it() {
    let server = within(3 * 1024 * 1024);
    let port = server.port_of("amqp");
    for _ in 0..3 {
        let stranger = attacks::endless_frame(port);
        let words = stranger.last_words();
        assert!(words.contains("framing-error"), "{words}");
    }
    assert_eq!(server.get("/livez").0, StatusCode::OK);
}

#[test]
fn replies_to_a_connection_without_a_key_are_weighed() {
    let server = Start::new("dev").ready();
    let before = resident(&server);
    let (stranger, is_open) = attacks::replies(server.port_of("amqp"));
    assert!(!is_open, "it took everything");
    assert_small(&server, before, 32, || drop(stranger));
}

#[test]
fn names_of_links_without_a_key_are_weighed() {
    let server = Start::new("dev").ready();
    let before = resident(&server);
    let (stranger, is_open) = attacks::link_names(server.port_of("amqp"));
    assert!(!is_open, "it took everything");
    assert_small(&server, before, 32, || drop(stranger));
}

#[test]
fn many_sessions_without_a_key_are_refused() {
    let server = Start::new("dev").ready();
    let mut stranger = Stranger::new(server.port_of("amqp"));
    let mut script = Script::anonymous();
    for channel in 0..9 {
        script.begin(channel);
    }
    assert!(stranger.write(&script.0));
    let words = stranger.last_words();
    assert!(words.contains("too many sessions"), "{words}");
}

#[test]
fn many_small_links_without_a_key_are_refused() {
    let server = Start::new("dev").ready();
    let mut stranger = Stranger::new(server.port_of("amqp"));
    let mut script = Script::anonymous();
    script.begin(0);
    for link in 0..33 {
        script.attach(0, link, &link.to_string(), LinkRole::Sender);
    }
    script.close();
    assert!(stranger.write(&script.0));
    let words = stranger.last_words();
    let refused = words.matches("too many links before a token").count();
    assert_eq!(refused, 1, "{words}");
}

#[test]
fn a_websocket_without_a_key_has_no_room_for_long_messages() {
    let server = Start::new("dev").ready();
    let before = resident(&server);
    let sockets = attacks::websockets(server.port(), 100);
    assert_small(&server, before, 64, || drop(sockets));
}

#[test]
fn a_hub_takes_nothing_long_before_the_handshake() {
    let server = Start::new("dev").ready();
    let token = token(&server);
    let before = resident(&server);
    let sockets = attacks::hub_sockets(server.port(), 100, &token);
    assert_small(&server, before, 64, || drop(sockets));
}

#[test]
fn negotiations_of_one_token_are_weighed() {
    let server = Start::new("dev").ready();
    let token = token(&server);
    let before = resident(&server);
    let attack = attacks::negotiations(&server.client, &server.url, &token, 4_000);
    assert_eq!(server.block(attack), 4_000);
    assert_small(&server, before, 64, || {});
}
