//! Tests from source distributions of Python packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::marker;
use crate::process;
use crate::workspace::Workspace;

/// Where the tests are, in a folder per package.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.tools().join("python-tests")
}

/// Unpacks the tests of these packages, in the versions of a file of requirements.
pub(crate) fn unpack(
    workspace: &Workspace,
    python: &Path,
    requirements: &Path,
    packages: &[&str],
) -> Result<PathBuf> {
    let text = std::fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = folder(workspace);
    let what = format!("tests of python packages {}", marker::digest(&text));
    marker::once(&folder, &what, || {
        for package in packages {
            let version = version(&text, package)
                .with_context(|| format!("{} has no {package}", requirements.display()))?;
            unpack_one(python, package, version, &folder.join(package))?;
        }
        Ok(())
    })?;
    Ok(folder)
}

fn version<'a>(requirements: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = requirements
        .lines()
        .filter_map(|line| line.split_once("=="));
    let (_, version) = lines.find(|(name, _)| *name == package)?;
    Some(version.trim())
}

fn unpack_one(python: &Path, package: &str, version: &str, folder: &Path) -> Result<()> {
    let archives = tempfile::tempdir()?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps"])
        .args(["--no-binary", ":all:", &format!("{package}=={version}")])
        .arg("--dest")
        .arg(archives.path())
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    process::run(&mut pip)?;
    let name = format!("{}-{version}", package.replace('-', "_"));
    std::fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("xzf")
        .arg(archives.path().join(format!("{name}.tar.gz")));
    tar.args(["--strip-components=2", "-C"]).arg(folder);
    process::run(tar.arg(format!("{name}/tests")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_whole_names() {
        let text = "a-b-c==1.0\na-b==2.0\n";
        assert_eq!(version(text, "a-b"), Some("2.0"));
        assert_eq!(version(text, "a"), None);
    }
}
