//! Scenarios of the tests, and which of them have passed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The folders with tests of clients.
const FOLDERS: [&str; 3] = ["crates/steadfast", "crates/server", "crates/scheduler"];

/// The source of a test file.
pub(super) fn source(root: &Path, test: &str) -> Result<String> {
    let files = FOLDERS.map(|folder| root.join(folder).join("tests").join(format!("{test}.rs")));
    let file = files.iter().find(|file| file.is_file());
    let file = file.with_context(|| format!("no test file {test}"))?;
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The scenarios of a client in the `scenarios!` tables of a test file, in order.
pub(super) fn of_client(source: &str, client: &str) -> Vec<String> {
    let mut found = Vec::new();
    for table in tables(source) {
        let mut is_meant = false;
        for word in SourceTokens(table) {
            match word {
                SourceToken::Name(name) if name.starts_with(char::is_uppercase) => {
                    is_meant = name == client;
                }
                SourceToken::Text(names) if is_meant => {
                    for name in names.split_whitespace() {
                        if !found.iter().any(|own| own == name) {
                            found.push(name.to_owned());
                        }
                    }
                }
                SourceToken::Name(_) | SourceToken::Text(_) => {}
            }
        }
    }
    found
}

/// The scenarios that a program in Python or JavaScript lists, in order: `ALL = [ .. ]` or
/// `export const name = [ .. ]`, each element a function, or a call that names one.
pub(super) fn listed(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in source.match_indices('\n') {
        let rest = &source[at + line.len()..];
        let Some((head, body)) = rest.split_once(" = [") else {
            break;
        };
        if head != "ALL" && !is_exported(head) {
            continue;
        }
        let body = body.split(']').next().unwrap_or_default();
        found.extend(elements(body));
    }
    found
}

fn is_exported(head: &str) -> bool {
    let name = head.strip_prefix("export const ");
    name.is_some_and(|name| name.chars().all(char::is_alphanumeric))
}

/// What commas separate, but for those in parentheses; of a call, its first text.
fn elements(body: &str) -> Vec<String> {
    let mut depth = 0_u32;
    let parts = body.split(|own| {
        match own {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        own == ',' && depth == 0
    });
    let name = |part: &str| part.split('"').nth(1).unwrap_or(part.trim()).to_owned();
    parts.map(name).filter(|name| !name.is_empty()).collect()
}

/// The bodies of `scenarios! { .. }`, which have no braces in them.
fn tables(source: &str) -> impl Iterator<Item = &str> {
    let rest = source.split("\nscenarios! {").skip(1);
    rest.filter_map(|rest| rest.split('}').next())
}

enum SourceToken<'a> {
    Name(&'a str),
    Text(&'a str),
}

/// Names and quoted texts; everything else separates them.
struct SourceTokens<'a>(&'a str);

impl<'a> Iterator for SourceTokens<'a> {
    type Item = SourceToken<'a>;

    fn next(&mut self) -> Option<SourceToken<'a>> {
        let is_of_name = |own: char| own.is_alphanumeric() || own == '_';
        let start = self.0.find(|own| own == '"' || is_of_name(own))?;
        let rest = &self.0[start..];
        if let Some(rest) = rest.strip_prefix('"') {
            let (text, rest) = rest.split_once('"')?;
            self.0 = rest;
            return Some(SourceToken::Text(text));
        }
        let end = rest.find(|own| !is_of_name(own)).unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(SourceToken::Name(&rest[..end]))
    }
}

/// The output of a test run.
#[derive(Default)]
pub(super) struct Results {
    /// Test file, client, and scenario.
    scenarios: BTreeSet<(String, String, String)>,
    tests: BTreeSet<String>,
}

impl Results {
    /// Reads `scenario <file> <client> ok <name> ..`, and libtest's own lines.
    pub(super) fn read(output: &str) -> Self {
        let mut found = Self::default();
        for line in output.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["scenario", file, client, "ok", name, ..] => {
                    let row = (file.to_owned(), client.to_owned(), name.to_owned());
                    found.scenarios.insert(row);
                }
                ["test", name, "...", "ok"] => {
                    found.tests.insert(name.to_owned());
                }
                _ => {}
            }
        }
        found
    }

    pub(super) fn has_scenario(&self, file: &str, client: &str, name: &str) -> bool {
        let row = (file.to_owned(), client.to_owned(), name.to_owned());
        self.scenarios.contains(&row)
    }

    pub(super) fn has_test(&self, name: &str) -> bool {
        self.tests.contains(name)
    }

    pub(super) fn count(&self) -> usize {
        self.scenarios.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
macro_rules! scenarios { ($name:ident) => {} }

scenarios! {
    run;
    events_1_both: (Python, "one"), (Node, "uno");
    many: (Python, "two three"), (Python, "one");
}

scenarios! {
    listed: Node, ["dos", "tres"];
}
"#;

    #[test]
    fn scenarios_of_a_client_are_listed_once_and_in_order() {
        assert_eq!(of_client(SOURCE, "Python"), ["one", "two", "three"]);
        assert_eq!(of_client(SOURCE, "Node"), ["uno", "dos", "tres"]);
        assert!(of_client(SOURCE, "Rust").is_empty());
    }

    #[test]
    fn listed_scenarios_are_functions_or_named_calls() {
        let python = "\ndef one(server):\n    ALL = [no]\n\nALL = [\n    one,\n    two,\n]\n";
        assert_eq!(listed(python), ["one", "two"]);
        let script = "\nconst no = [a];\nexport const led = [uno];\n\nexport const scenarios = [\n  \
                      named(\"dos\", kind(a, b)),\n  tres,\n];\n";
        assert_eq!(listed(script), ["uno", "dos", "tres"]);
        assert!(listed("\nALL = (\n    one.ALL + two.ALL\n)\n").is_empty());
    }

    #[test]
    fn only_what_has_passed_counts() {
        let found = Results::read(
            "scenario file Node ok uno 0.1 s\nscenario file Node FAILED dos 0.1 s\n\
             test first ... ok\ntest second ... FAILED\n",
        );
        assert!(found.has_scenario("file", "Node", "uno") && found.has_test("first"));
        assert!(!found.has_scenario("file", "Node", "dos") && !found.has_test("second"));
        assert_eq!(found.count(), 1);
    }
}
