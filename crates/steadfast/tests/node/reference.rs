//! The documents say what the settings and the log are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use steadfast::config::{Layers, reference};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_reference_of_the_settings_is_current() {
    let path = "docs/reference/configuration.md";
    let page = format!(
        "# Configuration\n\n\
         Every setting is optional. Values come in layers: defaults, then the file (`steadfast.toml`, or `--config`), \
         then the environment (`http.port` is `STEADFAST_HTTP__PORT`), then flags (`--set http.port=7070`). \
         `steadfast config init` writes a file with all of them, `config show` says where each value comes from.\n\n\
         This page is made from the list of settings; \
         `STEADFAST_WRITE=1 cargo test -p steadfast --test node reference::` writes it anew.\n\n\
         {}\n\
         Lists of tables declare what exists as soon as the server runs: `[[key]]`, `[[event_hub]]`, `[[task_hub]]` \
         and `[[job_collection]]`. `steadfast config init` shows the fields of each.\n",
        reference()
    );
    if std::env::var_os("STEADFAST_WRITE").is_some() {
        fs::write(root().join(path), &page).unwrap();
    }
    assert_eq!(read(path), page, "{path} is not current");
}

/// All sources of the crates, without their tests.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(fs::read_to_string(&path).unwrap());
        }
    }
}

fn all_sources() -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        // Those are for tests and measurements.
        if !path.ends_with("harness") && !path.ends_with("bench") {
            sources(&path.join("src"), &mut found);
        }
    }
    found
}

#[test]
fn every_event_of_the_log_is_in_the_guide_and_none_else() {
    let marker = "event = \"";
    let sources = all_sources();
    let names = sources.iter().flat_map(|text| text.split(marker).skip(1));
    let names: BTreeSet<_> = names.filter_map(|rest| rest.split('"').next()).collect();
    let guide = read("docs/guides/server.md");
    let table = guide.split("| Event | Level | Meaning |").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let listed: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    let known: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(names, known);
    assert!(listed.is_sorted(), "the table is in order");
}

#[test]
fn every_line_of_the_log_has_an_event() {
    let mut count = 0;
    for text in all_sources() {
        for level in ["error", "warn", "info", "debug", "trace"] {
            let marker = format!("tracing::{level}!(");
            let calls = text.split(&marker).skip(1);
            for call in calls {
                let start: String = call.trim_start().chars().take(60).collect();
                assert!(start.starts_with("event = \""), "{start}");
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn the_container_sets_what_exists() {
    let file = read("packaging/Dockerfile");
    let line = file.lines().find(|line| line.starts_with("ENV ")).unwrap();
    let variables = line.split_whitespace().skip(1).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    });
    let variables: Vec<_> = variables.collect();
    assert_eq!(variables.len(), 3);
    Layers::new().environment(variables).unwrap();
}
