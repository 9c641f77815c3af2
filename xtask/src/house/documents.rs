//! Every file that a document or a comment names is there.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::tree::Tree;

/// Folders at the root of the project; a path that begins with one is complete.
const ROOTS: [&str; 8] = [
    "crates/",
    "docs/",
    "examples/",
    "fuzz/",
    "interop/",
    "packaging/",
    "xtask/",
    ".ci/",
];

/// The paths in backticks that lead nowhere.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let known = Known::of(tree);
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_checked(file)) {
        let Some(text) = tree.text(file)? else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let prose = match file.extension() {
                Some(ending) if ending == "rs" => comment(line),
                _ => line,
            };
            for path in quoted(prose).filter(|path| !known.has(path)) {
                findings.push(format!("{}:{}: {path}", file.display(), number + 1));
            }
        }
    }
    Ok(findings)
}

/// Documents and sources; the changelog speaks of what was.
fn is_checked(file: &Path) -> bool {
    let ending = file.extension();
    let known = ending.is_some_and(|ending| ending == "md" || ending == "rs");
    known && file != Path::new("CHANGELOG.md") && !file.starts_with("xtask/src/house")
}

fn comment(line: &str) -> &str {
    line.find("//").map_or("", |at| &line[at..])
}

/// What stands between backticks on this line, if it looks like a path.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|text| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let rust = text.ends_with(".rs") && text.len() > 3;
        let rooted = ROOTS.iter().any(|root| text.starts_with(root));
        text.chars().all(plain) && (rust || rooted)
    })
}

/// The files and folders of the project.
struct Known {
    files: Vec<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Known {
    fn of(tree: &Tree) -> Self {
        let ancestors = |file: &PathBuf| file.ancestors().skip(1).map(Path::to_owned).collect();
        Self {
            files: tree.files.clone(),
            folders: tree
                .files
                .iter()
                .flat_map(|file| -> Vec<_> { ancestors(file) })
                .collect(),
        }
    }

    /// Whether a path is there: from the root, or as the end of a path.
    fn has(&self, path: &str) -> bool {
        let wanted: PathBuf = Path::new(path)
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect();
        if ROOTS.iter().any(|root| path.starts_with(root)) {
            return self.folders.contains(&wanted) || self.files.contains(&wanted);
        }
        self.files.iter().any(|file| file.ends_with(&wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn paths_that_lead_nowhere_are_found() {
        let text = "`crates/a/src` `crates/a/src/x.rs` `a/src/x.rs` `x.rs` `../src/x.rs` `no.rs`
`crates/a/y.rs` `docs/none.md` `src/y.rs` `a.b.rs` `cargo run` `/v1/x`
";
        let (_folder, tree) = planted(&[
            ("README.md", text),
            ("CHANGELOG.md", text),
            ("crates/a/src/x.rs", "let a = 1; // see `gone.rs`\n"),
        ]);
        let expected = [
            "README.md:1: no.rs",
            "README.md:2: crates/a/y.rs",
            "README.md:2: docs/none.md",
            "README.md:2: src/y.rs",
            "README.md:2: a.b.rs",
            "crates/a/src/x.rs:1: gone.rs",
        ];
        assert_eq!(check(&tree).unwrap(), expected);
    }
}
