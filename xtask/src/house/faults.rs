//! Planted faults fit the sources.
//!
//! `cargo xtask mutants` takes long and runs seldom. So that its lists do not rot in
//! between, every text that a fault replaces must be there exactly once, and every test
//! that is to find it must be there at all.

use std::path::Path;

use anyhow::{Context, Result};

use super::tree::Tree;
use crate::mutants::{Mutant, parse};

/// Where the lists are.
const LISTS: &str = "xtask/mutants";

/// The faults that cannot be planted, or whose test is gone.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let tests = tests(tree)?;
    let lists = tree.files.iter().filter(|file| file.starts_with(LISTS));
    for list in lists {
        let text = tree.text(list)?.unwrap_or_default();
        let mutants = parse(&text).with_context(|| list.display().to_string())?;
        for mutant in &mutants {
            if let Some(why) = misfit(tree, &tests, mutant)? {
                findings.push(format!("{}: {}: {why}", list.display(), mutant.name));
            }
        }
    }
    Ok(findings)
}

/// Why a fault cannot be planted or found, if so.
fn misfit(tree: &Tree, tests: &[String], mutant: &Mutant) -> Result<Option<String>> {
    let Mutant { file, find, .. } = mutant;
    let text = tree.text(Path::new(file))?.unwrap_or_default();
    let count = text.matches(find.as_str()).count();
    if count != 1 {
        return Ok(Some(format!("`{find}` is {count} times in {file}")));
    }
    let mut words = mutant.test.split_whitespace();
    let mut is_there = true;
    while let Some(word) = words.next() {
        is_there &= match word {
            "--test" => words.next().is_some_and(|name| has_target(tree, name)),
            "-p" => words.next().is_some(),
            option if option.starts_with('-') => true,
            filter => is_filter(tests, filter),
        };
    }
    Ok((!is_there).then(|| format!("there is no test for `{}`", mutant.test)))
}

fn has_target(tree: &Tree, name: &str) -> bool {
    let ends = [
        format!("tests/{name}.rs"),
        format!("tests/{name}/main.rs"),
        format!("tests/{name}/mod.rs"),
    ];
    let mut files = tree.rust();
    files.any(|file| ends.iter().any(|end| file.ends_with(end)))
}

/// Whether a filter names a test, or a module by its path.
fn is_filter(tests: &[String], filter: &str) -> bool {
    let last = filter.rsplit("::").find(|part| !part.is_empty());
    last.is_some_and(|last| tests.iter().any(|test| test.contains(last)))
}

/// The names of functions and modules.
fn tests(tree: &Tree) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in tree.rust() {
        let path = file.with_extension("");
        names.extend(path.iter().map(|part| part.to_string_lossy().into_owned()));
        for line in tree.text(file)?.unwrap_or_default().lines() {
            if let Some((_, rest)) = line.split_once("fn ") {
                let name = rest.split(['(', '<']).next();
                names.extend(name.map(str::to_owned));
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn a_fault_that_does_not_fit_is_found() {
        let block = |name: &str, find: &str, test: &str| {
            format!("name: {name}\nfile: a/src/b.rs\nfind: {find}\nwith: z\ntest: {test}\n")
        };
        let list = [
            block("good", "one", "-p a --test c works"),
            block("module", "one", "-p a --lib b::tests"),
            block("gone", "none", "-p a --test c works"),
            block("twice", "two", "-p a --test c works"),
            block("no target", "one", "-p a --test d works"),
            block("no test", "one", "-p a --test c fails"),
        ];
        let (_folder, tree) = planted(&[
            ("xtask/mutants/x.txt", &list.concat()),
            ("a/src/b.rs", "one two two"),
            ("a/tests/c.rs", "fn it_works() {}"),
        ]);
        let findings = check(&tree).unwrap();
        let names: Vec<_> = findings.iter().map(|one| one.split(": ").nth(1)).collect();
        let expected = ["gone", "twice", "no target", "no test"];
        assert_eq!(names, expected.map(Some), "{findings:?}");
    }
}
