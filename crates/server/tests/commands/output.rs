//! Formats, errors, confirmation and global options.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::running::{KNOWN, Start, finish, run, said, settle, steadfast};

fn ok(output: &std::process::Output) -> String {
    let (code, printed, errors) = said(output);
    assert_eq!(code, 0, "{printed}{errors}");
    printed
}

#[test]
fn options_of_every_command_work_anywhere() {
    let server = Start::new("dev").ready();
    let folder = server.folder.path();
    let url = format!("{}/", server.url);
    for arguments in [
        ["--url", &url, "key", "list"],
        ["key", "--url", &url, "list"],
        ["key", "list", "--url", &url],
    ] {
        ok(&run(folder, &arguments));
    }
    fs::write(folder.join("good.key"), format!("{KNOWN}\n")).unwrap();
    fs::write(folder.join("bad.key"), "some other key\n").unwrap();
    ok(&server.run(&["key", "list", "--key-file", "good.key"]));
    let (code, _, errors) = said(&server.run(&["--key-file", "bad.key", "key", "list"]));
    assert_eq!(code, 1, "{errors}");
    let (code, _, errors) = said(&server.run(&["key", "list", "--key-file", "no.key"]));
    assert!(code == 1 && errors.contains("no.key"), "{errors}");
}

#[test]
fn empty_variables_are_unset() {
    let server = Start::new("dev").ready();
    let mut command = steadfast(server.folder.path());
    command
        .env("STEADFAST_URL", "")
        .env("STEADFAST_CONTEXT", "")
        .env("STEADFAST_KEY", "")
        .env("STEADFAST_KEY_FILE", "")
        .args(["status", "--url", &server.url]);
    ok(&finish(command));
    // An option wins over the variable of another one.
    let mut command = steadfast(server.folder.path());
    command
        .env("STEADFAST_URL", &server.url)
        .args(["status", "--context", "absent"]);
    assert_eq!(said(&finish(command)).0, 3);
}

#[test]
fn a_key_that_is_missing_is_told_from_one_that_is_wrong() {
    let key = "[[key]]\nname = 'a'\nprimary = 'sixteen letters!!'\nrights = ['manage *']\n";
    let server = Start::new("serve").config(key).ready();
    let (code, _, errors) = said(&server.run(&["key", "list"]));
    assert!(
        code == 1 && errors.contains("no access key was given"),
        "{errors}"
    );
    let mut command = steadfast(server.folder.path());
    command
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", "another key")
        .args(["key", "list"]);
    let (code, _, errors) = said(&finish(command));
    assert!(code == 1 && !errors.contains("was given"), "{errors}");
    let mut command = steadfast(server.folder.path());
    command
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", "sixteen letters!!")
        .args(["key", "list"]);
    ok(&finish(command));
}

#[test]
fn results_have_the_same_fields_as_json_and_as_yaml() {
    let server = Start::new("dev").ready();
    ok(&server.run(&["eventhub", "create", "houses", "--retention", "7d"]));
    let json: Value =
        serde_json::from_str(&ok(&server.run(&["eventhub", "list", "-o", "json"]))).unwrap();
    assert_eq!(json["eventhubs"][0]["retention_s"], json!(604_800));
    let yaml = ok(&server.run(&["eventhub", "list", "-o", "yaml"]));
    assert!(yaml.starts_with("eventhubs:\n  -\n"), "{yaml}");
    assert!(yaml.contains("retention_s: 604800\n"), "{yaml}");
    // Tables have units.
    let table = ok(&server.run(&["eventhub", "list"]));
    assert!(
        table.contains("RETENTION") && table.contains("7d"),
        "{table}"
    );
    let shown = ok(&server.run(&["eventhub", "show", "houses"]));
    assert!(shown.contains("7d"), "{shown}");
    let wide = ok(&server.run(&["state", "put", "bank", "accounts", "alice", "1"]));
    assert!(wide.contains("alice"), "{wide}");
    let scan = ["state", "scan", "bank", "accounts"];
    assert!(!ok(&server.run(&scan)).contains("ETAG"));
    let wide = [&scan[..], &["-o", "wide"]].concat();
    assert!(ok(&server.run(&wide)).contains("ETAG"));
}

#[test]
fn errors_are_objects_where_results_are() {
    let server = Start::new("dev").ready();
    let error = |arguments: &[&str]| -> (i32, Value) {
        let (code, printed, errors) = said(&server.run(arguments));
        assert_eq!(printed, "", "{arguments:?}");
        (
            code,
            serde_json::from_str(&errors).unwrap_or_else(|_| panic!("{errors}")),
        )
    };
    let (code, told) = error(&["eventhub", "show", "absent", "-o", "json"]);
    assert_eq!(code, 3);
    let stable = told["error"]["code"].as_str().unwrap();
    assert!(stable.starts_with("STF-"), "{told}");
    let message = told["error"]["message"].as_str().unwrap();
    assert_eq!(message.matches(stable).count(), 1, "{message}");
    let (code, told) = error(&["nonsense", "-o", "json"]);
    assert_eq!((code, &told["error"]["code"]), (2, &json!("usage")));
    let (code, told) = error(&["key", "delete", "a", "--output=yaml"]);
    assert_eq!((code, &told["error"]["code"]), (2, &json!("usage")));
    let (code, told) = error(&["status", "--json", "--context", "absent"]);
    assert_eq!((code, &told["error"]["exit_code"]), (3, &json!(3)));
}

