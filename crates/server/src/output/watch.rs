//! Output that is refreshed.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::stdout::out;

/// The time between two outputs.
const INTERVAL: Duration = Duration::from_secs(2);

/// Clears the terminal and moves to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Whether the output is refreshed.
#[derive(Args, Clone, Copy)]
pub(crate) struct WatchArguments {
    /// Refresh the output every 2 seconds until interrupted
    #[arg(long)]
    watch: bool,
}

impl WatchArguments {
    /// Prints once, or again and again.
    pub(crate) fn run(self, print: impl Fn() -> Result<()>) -> Result<()> {
        if !self.watch {
            return print();
        }
        let is_terminal = std::io::stdout().is_terminal();
        loop {
            if is_terminal {
                out(&CLEAR)?;
            }
            print()?;
            std::thread::sleep(INTERVAL);
        }
    }
}
