//! `steadfast job` and `collection` against a server.

use serde_json::Value;

use crate::running::{Server, Start, said, until};

/// Runs a command that succeeds, and reads its JSON.
fn json(server: &Server, arguments: &[&str]) -> Value {
    let (code, out, error) = said(&server.run(&[arguments, &["--json"]].concat()));
    assert_eq!(code, 0, "{arguments:?}: {error}");
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}"))
}

#[test]
fn jobs_are_made_run_and_shown() {
    let server = Start::new("dev").ready();
    json(
        &server,
        &["collection", "create", "nightly", "--max-jobs", "3"],
    );
    let found = json(&server, &["collection", "list"]);
    assert_eq!(found["collections"][0]["max_jobs"], 3);
    // No process listens there.
    let call = [
        "--call",
        "http://127.0.0.1:9/",
        "--every",
        "2hours",
        "--start",
        "2040-01-01",
    ];
    let (code, _, error) =
        said(&server.run(&[&["job", "create", "nightly", "report"], &call[..]].concat()));
    assert_eq!(code, 1, "18 months at most: {error}");
    assert!(error.contains("18 months"), "{error}");
    let call = [
        "--call",
        "http://127.0.0.1:9/",
        "--cron",
        "30 8 1 1 *",
        "--zone",
        "Europe/Berlin",
    ];
    let made = json(
        &server,
        &[&["job", "create", "nightly", "report"], &call[..]].concat(),
    );
    assert_eq!(made["state"], "Enabled");
    assert!(
        made["next"].as_str().unwrap().ends_with("-01-01T07:30:00Z"),
        "{made}"
    );
    let shown = json(&server, &["job", "show", "nightly", "report"]);
    assert_eq!(shown, made);
    assert_eq!(
        json(&server, &["job", "disable", "nightly", "report"])["state"],
        "Disabled"
    );
    assert_eq!(
        json(&server, &["job", "enable", "nightly", "report"])["state"],
        "Enabled"
    );
    json(&server, &["job", "run", "nightly", "report"]);
    let history = until("an attempt", || {
        let found = json(&server, &["job", "history", "nightly", "report"]);
        Some(found["history"].clone()).filter(|list| !list.as_array().unwrap().is_empty())
    });
    assert_eq!(history[0]["status"], "Failed");
    let listed = json(&server, &["job", "list", "nightly"]);
    assert_eq!(
        (&listed["jobs"][0]["name"], &listed["jobs"][0]["executions"]),
        (&"report".into(), &1.into())
    );
    json(&server, &["collection", "disable", "nightly"]);
    assert_eq!(
        json(&server, &["job", "show", "nightly", "report"])["state"],
        "Disabled"
    );
    json(&server, &["job", "delete", "--yes", "nightly", "report"]);
    json(&server, &["collection", "delete", "--yes", "nightly"]);
    let (code, _, error) = said(&server.run(&["job", "show", "nightly", "report"]));
    assert_eq!(code, 3, "{error}");
}

#[test]
fn a_preview_prints_the_next_runs() {
    let server = Start::new("dev").ready();
    let every = [
        "job",
        "preview",
        "--every",
        "1month",
        "--start",
        "2040-01-31T09:00:00Z",
        "--top",
        "3",
    ];
    let (code, out, error) = said(&server.run(&every));
    assert_eq!(code, 0, "{error}");
    let expected = "AT\n2040-01-31T09:00:00Z\n2040-02-29T09:00:00Z\n2040-03-31T09:00:00Z\n";
    assert_eq!(out, expected);
    let (code, _, error) = said(&server.run(&["job", "preview", "--cron", "61 * * * *"]));
    assert_eq!(code, 1);
    assert!(error.contains("BadRequest"), "{error}");
}

#[test]
fn exported_jobs_are_taken_over() {
    let server = Start::new("dev").ready();
    json(&server, &["collection", "create", "old"]);
    let exported = r#"{"value": [{"name": "old/one", "properties": {
        "startTime": "2015-07-13T00:00:00Z", "state": "disabled",
        "action": {"type": "http", "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}},
        "recurrence": {"frequency": "hour", "interval": 1}}}]}"#;
    std::fs::write(server.folder.path().join("jobs.json"), exported).unwrap();
    let told = json(&server, &["job", "import", "old", "jobs.json"]);
    assert_eq!(told["jobs"][0]["result"], "created");
    assert_eq!(
        json(&server, &["job", "show", "old", "one"])["state"],
        "Disabled"
    );
}
