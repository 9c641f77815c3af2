//! Examples as programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the workspace is.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds an example: cargo does not do it for a test that is chosen by name.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo has told this test of its package would be a change to build scripts,
    // and all that needs them would be built once more.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    // The whole workspace, so that features and dependencies are those of the tests.
    cargo.args(["build", "--locked", "--quiet", "--workspace"]);
    let status = cargo.args(["--example", name]).current_dir(root()).status();
    assert!(status.expect("cargo runs").success());
    let test = std::env::current_exe().expect("a test has a path");
    let target = test
        .ancestors()
        .nth(3)
        .expect("a test is in a target folder");
    target.join("debug/examples").join(name)
}
