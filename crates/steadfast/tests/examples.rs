//! The examples do what the README says of them.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds an example: cargo does not do it for a test that is chosen by name.
fn example(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // The whole workspace, so that features and dependencies are those of the tests.
    cargo.args(["build", "--locked", "--quiet", "--workspace"]);
    let status = cargo.args(["--example", name]).current_dir(root()).status();
    assert!(status.unwrap().success());
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    target.join("debug/examples").join(name)
}

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
