//! The command line: results, exit codes, contexts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::running::{self, KNOWN, Start, run, run_with_key, said};

/// What a command printed as JSON.
fn object(arguments: &[&str], output: &std::process::Output) -> Value {
    let (code, printed, errors) = said(output);
    assert_eq!(code, 0, "{arguments:?}: {errors}");
    serde_json::from_str(&printed)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
}

#[test]
fn every_command_prints_json_if_asked() {
    let server = Start::new("dev").ready();
    let commands: [&[&str]; 15] = [
        &["status"],
        &["reload"],
        &["key", "create", "a", "--right", "send events"],
        &["key", "list"],
        &["key", "rotate", "a"],
        &["key", "delete", "--yes", "a"],
        &["config", "init", "other.toml"],
        &["config", "check"],
        &["config", "show"],
        &[
            "context",
            "add",
            "b",
            "--url",
            "http://b:1",
            "--key-file",
            "k",
        ],
        &["context", "use", "b"],
        &["context", "list"],
        &["context", "show"],
        &["context", "remove", "b", "--yes"],
        &["drain"],
    ];
    fs::write(server.folder.path().join("k"), "k\n").unwrap();
    for command in commands {
        for form in [&["--json"][..], &["-o", "json"]] {
            // The second time some of them are done already: that is another test.
            let is_once = ["create", "delete", "init", "add", "use", "remove", "drain"];
            if form.len() == 2 && command.iter().any(|word| is_once.contains(word)) {
                continue;
            }
            let output = server.run(&[command, form].concat());
            assert!(object(command, &output).is_object(), "{command:?}");
        }
    }
}

#[test]
fn a_server_that_starts_says_so_in_json_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = running::steadfast(folder.path());
    command.args(["dev", "--json", "--set", "http.port=0"]);
    let mut process = steadfast_harness::Process::spawn(command).unwrap();
    let line = process.next_line(running::PATIENCE).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert!(
        ready["addresses"]["http"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    assert_eq!(
        ready["connection_strings"]["rest"],
        json!(format!("Authorization: Bearer {KNOWN}"))
    );
    let blob = ready["connection_strings"]["blob"].as_str().unwrap();
    let end = format!(
        "BlobEndpoint={}/devstoreaccount1;",
        ready["addresses"]["blob"].as_str().unwrap()
    );
    assert!(blob.starts_with("DefaultEndpointsProtocol=http;"), "{blob}");
    assert!(
        blob.contains(";AccountKey=Eby8") && blob.ends_with(&end),
        "{blob}"
    );
}

#[test]
fn dev_prints_what_to_paste_and_serve_prints_no_key() {
    let mut server = Start::new("dev").ready();
    let line = server
        .process
        .wait_for(|line| line.contains("rest"), running::PATIENCE);
    assert!(
        line.unwrap()
            .ends_with("Authorization: Bearer SAS_KEY_VALUE")
    );
    let key = "[[key]]\nname = 'a'\nprimary = 'sixteen letters!!'\nrights = ['manage *']\n";
    let mut server = Start::new("serve").config(key).ready();
    server.process.terminate().unwrap();
    let (_, printed) = server.ended();
    assert!(!printed.contains("Bearer"), "{printed}");
}

#[test]
fn exit_codes_say_what_kind_of_failure_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str]| said(&run(folder.path(), arguments)).0;
    assert_eq!(code(&["config", "check"]), 0);
    assert_eq!(code(&["status", "--url", "http://127.0.0.1:1"]), 1);
    assert_eq!(code(&["nonsense"]), 2);
    assert_eq!(code(&["status", "-o", "xml"]), 2);
    assert_eq!(code(&[]), 2);
    assert_eq!(code(&["status", "--context", "absent"]), 3);
    // 4, a time-out, takes its time: see the tests of drain.
}