#[test]
fn deleting_needs_a_confirmation() {
    let server = Start::new("dev").ready();
    ok(&server.run(&["eventhub", "create", "houses"]));
    let (code, _, errors) = said(&server.run(&["eventhub", "delete", "houses"]));
    assert!(code == 2 && errors.contains("--yes"), "{errors}");
    ok(&server.run(&["eventhub", "show", "houses"]));
    ok(&server.run(&["eventhub", "delete", "houses", "--yes"]));
    assert_eq!(said(&server.run(&["eventhub", "show", "houses"])).0, 3);
}

/// Runs a command on a terminal that `script` makes; returns what it shows.
fn on_terminal(folder: &Path, line: &str, typed: &str) -> (i32, String) {
    let input = folder.join("typed");
    fs::write(&input, typed).unwrap();
    let mut command = Command::new("timeout");
    settle(&mut command, folder);
    let script = ["60", "script", "--quiet", "--return", "--command"];
    command.args(script).args([line, "/dev/null"]);
    let output = command.stdin(fs::File::open(input).unwrap()).output();
    let (code, printed, _) = said(&output.unwrap());
    (code, printed)
}

#[test]
fn a_terminal_is_asked() {
    let server = Start::new("dev").ready();
    let folder = server.folder.path();
    ok(&server.run(&["eventhub", "create", "houses"]));
    let binary = crate::running::binary();
    let url = &server.url;
    let line = format!("{} eventhub delete houses --url {url}", binary.display());
    let (code, shown) = on_terminal(folder, &line, "n\n");
    assert_eq!(code, 2, "{shown}");
    assert!(shown.contains("delete the event hub 'houses'"), "{shown}");
    ok(&server.run(&["eventhub", "show", "houses"]));
    let (code, shown) = on_terminal(folder, &line, "y\n");
    assert_eq!(code, 0, "{shown}");
    assert_eq!(said(&server.run(&["eventhub", "show", "houses"])).0, 3);
    // Nothing is drawn in color if that is turned off.
    let help = format!("{} --no-color --help", binary.display());
    let (_, plain) = on_terminal(folder, &help, "");
    assert!(!plain.contains("\u{1b}["), "{plain}");
    let help = format!("{} key --help", binary.display());
    let (_, colored) = on_terminal(folder, &help, "");
    assert!(colored.contains("\u{1b}["), "{colored}");
}

#[test]
fn requests_are_printed_if_asked_and_notes_are_not() {
    let server = Start::new("dev").ready();
    let (_, _, notes) = said(&server.run(&["key", "list", "-v"]));
    assert!(notes.contains("GET http://127.0.0.1:"), "{notes}");
    assert!(!notes.contains(KNOWN), "{notes}");
    let folder = server.folder.path();
    let backup = ["store", "backup", "--data", "other", "--to", "b", "--plain"];
    let (_, _, errors) = said(&run(folder, &[&backup[..], &["-q"]].concat()));
    assert!(!errors.contains("reading"), "{errors}");
}

#[test]
fn a_list_that_is_watched_is_printed_again() {
    let server = Start::new("dev").ready();
    let mut command = steadfast(server.folder.path());
    command
        .env("STEADFAST_URL", &server.url)
        .args(["taskhub", "list", "--watch"]);
    let mut process = steadfast_harness::Process::spawn(command).unwrap();
    for _ in 0..2 {
        let line = process.wait_for(|line| line.contains("WORKERS"), crate::running::PATIENCE);
        line.unwrap();
    }
}

#[test]
fn a_job_says_when_it_runs_and_how_often() {
    let server = Start::new("dev").ready();
    ok(&server.run(&["eventhub", "create", "houses"]));
    ok(&server.run(&["job", "collection", "create", "nightly"]));
    let create = ["job", "create", "nightly", "greet", "--publish", "houses"];
    let made = ok(&server.run(&[&create[..], &["--every", "2days"]].concat()));
    assert!(made.contains("every 2 days"), "{made}");
    let next = made.lines().find(|line| line.starts_with("next")).unwrap();
    assert!(next.contains("20") && next.contains('T'), "{made}");
    let cron = ["--cron", "0 5 * * *", "--zone", "Europe/Berlin"];
    ok(&server.run(&[&create[..], &cron].concat()));
    let shown = ok(&server.run(&["job", "show", "nightly", "greet"]));
    for text in ["cron 0 5 * * *", "Europe/Berlin", "houses"] {
        assert!(shown.contains(text), "{shown}");
    }
}

