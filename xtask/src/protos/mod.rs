//! Generates the messages and services of Durable Task.
//!
//! `crates/wire/proto/durabletask` has the published interface and our additions. Output is
//! committed, so that no build needs a compiler of `.proto` files; a check of the house
//! compares it with a fresh run.

mod generate;
mod merge;

use std::fs;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Writes all generated files.
pub(crate) fn write(workspace: &Workspace) -> Result<bool> {
    for output in generate::outputs(workspace)? {
        let path = workspace.root.join(output.path);
        fs::write(&path, output.text).with_context(|| format!("cannot write {}", output.path))?;
        println!("{}", output.path);
    }
    Ok(true)
}

/// The generated files that differ from a fresh run.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let stale = |output: &generate::Output| {
        let found = fs::read_to_string(workspace.root.join(output.path));
        found.ok().as_deref() != Some(output.text.as_str())
    };
    let outputs = generate::outputs(workspace)?;
    let findings = outputs.iter().filter(|output| stale(output));
    let findings = findings
        .map(|output| format!("{} is not what `cargo xtask protos` generates", output.path));
    Ok(findings.collect())
}
