//! A type has a name of its own, and the name is a noun.
//!
//! Names that a module qualifies, as in `entity::Command`, may repeat. Generated files have
//! the names of their interface.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use syn::{Item, ItemMod};

use super::tree::Tree;

/// Names that a module qualifies.
const GENERIC: &[&str] = &[
    "Builder",
    "Command",
    "Condition",
    "Config",
    "Context",
    "Entry",
    "Error",
    "ErrorKind",
    "Guard",
    "Handle",
    "Header",
    "Inner",
    "Iter",
    "Key",
    "Kind",
    "Message",
    "Metrics",
    "Options",
    "Outcome",
    "Problem",
    "Record",
    "Request",
    "Response",
    "Result",
    "Session",
    "Settings",
    "State",
    "Target",
];

/// Participles that the field uses as nouns, or that end like one by chance.
const NOUNS: &[&str] = &["Feed", "Gated", "Prepared", "Sealed", "Seed"];

/// Verbs and participles that do not end like one.
const IRREGULAR: &[&str] = &[
    "Ask", "Begun", "Bound", "Broken", "Bring", "Done", "Found", "Gone", "Heard", "Held", "Kept",
    "Known", "Lent", "Lost", "Made", "Met", "Ran", "Said", "Say", "Seen", "Sent", "Shown", "Spent",
    "Taken", "Tell", "Told", "Won", "Written",
];

/// Names with several meanings, and types that are no nouns.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut files: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| is_source(file)) {
        let Some(text) = tree.text(file)? else {
            continue;
        };
        if is_generated(&text) {
            continue;
        }
        for name in types(&text)? {
            if is_participle(&name) {
                findings.push(format!("{}: {name} is no noun", file.display()));
            }
            files.entry(name).or_default().insert(file);
        }
    }
    let generic = |name: &str| GENERIC.contains(&name);
    for (name, files) in files {
        if files.len() > 1 && !generic(&name) {
            let files: Vec<_> = files
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            findings.push(format!(
                "{name} has {} meanings: {}",
                files.len(),
                files.join(", ")
            ));
        }
    }
    Ok(findings)
}

/// Files in a folder `absent` repeat the types of a module whose feature is off.
fn is_source(file: &Path) -> bool {
    let part = |wanted: &str| file.iter().any(|part| part == wanted);
    let is_product = part("src") && !part("absent");
    file.starts_with("crates") && is_product && !part("tests") && !file.ends_with("tests.rs")
}

/// Whether the header says that the file is generated.
fn is_generated(text: &str) -> bool {
    let mut header = text.lines().take_while(|line| line.starts_with("//!"));
    header.any(|line| line.contains("@generated"))
}

/// The types that a file defines, outside of its tests.
fn types(text: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    collect(&syn::parse_file(text)?.items, &mut names);
    Ok(names)
}

fn collect(items: &[Item], names: &mut Vec<String>) {
    for item in items {
        let name = match item {
            Item::Enum(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Mod(ItemMod {
                ident,
                content: Some((_, items)),
                ..
            }) if ident != "tests" => {
                collect(items, names);
                continue;
            }
            _ => continue,
        };
        names.push(name.to_string());
    }
}

/// Whether a name is one word, and that a participle or a verb.
fn is_participle(name: &str) -> bool {
    let one_word = !name[1..].contains(|c: char| c.is_uppercase());
    let ending = name.len() > 4 && (name.ends_with("ed") || name.ends_with("nning"));
    one_word && !NOUNS.contains(&name) && (ending || IRREGULAR.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn a_second_meaning_is_found_and_generic_names_are_not() {
        let one = "struct Place; struct Error;";
        let (_folder, tree) = planted(&[
            ("crates/a/src/x.rs", one),
            ("crates/b/src/x.rs", "impl T for U { type Place = u8; }"),
            (
                "crates/b/src/y.rs",
                "type Error = u8; mod tests { struct Place; }",
            ),
            ("crates/c/tests/x.rs", one),
        ]);
        assert!(check(&tree).unwrap().is_empty());
        let inner = "mod inner { enum Place {} }";
        std::fs::write(tree.root.join("crates/b/src/x.rs"), inner).unwrap();
        let findings = check(&tree).unwrap();
        let both = "crates/a/src/x.rs, crates/b/src/x.rs";
        assert_eq!(findings, [format!("Place has 2 meanings: {both}")]);
    }

    #[test]
    fn participles_and_verbs_are_found() {
        let text = "struct Asked; enum Kept {} trait Say {} struct Gated; struct CommitRejected;";
        let (_folder, tree) = planted(&[("crates/a/src/x.rs", text)]);
        let expected = ["Asked", "Kept", "Say"];
        let expected = expected.map(|name| format!("crates/a/src/x.rs: {name} is no noun"));
        assert_eq!(check(&tree).unwrap(), expected);
    }
}
