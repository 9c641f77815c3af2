//! Standard output, which may be closed.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context, Result};

/// Writes a line to standard output. A closed pipe ends the process, without an error.
pub(crate) fn out(text: &impl Display) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    match written {
        // Its reader has seen enough; nothing of this process is left to do.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.context("write the result"),
    }
}
