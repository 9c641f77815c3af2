//! `steadfast store backup` and `restore` by a user.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast::id::{Owner, Partition, Sequence, StreamId, TableId};
use steadfast::storage::engine::{ReadPosition, Scan};
use steadfast::storage::local::{self, LocalEngine};
use steadfast::storage::{Options, Store, Writes};
use steadfast_harness::Process;

const PARTITIONS: u32 = 2;

/// The text of a server's key.
const KEY: &str = "0123456789abcdef0123456789abcdef";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(work)
}

fn open(folder: &Path) -> Store {
    let engine = LocalEngine::open(folder, &local::Options::default()).unwrap();
    let owner = Owner {
        node: 1,
        incarnation: fastrand(),
    };
    Store::start(Arc::new(engine), Options::new(owner))
}

/// Another owner each time.
fn fastrand() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0).into()
}

/// Adds rows and events to each partition.
fn write(folder: &Path, rows: std::ops::Range<u32>) {
    block_on(async {
        let store = open(folder);
        for index in 0..PARTITIONS {
            let ledger = store
                .acquire(Partition::new(0, index as u16))
                .await
                .unwrap();
            for number in rows.clone() {
                let mut writes = Writes::new();
                writes.put(TableId(1), &number.to_be_bytes(), &[number as u8; 40]);
                if number.is_multiple_of(5) {
                    writes.publish(StreamId(1), 1, number.to_string().into());
                }
                ledger.commit(writes).await.unwrap();
            }
        }
        store.close().await;
    });
}

/// Rows and events of all partitions.
fn content(folder: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    block_on(async {
        let store = open(folder);
        let mut found = Vec::new();
        for index in 0..PARTITIONS {
            let ledger = store
                .acquire(Partition::new(0, index as u16))
                .await
                .unwrap();
            let snapshot = ledger.snapshot().unwrap();
            for row in snapshot.scan(TableId(1), Scan::all(10_000)).await.unwrap() {
                found.push((row.key.to_vec(), row.value.to_vec()));
            }
            let read =
                ledger.read_events(StreamId(1), ReadPosition::Sequence(Sequence(0)), usize::MAX);
            for batch in read.await.unwrap() {
                let place = [batch.first.0, batch.offset.0, batch.time.0 as u64];
                let place = place.map(u64::to_be_bytes).concat();
                found.push((place, batch.bytes.to_vec()));
            }
        }
        store.close().await;
        found
    })
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments).current_dir(folder);
    command.output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    // Where there is no terminal, each phase is a line.
    let is_phase = |line: &str| line.starts_with("steadfast: ") && !line.contains('[');
    assert!(errors.lines().all(is_phase), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The command fails with this exit code and says this.
fn fail(folder: &Path, arguments: &[&str], status: i32, text: &str) {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{arguments:?}: {errors}"
    );
    assert!(errors.contains(text), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
}

/// The code blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("```");
    parts.next();
    let mut found = Vec::new();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        found.push(block.split_once('\n').unwrap());
    }
    found
}

/// Words as they are, anything with a digit in it as `#`.
fn shape(text: &str) -> Vec<Vec<&str>> {
    let is_number = |word: &'_ str| match word {
        path if path.contains('/') => false,
        number => number.contains(|c: char| c.is_ascii_digit()),
    };
    text.lines()
        .map(|line| {
            let words = line.split_whitespace();
            words
                .map(|word| if is_number(word) { "#" } else { word })
                .collect()
        })
        .collect()
}

#[test]
fn the_guide_does_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("steadfast-data");
    write(&data, 0..100);
    // As a server leaves it.
    fs::write(data.join("secret.key"), KEY).unwrap();
    fs::write(folder.path().join("safe.key"), KEY).unwrap();
    let before = content(&data);
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/backup.md");
    let guide = fs::read_to_string(guide).unwrap();
    let blocks = blocks(&guide);
    let mut commands = 0;
    for pair in blocks.windows(2) {
        let [("sh", command), ("text", expected)] = pair else {
            continue;
        };
        let words: Vec<_> = command.split_whitespace().collect();
        assert_eq!(words[0], "steadfast");
        let found = succeed(folder.path(), &words[1..]);
        assert_eq!(shape(&found), shape(expected), "{command}");
        commands += 1;
    }
    let shown = blocks.iter().filter(|(language, _)| *language == "sh");
    assert_eq!(commands, shown.count(), "a command without its output");
    assert_eq!(commands, 5);
    assert_eq!(content(&folder.path().join("restored")), before);
}

#[test]
fn a_chain_comes_back_at_each_of_its_points() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = root.join("data");
    let mut points = Vec::new();
    for stage in 0..3u32 {
        write(&data, stage * 20..stage * 20 + 40);
        let mut arguments = vec!["backup", "--data", "data", "--to", "backups", "-o", "json"];
        arguments.push("--plain");
        if stage > 0 {
            arguments.push("--incremental");
        }
        let result: Value = serde_json::from_str(&succeed(root, &arguments)).unwrap();
        assert_eq!(result["partitions"], PARTITIONS);
        assert_eq!(result["rows"], PARTITIONS * (stage * 20 + 40));
        let backup = result["backup"].as_str().unwrap().to_string();
        points.push((backup, content(&data)));
    }
    for (number, (backup, expected)) in points.iter().enumerate() {
        let target = format!("restored-{number}");
        let arguments = ["restore", "--from", backup, "--data", &target, "-o", "json"];
        let result: Value = serde_json::from_str(&succeed(root, &arguments)).unwrap();
        assert_eq!(result["data"], target);
        assert!(content(&root.join(target)) == *expected, "{backup}");
    }
}

