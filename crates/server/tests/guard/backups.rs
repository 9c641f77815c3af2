//! Backups of a server: sealed, and opened by its key only.

use std::fs;
use std::path::{Path, PathBuf};

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast::storage::backup::Manifest;
use xxhash_rust::xxh3::xxh3_128;

use crate::running::{KNOWN, Server, Start, run, said};

const VALUE: &str = "a value that only the owner may read";
const EVENT: &str = "an event that only readers may see";
const HUB: &str = "hub-with-a-telling-name";
const STATE: &str = "/v1/state/telling-service/telling-collection/1";

/// A server with a value and an event.
fn start() -> Server {
    let server = Start::new("dev").ready();
    put(
        &server,
        "/v1/state/telling-service",
        json!({"scheme": "singleton"}),
    );
    put(&server, STATE, json!(VALUE));
    let (status, answer) = server.post("/v1/eventhubs", json!({"name": HUB, "partitions": 1}));
    assert_eq!(status, 201, "{answer}");
    let events = json!({"events": [{"body": EVENT}]});
    let (status, answer) = server.post(&format!("/v1/eventhubs/{HUB}/events"), events);
    assert_eq!(status, 201, "{answer}");
    server
}

fn put(server: &Server, path: &str, value: Value) {
    let key = format!("Bearer {KNOWN}");
    let (status, answer) = server.ask(Method::PUT, path, &key, Some(value));
    assert!(status.is_success(), "{path}: {answer}");
}

fn backups(server: &Server) -> PathBuf {
    server.folder.path().join("steadfast-data-backups/b")
}

/// Whether any file below a folder holds a text.
fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holds(&path, text)
        } else {
            let bytes = fs::read(&path).unwrap();
            let mut parts = bytes.windows(text.len());
            parts.any(|part| part == text.as_bytes())
        }
    })
}

fn stop(server: &mut Server) {
    server.signal(Signal::TERM);
    server.ended();
}

/// Backs a stopped server up in plain text; answers the folder of the backup.
fn plain(server: &Server) -> PathBuf {
    let (data, to) = (server.data(), backups(server));
    let (data, to) = (data.display().to_string(), to.display().to_string());
    let plain = ["backup", "--data", &data, "--to", &to, "--plain"];
    let (code, _, error) = said(&run(server.folder.path(), &plain));
    assert_eq!(code, 0, "{error}");
    backups(server).join("000001-full")
}

/// Has a manifest promise a row that its backup does not hold. All digests fit.
fn promise_more(backup: &Path) {
    let file = backup.join("manifest.json");
    let text = fs::read_to_string(&file).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let mut manifest: Manifest = serde_json::from_str(&text).unwrap();
    let last = manifest.partitions.last_mut().unwrap();
    last.rows += 1;
    let text = serde_json::to_string(&manifest).unwrap();
    let field = |digest: &str| format!("\"digest\":\"{digest}\"");
    let blank = text.replace(&field(value["digest"].as_str().unwrap()), &field(""));
    let digest = format!("{:032x}", xxh3_128(blank.as_bytes()));
    fs::write(file, blank.replace(&field(""), &field(&digest))).unwrap();
}

/// It was found out only after much of it was written.
#[test]
fn a_restore_that_fails_while_it_writes_leaves_the_server_with_its_state() {
    let mut server = start();
    stop(&mut server);
    promise_more(&plain(&server));
    let data = server.data().display().to_string();
    let again = || Start::new("dev").set(&format!("data={data}")).ready();
    let mut running = again();
    put(&running, STATE, json!("later"));
    let restore = ["restore", "--from", "b/000001-full", "--force"];
    let (code, _, error) = said(&running.run(&restore));
    assert!(code == 1 && error.contains("STF-2057"), "{error}");
    assert_eq!(running.get(STATE).1, json!("later"));
    assert!(!server.data().join("restoring").exists());
    stop(&mut running);
    assert_eq!(again().get(STATE).1, json!("later"));
}

/// What a process leaves that is killed while it restores.
#[test]
fn a_server_opens_its_state_after_a_restore_that_was_killed() {
    let mut server = start();
    stop(&mut server);
    let half = server.data().join("restoring");
    fs::create_dir_all(half.join("log")).unwrap();
    fs::copy(server.data().join("FORMAT"), half.join("FORMAT")).unwrap();
    let data = server.data().display().to_string();
    let again = Start::new("dev").set(&format!("data={data}")).ready();
    assert_eq!(again.get(STATE).1, json!(VALUE));
    again.logged("storage.restore_discarded");
    assert!(!half.exists());
}

/// The newest machine has nothing but the restore: it does not begin with an empty state.
#[test]
fn a_server_does_not_start_empty_after_a_first_restore_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let half = folder.path().join("steadfast-data/restoring");
    fs::create_dir_all(half.join("log")).unwrap();
    let (code, _, error) = said(&run(folder.path(), &["dev", "--set", "http.port=0"]));
    assert!(code != 0 && error.contains("STF-2056"), "{error}");
    assert!(half.join("log").exists());
}