#[test]
fn a_context_is_used_unless_another_is_named() {
    let server = Start::new("dev").set("name=one").ready();
    let folder = server.folder.path();
    let add = ["context", "add", "one", "--url", &server.url];
    assert_eq!(said(&run_with_key(folder, KNOWN, &add)).0, 0);
    let add = ["context", "add", "two", "--url", "http://127.0.0.1:1/"];
    assert_eq!(said(&run_with_key(folder, "other-key", &add)).0, 0);
    // The first one is used until another is chosen.
    let (code, printed, errors) = said(&run(folder, &["status"]));
    assert_eq!(code, 0, "{errors}");
    assert!(printed.contains("node        one"), "{printed}");
    assert_eq!(said(&run(folder, &["context", "use", "two"])).0, 0);
    let (code, _, errors) = said(&run(folder, &["status"]));
    assert_eq!(code, 1);
    assert!(
        errors.contains("http://127.0.0.1:1 cannot be reached"),
        "{errors}"
    );
    assert_eq!(said(&run(folder, &["status", "--context", "one"])).0, 0);
    let (_, printed, _) = said(&run(folder, &["context", "list"]));
    assert!(
        printed.contains("two") && !printed.contains("other-key"),
        "{printed}"
    );
    let file = folder.join("home/steadfast/contexts.toml");
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(said(&run(folder, &["context", "remove", "absent"])).0, 3);
    assert_eq!(
        said(&run_with_key(
            folder,
            "k",
            &["context", "add", "x", "--url", "host"]
        ))
        .0,
        2
    );
}

#[test]
fn there_are_completions_for_the_shells() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, sign) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef steadfast"),
        ("fish", "complete -c steadfast"),
    ] {
        let mut command = running::steadfast(folder.path());
        // The harness keeps the last lines only; a script has more.
        let output = command.args(["completions", shell]).output().unwrap();
        let (code, printed, errors) = said(&output);
        assert_eq!(code, 0, "{errors}");
        assert!(
            printed.contains(sign) && printed.contains("drain"),
            "{shell}: {printed}"
        );
        if std::path::Path::new("/bin").join(shell).exists() {
            let script = folder.path().join(shell);
            fs::write(&script, printed).unwrap();
            let check = std::process::Command::new(shell)
                .arg("-n")
                .arg(&script)
                .output()
                .unwrap();
            assert!(
                check.status.success(),
                "{}",
                String::from_utf8_lossy(&check.stderr)
            );
        }
    }
}

#[test]
fn config_init_writes_what_config_check_accepts() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(said(&run(folder.path(), &["config", "init"])).0, 0);
    let file = folder.path().join("steadfast.toml");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(said(&run(folder.path(), &["config", "check"])).0, 0);
    let (code, _, errors) = said(&run(folder.path(), &["config", "init"]));
    assert_eq!(code, 1);
    assert!(errors.contains("is there already"), "{errors}");
}

#[test]
fn config_show_names_the_layer_of_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = "name = 'file'\n[http]\nport = 1\nconnections = 5\n[drain]\nlimit = '5s'\n";
    fs::write(folder.path().join("mine.toml"), file).unwrap();
    let mut command = running::steadfast(folder.path());
    command.args(["config", "show", "--json", "--config", "mine.toml"]);
    command.args([
        "--set",
        "http.port=3",
        "--set",
        "postgres.url=postgres://u:hush@h/d",
    ]);
    command
        .env("STEADFAST_HTTP__PORT", "2")
        .env("STEADFAST_HTTP__CONNECTIONS", "7");
    let output = running::finish(command);
    let shown = object(&["config", "show"], &output);
    let row = |key: &str| {
        let rows = shown["settings"].as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        (text("value"), text("layer"))
    };
    let pair = |value: &str, layer: &str| (value.to_owned(), layer.to_owned());
    assert_eq!(row("http.port"), pair("3", "flag"));
    assert_eq!(
        row("http.connections"),
        pair("7", "STEADFAST_HTTP__CONNECTIONS")
    );
    assert_eq!(row("drain.limit"), pair("\"5s\"", "mine.toml"));
    assert_eq!(row("log.level"), pair("\"info\"", "default"));
    assert_eq!(row("postgres.url"), pair("(secret)", "flag"));
}

#[test]
fn doctor_looks_at_folder_clock_limits_sync_and_ports() {
    let server = Start::new("dev").ready();
    let folder = tempfile::tempdir().unwrap();
    let taken = format!("http.port={}", server.port());
    let (code, printed, errors) = said(&run(folder.path(), &["doctor", "--json", "--set", &taken]));
    assert_eq!(code, 1, "{errors}");
    let found: Value = serde_json::from_str(&printed).unwrap();
    let found = found["findings"].as_array().unwrap();
    for subject in [
        "folder", "space", "sync", "clock", "files", "memory", "port",
    ] {
        assert!(
            found.iter().any(|row| row["subject"] == subject),
            "{subject}: {printed}"
        );
    }
    let port = found.iter().find(|row| row["subject"] == "port").unwrap();
    assert_eq!(port["health"], "bad");
    assert!(
        port["what"]
            .as_str()
            .unwrap()
            .contains(&server.process.id().to_string()),
        "{port}"
    );
    assert_eq!(
        said(&run(folder.path(), &["doctor", "--set", "http.port=0"])).0,
        0
    );
}

