//! Bytes that clients make a server keep without a key.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;
mod strangers;

use std::net::TcpStream;

use reqwest::StatusCode;
use running::{KNOWN, Server, Start, said, steadfast, until};
use steadfast_wire::amqp::link::Role;
use strangers::{MIB, Script, Stranger, frame_header, push, resident, websocket, within};

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
        let mut stranger = Stranger::new(port);
        let mut script = Script::anonymous();
        script.0.extend([0xff; 4]);
        assert!(stranger.write(&script.0));
        let words = stranger.last_words();
        assert!(words.contains("framing-error"), "{words}");
    }
    assert_eq!(server.get("/livez").0, StatusCode::OK);
}

#[test]
fn replies_to_a_connection_without_a_key_are_weighed() {
    let server = Start::new("dev").ready();
    let before = resident(&server);
    let mut stranger = Stranger::new(server.port_of("amqp"));
    let mut script = Script::anonymous();
    script.begin(0);
    script.attach(0, 0, "requests", Role::Sender);
    for handle in 1..=120 {
        script.attach(0, handle, &format!("r{handle}"), Role::Receiver);
    }
    let id = "i".repeat(60_000);
    let mut is_open = stranger.write(&script.0);
    // 700 MB, if it took them.
    'attack: for delivery in 0..12_000 {
        let mut script = Script::default();
        script.request(0, delivery, &format!("r{}", delivery % 120 + 1), &id);
        is_open = is_open && stranger.write(&script.0);
        if !is_open {
            break 'attack;
        }
    }
    assert!(!is_open, "it took everything");
    assert_small(&server, before, 32, || drop(stranger));
}

#[test]
fn names_of_links_without_a_key_are_weighed() {
    let server = Start::new("dev").ready();
    let before = resident(&server);
    let mut stranger = Stranger::new(server.port_of("amqp"));
    let script = Script::anonymous();
    let mut is_open = stranger.write(&script.0);
    let long = "n".repeat(60_000);
    for link in 0..4_000_u32 {
        let mut script = Script::default();
        let (channel, handle) = ((link / 250) as u16, link % 250);
        if handle == 0 {
            script.begin(channel);
        }
        script.attach(channel, handle, &format!("{link}{long}"), Role::Sender);
        is_open = is_open && stranger.write(&script.0);
    }
    assert!(!is_open, "it took everything");
    assert_small(&server, before, 32, || drop(stranger));
}

#[test]
fn many_small_links_without_a_key_are_refused() {
    let server = Start::new("dev").ready();
    let mut stranger = Stranger::new(server.port_of("amqp"));
    let mut script = Script::anonymous();
    for channel in 0..9 {
        script.begin(channel);
    }
    assert!(stranger.write(&script.0));
    let words = stranger.last_words();
    assert!(words.contains("resource-limit-exceeded"), "{words}");
}

#[test]
fn a_websocket_without_a_key_has_no_room_for_long_messages() {
    let server = Start::new("dev").ready();
    let before = resident(&server);
    let part = vec![0; MIB as usize];
    let open = |_| {
        let path = "/$servicebus/websocket";
        let mut socket = websocket(server.port(), path, "sec-websocket-protocol: AMQPWSB10\r\n");
        push(&mut socket, &frame_header(0x82, 4 * MIB));
        push(&mut socket, &part);
        push(&mut socket, &part);
        socket
    };
    let sockets: Vec<TcpStream> = (0..100).map(open).collect();
    assert_small(&server, before, 64, || drop(sockets));
}

#[test]
fn a_hub_takes_nothing_long_before_the_handshake() {
    let server = Start::new("dev").ready();
    let token = token(&server);
    let before = resident(&server);
    let part = vec![0; MIB as usize];
    let open = |_| {
        let path = format!("/client/?hub=chat&access_token={token}");
        let mut socket = websocket(server.port(), &path, "");
        push(&mut socket, &frame_header(0x81, 16 * MIB));
        push(&mut socket, &part);
        push(&mut socket, &part);
        socket
    };
    let sockets: Vec<TcpStream> = (0..100).map(open).collect();
    assert_small(&server, before, 64, || drop(sockets));
}

#[test]
fn negotiations_of_one_token_are_weighed() {
    let server = Start::new("dev").ready();
    let token = token(&server);
    let before = resident(&server);
    let filler = "x".repeat(50_000);
    let url = format!(
        "{}/client/negotiate?hub=chat&negotiateVersion=1",
        server.url
    );
    server.block(async {
        for _ in 0..4_000 {
            let asked = server.client.post(&url).bearer_auth(&token);
            let answer = asked.header("x-filler", &filler).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
        }
    });
    assert_small(&server, before, 64, || {});
}
