//! Temporary folders below the target.

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::workspace::Workspace;

/// A folder that is removed when dropped.
pub(crate) fn folder(workspace: &Workspace, prefix: &str) -> Result<TempDir> {
    let parent = workspace.target.join("tmp");
    std::fs::create_dir_all(&parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(&parent)
        .with_context(|| format!("cannot create a folder in {}", parent.display()))
}