/// Texts that can be guessed seal nothing.
#[test]
fn a_short_key_is_refused_before_anything_happens() {
    let mut server = start();
    stop(&mut server);
    let folder = server.folder.path();
    let backup = ["backup", "--data", "steadfast-data", "--to", "sealed"];
    let restore = ["restore", "--from", "sealed", "--data", "restored"];
    let verify = ["backup", "verify", "sealed"];
    for text in ["", "\n", "123456789012345\r\n"] {
        fs::write(folder.join("short.key"), text).unwrap();
        for command in [&backup[..], &restore, &verify] {
            let command = [command, &["--key", "short.key"]].concat();
            let (code, _, error) = said(&run(folder, &command));
            assert!(code == 1 && error.contains("STF-2062"), "{error}");
            assert!(
                error.contains("short.key") && error.contains("16 bytes"),
                "{error}"
            );
        }
    }
    assert!(!folder.join("sealed").exists() && !folder.join("restored").exists());
    fs::write(folder.join("long.key"), "1234567890123456\n").unwrap();
    for command in [&backup[..], &restore, &verify] {
        let command = [command, &["--key", "long.key"]].concat();
        let (code, _, error) = said(&run(folder, &command));
        assert_eq!(code, 0, "{error}");
    }
    // A server whose own secret is short takes no backup that no command would open.
    let set = format!("jobs.secret_key={}", folder.join("short.key").display());
    let short = Start::new("dev").set(&set).ready();
    let (status, answer) = short.post("/v1/backup", json!({"to": "b"}));
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    assert_eq!(answer["error"]["code"], "STF-2062", "{answer}");
}

