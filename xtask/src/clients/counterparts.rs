//! What Java and Go run of scenarios in other languages.
//!
//! `interop/scenarios.txt` has one row per scenario, with the scenarios of Java and Go that
//! show the same, or the reason for which an SDK has none. The group `house` compares the
//! rows with the folders and with the tests, so that a new scenario is not forgotten and no
//! row outlives what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::scenarios;
use crate::workspace::Workspace;

const ROWS: &str = "interop/scenarios.txt";
/// The languages of the columns.
const LANGUAGES: [&str; 2] = ["Java", "Go"];

/// A folder of scenarios.
struct Folder {
    name: &'static str,
    /// How the tests call what runs them.
    clients: &'static [&'static str],
    /// The tests with scenarios of its area, in any language.
    tests: &'static [&'static str],
}

const FOLDERS: [Folder; 6] = [
    Folder {
        name: "python",
        clients: &["Python"],
        tests: &["event_hub_clients", "blob_clients"],
    },
    Folder {
        name: "node",
        clients: &["Node"],
        tests: &["event_hub_clients"],
    },
    Folder {
        name: "durable-python",
        clients: &["Python", "Managed"],
        tests: &["durable_clients"],
    },
    Folder {
        name: "durable-node",
        clients: &["Node"],
        tests: &["durable_clients"],
    },
    Folder {
        name: "signalr-python",
        clients: &["Python"],
        tests: &["signalr_clients", "cluster_nodes/clients"],
    },
    Folder {
        name: "signalr-node",
        clients: &["Node"],
        tests: &["signalr_clients", "cluster_nodes/clients"],
    },
];

/// A scenario, and what each language has for it.
#[derive(Debug)]
struct Row {
    name: String,
    columns: Vec<Column>,
}

#[derive(Debug)]
enum Column {
    /// The scenarios that show the same.
    Counterparts(Vec<String>),
    /// The SDK cannot run it, for a reason.
    Reason,
}

/// The scenarios of a folder, and those that each language runs in its area.
#[derive(Default)]
struct Inventory {
    scenarios: BTreeSet<String>,
    runs: [BTreeSet<String>; LANGUAGES.len()],
}

/// The scenarios without a row, the rows without a scenario, and the counterparts that no
/// test runs.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let rows = rows(&workspace.root)?;
    let mut findings = Vec::new();
    for name in rows.keys() {
        if FOLDERS.iter().all(|folder| folder.name != name) {
            findings.push(format!("{ROWS}: there is no folder {name}"));
        }
    }
    for folder in &FOLDERS {
        let inventory = inventory(&workspace.root, folder)?;
        let rows = rows.get(folder.name).map_or(&[][..], Vec::as_slice);
        findings.extend(compare(folder.name, rows, &inventory));
    }
    Ok(findings)
}

/// How many scenarios there are, and for how many of them a language has counterparts.
pub(super) fn count(root: &Path, language: &str) -> Result<Option<(usize, usize)>> {
    let Some(at) = LANGUAGES.iter().position(|own| *own == language) else {
        return Ok(None);
    };
    let rows: Vec<_> = rows(root)?.into_values().flatten().collect();
    let has = |row: &&Row| matches!(row.columns[at], Column::Counterparts(_));
    Ok(Some((rows.len(), rows.iter().filter(has).count())))
}

fn rows(root: &Path) -> Result<BTreeMap<String, Vec<Row>>> {
    let text = fs::read_to_string(root.join(ROWS));
    parse(&text.with_context(|| format!("cannot read {ROWS}"))?).context(ROWS)
}

/// Reads rows by folder: a folder begins a line, its rows are indented.
fn parse(text: &str) -> Result<BTreeMap<String, Vec<Row>>> {
    let mut found: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut folder = None;
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            folder = Some(found.entry(line.to_owned()).or_default());
            continue;
        }
        let rows = folder.as_mut().context("a row before the first folder")?;
        rows.push(row(line)?);
    }
    Ok(found)
}

fn row(line: &str) -> Result<Row> {
    let mut parts = line.split('|').map(str::trim);
    let name = parts.next().unwrap_or_default().to_owned();
    let columns: Vec<_> = parts.map(column).collect();
    let is_empty =
        |column: &Column| matches!(column, Column::Counterparts(names) if names.is_empty());
    if name.is_empty() || columns.len() != LANGUAGES.len() || columns.iter().any(is_empty) {
        bail!("a row has a name, and a column for each language: {line:?}");
    }
    Ok(Row { name, columns })
}

