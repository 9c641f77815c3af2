//! The child process whose memory is measured.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::Result;

use super::session::Session;
use crate::child::wait_for_end;
use crate::process::settle;

/// Serves a folder, reports readiness on `output`, and waits for its end.
pub fn serve(folder: &Path, input: impl Read, output: impl Write) -> Result<()> {
    let _session = Session::open(folder)?;
    // The next timers are loaded after the start.
    settle()?;
    wait_for_end(input, output)
}
