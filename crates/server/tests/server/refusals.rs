//! What is wrong is said clearly, with the right exit code.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use steadfast::clock::{Clock, SystemClock};

use crate::running::{self, Start, run, said};

/// Starts a server that must not start; answers what it complains of.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    refused_with(1, folder, arguments)
}

/// The same for an invalid configuration.
fn misconfigured(folder: &Path, arguments: &[&str]) -> String {
    refused_with(2, folder, arguments)
}

fn refused_with(expected: i32, folder: &Path, arguments: &[&str]) -> String {
    let mut all = vec!["serve", "--set", "http.port=0"];
    all.extend(arguments);
    let (code, printed, errors) = said(&run(folder, &all));
    assert_eq!(code, expected, "{printed}{errors}");
    assert!(!printed.contains("is ready"), "{printed}");
    errors
}

fn refused_file(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("steadfast.toml"), text).unwrap();
    let errors = misconfigured(folder.path(), &[]);
    assert!(
        !folder.path().join("steadfast-data").exists(),
        "it was begun"
    );
    errors
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_name() {
    let errors = refused_file("[http]\nprot = 1\n");
    assert!(
        errors.contains("STF-7001") && errors.contains("did you mean 'http.port'?"),
        "{errors}"
    );
}

#[test]
fn an_unknown_variable_and_flag_are_refused_with_the_nearest_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = running::steadfast(folder.path());
    command.arg("serve").env("STEADFAST_LOG__LEVLE", "debug");
    let (code, _, errors) = said(&running::finish(command));
    assert_eq!(code, 2);
    assert!(
        errors.contains("did you mean 'STEADFAST_LOG__LEVEL'?"),
        "{errors}"
    );
    let errors = misconfigured(folder.path(), &["--set", "drain.limt=1s"]);
    assert!(errors.contains("did you mean 'drain.limit'?"), "{errors}");
}

#[test]
fn a_bad_value_is_refused_with_its_place() {
    let errors = refused_file("[http]\nport = 'x'\n");
    assert!(
        errors.contains("STF-7002: 'http.port' (steadfast.toml:2)"),
        "{errors}"
    );
}

#[test]
fn bad_toml_is_refused_with_its_line_and_without_its_secrets() {
    let errors = refused_file("[http]\n\n[[key]]\nprimary = hush-hush-hush-hush\n");
    assert!(
        errors.contains("STF-7003") && errors.contains("line 4"),
        "{errors}"
    );
    assert!(!errors.contains("hush"), "{errors}");
}

#[test]
fn a_bad_log_level_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let errors = misconfigured(folder.path(), &["--set", "log.level=loud"]);
    assert!(errors.contains("'loud' is not a log level"), "{errors}");
}

#[test]
fn a_taken_port_names_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let taken = format!("http.port={port}");
    let errors = refused(folder.path(), &["--set", &taken]);
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let expected = format!(
        "STF-6010: port {port} is taken by process {} ({}): stop it, or choose another port",
        std::process::id(),
        name.trim()
    );
    assert!(errors.contains(&expected), "{errors}");
    assert!(
        !folder.path().join("steadfast-data").exists(),
        "it was begun"
    );
}

#[test]
fn a_port_held_by_another_server_names_it() {
    let server = Start::new("dev").ready();
    let folder = tempfile::tempdir().unwrap();
    let errors = refused(
        folder.path(),
        &["--set", &format!("http.port={}", server.port())],
    );
    let expected = format!("by process {} (steadfast)", server.process.id());
    assert!(errors.contains(&expected), "{errors}");
}

#[test]
fn a_bad_certificate_is_refused_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write("good.pem", &made.cert.pem());
    write("good.key", &made.signing_key.serialize_pem());
    write("other.key", &other.signing_key.serialize_pem());
    write("garbage", "garbage");
    let cases = [
        ("missing.pem", "good.key", "missing.pem"),
        ("good.pem", "missing.key", "missing.key"),
        ("garbage", "good.key", "garbage"),
        ("good.pem", "garbage", "garbage"),
        (
            "good.pem",
            "other.key",
            "other.key cannot be used: it does not fit the certificate",
        ),
    ];
    for (certificate, key, expected) in cases {
        let certificate = format!("tls.certificate={certificate}");
        let key = format!("tls.key={key}");
        let errors = refused(folder.path(), &["--set", &certificate, "--set", &key]);
        assert!(
            errors.contains("STF-6012") && errors.contains(expected),
            "{errors}"
        );
        let checked = run(
            folder.path(),
            &["config", "check", "--set", &certificate, "--set", &key],
        );
        assert_eq!(said(&checked).0, 1, "config check finds it too");
    }
}

