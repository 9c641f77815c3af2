//! The child process that is killed.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::Result;

use super::load::fill_keys;
use super::session::{Session, options};
use crate::child::wait_for_end;

/// Fills a folder, reports readiness on `output`, and waits for its end.
pub fn fill(folder: &Path, keys: u64, input: impl Read, output: impl Write) -> Result<()> {
    let session = Session::open(folder, options())?;
    fill_keys(&session, keys)?;
    wait_for_end(input, output)
}
