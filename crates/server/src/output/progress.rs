//! Progress of long operations, on standard error.
//!
//! A terminal shows a line that is redrawn; files and pipes receive a line when the phase
//! changes. `--quiet` turns both off.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use steadfast::clock::{Clock, SystemClock};
use steadfast::storage::backup::{BackupPhase, BackupProgress};
use tokio::sync::watch;

use super::units;

const INTERVAL: Duration = Duration::from_millis(200);

/// The interval of lines of an operation that has no phases, where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The width of a progress bar.
const WIDTH: u64 = 30;

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Turns progress off for this process.
pub(crate) fn turn_off() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Shows the progress of an operation until it is complete.
pub(crate) async fn show<T>(
    progress: &watch::Sender<BackupProgress>,
    work: impl Future<Output = T>,
) -> T {
    if is_quiet() {
        return work.await;
    }
    let is_terminal = std::io::stderr().is_terminal();
    let mut work = pin!(work);
    let mut ticks = tokio::time::interval(INTERVAL);
    // The first phase needs no line.
    let mut last = BackupPhase::Starting;
    loop {
        tokio::select! {
            done = &mut work => {
                clear(is_terminal);
                return done;
            }
            _ = ticks.tick() => {
                let now = progress.borrow();
                if is_terminal {
                    let bar = match now.partitions {
                        0 => String::new(),
                        all => bar(now.done as u64, all as u64) + " ",
                    };
                    draw(&(bar + &line(&now)));
                } else if now.phase != last {
                    last = now.phase;
                    eprintln!("steadfast: {}", line(&now));
                }
            }
        }
    }
}

/// Shows for how long an operation without phases has been running.
pub(crate) fn wait_for<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if is_quiet() {
        return work();
    }
    let is_terminal = std::io::stderr().is_terminal();
    let interval = if is_terminal { INTERVAL } else { LINE_INTERVAL };
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let clock = SystemClock::new();
            while is_done.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let line = format!("{what}: {}", units::elapsed(clock.monotonic().as_secs()));
                if is_terminal {
                    draw(&line);
                } else {
                    eprintln!("steadfast: {line}");
                }
            }
            clear(is_terminal);
        });
        let result = work();
        drop(done);
        result
    })
}

/// Prints a note for users, unless `--quiet` was given.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        eprintln!("steadfast: {text}");
    }
}

/// Draws a line over the previous one, if standard error is a terminal.
pub(crate) fn redraw(line: &str) {
    if std::io::stderr().is_terminal() && !is_quiet() {
        draw(line);
    }
}

/// A bar that is filled as far as `done` of `all`.
pub(crate) fn bar(done: u64, all: u64) -> String {
    let filled = (done.min(all) * WIDTH).checked_div(all).unwrap_or(WIDTH);
    let (filled, rest) = (filled as usize, (WIDTH - filled) as usize);
    format!("[{}{}]", "#".repeat(filled), "-".repeat(rest))
}

fn clear(is_terminal: bool) {
    if is_terminal {
        draw("");
    }
}

fn draw(line: &str) {
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
        bytes,
        ..
    } = progress;
    let size = units::size(*bytes);
    match progress.phase {
        BackupPhase::Starting => phase.to_owned(),
        BackupPhase::Checking => format!("{phase}: {size}"),
        _ => {
            format!(
                "{phase}: {done} of {partitions} partitions, {rows} rows, {events} events, {size}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_as_work_is_done() {
        assert_eq!(
            bar(5, 10),
            format!("[{}{}]", "#".repeat(15), "-".repeat(15))
        );
        assert_eq!(bar(0, 0), format!("[{}]", "#".repeat(30)));
        assert_eq!(bar(7, 3), format!("[{}]", "#".repeat(30)));
    }

    #[test]
    fn work_that_is_waited_for_returns_its_result() {
        assert_eq!(wait_for("working", || 7), 7);
    }
}