fn column(text: &str) -> Column {
    match text.strip_prefix("- ") {
        Some(_) => Column::Reason,
        None if text == "-" => Column::Counterparts(Vec::new()),
        None => Column::Counterparts(text.split_whitespace().map(str::to_owned).collect()),
    }
}

/// What the sources of a folder list, and what the tests run.
fn inventory(root: &Path, folder: &Folder) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    let sources = root.join("interop").join(folder.name);
    let entries = fs::read_dir(&sources);
    for entry in entries.with_context(|| format!("cannot read {}", sources.display()))? {
        let path = entry?.path();
        let ending = path.extension();
        if ending.is_some_and(|ending| ending == "py" || ending == "mjs") {
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            inventory.scenarios.extend(scenarios::listed(&text));
        }
    }
    for test in folder.tests {
        let source = scenarios::source(root, test)?;
        for client in folder.clients {
            inventory
                .scenarios
                .extend(scenarios::of_client(&source, client));
        }
        for (runs, language) in inventory.runs.iter_mut().zip(LANGUAGES) {
            runs.extend(scenarios::of_client(&source, language));
        }
    }
    Ok(inventory)
}

fn compare(folder: &str, rows: &[Row], inventory: &Inventory) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for Row { name, columns } in rows {
        if !inventory.scenarios.contains(name) {
            findings.push(format!("{ROWS}: {folder} has no scenario {name}"));
        }
        if !seen.insert(name) {
            findings.push(format!("{ROWS}: {folder} has two rows for {name}"));
        }
        for ((column, runs), language) in columns.iter().zip(&inventory.runs).zip(LANGUAGES) {
            let Column::Counterparts(names) = column else {
                continue;
            };
            for other in names.iter().filter(|other| !runs.contains(*other)) {
                findings.push(format!(
                    "{ROWS}: no test runs {other} of {language}, the counterpart of {name} in {folder}"
                ));
            }
        }
    }
    let missing = inventory
        .scenarios
        .iter()
        .filter(|name| !seen.contains(name));
    findings.extend(missing.map(|name| format!("{ROWS}: no row for {name} in {folder}")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn found(rows: &str) -> Vec<String> {
        let inventory = Inventory {
            scenarios: names("one two three"),
            runs: [names("uno dos"), names("un deux")],
        };
        let rows = parse(&format!("# Text.\n\npython\n{rows}")).unwrap();
        compare("python", &rows["python"], &inventory)
    }

    #[test]
    fn rows_that_fit_are_no_findings() {
        let rows = "  one | uno | un\n  two | dos uno | - it has none\n  three | - a | - b\n";
        assert!(found(rows).is_empty(), "{:?}", found(rows));
    }

    #[test]
    fn every_scenario_needs_a_row() {
        let rows = "  one | uno | un\n  three | - a | - b\n";
        let expected = "interop/scenarios.txt: no row for two in python";
        assert_eq!(found(rows), [expected]);
    }

    #[test]
    fn a_row_names_a_scenario_once() {
        let rows = "  one | uno | un\n  one | uno | un\n  two | dos | un\n  three | - a | - b\n  four | uno | un\n";
        let expected = [
            "interop/scenarios.txt: python has two rows for one",
            "interop/scenarios.txt: python has no scenario four",
        ];
        assert_eq!(found(rows), expected);
    }

    #[test]
    fn counterparts_are_run_by_tests_of_their_language() {
        let rows = "  one | un | un\n  two | dos tres | un\n  three | - a | - b\n";
        let expected = [
            "interop/scenarios.txt: no test runs un of Java, the counterpart of one in python",
            "interop/scenarios.txt: no test runs tres of Java, the counterpart of two in python",
        ];
        assert_eq!(found(rows), expected);
    }

    #[test]
    fn each_language_has_scenarios_or_a_reason() {
        for wrong in ["one | uno", "one | uno | -", "one |  | un", "| uno | un"] {
            assert!(parse(&format!("python\n  {wrong}\n")).is_err(), "{wrong}");
        }
        assert!(parse("  one | uno | un\n").is_err());
    }

    #[test]
    fn every_folder_lists_scenarios() {
        let workspace = Workspace::find().unwrap();
        for folder in &FOLDERS {
            let inventory = inventory(&workspace.root, folder).unwrap();
            assert!(inventory.scenarios.len() > 5, "{}", folder.name);
            assert!(
                inventory.runs.iter().all(|runs| !runs.is_empty()),
                "{}",
                folder.name
            );
        }
    }
}
