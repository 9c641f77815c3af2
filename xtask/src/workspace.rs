//! What cargo knows about this workspace.
//!
//! The members are kept in the order of the root manifest, which is the order of the layers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// The workspace around the current folder.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// One line of a manifest's dependency tables.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev`, `build`, or nothing for a normal dependency.
    pub(crate) kind: Option<String>,
}

/// One thing that cargo builds from a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

impl Workspace {
    /// Asks cargo for the workspace around the current folder.
    pub(crate) fn find() -> Result<Self> {
        let mut command = Command::new(process::cargo_program());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let text = process::output(&mut command)?;
        serde_json::from_str(&text).context("cannot read the output of cargo metadata")
    }

    /// Where installed tools live.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A cargo command in the root folder, with the path of the installed tools. The
    /// variables that cargo has set for this package are removed: build scripts would see
    /// them as a change, and their dependents would be built again.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(process::cargo_program());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&*name);
            }
        }
        command
            .current_dir(&self.root)
            .env("STEADFAST_TOOLS", self.tools());
        command
    }

    /// The member with this name.
    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        self.packages
            .iter()
            .find(|package| package.name == name)
            .with_context(|| format!("no package {name} in the workspace"))
    }

    /// The names of the members in the order of the root manifest.
    pub(crate) fn layers(&self) -> Result<Vec<String>> {
        let manifest = self.root.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        let folders = members(&text);
        folders
            .iter()
            .map(|folder| self.package_in(&self.root.join(folder)))
            .collect()
    }

    fn package_in(&self, folder: &Path) -> Result<String> {
        let manifest = folder.join("Cargo.toml");
        self.packages
            .iter()
            .find(|package| package.manifest_path == manifest)
            .map(|package| package.name.clone())
            .with_context(|| format!("member {} is no package", folder.display()))
    }
}

impl Target {
    /// Whether this is a `lib`, `bin`, `test`, ...
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|found| found == kind)
    }
}

/// The quoted folders of the `members` list of a root manifest.
fn members(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| !line.starts_with("members"))
        .skip(1)
        .take_while(|line| !line.starts_with(']'))
        .filter_map(|line| line.split('#').next()?.split('"').nth(1))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order() {
        let manifest = "[workspace]\n# \"no\"\nmembers = [\n    \"b\", # \"x\"\n    # \"c\"\n    \"a\",\n]\nother = [\n\"d\"\n]\n";
        assert_eq!(members(manifest), ["b", "a"]);
    }
}
