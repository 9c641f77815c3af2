//! Long lists: limits, cursors and all rows.

use serde_json::Value;

use crate::running::{Server, Start, said};

fn list(server: &Server, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    let (code, printed, errors) = said(&server.run(&arguments));
    assert_eq!(code, 0, "{arguments:?}: {errors}");
    serde_json::from_str(&printed).unwrap()
}

/// All rows, page by page.
fn paged(server: &Server, command: &[&str], name: &str, field: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut cursor = None;
    loop {
        let mut arguments = [command, &["--limit", "2"]].concat();
        arguments.extend(
            cursor
                .as_deref()
                .iter()
                .flat_map(|cursor| ["--cursor", cursor]),
        );
        let page = list(server, &arguments);
        let rows = page[name].as_array().unwrap();
        assert!(rows.len() <= 2, "{page}");
        let fields = rows
            .iter()
            .map(|row| row[field].as_str().unwrap().to_owned());
        found.extend(fields);
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return found,
        }
    }
}

#[test]
fn lists_are_cut_continued_and_whole() {
    let server = Start::new("dev").ready();
    let run = |arguments: &[&str]| {
        let (code, _, errors) = said(&server.run(arguments));
        assert_eq!(code, 0, "{arguments:?}: {errors}");
    };
    std::fs::write(server.folder.path().join("some.key"), "a key").unwrap();
    run(&["job", "collection", "create", "nightly"]);
    for number in ["1", "2", "3", "4", "5"] {
        run(&["eventhub", "create", &format!("hub{number}")]);
        run(&["workflow", "start", "greet", "--id", number]);
        run(&[
            "key",
            "create",
            &format!("key{number}"),
            "--right",
            "send events",
        ]);
        let context = ["context", "add", number, "--key-file", "some.key"];
        run(&[&context[..], &["--url", &server.url]].concat());
        run(&["state", "put", "bank", "accounts", number, "1"]);
        let job = ["job", "create", "nightly", number, "--publish", "hub1"];
        run(&[&job[..], &["--every", "day"]].concat());
    }
    let all: &[(&[&str], &str, &str, usize)] = &[
        (&["eventhub", "list"], "eventhubs", "name", 5),
        (&["workflow", "list"], "workflows", "id", 5),
        (&["key", "list"], "keys", "name", 9),
        (&["job", "list", "nightly"], "jobs", "name", 5),
        (&["context", "list"], "contexts", "name", 5),
        (&["state", "scan", "bank", "accounts"], "entries", "key", 5),
    ];
    for (command, name, field, count) in all {
        let rows = paged(&server, command, name, field);
        assert_eq!(rows.len(), *count, "{command:?}: {rows:?}");
        let whole = list(&server, &[command, &["--all"][..]].concat());
        let fields = whole[name].as_array().unwrap().iter();
        let fields: Vec<_> = fields.map(|row| row[field].as_str().unwrap()).collect();
        assert_eq!(fields, rows, "{command:?}");
        assert!(whole.get("next").is_none(), "{whole}");
        if *name == "workflows" {
            assert_eq!(fields, ["5", "4", "3", "2", "1"], "newest first");
        }
        // A table says that it was cut.
        let cut = [command, &["--limit", "2"][..]].concat();
        let (_, _, notes) = said(&server.run(&cut));
        assert!(notes.contains("--cursor"), "{command:?}: {notes}");
    }
}

#[test]
fn a_foreign_cursor_is_refused_in_words() {
    let server = Start::new("dev").ready();
    let (code, _, errors) = said(&server.run(&["audit", "list", "--cursor", "x"]));
    assert_eq!(code, 1);
    assert!(errors.contains("not from this list"), "{errors}");
}
