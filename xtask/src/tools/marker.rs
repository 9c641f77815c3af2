//! Remembers what is installed in a folder.
//!
//! The marker is written last, so a half-finished installation is not taken for a whole one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context, Result};

const NAME: &str = "installed.txt";

/// Empties the folder and installs into it, unless the marker shows the same installation.
pub(crate) fn once(folder: &Path, what: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let marker = folder.join(NAME);
    if std::fs::read_to_string(&marker).is_ok_and(|found| found == what) {
        return Ok(());
    }
    eprintln!("installing {what} into {}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    install()?;
    std::fs::write(&marker, what).with_context(|| format!("cannot write {}", marker.display()))
}

/// A short name for a text, the same on every run of the same build.
pub(crate) fn digest(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installs_once_and_again_when_the_wish_changes() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("tool");
        let mut runs = 0;
        for what in ["one", "one", "two"] {
            once(&folder, what, || {
                assert_eq!(std::fs::read_dir(&folder)?.count(), 0, "starts empty");
                runs += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(runs, 2);
    }

    #[test]
    fn a_failed_installation_is_tried_again() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("tool");
        once(&folder, "one", || anyhow::bail!("no")).unwrap_err();
        let mut ran = false;
        once(&folder, "one", || {
            ran = true;
            Ok(())
        })
        .unwrap();
        assert!(ran);
    }
}
