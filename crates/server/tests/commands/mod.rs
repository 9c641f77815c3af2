//! Tests of the whole tree of commands.

mod examples;
mod former;
mod help;
mod lists;
mod output;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::LazyLock;

use crate::running::{finish, said, steadfast};

/// The help of a command in a width.
pub(crate) fn help_of(path: &[String], columns: usize) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = steadfast(folder.path());
    command
        .args(path)
        .arg("--help")
        .env("COLUMNS", columns.to_string())
        .stdin(Stdio::null());
    let (code, text, errors) = said(&finish(command));
    assert_eq!(code, 0, "{path:?}: {errors}");
    text
}

/// The names of the commands below a command, from its help.
pub(crate) fn children(help: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_list = false;
    for line in help.lines() {
        let begins_group = !line.starts_with(' ') && line.ends_with(':');
        if begins_group {
            is_list = !["Arguments:", "Options:", "Global options:", "Examples:"].contains(&line);
            is_list &= !line.starts_with("Exit codes");
            continue;
        }
        let name = line
            .strip_prefix("  ")
            .filter(|rest| !rest.starts_with(' '));
        let name = name.and_then(|rest| rest.split_whitespace().next());
        if let Some(name) = name.filter(|name| is_list && *name != "help") {
            names.push(name.to_owned());
        }
    }
    names
}

/// The paths of all commands that help shows, parents before children.
pub(crate) fn all_commands() -> &'static [Vec<String>] {
    static ALL: LazyLock<Vec<Vec<String>>> = LazyLock::new(find_commands);
    &ALL
}

fn find_commands() -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut next = 0;
    while next < found.len() {
        let path: Vec<String> = found[next].clone();
        for name in children(&help_of(&path, 100)) {
            found.push([path.clone(), vec![name]].concat());
        }
        next += 1;
    }
    found.remove(0);
    found
}

/// The examples in the help of a command. Lines that were wrapped are joined.
pub(crate) fn examples_in(help: &str) -> Vec<String> {
    let Some((_, text)) = help.split_once("Examples:\n") else {
        return Vec::new();
    };
    let mut examples: Vec<String> = Vec::new();
    for line in text.lines() {
        let begins = ["  steadfast ", "  printf ", "  echo ", "  cat "];
        if begins.iter().any(|start| line.starts_with(start)) {
            examples.push(line.trim().to_owned());
        } else if line.trim().is_empty() {
            break;
        } else if let Some(last) = examples.last_mut() {
            last.push(' ');
            last.push_str(line.trim());
        }
    }
    examples
}

/// The names in a folder.
pub(crate) fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}
