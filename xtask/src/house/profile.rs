//! Every member has the development profile of our own crates.
//!
//! The profile `dev` is that of dependencies, which are optimised; a member without a line
//! of its own in the root manifest would be built like them, slowly.

use std::fs;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// The members without a line, and the lines without a member.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let manifest = workspace.root.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    Ok(find(&text, &workspace.layers()?))
}

fn find(manifest: &str, members: &[String]) -> Vec<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[profile.dev.package]")
        .skip(1);
    let names: Vec<_> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    let missing = members
        .iter()
        .filter(|member| !names.contains(&member.as_str()))
        .map(|member| format!("[profile.dev.package] has no {member}"));
    let gone = names
        .iter()
        .filter(|name| members.iter().all(|member| member != *name))
        .map(|name| format!("[profile.dev.package] has {name}, which is no member"));
    missing.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_a_profile_and_a_profile_without_a_member_are_found() {
        let manifest = "[profile.dev]\nopt-level = 2\n\n[profile.dev.package]\n\
                        one = { opt-level = 0 }\ngone = { opt-level = 0 }\n\n[profile.release]\n\
                        two = 1\n";
        let members = ["one".to_owned(), "two".to_owned()];
        let expected = [
            "[profile.dev.package] has no two",
            "[profile.dev.package] has gone, which is no member",
        ];
        assert_eq!(find(manifest, &members), expected);
    }
}
