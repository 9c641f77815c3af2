//! The examples do what the README says of them.

use std::fs;
use std::process::Command;

use crate::examples_built::{example, root};

/// The code blocks of a page in one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let parts = page.split(&fence).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap())
        .collect()
}

#[test]
fn the_bank_goes_on_where_its_last_run_ended() {
    let folder = tempfile::tempdir().unwrap();
    let bank = example("bank");
    let expected = [
        "run 1: alice has 90, bob has 10\n",
        "run 2: alice has 80, bob has 20\n",
        "run 3: alice has 70, bob has 30\n",
    ];
    for line in expected {
        let mut command = Command::new(&bank);
        let output = command.current_dir(folder.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), line);
    }
}

#[test]
fn the_readme_shows_the_bank_as_it_is() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let example = fs::read_to_string(root().join("examples/bank/main.rs")).unwrap();
    // The first line is for the linter.
    let (first, shown) = example.split_once('\n').unwrap();
    assert!(first.starts_with("#![expect(clippy::"), "{first}");
    assert!(shown.lines().count() < 30);
    assert!(
        blocks(&readme, "rust").contains(&shown),
        "README.md differs"
    );
    for line in ["run 1: alice has 90, bob has 10", "run 2: alice has 80"] {
        assert!(readme.contains(line), "README.md does not show {line:?}");
    }
}
