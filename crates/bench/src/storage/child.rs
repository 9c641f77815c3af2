//! The child process that is killed.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::Result;

use super::load::fill_keys;
use super::session::{Session, options};

/// What the child says when everything is committed.
pub(super) const READY: &str = "READY";

/// Fills a folder, says so on `output`, and waits for its end: to be killed, or
/// for `input` to close because the parent is gone.
pub fn fill(folder: &Path, keys: u64, mut input: impl Read, mut output: impl Write) -> Result<()> {
    let session = Session::open(folder, options())?;
    fill_keys(&session, keys)?;
    writeln!(output, "{READY}")?;
    output.flush()?;
    input.read_to_end(&mut Vec::new())?;
    Ok(())
}
