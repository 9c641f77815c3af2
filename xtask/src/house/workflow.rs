//! The workflow of pull requests runs every group once.

use std::path::Path;

use anyhow::Result;

use super::tree::Tree;
use crate::groups::GROUPS;

const FILE: &str = ".github/workflows/ci.yml";

/// Groups that the matrix lacks, has twice, or that do not exist.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let text = tree.text(Path::new(FILE))?.unwrap_or_default();
    let known: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
    Ok(findings(&text, &known))
}

fn findings(text: &str, known: &[&str]) -> Vec<String> {
    let found: Vec<_> = matrix(text).collect();
    let mut findings = Vec::new();
    for group in known {
        match found.iter().filter(|own| *own == group).count() {
            1 => {}
            count => findings.push(format!("{FILE}: runs the group {group} {count} times")),
        }
    }
    let unknown = found.iter().filter(|own| !known.contains(own));
    findings.extend(unknown.map(|own| format!("{FILE}: there is no group {own}")));
    findings
}

/// The words of the list below `groups:`.
fn matrix(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .skip_while(|line| line.trim() != "groups:")
        .skip(1)
        .map_while(|line| line.trim_start().strip_prefix("- "))
        .flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_run_once() {
        let text = "matrix:\n  groups:\n    - unit wire\n    - unit\n    - other\nenv:\n  - wire\n";
        let expected = [
            "runs the group unit 2 times",
            "runs the group guard 0 times",
            "there is no group other",
        ];
        let expected = expected.map(|finding| format!("{FILE}: {finding}"));
        assert_eq!(findings(text, &["unit", "wire", "guard"]), expected);
    }
}
