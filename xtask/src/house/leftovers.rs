//! No unfinished code, no idle test, no arm of a bool.

use anyhow::Result;

use super::tree::Tree;

/// In pieces, so that this file does not find itself.
const LEFTOVERS: [&str; 3] = [
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
    concat!("#[", "ignore"),
];

/// What an arm begins with whose value is a bool: clippy finds those without a guard.
const ARMS: [&str; 2] = [concat!("true", " if "), concat!("false", " if ")];

/// The lines of Rust files that contain one.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(text) = tree.text(file)? else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for leftover in LEFTOVERS.iter().filter(|found| contains(line, found)) {
                findings.push(format!("{}:{}: {leftover}", file.display(), number + 1));
            }
            if ARMS.iter().any(|arm| line.trim_start().starts_with(arm)) {
                let place = format!("{}:{}", file.display(), number + 1);
                findings.push(format!("{place}: a `match` on a bool; write `if`"));
            }
        }
    }
    Ok(findings)
}

/// Whether the line has this, not as the end of a longer word.
fn contains(line: &str, leftover: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(leftover)
        .any(|(at, _)| !line[..at].ends_with(in_word))
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    #[test]
    fn each_leftover_is_found_once() {
        let [first, second, third] = LEFTOVERS;
        let text = format!("{first}()\n my_{first}()\n{second}(\"x\")\n{third} = \"slow\"]\n");
        let (_folder, tree) = planted(&[("a.rs", &text), ("a.md", &text)]);
        let findings = check(&tree).unwrap();
        let expected = [(1, first), (3, second), (4, third)];
        let expected = expected.map(|(line, found)| format!("a.rs:{line}: {found}"));
        assert_eq!(findings, expected);
    }

    #[test]
    fn an_arm_of_a_bool_is_found() {
        let text = format!("match a {{\n    {}b => 1,\n    _ => 2,\n}}\n", ARMS[0]);
        let (_folder, tree) = planted(&[("a.rs", &text)]);
        let expected = ["a.rs:2: a `match` on a bool; write `if`"];
        assert_eq!(check(&tree).unwrap(), expected);
    }
}
