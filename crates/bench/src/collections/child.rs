//! A process that only holds rows.
//!
//! The measurement is its memory.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use super::node::CollectionNode;
use crate::process::{resident_mb, settle};

/// Where the rows are stored.
pub enum RowStorage {
    /// In this folder, flushed, and resident.
    Durable(PathBuf),
    /// In memory only.
    Volatile,
}

/// Holds rows and writes to `output` by how many MB the process has grown.
pub fn hold(place: &RowStorage, rows: u64, mut output: impl Write) -> Result<()> {
    let node = match place {
        RowStorage::Durable(folder) => CollectionNode::durable(folder)?,
        RowStorage::Volatile => CollectionNode::volatile()?,
    };
    let own = std::process::id();
    let before = resident_mb(own)?;
    node.fill(rows)?;
    node.session.flush()?;
    settle()?;
    writeln!(output, "{}", resident_mb(own)? - before)?;
    Ok(())
}
