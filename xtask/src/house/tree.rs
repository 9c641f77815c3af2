//! The files that belong to the project.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// A folder and the files in it that count, as paths relative to it.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<PathBuf>,
}

impl Tree {
    /// What git tracks, or would track after `git add --all`; outside git, every file.
    pub(crate) fn tracked(root: &Path) -> Result<Self> {
        if !root.join(".git").exists() {
            return Self::walk(root);
        }
        let mut command = Command::new("git");
        command.current_dir(root).args(["ls-files", "-z"]);
        command.args(["--cached", "--others", "--exclude-standard"]);
        let mut files: Vec<_> = process::output(&mut command)?
            .split_terminator('\0')
            .map(PathBuf::from)
            .filter(|file| root.join(file).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(Self {
            root: root.to_owned(),
            files,
        })
    }

    /// Every file below a folder, without its `target`.
    pub(crate) fn walk(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                if !entry.file_type()?.is_dir() {
                    files.push(path);
                } else if path != Path::new("target") {
                    open.push(path);
                }
            }
        }
        files.sort();
        Ok(Self {
            root: root.to_owned(),
            files,
        })
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &PathBuf> {
        self.files
            .iter()
            .filter(|file| file.extension().is_some_and(|found| found == "rs"))
    }

    /// The text of a file; nothing if it is no text, or gone meanwhile.
    pub(crate) fn text(&self, file: &Path) -> Result<Option<String>> {
        let path = self.root.join(file);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// A tree for tests, from names and texts.
#[cfg(test)]
pub(crate) fn planted(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let tree = Tree::walk(folder.path()).unwrap();
    (folder, tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_leaves_out_what_it_ignores() {
        let files = [(".gitignore", "/made\n"), ("made/x.rs", ""), ("a.rs", "")];
        let (folder, _) = planted(&files);
        let mut init = Command::new("git");
        process::output(init.current_dir(folder.path()).arg("init")).unwrap();
        let tree = Tree::tracked(folder.path()).unwrap();
        assert_eq!(tree.files, [Path::new(".gitignore"), Path::new("a.rs")]);
    }

    #[test]
    fn without_git_every_file_counts_but_the_target() {
        let (folder, _) = planted(&[("target/x.rs", ""), ("b/target/a.rs", ""), ("c.md", "")]);
        let tree = Tree::tracked(folder.path()).unwrap();
        assert_eq!(tree.files, [Path::new("b/target/a.rs"), Path::new("c.md")]);
        assert_eq!(tree.rust().count(), 1);
    }
}
