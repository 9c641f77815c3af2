//! Words that the project does not use in code or documents.

use std::path::Path;

use anyhow::Result;

use super::tree::Tree;

/// In pieces, so that this file does not find itself.
const BANNED: [&str; 5] = [
    concat!("no", "body"),
    concat!("who", "ever"),
    concat!("some", "body"),
    concat!("some", "where"),
    concat!("for", " ever"),
];

/// The lines that contain a banned word.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_prose_or_code(file)) {
        let Some(text) = tree.text(file)? else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            for word in BANNED.iter().filter(|word| contains(&lower, word)) {
                findings.push(format!("{}:{}: {word}", file.display(), number + 1));
            }
        }
    }
    Ok(findings)
}

fn is_prose_or_code(file: &Path) -> bool {
    let known = ["rs", "md", "toml"];
    file.extension()
        .is_some_and(|found| known.iter().any(|known| found == *known))
}

/// Whether the line has this as whole words; an identifier is one word.
fn contains(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(in_word) && !line[at + word.len()..].starts_with(in_word)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn banned_words_are_found_and_identifiers_are_not() {
        let [first, second, .., last] = BANNED;
        let text = format!("{} came.\nfn {second}_waits() {{}}\nIt stays {last}.\n", {
            let (head, tail) = first.split_at(1);
            head.to_uppercase() + tail
        });
        let (_folder, tree) = planted(&[("a.md", &text), ("a.json", &text)]);
        let expected = [format!("a.md:1: {first}"), format!("a.md:3: {last}")];
        assert_eq!(check(&tree).unwrap(), expected);
    }
}
