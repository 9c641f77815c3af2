//! What must not compile does not, and its twin does.
//!
//! The messages of the compiler stand beside the cases; `TRYBUILD=overwrite` writes
//! them anew. A twin differs only in what is wrong. Twins are modules of this test,
//! so it does not compile unless they all do.

#![expect(dead_code, reason = "twins are compiled, not run")]

extern crate steadfast_collections as steadfast;

#[path = "compile/record/borrowed_twin.rs"]
mod borrowed_twin;
#[path = "compile/record/cell_field_twin.rs"]
mod cell_field_twin;
#[path = "compile/collection/change_after_add_twin.rs"]
mod change_after_add_twin;
#[path = "compile/collection/change_after_get_twin.rs"]
mod change_after_get_twin;
#[path = "compile/collection/forgotten_commit_twin.rs"]
mod forgotten_commit_twin;
#[path = "compile/record/keys_twin.rs"]
mod keys_twin;
#[path = "compile/record/later_field_twin.rs"]
mod later_field_twin;
#[path = "compile/record/mutex_field_twin.rs"]
mod mutex_field_twin;
#[path = "compile/collection/mutex_value_twin.rs"]
mod mutex_value_twin;
#[path = "compile/record/no_place_twin.rs"]
mod no_place_twin;
#[path = "compile/record/numbers_twin.rs"]
mod numbers_twin;
#[path = "compile/record/serde_field_twin.rs"]
mod serde_field_twin;
#[path = "compile/collection/transact_after_commit_twin.rs"]
mod transact_after_commit_twin;
#[path = "compile/collection/transact_two_at_once_twin.rs"]
mod transact_two_at_once_twin;
#[path = "compile/collection/two_at_once_twin.rs"]
mod two_at_once_twin;
#[path = "compile/collection/use_after_commit_twin.rs"]
mod use_after_commit_twin;

/// Cases that need no collection.
const RECORD: [&str; 8] = [
    "mutex_field",
    "cell_field",
    "serde_field",
    "numbers",
    "no_place",
    "later_field",
    "keys",
    "borrowed",
];

/// Cases about transactions and the values in them, and the code that each fails with.
const COLLECTION: [(&str, &str); 8] = [
    ("change_after_add", "E0382"),
    ("change_after_get", "E0594"),
    ("forgotten_commit", "E0308"),
    ("transact_after_commit", "E0382"),
    ("transact_two_at_once", "E0499"),
    ("two_at_once", "E0499"),
    ("use_after_commit", "E0382"),
    ("mutex_value", "E0277"),
];

#[test]
fn c19_two_operations_at_once_and_the_corruptions_of_the_seed_do_not_compile() {
    let cases = trybuild::TestCases::new();
    for (name, _) in COLLECTION {
        cases.compile_fail(format!("tests/compile/collection/{name}.rs"));
    }
    for name in RECORD {
        cases.compile_fail(format!("tests/compile/record/{name}.rs"));
    }
    // The cases run when they are dropped.
    drop(cases);
    for (name, code) in COLLECTION {
        let path = format!("tests/compile/collection/{name}.stderr");
        let message = std::fs::read_to_string(&path).expect("the message stands beside the case");
        let first = message.lines().find(|line| line.starts_with("error["));
        let prefix = format!("error[{code}]");
        assert!(
            first.is_some_and(|line| line.starts_with(&prefix)),
            "{path} does not begin with {prefix}"
        );
    }
}
