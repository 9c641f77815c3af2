//! What a running server reads again.

use std::fs;
use std::path::Path;

use reqwest::{Certificate, Client, StatusCode};
use rustix::process::Signal;

use crate::running::{self, PATIENCE, Server, Start, said};

/// A certificate for loopback, as PEM: itself and its key.
fn certificate() -> (String, String) {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn write(folder: &Path, (certificate, key): &(String, String)) {
    fs::write(folder.join("tls.pem"), certificate).unwrap();
    fs::write(folder.join("tls.key"), key).unwrap();
}

/// Whether a client that trusts only this certificate gets through.
fn is_trusted(server: &Server, certificate: &str) -> bool {
    let certificate = Certificate::from_pem(certificate.as_bytes()).unwrap();
    let client = Client::builder()
        .tls_certs_only([certificate])
        .timeout(PATIENCE);
    let client = client.build().unwrap();
    server.block(async {
        let answer = client.get(format!("{}/livez", server.url)).send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    })
}

fn encrypted(first: &(String, String)) -> Server {
    let start = Start::new("dev")
        .set("tls.certificate=tls.pem")
        .set("tls.key=tls.key");
    write(start.folder.path(), first);
    start.ready()
}

fn reload(server: &Server) {
    let before = server.log().matches("node.reloaded").count();
    server.signal(Signal::HUP);
    running::until("it reloads", || {
        (server.log().matches("node.reloaded").count() > before).then_some(())
    });
}

#[test]
fn sighup_brings_a_new_certificate_to_new_connections() {
    let (first, second) = (certificate(), certificate());
    let server = encrypted(&first);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    assert!(is_trusted(&server, &first.0) && !is_trusted(&server, &second.0));
    write(server.folder.path(), &second);
    assert!(is_trusted(&server, &first.0));
    reload(&server);
    assert!(is_trusted(&server, &second.0) && !is_trusted(&server, &first.0));
}

#[test]
fn a_bad_certificate_leaves_the_former_one_in_use_and_the_rest_is_read() {
    let first = certificate();
    let server = encrypted(&first);
    let (_, other_key) = certificate();
    fs::write(server.folder.path().join("tls.key"), other_key).unwrap();
    let key = "[[key]]\nname = 'new'\nrights = ['manage *']\nprimary = 'sixteen letters!!'\n";
    fs::write(server.data().join("keys.toml"), key).unwrap();
    server.signal(Signal::HUP);
    let log = server.logged("node.reload_failed");
    assert!(log.contains("STF-6012"), "{log}");
    assert!(is_trusted(&server, &first.0));
    let trusted = Certificate::from_pem(first.0.as_bytes()).unwrap();
    let client = Client::builder().tls_certs_only([trusted]).build().unwrap();
    let request = client.get(format!("{}/v1/status", server.url));
    let request = request.bearer_auth("sixteen letters!!");
    let status = server.block(async { request.send().await.unwrap().status() });
    assert_eq!(status, StatusCode::OK);
}

#[test]
fn a_command_reaches_an_encrypted_server_by_its_context() {
    let first = certificate();
    let server = encrypted(&first);
    let folder = server.folder.path();
    let refused = running::run(folder, &["status", "--url", &server.url]);
    assert_eq!(said(&refused).0, 1, "the certificate is not trusted");
    let add = [
        "context",
        "add",
        "prod",
        "--url",
        &server.url,
        "--ca",
        "tls.pem",
    ];
    let added = running::run_with_key(folder, running::KNOWN, &add);
    assert_eq!(said(&added).0, 0);
    let (code, printed, errors) = said(&running::run(folder, &["status", "--context", "prod"]));
    assert_eq!(code, 0, "{errors}");
    assert!(printed.contains("state       ready"), "{printed}");
}

#[test]
fn sighup_reads_keys_of_the_file_and_of_the_configuration() {
    let declared = |secret: &str| {
        format!("[[key]]\nname = 'a'\nprimary = '{secret}'\nrights = ['manage *']\n")
    };
    let server = Start::new("serve")
        .config(&declared("the-first-secret-of-a"))
        .ready();
    let asks = |key: &str| {
        let key = format!("Bearer {key}");
        server.ask(reqwest::Method::GET, "/v1/status", &key, None).0
    };
    assert_eq!(asks("the-first-secret-of-a"), StatusCode::OK);
    let file = server.folder.path().join("steadfast.toml");
    fs::write(&file, declared("the-second-secret-of-a")).unwrap();
    fs::write(
        server.data().join("keys.toml"),
        "[[key]]\nname = 'b'\nprimary = 'b'\nrights = ['manage node']\n",
    )
    .unwrap();
    assert_eq!(asks("b"), StatusCode::UNAUTHORIZED);
    reload(&server);
    assert_eq!(asks("b"), StatusCode::OK);
    assert_eq!(asks("the-first-secret-of-a"), StatusCode::UNAUTHORIZED);
    assert_eq!(asks("the-second-secret-of-a"), StatusCode::OK);
}

#[test]
fn sighup_reads_the_log_level() {
    let server = Start::new("dev").config("[log]\nlevel = 'info'\n").ready();
    let denied = || server.ask(reqwest::Method::GET, "/v1/status", "Bearer wrong", None);
    denied();
    fs::write(
        server.folder.path().join("steadfast.toml"),
        "[log]\nlevel = 'debug'\n",
    )
    .unwrap();
    reload(&server);
    assert!(!server.log().contains("access.denied"));
    denied();
    server.logged("access.denied");
}

#[test]
fn reload_by_command_says_what_was_read_and_what_is_wrong() {
    let server = Start::new("dev").config("").ready();
    let (code, printed, _) = said(&server.run(&["reload"]));
    assert_eq!((code, printed.as_str()), (0, "reloaded  keys, log level\n"));
    let file = server.folder.path().join("steadfast.toml");
    fs::write(&file, "[log]\nlevel = 'loud'\n").unwrap();
    let (code, _, errors) = said(&server.run(&["reload"]));
    assert_eq!(code, 1);
    assert!(errors.contains("'loud' is not a log level"), "{errors}");
    fs::write(&file, "[lgo]\nlevel = 'loud'\n").unwrap();
    let (code, _, errors) = said(&server.run(&["reload"]));
    assert_eq!(code, 1);
    assert!(errors.contains("did you mean 'log'?"), "{errors}");
}

#[test]
fn the_strings_that_dev_prints_name_the_certificate_on_every_port() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &certificate());
    let mut command = running::steadfast(folder.path());
    command.args(["dev", "--json", "--set", "http.port=0"]);
    command.args([
        "--set",
        "tls.certificate=tls.pem",
        "--set",
        "tls.key=tls.key",
    ]);
    let mut process = steadfast_harness::Process::spawn(command).unwrap();
    let line = process.next_line(PATIENCE).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    for (name, beginning) in [
        ("durable", "Endpoint=https://localhost:"),
        ("realtime", "Endpoint=https://localhost;Port="),
        ("blob", "DefaultEndpointsProtocol=https;"),
    ] {
        let text = ready["connection_strings"][name].as_str().unwrap();
        assert!(text.starts_with(beginning), "{name}: {text}");
    }
}
