//! Files of a server, and who may read them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::{self, KNOWN, Server, Start, said, until};

/// Everything below a folder, with the folder.
fn below(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while next < found.len() {
        if found[next].is_dir() {
            let entries = fs::read_dir(&found[next]).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    found
}

/// Every folder is for its owner only, and so is every file.
fn is_private(root: &Path) -> usize {
    let all = below(root);
    for path in &all {
        let metadata = fs::symlink_metadata(path).unwrap();
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.mode() & 0o7777;
        assert_eq!(mode, wanted, "{} {mode:o}", path.display());
    }
    all.len()
}

/// A server that was started under a umask, in a folder.
fn start(umask: &str, folder: TempDir) -> Server {
    let mut start = Start::new("dev").set("storage.log_target=64KiB");
    let steadfast = std::mem::replace(&mut start.command, Command::new("sh"));
    start
        .command
        .arg("-c")
        .arg(format!("umask {umask}; exec \"$0\" \"$@\""));
    start
        .command
        .arg(steadfast.get_program())
        .args(steadfast.get_args());
    running::settle(&mut start.command, folder.path());
    start.folder = folder;
    start.ready()
}

/// Has a server write of everything, so much that tables are flushed.
fn fill(server: &Server) {
    let hub = json!({"name": "h", "partitions": 1});
    server.post("/v1/eventhubs", hub);
    let key = format!("Bearer {KNOWN}");
    let service = json!({"scheme": "singleton"});
    server.ask(Method::PUT, "/v1/state/s", &key, Some(service));
    for number in 0..20 {
        let events = json!({"events": [{"body": "x".repeat(60_000)}]});
        // While the log is full, writers are asked to come again.
        until("events are taken", || {
            let (status, _) = server.post("/v1/eventhubs/h/events", events.clone());
            (status == 201).then_some(())
        });
        let path = format!("/v1/state/s/c/{number}");
        let value = json!("y".repeat(20_000));
        until("a value is taken", || {
            let put = server.ask(Method::PUT, &path, &key, Some(value.clone()));
            put.0.is_success().then_some(())
        });
    }
    let (status, answer) = server.post("/v1/keys", json!({"name": "k", "rights": ["send *"]}));
    assert!(status.is_success(), "{answer}");
    let (code, _, error) = said(&server.run(&["backup", "--to", "b"]));
    assert_eq!(code, 0, "{error}");
}

#[test]
fn whatever_the_umask_is_files_are_for_their_owner_only() {
    for umask in ["000", "022"] {
        let server = start(umask, tempfile::tempdir().unwrap());
        fill(&server);
        assert!(is_private(&server.data()) > 10);
        let backups = server.folder.path().join("steadfast-data-backups");
        assert!(is_private(&backups) > 3);
    }
}

#[test]
fn a_folder_of_before_is_closed_when_it_is_opened() {
    let mut server = start("022", tempfile::tempdir().unwrap());
    fill(&server);
    server.signal(rustix::process::Signal::TERM);
    server.ended();
    let folder = server.folder;
    let data = folder.path().join("steadfast-data");
    let backups = folder.path().join("steadfast-data-backups");
    let all = below(&data).into_iter().chain(below(&backups));
    for path in all.filter(|path| path.exists()) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let server = start("022", folder);
    server.logged("storage.closed_to_others");
    is_private(&server.data());
    let (code, _, error) = said(&server.run(&["backup", "--to", "b"]));
    assert_eq!(code, 0, "{error}");
    is_private(&server.folder.path().join("steadfast-data-backups/b"));
    // The state is what it was.
    assert_eq!(server.get("/v1/eventhubs/h").0, 200);
}

#[test]
fn backups_by_rest_stay_below_their_root() {
    let server = Start::new("dev").ready();
    let top = server.folder.path().to_owned();
    let root = top.join("steadfast-data-backups");
    let (status, answer) = server.post("/v1/backup", json!({"to": "good"}));
    assert_eq!(status, 200, "{answer}");
    fs::create_dir_all(&root).unwrap();
    std::os::unix::fs::symlink(&top, root.join("link")).unwrap();
    let outside = top.join("elsewhere").display().to_string();
    let log = server.data().join("log").display().to_string();
    let names = [
        &outside,
        &log,
        "..",
        "../elsewhere",
        "good/../../elsewhere",
        "link/elsewhere",
        "../steadfast-data/log",
        "/",
    ];
    let before = below(&server.data().join("log")).len();
    for name in names {
        for (path, body) in [
            ("/v1/backup", json!({"to": name})),
            ("/v1/restore", json!({"from": name})),
        ] {
            let (status, answer) = server.post(path, body);
            assert_eq!(status, 403, "{path} {name}: {answer}");
            assert_eq!(answer["error"]["code"], "STF-7006", "{answer}");
        }
    }
    assert!(!top.join("elsewhere").exists());
    assert_eq!(below(&server.data().join("log")).len(), before);
    assert_eq!(server.get("/readyz").0, 200);
}

/// Whether any file below a folder holds a text.
fn holds(root: &Path, text: &str) -> bool {
    let files = below(root).into_iter().filter(|path| path.is_file());
    files.map(|file| fs::read(file).unwrap()).any(|bytes| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

/// The key in the first connection string of an event hub.
fn policy_key(hub: &Value) -> String {
    let text = hub["connection_strings"].to_string();
    let (_, rest) = text.split_once("SharedAccessKey=").unwrap();
    let end = rest.find(['"', ';', '\\']).unwrap();
    rest[..end].to_owned()
}

#[test]
fn keys_of_policies_are_in_no_file() {
    let mut server = start("022", tempfile::tempdir().unwrap());
    fill(&server);
    let hub = json!({"name": "sealed", "partitions": 1});
    let (status, made) = server.post("/v1/eventhubs", hub);
    assert_eq!(status, 201, "{made}");
    let key = policy_key(&made);
    assert!(key.len() > 30, "{made}");
    let (status, _) = server.post("/v1/backup", json!({"to": "b", "incremental": true}));
    assert_eq!(status, 200);
    let backups = server.folder.path().join("steadfast-data-backups");
    assert!(holds(&server.data(), "sealed"));
    assert!(!holds(&server.data(), &key), "the data folder holds it");
    assert!(
        !holds(&backups, "sealed"),
        "nothing of a backup is readable"
    );
    assert!(!holds(&backups, &key), "the backup holds it");
    let (_, found) = server.get("/v1/eventhubs/sealed");
    assert_eq!(policy_key(&found), key);
    server.signal(rustix::process::Signal::TERM);
    server.ended();

    // It is the same after a restart, and worth nothing without the secret.
    let mut server = start("022", server.folder);
    let (_, found) = server.get("/v1/eventhubs/sealed");
    assert_eq!(policy_key(&found), key);
    server.signal(rustix::process::Signal::TERM);
    server.ended();
    fs::write(server.data().join("secret.key"), "another".repeat(8)).unwrap();
    let server = start("022", server.folder);
    let (status, found) = server.get("/v1/eventhubs/sealed");
    assert_eq!(status, 200, "{found}");
    assert!(!found.to_string().contains("SharedAccessKey="), "{found}");
    server.logged("events.policy_locked");
}
