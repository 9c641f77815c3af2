//! Standard output, which may be closed.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context, Result};

/// Writes a text and a line end to standard output. Nobody needs to read it.
pub(crate) fn out(text: &impl Display) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write the result"),
    }
}