#[test]
fn what_cannot_be_done_is_said_with_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("data"), 0..10);
    let keyless = ["backup", "--data", "data", "--to", "backups"];
    fail(root, &keyless, 1, "STF-2062");
    assert!(!root.join("backups").exists(), "a folder was made");
    let backup = [&keyless[..], &["--plain"]].concat();
    let incremental = [&backup[..], &["--incremental"]].concat();
    fail(root, &incremental, 1, "STF-2051");
    let nothing = ["backup", "--data", "nothing", "--to", "backups", "--plain"];
    fail(root, &nothing, 1, "STF-2014");
    assert!(!root.join("nothing").exists(), "a folder was made");
    fail(root, &["backup", "verify", "backups"], 1, "STF-2051");
    succeed(root, &backup);
    succeed(root, &incremental);
    let restore = ["restore", "--from", "backups", "--data"];
    let over = [&restore[..], &["data"]].concat();
    fail(root, &over, 1, "STF-2055");
    let open = open_folder(&root.join("data"));
    fail(root, &backup, 1, "STF-2001");
    fail(root, &[&over[..], &["--force"]].concat(), 1, "STF-2001");
    drop(open);
    let rows = root.join("backups/000001-full/00000000.rows");
    let mut bytes = fs::read(&rows).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&rows, bytes).unwrap();
    fail(root, &["backup", "verify", "backups"], 1, "STF-2053");
    let fresh = [&restore[..], &["fresh"]].concat();
    fail(root, &fresh, 1, "STF-2053");
    fs::remove_dir_all(root.join("backups/000001-full")).unwrap();
    fail(root, &["backup", "verify", "backups"], 1, "STF-2052");
    fail(root, &fresh, 1, "STF-2052");
    assert!(!root.join("fresh").exists(), "something was written");
    // Not understood.
    let both = [&backup[..], &["--key", "file"]].concat();
    fail(root, &both, 2, "--plain");
    let running = ["restore", "--from", "backups", "--key", "file"];
    fail(root, &running, 2, "--data");
    fail(root, &["backup", "--data", "data"], 2, "--to");
    fail(root, &["backup", "verify"], 2, "DIR");
    fail(root, &["restore", "--data", "data"], 2, "--from");
    // Without a folder a server is meant, and none is there.
    let nowhere = [
        "restore",
        "--from",
        "backups",
        "--url",
        "http://127.0.0.1:9",
    ];
    fail(root, &nowhere, 1, "cannot be reached");
    fail(root, &[&backup[..], &["-o", "xml"]].concat(), 2, "xml");
}

/// Damage is found without the key; whether the key opens it, only with it.
#[test]
fn a_sealed_backup_is_verified_with_and_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("data"), 0..10);
    fs::write(root.join("key"), KEY).unwrap();
    fs::write(root.join("other"), "the text of another key").unwrap();
    let backup = ["backup", "--data", "data", "--to", "backups", "--key"];
    succeed(root, &[&backup[..], &["key"]].concat());
    let verify = ["backup", "verify", "backups", "-o", "json"];
    for (key, opened) in [(None, false), (Some("key"), true)] {
        let mut arguments = verify.to_vec();
        arguments.extend(key.iter().flat_map(|key| ["--key", key]));
        let result: Value = serde_json::from_str(&succeed(root, &arguments)).unwrap();
        assert_eq!(
            (&result["sealed"], &result["opened"]),
            (&true.into(), &opened.into())
        );
    }
    fail(
        root,
        &[&verify[..], &["--key", "other"]].concat(),
        1,
        "STF-2062",
    );
    fail(
        root,
        &[&verify[..], &["--key", "none"]].concat(),
        1,
        "STF-2014",
    );
    // Nothing else is built on a sealed backup.
    let more = [&backup[..5], &["--incremental"]].concat();
    fail(root, &[&more[..], &["--plain"]].concat(), 1, "STF-2051");
    fail(
        root,
        &[&more[..], &["--key", "other"]].concat(),
        1,
        "STF-2051",
    );
    succeed(root, &[&more[..], &["--key", "key"]].concat());
}

fn open_folder(folder: &Path) -> LocalEngine {
    LocalEngine::open(folder, &local::Options::default()).unwrap()
}

/// The commands themselves, killed at some moment and run again.
#[test]
fn killed_commands_are_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("data"), 0..300);
    let expected = content(&root.join("data"));
    fs::write(root.join("key"), KEY).unwrap();
    let key = ["--key", "key"];
    let backup = ["backup", "--data", "data", "--to", "backups"];
    let backup = [&backup[..], &key].concat();
    let restore = ["restore", "--from", "backups", "--data", "restored"];
    let restore = [&restore[..], &["--force"], &key].concat();
    succeed(root, &backup);
    for round in 0..12u64 {
        for arguments in [&backup[..], &restore[..]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
            command.args(arguments).current_dir(root);
            let mut process = Process::spawn(command).unwrap();
            // The moments are spread over what the whole takes.
            std::thread::sleep(Duration::from_millis(3 * round));
            process.kill().unwrap();
        }
        succeed(root, &["backup", "verify", "backups", "--key", "key"]);
        succeed(root, &backup);
        succeed(root, &restore);
        assert!(content(&root.join("restored")) == expected, "round {round}");
        assert!(!root.join("restored/restoring").exists());
    }
}