#[test]
fn doctor_knows_the_server_that_runs_with_its_data_folder() {
    let server = Start::new("dev").ready();
    let port = format!("http.port={}", server.port());
    let (code, printed, errors) = said(&server.run(&["doctor", "--json", "--set", &port]));
    assert_eq!(code, 0, "{printed}{errors}");
    let found: Value = serde_json::from_str(&printed).unwrap();
    let held = format!("held by the running server (pid {})", server.process.id());
    for subject in ["folder", "port"] {
        let rows = found["findings"].as_array().unwrap();
        let is_it = |row: &&Value| {
            row["subject"] == subject && row["what"].as_str().unwrap().contains(&held)
        };
        let row = rows
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{printed}"));
        assert_eq!(row["health"], "ok", "{row}");
    }
    // The port is taken for a server with another data folder.
    let other = ["doctor", "--set", &port, "--data", "other"];
    let (code, printed, _) = said(&server.run(&other));
    assert_eq!(code, 1, "{printed}");
    assert!(!printed.contains("the running server"), "{printed}");
}

#[test]
fn lists_on_the_command_line_are_separated_by_commas_or_are_json() {
    let folder = tempfile::tempdir().unwrap();
    for list in [
        "https://a.example,https://b.example",
        r#"["https://a.example","https://b.example"]"#,
    ] {
        let set = format!("http.cors_origins={list}");
        let shown = run(folder.path(), &["config", "show", "--json", "--set", &set]);
        let shown = object(&["config", "show"], &shown);
        let rows = shown["settings"].as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == "http.cors_origins");
        let expected = r#"["https://a.example", "https://b.example"]"#;
        assert_eq!(row.unwrap()["value"], expected, "{list}");
    }
    for (set, expected) in [
        ("http.cors_origins=[https://a.example]", "write a list as"),
        (r#"name=["a"]"#, "it is one text, not a list"),
    ] {
        let (code, _, errors) = said(&run(folder.path(), &["config", "check", "--set", set]));
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn empty_variables_count_as_unset() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("steadfast.toml"),
        "name = 'of the file'\n",
    )
    .unwrap();
    let mut command = running::steadfast(folder.path());
    command.args(["config", "show", "--json"]);
    for name in ["CONFIG", "URL", "KEY", "CONTEXT", "NAME", "HTTP__PORT"] {
        command.env(format!("STEADFAST_{name}"), "");
    }
    let shown = object(&["config", "show"], &running::finish(command));
    let rows = shown["settings"].as_array().unwrap();
    let value = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        row["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(value("name"), "\"of the file\"");
    assert_eq!(value("http.port"), "7070");
}

#[test]
fn the_url_of_a_server_may_end_with_slashes() {
    let server = Start::new("dev").ready();
    for slashes in ["/", "//"] {
        let mut command = running::steadfast(server.folder.path());
        command.env("STEADFAST_URL", format!("{}{slashes}", server.url));
        command.args(["status", "--json"]);
        let status = object(&["status"], &running::finish(command));
        assert!(status.is_object(), "{status}");
    }
}

#[test]
fn nobody_has_to_read_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = running::steadfast(folder.path());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = command
        .args(["config", "show"])
        .stdout(writer)
        .stderr(std::process::Stdio::piped());
    let output = child.spawn().unwrap().wait_with_output().unwrap();
    let (code, _, errors) = said(&output);
    assert_eq!((code, errors.as_str()), (0, ""));
}

#[test]
fn the_unit_of_systemd_starts_what_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unit = fs::read_to_string(root.join("packaging/steadfast.service")).unwrap();
    let value = |key: &str| {
        let lines = unit
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(value("Type"), ["notify"]);
    assert_eq!(value("ExecReload"), ["/bin/kill -HUP $MAINPID"]);
    let start = value("ExecStart").remove(0);
    let mut words = start.split(' ').skip(1).collect::<Vec<_>>();
    // Words that are not known are refused before the help is shown.
    words.push("--help");
    let folder = tempfile::tempdir().unwrap();
    let (code, _, errors) = said(&run(folder.path(), &words));
    assert_eq!(code, 0, "{errors}");
    // It is given longer to stop than its own limit.
    let limit: u64 = value("TimeoutStopSec")[0].parse().unwrap();
    assert!(limit > 30 + 4, "{limit}");
}
