//! Progress of long operations on a terminal.
//!
//! Shown on standard error, and only if that is a terminal: files and pipes receive only
//! the result.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use steadfast::storage::backup::{BackupPhase, BackupProgress};
use tokio::sync::watch;

const INTERVAL: Duration = Duration::from_millis(200);

/// Shows the progress of an operation until it is complete.
pub(crate) async fn show<T>(
    progress: &watch::Sender<BackupProgress>,
    work: impl Future<Output = T>,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            done = &mut work => {
                // Clears the line.
                draw("");
                return done;
            }
            _ = ticks.tick() => draw(&line(&progress.borrow())),
        }
    }
}

/// Draws a line over the previous one.
pub(crate) fn draw(line: &str) {
    let mut terminal = std::io::stderr();
    // Errors of a closed terminal are ignored.
    let _ = write!(terminal, "\r\x1b[2K{line}");
    let _ = terminal.flush();
}

fn line(progress: &BackupProgress) -> String {
    let phase = match progress.phase {
        BackupPhase::Starting => "starting",
        BackupPhase::Checking => "checking the chain",
        BackupPhase::Reading => "reading",
        BackupPhase::Digesting => "reading back",
        BackupPhase::Writing => "writing",
        BackupPhase::Comparing => "comparing",
    };
    let BackupProgress {
        done,
        partitions,
        rows,
        events,
        ..
    } = progress;
    let megabytes = progress.bytes / 1_000_000;
    match progress.phase {
        BackupPhase::Starting => phase.to_string(),
        BackupPhase::Checking => format!("{phase}: {megabytes} MB"),
        _ => format!(
            "{phase}: {done} of {partitions} partitions, {rows} rows, {events} events, {megabytes} MB"
        ),
    }
}