#[test]
fn exported_jobs_are_imported_elsewhere() {
    let server = Start::new("dev").ready();
    let folder = server.folder.path();
    ok(&server.run(&["eventhub", "create", "houses"]));
    for collection in ["one", "two"] {
        ok(&server.run(&["job", "collection", "create", collection]));
    }
    let create = ["job", "create", "one", "greet", "--publish", "houses"];
    ok(&server.run(&[&create[..], &["--cron", "0 5 * * *"]].concat()));
    fs::write(
        folder.join("jobs.json"),
        ok(&server.run(&["job", "export", "one"])),
    )
    .unwrap();
    let imported = ok(&server.run(&["job", "import", "two", "jobs.json"]));
    assert!(imported.contains("created"), "{imported}");
    let shown = ok(&server.run(&["job", "show", "two", "greet"]));
    assert!(shown.contains("cron 0 5 * * *"), "{shown}");
}

#[test]
fn an_error_code_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    for code in ["STF-2001", "stf-2001", "2001"] {
        let page = ok(&run(folder.path(), &["explain", code]));
        assert!(page.contains("STF-2001"), "{page}");
    }
    assert_eq!(said(&run(folder.path(), &["explain", "STF-1"])).0, 3);
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    ok(&run(folder.path(), &["man", "pages"]));
    let pages = super::names_in(&folder.path().join("pages"));
    for path in super::all_commands() {
        let page = format!("steadfast-{}.1", path.join("-"));
        assert!(pages.contains(&page), "{page}");
    }
}

#[test]
fn a_context_file_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.key"), "k\n").unwrap();
    let add = ["context", "add", "a", "--url", "http://a:1/"];
    ok(&run(
        folder.path(),
        &[&add[..], &["--key-file", "a.key"]].concat(),
    ));
    let file = folder.path().join("home/steadfast/contexts.toml");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("url = \"http://a:1\""), "{text}");
    let (code, _, errors) = said(&run(folder.path(), &add));
    assert!(code == 2 && errors.contains("--key-file"), "{errors}");
}

#[test]
fn names_are_taken_as_they_are() {
    let server = Start::new("dev").ready();
    ok(&server.run(&["eventhub", "create", "bb"]));
    // A URL would drop the tab, and name the other event hub.
    let (code, _, errors) = said(&server.run(&["eventhub", "delete", "b\tb", "--yes"]));
    assert_ne!(code, 0, "{errors}");
    ok(&server.run(&["eventhub", "show", "bb"]));
    let (code, _, _) = said(&server.run(&["key", "show", "..\\status"]));
    assert_eq!(code, 3);
}

#[test]
fn collections_of_a_service_are_listed() {
    let server = Start::new("dev").ready();
    for service in ["bank", "shop"] {
        ok(&server.run(&["state", "put", service, "accounts", "alice", "-5"]));
    }
    let rows = |arguments: &[&str]| -> Value {
        let list = ["state", "list", "-o", "json"];
        serde_json::from_str(&ok(&server.run(&[&list[..], arguments].concat()))).unwrap()
    };
    let bank = rows(&["bank"]);
    assert_eq!(bank["collections"].as_array().unwrap().len(), 1, "{bank}");
    assert_eq!(bank["collections"][0]["service"], "bank", "{bank}");
    let first = rows(&["--limit", "1"]);
    let rest = rows(&["--all", "--cursor", first["next"].as_str().unwrap()]);
    let all = rows(&["--all"]);
    let count = |page: &Value| page["collections"].as_array().unwrap().len();
    assert_eq!(count(&first) + count(&rest), count(&all), "{all}");
    let value = ok(&server.run(&["state", "get", "bank", "accounts", "alice"]));
    assert_eq!(value.trim(), "-5");
}

#[test]
fn a_reader_that_leaves_ends_what_follows() {
    let server = Start::new("dev").ready();
    let binary = crate::running::binary();
    let line = format!(
        "timeout 60 {} logs -f --url {} | head -1",
        binary.display(),
        server.url
    );
    ok(&server.run(&["reload"]));
    let mut command = Command::new("sh");
    settle(&mut command, server.folder.path());
    // The log goes on, so that there is a line to write to the closed pipe.
    let mut follower = command.args(["-c", &line]).spawn().unwrap();
    let ended = crate::running::until("the follower to end", || {
        ok(&server.run(&["reload", "-q"]));
        follower.try_wait().unwrap()
    });
    assert!(ended.success(), "{ended}");
}

#[test]
fn invalid_arguments_have_their_exit_code() {
    let server = Start::new("dev").ready();
    for arguments in [
        &["status", "--url", "nonsense"][..],
        &["eventhub", "show", "a/b"],
        &["workflow", "start", "x", "--input", "{bad"],
        &["workflow", "list", "--cursor", "bad"],
        &["eventhub", "list", "--cursor", "gone"],
        &["logs", "--level", "loud"],
        &["status", "--context", "a", "--url", "http://b:1"],
    ] {
        let (code, _, errors) = said(&server.run(arguments));
        assert_eq!(code, 2, "{arguments:?}: {errors}");
    }
    let mut command = steadfast(server.folder.path());
    command.args(["status", "-o=json", "\u{fffd}"]);
    assert_eq!(said(&finish(command)).0, 2);
}