#[test]
fn an_unwritable_folder_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    // Below a file there can be no folder; permissions would not stop root.
    let errors = refused(folder.path(), &["--data", "file/data"]);
    assert!(errors.contains("file/data"), "{errors}");
    let (code, printed, _) = said(&run(folder.path(), &["doctor", "--data", "/proc/none"]));
    assert_eq!(code, 1);
    assert!(printed.contains("cannot be written"), "{printed}");
}

#[test]
fn a_folder_in_use_is_refused() {
    let server = Start::new("dev").ready();
    let data = server.data().display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let errors = refused(folder.path(), &["--data", &data]);
    let holder = format!("is open in process {};", server.process.id());
    assert!(errors.contains("STF-2001"), "{errors}");
    assert!(errors.contains(&holder), "{errors}");
}

/// Names in a folder, with those below it.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(self::names(&path));
        }
        names.push(path.display().to_string());
    }
    names.sort();
    names
}

#[test]
fn a_refused_folder_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let make = |name: &str, file: &str, text: &str| {
        fs::create_dir_all(root.join(name)).unwrap();
        fs::write(root.join(name).join(file), text).unwrap();
    };
    make("foreign", "notes.txt", "mine");
    make("newer", "FORMAT", "steadfast-data 99 0000000000000001\n");
    make("damaged", "FORMAT", "something else\n");
    fs::write(root.join("file"), "").unwrap();
    let long = format!("new/{}", "x".repeat(300));
    let before = names(root);
    let commands: [&[&str]; 6] = [
        &["dev", "--set", "http.port=0"],
        &["serve", "--set", "http.port=0"],
        &["inspect"],
        &["backup", "--to", "backups", "--plain"],
        &["restore", "--from", "foreign"],
        &["migrate", "--to", "local:moved"],
    ];
    for (data, code) in [
        ("foreign", "STF-2015"),
        ("newer", "STF-2002"),
        ("damaged", "STF-2003"),
        ("file", "STF-"),
        (&*long, "STF-"),
    ] {
        for command in commands {
            let place = if command[0] == "migrate" {
                "--from"
            } else {
                "--data"
            };
            let all = [command, &[place, data]].concat();
            let (status, printed, errors) = said(&run(root, &all));
            assert_eq!(status, 1, "{all:?}: {printed}{errors}");
            let is_restore = command[0] == "restore";
            assert!(is_restore || errors.contains(code), "{all:?}: {errors}");
            // A folder of backups belongs to the command, not to the data.
            let _ = fs::remove_dir_all(root.join("backups"));
            assert_eq!(names(root), before, "{all:?}: {errors}");
        }
    }
}

#[test]
fn a_folder_in_use_stays_as_it_is() {
    let server = Start::new("dev").ready();
    let data = server.data();
    let before = names(&data);
    let folder = tempfile::tempdir().unwrap();
    let text = data.display().to_string();
    refused(folder.path(), &["--data", &text]);
    assert_eq!(names(&data), before);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn every_mistake_of_the_configuration_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "name = 5\n\n[http]\nprot = 1\n\n[[key]]\nname = 'a'\nprimary = 'short'\nrights = ['x']\n";
    fs::write(folder.path().join("steadfast.toml"), text).unwrap();
    let commands: [&[&str]; 5] = [
        &["dev"],
        &["serve"],
        &["doctor"],
        &["config", "check"],
        &["config", "show"],
    ];
    for words in commands {
        let mut command = running::steadfast(folder.path());
        command.args(words);
        command.args(["--set", "log.format=xml", "--set", "postgres.ulr=hush-hush"]);
        command.env("STEADFAST_DRAIN__LIMIT", "soon");
        let (code, printed, errors) = said(&running::finish(command));
        assert_eq!(code, 2, "{words:?}: {printed}{errors}");
        for expected in [
            "STF-7002: 'name' (steadfast.toml:1)",
            "STF-7001: there is no setting 'http.prot' (steadfast.toml:4)",
            "STF-7002: 'drain.limit' (STEADFAST_DRAIN__LIMIT)",
            "STF-7002: 'log.format' (--set log.format=xml)",
            "STF-7001: there is no setting 'postgres.ulr' (--set postgres.ulr=..)",
        ] {
            assert!(errors.contains(expected), "{words:?}: {expected}: {errors}");
        }
        // Only the values together show whether a key can be used.
        let has_key = errors.contains("STF-7002: 'key 'a'' (steadfast.toml:6)");
        assert_eq!(has_key, words != ["config", "show"], "{errors}");
        assert!(!errors.contains("hush"), "{errors}");
        assert!(!folder.path().join("steadfast-data").exists());
    }
}

