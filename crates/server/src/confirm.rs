//! Questions before something is destroyed.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result};

use crate::exit::CommandError;
use crate::globals::Globals;

/// Asks before `action`, unless `--yes` was given. Without a terminal there is no one to
/// ask, so the command fails.
pub(crate) fn confirm(globals: &Globals, action: &str) -> Result<()> {
    if globals.is_confirmed {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let message = format!("this would {action}: add --yes to confirm");
        return Err(CommandError::Usage(message).into());
    }
    eprint!("This will {action}. Continue? [y/N] ");
    io::stderr().flush().context("ask for confirmation")?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.context("read the confirmation")?;
    if matches!(line.trim(), "y" | "Y" | "yes" | "Yes") {
        Ok(())
    } else {
        Err(CommandError::Usage("not confirmed; nothing has changed".to_owned()).into())
    }
}
