//! Every Rust file begins by saying what it is for.
//!
//! The first sentence stands alone in fewer than 60 characters.

use std::path::Path;

use anyhow::Result;

use super::tree::Tree;

const LIMIT: usize = 60;

/// The files without a short first sentence.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !is_exempt(file)) {
        let Some(text) = tree.text(file)? else {
            continue;
        };
        if let Some(complaint) = complaint(&text) {
            findings.push(format!("{}: {complaint}", file.display()));
        }
    }
    Ok(findings)
}

fn is_exempt(file: &Path) -> bool {
    let within = |folder: &str| file.iter().any(|part| part == folder);
    file.ends_with("build.rs")
        || within("fixtures")
        || (within("examples") && file.ends_with("main.rs"))
}

fn complaint(text: &str) -> Option<String> {
    let Some(sentence) = first_sentence(text) else {
        return Some("does not begin with a `//!` sentence".to_owned());
    };
    let length = sentence.chars().count();
    (length >= LIMIT).then(|| format!("first sentence has {length} characters: {sentence}"))
}

/// The first paragraph of the header up to its first full stop.
fn first_sentence(text: &str) -> Option<String> {
    let paragraph: Vec<_> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = paragraph.join(" ");
    let sentence = match paragraph.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => paragraph,
    };
    (!sentence.is_empty()).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn missing_and_long_headers_are_found() {
        let long = format!("//! {}\n//! {}.\n", "a".repeat(30), "b".repeat(30));
        let (_folder, tree) = planted(&[
            (
                "good.rs",
                "//! Short. And then a much longer sentence that may take all the room it likes.\n",
            ),
            ("long.rs", &long),
            ("none.rs", "use std::fs;\n//! Late.\n"),
            ("empty.rs", "//!\n//! Late.\n"),
            ("build.rs", "fn main() {}\n"),
            ("examples/one/main.rs", "fn main() {}\n"),
            ("tests/fixtures/x.rs", ""),
            ("text.md", "no header\n"),
        ]);
        let findings = check(&tree).unwrap();
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].starts_with("empty.rs: does not begin"));
        assert!(findings[1].starts_with("long.rs: first sentence has 62"));
        assert!(findings[2].starts_with("none.rs: does not begin"));
    }
}
