//! Printing of command results.

use anyhow::{Context, Result};
use serde_json::Value;
use steadfast::clock::{Clock, SystemClock};
use steadfast::storage::backup::BackupProgress;
use tokio::sync::watch;

use super::format::{OutputFormat, print_value};
use super::stdout::out;
use super::table::display_value;

/// Named values.
pub(crate) type Facts = Vec<(&'static str, Value)>;

/// Runs a future on a new runtime and measures its duration.
pub(crate) fn timed<T>(
    work: impl AsyncFnOnce(&watch::Sender<BackupProgress>) -> steadfast::storage::Result<T>,
) -> Result<(T, f64)> {
    let clock = SystemClock::new();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().context("start a runtime")?;
    let (progress, _) = watch::channel(BackupProgress::default());
    let done = runtime.block_on(work(&progress))?;
    let seconds = clock.monotonic().as_secs_f64();
    Ok((done, (seconds * 1000.0).round() / 1000.0))
}

/// Prints a result.
pub(crate) fn print(facts: &[(&'static str, Value)], output: OutputFormat) -> Result<()> {
    if output.is_structured() {
        let name = |name: &str| name.replace(' ', "_");
        let object = facts.iter().map(|(key, value)| (name(key), value.clone()));
        return print_value(&Value::Object(object.collect()), output);
    }
    let width = facts.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let lines = facts
        .iter()
        .map(|(key, value)| format!("{key:width$}  {}", display_value(value)));
    out(&lines.collect::<Vec<_>>().join("\n"))
}
