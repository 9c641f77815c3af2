//! The help of every command, narrow and wide.

use super::{all_commands, help_of};

fn pages(noun: &str, columns: usize) -> String {
    let mut text = String::new();
    let own = all_commands().iter();
    for path in own.filter(|path| path[0] == noun) {
        let help = help_of(path, columns);
        text += &format!("$ steadfast {} --help\n{help}\n", path.join(" "));
    }
    text
}

fn check(columns: usize) {
    let version = env!("CARGO_PKG_VERSION");
    let tree = help_of(&[], columns);
    assert!(!tree.contains(version), "{tree}");
    insta::assert_snapshot!(format!("steadfast-{columns}"), tree);
    let nouns = all_commands().iter().filter(|path| path.len() == 1);
    for noun in nouns {
        let noun = &noun[0];
        insta::assert_snapshot!(format!("{noun}-{columns}"), pages(noun, columns));
    }
}

#[test]
fn help_fits_60_columns() {
    check(60);
    for path in all_commands() {
        let help = help_of(path, 60);
        // A word without a space cannot be wrapped.
        let is_long = |line: &&str| line.chars().count() > 60 && line.trim().contains(' ');
        let long: Vec<_> = help
            .lines()
            .filter(is_long)
            .filter(|line| !line.starts_with("Usage:"))
            .collect();
        assert_eq!(long, Vec::<&str>::new(), "{path:?}");
    }
}

#[test]
fn help_fits_120_columns() {
    check(120);
}

#[test]
fn every_command_says_what_it_does_in_the_imperative() {
    for path in all_commands() {
        let help = help_of(path, 120);
        let first = help.lines().next().unwrap();
        assert!(
            !first.is_empty() && !first.ends_with('.'),
            "{path:?}: {first}"
        );
        let verb = first.split([' ', ',']).next().unwrap();
        let is_verb = verb.chars().next().is_some_and(char::is_uppercase) && !verb.ends_with('s');
        assert!(is_verb || verb == "Process", "{path:?}: {first}");
    }
}
