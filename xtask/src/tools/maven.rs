//! Java programs, built with Maven.
//!
//! Packages are downloaded to a repository below the tools, once per version; changed
//! sources are built offline.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{marker, system};
use crate::process;
use crate::workspace::Workspace;

const MAJOR: u32 = 17;

/// The folder `<tools>/java`. Each module of `source` has its classes in `target/classes`
/// there, and its packages in `target/lib`.
pub(crate) fn install(workspace: &Workspace, source: &Path) -> Result<PathBuf> {
    programs()?;
    let files = files(source)?;
    let is_pom = |file: &&PathBuf| file.ends_with("pom.xml");
    let poms = text(source, files.iter().filter(is_pom))?;
    let packages = workspace.tools().join("maven");
    let what = format!("packages java {}", marker::digest(&poms));
    marker::once(&packages, &what, || {
        // Only a build resolves everything that a build needs, plugins included.
        build(&packages, source, &files, &packages.join("build"), &[])
    })?;
    let folder = workspace.tools().join("java");
    let what = format!("java {}", marker::digest(&text(source, files.iter())?));
    marker::once(&folder, &what, || {
        build(&packages, source, &files, &folder, &["--offline"])
    })?;
    Ok(folder)
}

/// Builds the clients and asks the JVM for its version.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let folder = install(workspace, &workspace.root.join("interop/java"))?;
    if !folder.join("event-hubs/target/classes").is_dir() {
        bail!("Maven left no classes");
    }
    let version = process::output(Command::new("java").arg("--version"))?;
    let major = version.split([' ', '.']).nth(1).map(str::parse);
    if !matches!(major, Some(Ok(major)) if MAJOR <= major) {
        bail!("java is {}", version.trim());
    }
    Ok(())
}

fn programs() -> Result<()> {
    for (program, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
        if process::on_path(program).is_none() {
            system::install(package)?;
        }
    }
    Ok(())
}

/// Copies the sources to a folder and builds them there.
fn build(
    packages: &Path,
    source: &Path,
    files: &[PathBuf],
    folder: &Path,
    options: &[&str],
) -> Result<()> {
    for file in files {
        let target = folder.join(file);
        let parent = target.parent().context("a file has a folder")?;
        std::fs::create_dir_all(parent)?;
        std::fs::copy(source.join(file), target)?;
    }
    let repository = packages.join("repository");
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode"]).args(options);
    maven.arg(format!("-Dmaven.repo.local={}", repository.display()));
    process::run(maven.arg("process-classes").current_dir(folder))
}

/// Names and contents of files, as one text.
fn text<'a>(source: &Path, files: impl Iterator<Item = &'a PathBuf>) -> Result<String> {
    let mut text = String::new();
    for file in files {
        text.push_str(&file.to_string_lossy());
        text.push('\n');
        text.push_str(&std::fs::read_to_string(source.join(file))?);
    }
    Ok(text)
}

/// All sources below a folder, by their paths in it, in order. What a build by hand leaves
/// in a folder `target` is not one of them.
fn files(source: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = source.join(&folder);
        let entries =
            std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if !name.ends_with("target") {
                    folders.push(name);
                }
            } else if name.ends_with("pom.xml")
                || name.extension().is_some_and(|kind| kind == "java")
            {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poms_and_classes_are_sources_and_what_was_built_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        for name in [
            "pom.xml",
            "README.md",
            "one/pom.xml",
            "one/src/One.java",
            "one/target/Made.java",
        ] {
            let file = temporary.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, name).unwrap();
        }
        let found = files(temporary.path()).unwrap();
        let expected = ["one/pom.xml", "one/src/One.java", "pom.xml"].map(PathBuf::from);
        assert_eq!(found, expected);
    }
}