/// An operator with several keys sees which one is needed.
#[test]
fn a_backup_and_its_refusals_name_the_key_that_sealed_it() {
    let server = start();
    let (status, answer) = server.post("/v1/backup", json!({"to": "b"}));
    assert_eq!(status, 200, "{answer}");
    let sealed = answer["key"].as_str().unwrap();
    assert_eq!(sealed.len(), 16, "{answer}");
    let root = server.folder.path();
    let from = backups(&server).display().to_string();
    let verify = ["backup", "verify", &from, "-o", "json"];
    let (code, shown, error) = said(&run(root, &verify));
    assert_eq!(code, 0, "{error}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["key"], sealed);
    // The key that was tried is named by its file and by what its own backups show.
    fs::write(root.join("other.key"), "the text of another key").unwrap();
    let other = ["backup", "--data", "steadfast-data", "--to", "others"];
    let other = [&other[..], &["--key", "other.key", "-o", "json"]].concat();
    let restore = ["restore", "--from", &from, "--data", "new"];
    let restore = [&restore[..], &["--key", "other.key"]].concat();
    let (code, _, error) = said(&run(root, &restore));
    assert!(code == 1 && error.contains("STF-2062"), "{error}");
    assert!(
        error.contains(sealed) && error.contains("other.key"),
        "{error}"
    );
    let mut server = server;
    stop(&mut server);
    let (code, taken, failed) = said(&run(server.folder.path(), &other));
    assert_eq!(code, 0, "{failed}");
    let taken: Value = serde_json::from_str(&taken).unwrap();
    let tried = taken["key"].as_str().unwrap();
    assert!(tried != sealed && error.contains(tried), "{tried}: {error}");
    assert!(!error.contains("another"), "{error}");
}

#[test]
fn a_backup_shows_nothing_of_what_the_server_holds() {
    let server = start();
    for incremental in [false, true] {
        let order = json!({"to": "b", "incremental": incremental});
        let (status, answer) = server.post("/v1/backup", order);
        assert_eq!(
            (status, &answer["sealed"]),
            (StatusCode::OK, &json!(true)),
            "{answer}"
        );
    }
    for text in [VALUE, EVENT, HUB, "telling-service", "telling-collection"] {
        assert!(holds(&server.data(), text), "{text}: it is in the state");
        assert!(
            !holds(&backups(&server), text),
            "{text}: it is in the backup"
        );
    }
}

/// All that is left of a machine: its backups, and its key, which was kept elsewhere.
#[test]
fn a_lost_machine_comes_back_from_its_backups_and_its_key() {
    let mut server = start();
    let (code, _, error) = said(&server.run(&["backup", "--to", "b"]));
    assert_eq!(code, 0, "{error}");
    stop(&mut server);
    let kept = tempfile::tempdir().unwrap();
    let root = kept.path();
    fs::rename(backups(&server), root.join("b")).unwrap();
    fs::rename(server.data().join("secret.key"), root.join("safe.key")).unwrap();
    drop(server);

    let restore = ["restore", "--from", "b", "--data", "new"];
    let (code, _, error) = said(&run(root, &restore));
    assert!(code == 1 && error.contains("STF-2062"), "{error}");
    fs::write(
        root.join("other.key"),
        "another key than the one that sealed it",
    )
    .unwrap();
    let other = [&restore[..], &["--key", "other.key"]].concat();
    let (code, _, error) = said(&run(root, &other));
    assert!(code == 1 && error.contains("STF-2062"), "{error}");
    assert!(!root.join("new").exists(), "something was written");

    // With the key in a file of its own, and with the key in its place.
    let given = [&restore[..], &["--key", "safe.key"]].concat();
    let (code, _, error) = said(&run(root, &given));
    assert_eq!(code, 0, "{error}");
    fs::create_dir(root.join("placed")).unwrap();
    fs::copy(root.join("safe.key"), root.join("placed/secret.key")).unwrap();
    let placed = ["restore", "--from", "b", "--data", "placed"];
    let (code, _, error) = said(&run(root, &placed));
    assert_eq!(code, 0, "{error}");

    let data = root.join("placed").display().to_string();
    let server = Start::new("dev").set(&format!("data={data}")).ready();
    assert_eq!(server.get(STATE).1, json!(VALUE));
    // Policies of the event hub open too: the secret is the one that sealed them.
    let (_, hub) = server.get(&format!("/v1/eventhubs/{HUB}"));
    assert!(hub.to_string().contains("SharedAccessKey="), "{hub}");
}

#[test]
fn a_running_server_refuses_a_backup_of_another_key_and_goes_on() {
    let (server, other) = (start(), Start::new("dev").ready());
    let (status, answer) = server.post("/v1/backup", json!({"to": "b"}));
    assert_eq!(status, 200, "{answer}");
    let target = other.folder.path().join("steadfast-data-backups");
    fs::create_dir_all(&target).unwrap();
    fs::rename(backups(&server), target.join("b")).unwrap();
    let (status, answer) = other.post("/v1/restore", json!({"from": "b", "force": true}));
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    assert_eq!(answer["error"]["code"], "STF-2062", "{answer}");
    assert_eq!(other.get("/readyz").0, 200);
}

/// Backups of before there was sealing, and the nightly command that adds to them.
#[test]
fn an_upgraded_server_begins_a_sealed_chain_beside_its_plain_backups() {
    let mut server = start();
    stop(&mut server);
    let data = server.data().display().to_string();
    let to = backups(&server).display().to_string();
    let plain = ["backup", "--data", &data, "--to", &to, "--plain"];
    for more in [&[][..], &["--incremental"]] {
        let (code, _, error) = said(&run(server.folder.path(), &[&plain[..], more].concat()));
        assert_eq!(code, 0, "{error}");
    }
    let key = fs::read_to_string(server.data().join("secret.key")).unwrap();
    let upgraded = Start::new("dev").set(&format!("data={data}"));
    let upgraded = upgraded.set("log.level=trace").ready();
    let nightly = || {
        let nightly = upgraded.run(&["backup", "--to", "b", "--incremental", "-o", "json"]);
        let (code, answer, error) = said(&nightly);
        assert_eq!(code, 0, "{error}");
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let first = nightly();
    assert_eq!(
        (&first["extent"], &first["sealed"]),
        (&json!("full"), &json!(true))
    );
    assert!(
        first["note"].as_str().unwrap().contains("plain text"),
        "{first}"
    );
    upgraded.logged("backup.new_chain");
    let second = nightly();
    assert_eq!(second["extent"], "incremental", "{second}");
    assert_eq!(second["note"], Value::Null);
    for name in ["000003-full", "000004-incremental"] {
        assert!(!holds(&backups(&server).join(name), VALUE), "{name}");
    }
    assert!(holds(&backups(&server).join("000001-full"), VALUE));
    // Both kinds come back, and the key is in no log and no backup.
    for from in ["b/000002-incremental", "b"] {
        put(&upgraded, STATE, json!("later"));
        let (code, _, error) = said(&upgraded.run(&["restore", "--from", from, "--force"]));
        assert_eq!(code, 0, "{from}: {error}");
        assert_eq!(upgraded.get(STATE).1, json!(VALUE), "{from}");
    }
    assert!(!upgraded.log().contains(key.trim()), "the key was logged");
    assert!(
        !holds(&backups(&server), key.trim()),
        "the key is in a backup"
    );
}

/// A server that keeps nothing has no key that outlives it: sealed, its backups were lost.
#[test]
fn a_server_in_memory_takes_plain_backups() {
    let server = Start::new("dev").set("engine=memory").ready();
    let (status, answer) = server.post("/v1/backup", json!({"to": "b"}));
    assert_eq!(
        (status, &answer["sealed"]),
        (StatusCode::OK, &json!(false)),
        "{answer}"
    );
}
