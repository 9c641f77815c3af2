//! Every error code has a page, and every page a code.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::tree::Tree;

const PREFIX: &str = "STF-";

/// Codes in the sources of crates without a page, and pages without a code.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let codes = codes_in_sources(tree)?;
    let pages = pages(tree);
    let unwritten = codes
        .difference(&pages)
        .map(|code| format!("{code} has no page docs/errors/{code}.md"));
    let stale = pages
        .difference(&codes)
        .map(|code| format!("docs/errors/{code}.md describes a code that no source names"));
    Ok(unwritten.chain(stale).collect())
}

fn codes_in_sources(tree: &Tree) -> Result<BTreeSet<String>> {
    let mut codes = BTreeSet::new();
    for file in tree.rust().filter(|file| is_source(file)) {
        if let Some(text) = tree.text(file)? {
            codes.extend(
                text.match_indices(PREFIX)
                    .filter_map(|(at, _)| code(&text[at..])),
            );
        }
    }
    Ok(codes)
}

fn is_source(file: &Path) -> bool {
    file.starts_with("crates") && file.iter().any(|part| part == "src")
}

fn pages(tree: &Tree) -> BTreeSet<String> {
    tree.files
        .iter()
        .filter(|file| file.parent() == Some(Path::new("docs/errors")))
        .filter(|file| file.extension().is_some_and(|found| found == "md"))
        .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name.starts_with(PREFIX))
        .collect()
}

/// The code at the beginning of a text: the prefix and exactly four digits.
fn code(text: &str) -> Option<String> {
    let digits = text.strip_prefix(PREFIX)?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    (length == 4).then(|| text[..PREFIX.len() + 4].to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn codes_and_pages_match() {
        let (_folder, tree) = planted(&[
            (
                "crates/core/src/error.rs",
                "\"STF-1001\", \"STF-1002\", STF-12, STF-12345, STF-{n}",
            ),
            ("crates/core/tests/it.rs", "STF-7777"),
            ("docs/errors/STF-1001.md", ""),
            ("docs/errors/STF-2000.md", ""),
            ("docs/errors/README.md", ""),
        ]);
        let findings = check(&tree).unwrap();
        let expected = [
            "STF-1002 has no page docs/errors/STF-1002.md",
            "docs/errors/STF-2000.md describes a code that no source names",
        ];
        assert_eq!(findings, expected);
    }
}
