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

use steadfast::admin::WorkProgress;
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
    follow(what, || None, work)
}

/// Shows for how long an operation has been running, and how far it is, where `look` can
/// tell.
pub(crate) fn follow<T>(
    what: &str,
    mut look: impl FnMut() -> Option<WorkProgress> + Send,
    work: impl FnOnce() -> T,
) -> T {
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
                let elapsed = units::elapsed(clock.monotonic().as_secs());
                let line = work_line(what, &elapsed, look(), is_terminal);
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

fn work_line(what: &str, elapsed: &str, now: Option<WorkProgress>, is_terminal: bool) -> String {
    let line = format!("{what}: {elapsed}");
    let Some(WorkProgress { partitions, done }) = now.filter(|now| now.partitions > 0) else {
        return line;
    };
    let line = format!("{line}, {done} of {partitions} partitions");
    if is_terminal {
        bar(done as u64, partitions as u64) + " " + &line
    } else {
        line
    }
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
    let size = rustix::termios::tcgetwinsize(&terminal);
    let columns = size.map_or(usize::MAX, |size| usize::from(size.ws_col));
    let line = in_width(line, columns);
    // Errors of a closed terminal are ignored.
    let _ = write!(terminal, "\r\x1b[2K{line}");
    let _ = terminal.flush();
}

/// The part of a line that does not reach the last column: a longer one would be wrapped,
/// and only its end drawn over. A terminal without a size says 0.
fn in_width(line: &str, columns: usize) -> &str {
    let fits = if columns == 0 {
        usize::MAX
    } else {
        columns - 1
    };
    let end = line.char_indices().nth(fits);
    end.map_or(line, |(end, _)| &line[..end])
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
    fn a_line_is_not_wrapped() {
        assert_eq!(in_width("reading: 10 %", 9), "reading:");
        assert_eq!(in_width("größer", 4), "grö");
        assert_eq!(in_width("reading", 80), "reading");
        assert_eq!(in_width("reading", 0), "reading");
    }

    #[test]
    fn work_that_is_waited_for_returns_its_result() {
        assert_eq!(wait_for("working", || 7), 7);
    }

    #[test]
    fn work_shows_how_far_it_is() {
        let now = Some(WorkProgress {
            partitions: 16,
            done: 4,
        });
        let line = work_line("draining", "3 s", now, false);
        assert_eq!(line, "draining: 3 s, 4 of 16 partitions");
        let drawn = work_line("draining", "3 s", now, true);
        assert!(drawn.starts_with("[#######---"), "{drawn}");
        assert_eq!(work_line("draining", "3 s", None, true), "draining: 3 s");
    }
}