#[test]
fn nobody_listens_beyond_loopback_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let open = ["--set", "listen=0.0.0.0"];
    let errors = misconfigured(folder.path(), &open);
    assert!(
        errors.contains("STF-7004") && errors.contains("because there is no key"),
        "{errors}"
    );
    let key = "[[key]]\nname = 'a'\nprimary = 'sixteen letters!!'\nrights = ['manage *']\n";
    fs::write(folder.path().join("steadfast.toml"), key).unwrap();
    let errors = misconfigured(folder.path(), &open);
    assert!(errors.contains("nothing would be encrypted"), "{errors}");
    let (code, _, errors) = said(&run(folder.path(), &["dev", "--set", "listen=0.0.0.0"]));
    assert_eq!(code, 2);
    assert!(
        errors.contains("everybody knows the development keys"),
        "{errors}"
    );
    let checked = run(
        folder.path(),
        &["config", "check", "--set", "listen=0.0.0.0"],
    );
    assert_eq!(said(&checked).0, 2);
}

#[test]
fn beyond_loopback_it_listens_with_keys_when_told_that_something_else_encrypts() {
    let key = "[[key]]\nname = 'a'\nprimary = 'sixteen letters!!'\nrights = ['manage *']\n";
    let server = Start::new("serve")
        .set("listen=0.0.0.0")
        .set("tls.allow_plain=true");
    let server = server.config(key).ready();
    assert!(server.url.starts_with("http://0.0.0.0:"), "{}", server.url);
}

#[test]
fn an_environment_that_is_no_text_disturbs_nobody() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let mut command = running::steadfast(folder.path());
    command
        .args(["config", "check"])
        .env("STRANGE", std::ffi::OsStr::from_bytes(b"\xff"));
    let (code, _, errors) = said(&running::finish(command));
    assert_eq!(code, 0, "{errors}");
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let url = "postgres.url=postgres://user:hush-hush@127.0.0.1:1/x?connect_timeout=1";
    let mut command = running::steadfast(folder.path());
    command.args([
        "serve",
        "--set",
        "http.port=0",
        "--set",
        "engine=postgres",
        "--set",
        url,
    ]);
    command.args(["--set", "log.level=debug"]);
    let (code, printed, errors) = said(&running::finish(command));
    assert_eq!(code, 1, "{printed}{errors}");
    assert!(
        !errors.contains("hush") && !printed.contains("hush"),
        "{printed}{errors}"
    );
}

#[test]
fn commands_at_a_database_that_does_not_answer_fail_soon_and_name_its_address() {
    // One port is closed, the other accepts connections and never answers.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_port = closed.local_addr().unwrap().port();
    drop(closed);
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute_port = mute.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (code, _, errors) = said(&run(root, &["config", "init"]));
    assert_eq!(code, 0, "{errors}");
    let ask = |port: u16, words: &str| {
        let url = format!("postgres://user:hush-hush@127.0.0.1:{port}/state?sslmode=disable");
        let words = words.replace("URL", &url);
        let words: Vec<_> = words.split(' ').collect();
        let clock = SystemClock::new();
        let began = clock.monotonic();
        let (code, printed, errors) = said(&run(root, &words));
        let took = clock.monotonic() - began;
        assert_eq!(code, 1, "{words:?}: {printed}{errors}");
        assert!(took < Duration::from_secs(20), "{words:?}: {took:?}");
        let address = format!("127.0.0.1:{port}");
        assert!(errors.contains("STF-2032"), "{words:?}: {errors}");
        assert!(errors.contains(&address), "{words:?}: {errors}");
        assert!(!errors.contains("hush"), "{words:?}: {errors}");
    };
    std::thread::scope(|scope| {
        for port in [closed_port, mute_port] {
            for words in [
                "migrate --from local:data --to URL",
                "migrate --from URL --to local:data",
                "backup --to backups --plain --data URL",
                "restore --from backups --data URL",
                "inspect --data URL",
                "cluster move-shard --from 0 --to 0 --data URL",
            ] {
                let ask = &ask;
                scope.spawn(move || ask(port, words));
            }
        }
    });
    drop(mute);
}

#[test]
fn commands_print_each_code_once() {
    let server = Start::new("dev").ready();
    let data = server.data().display().to_string();
    let commands: [&[&str]; 9] = [
        &["inspect", "none"],
        &["inspect", "--data", "missing"],
        &["inspect", "--data", &data],
        &["backup", "--to", "b", "--data", &data],
        &["restore", "--from", "missing", "--data", "new"],
        &["eventhub", "show", "none"],
        &["key", "delete", "--yes", "none"],
        &["orchestration", "show", "none"],
        &["serve", "--set", "http.prot=1"],
    ];
    for command in commands {
        let (code, _, errors) = said(&server.run(command));
        assert_ne!(code, 0, "{command:?}");
        let text = errors.strip_prefix("steadfast: ").unwrap_or(&errors);
        assert!(
            text.starts_with("STF-") || command == ["inspect", "none"],
            "{errors}"
        );
        assert!(errors.matches("STF-").count() <= 1, "{command:?}: {errors}");
    }
}
