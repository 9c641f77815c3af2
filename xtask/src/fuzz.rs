//! `cargo xtask soak fuzz`: libFuzzer around every target.
//!
//! The workspace `fuzz/` is built with coverage counters in our own crates. Inputs that a
//! run keeps stay below `target/fuzz`, with a log of each target. A failing target is
//! restarted until its time is over; the end of the run lists each failing input with the
//! command that executes it again.

use std::fs::{self, File, Metadata};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;
use crate::workspace::Workspace;

/// How long a target is fuzzed, unless the command line says otherwise.
const HOUR: u64 = 3600;

/// Longest input.
const MOST_BYTES: usize = 64 * 1024;

/// The limits of wall time, in seconds, and memory, in megabytes, of one input. An execution
/// limits its CPU time itself; this catches one that waits indefinitely.
const MOST_SECONDS: u64 = 600;
const MOST_MEGABYTES: u64 = 2048;

/// The number of failures after which a target is abandoned.
const MOST_FAILURES: u64 = 20;

/// Stands before the time at which a program was started, in a log.
const BEGIN: &str = "BEGIN ";

/// The targets to fuzz, and for how long.
#[derive(Args, Clone, Default)]
#[group(skip)]
pub(crate) struct Options {
    /// Fuzz only this target
    #[arg(long)]
    target: Option<String>,
    /// Seconds for each target; 0 executes the inputs of earlier runs
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of targets to fuzz at a time
    #[arg(long)]
    jobs: Option<usize>,
    /// Add inputs with new coverage to the corpus in the repository
    #[arg(long)]
    keep: bool,
    /// Execute only the input in this file
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
    /// Print the results of the last run so far, without fuzzing
    #[arg(long)]
    report: bool,
}

/// Fuzzes the targets; false if one has failed.
pub(crate) fn soak(workspace: &Workspace, options: &Options, seed: Option<u64>) -> Result<bool> {
    let folder = workspace.target.join("fuzz");
    if options.report {
        return report(&folder);
    }
    let program = build(workspace, &folder)?;
    let targets = chosen(&program, options.target.as_deref())?;
    if let (Some(input), [target]) = (&options.input, &targets[..]) {
        let mut command = Command::new(&program);
        command.env("STEADFAST_FUZZ_TARGET", target).arg(input);
        process::run(&mut command)?;
        return Ok(true);
    }
    let seconds = options.seconds.unwrap_or(HOUR);
    let seed = seed.unwrap_or(1);
    let waiting = Mutex::new(targets.into_iter());
    let ended = Mutex::new(Vec::new());
    let work = || {
        // The guard must not be held while the target runs.
        while let Some(target) = { lock(&waiting).next() } {
            let done = TargetFolders::new(workspace, &folder, &target).and_then(|places| {
                let row = fuzz(&program, &target, &places, seconds, seed)?;
                println!("{row}");
                if options.keep {
                    keep(&program, &target, &places)?;
                }
                Ok(row)
            });
            lock(&ended).push(done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(1).max(1) {
            scope.spawn(work);
        }
    });
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    show(ended.into_iter().collect::<Result<Vec<_>>>()?)
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the program with coverage counters. They are enabled for single packages, which
/// needs unstable cargo.
fn build(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("CARGO_INCREMENTAL")
        .args(["build", "--locked", "--manifest-path", "fuzz/Cargo.toml"])
        .arg("--target-dir")
        .arg(folder);
    process::run(&mut command)?;
    Ok(folder.join("debug/steadfast-fuzzer"))
}

/// The named target, or all of them.
fn chosen(program: &Path, name: Option<&str>) -> Result<Vec<String>> {
    let mut command = Command::new(program);
    let listed = process::output(command.env("STEADFAST_FUZZ_TARGET", "list"))?;
    let all: Vec<_> = listed.lines().map(str::to_owned).collect();
    match name {
        None => Ok(all),
        Some(name) if all.iter().any(|own| own == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!("no target {name}; there are {}", all.join(", ")),
    }
}

/// The folders of one target.
struct TargetFolders {
    /// Inputs of this and of earlier runs.
    found: PathBuf,
    /// Inputs in the repository.
    kept: PathBuf,
    /// Inputs that failed.
    failed: PathBuf,
    log: PathBuf,
}

impl TargetFolders {
    fn new(workspace: &Workspace, folder: &Path, target: &str) -> Result<Self> {
        let places = Self {
            found: folder.join("found").join(target),
            kept: workspace.root.join("crates/fuzz/corpus").join(target),
            failed: folder.join("failed").join(target),
            log: folder.join("logs").join(format!("{target}.log")),
        };
        let folders = [
            &places.found,
            &places.kept,
            &places.failed,
            &folder.join("logs"),
        ];
        for folder in folders {
            let made = fs::create_dir_all(folder);
            made.with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(places)
    }
}

/// Fuzzes one target until its time is over. Each start after a failure has another seed.
fn fuzz(
    program: &Path,
    target: &str,
    places: &TargetFolders,
    seconds: u64,
    seed: u64,
) -> Result<Row> {
    let log = File::create(&places.log).context("cannot make the log")?;
    let shown = places.log.display();
    eprintln!("fuzzing {target} for {seconds} s, log in {shown}");
    for start in 0..MOST_FAILURES {
        begin(&log)?;
        let row = read(target, &places.log)?;
        let left = seconds.saturating_sub(row.seconds);
        if start > 0 && left == 0 {
            break;
        }
        let mut command = Command::new(program);
        command
            .env("STEADFAST_FUZZ_TARGET", target)
            .env("STEADFAST_FUZZ_SEEDS", &places.found)
            .arg(&places.found)
            .arg(&places.kept)
            .arg(format!("-artifact_prefix={}/", places.failed.display()))
            .arg(format!("-seed={}", seed + start))
            .arg(format!("-max_len={MOST_BYTES}"))
            .arg(format!("-timeout={MOST_SECONDS}"))
            .arg(format!("-rss_limit_mb={MOST_MEGABYTES}"))
            .args(["-print_final_stats=1", "-detect_leaks=0"])
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log.try_clone().context("cannot share the log")?);
        match left {
            0 => command.arg("-runs=0"),
            left => command.arg(format!("-max_total_time={left}")),
        };
        let status = command.status().context("cannot start the fuzzer")?;
        if status.success() {
            break;
        }
    }
    read(target, &places.log)
}

/// Writes the time into the log.
fn begin(mut log: &File) -> Result<()> {
    writeln!(log).context("cannot write the log")?;
    let written = seconds_of(&log.metadata().context("cannot read the log")?);
    writeln!(log, "{BEGIN}{written}").context("cannot write the log")
}

/// When a file was last written.
fn seconds_of(file: &Metadata) -> u64 {
    let written = file.modified().ok();
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    written.map_or(0, |time| time.as_secs())
}

/// Copies a minimal set of inputs that reach new edges into the corpus. The hit count of an
/// edge is ignored: it would keep ten times as many inputs.
fn keep(program: &Path, target: &str, places: &TargetFolders) -> Result<()> {
    let log = File::create(places.log.with_extension("kept")).context("cannot make the log")?;
    let mut command = Command::new(program);
    command
        .env("STEADFAST_FUZZ_TARGET", target)
        .args(["-set_cover_merge=1", "-use_counters=0", "-detect_leaks=0"])
        .arg(&places.kept)
        .arg(&places.found)
        .stderr(log);
    process::run(&mut command)
}

/// Prints a summary of the logs.
fn report(folder: &Path) -> Result<bool> {
    let logs = fs::read_dir(folder.join("logs")).context("there is no log")?;
    let mut logs: Vec<_> = logs.filter_map(|file| Some(file.ok()?.path())).collect();
    logs.retain(|file| file.extension().is_some_and(|own| own == "log"));
    logs.sort();
    let rows = logs.iter().map(|log| {
        let target = log.file_stem().unwrap_or_default().to_string_lossy();
        read(&target, log)
    });
    show(rows.collect::<Result<_>>()?)
}

/// The results of one target.
#[derive(Debug, Default, Eq, PartialEq)]
struct Row {
    target: String,
    seconds: u64,
    executions: u64,
    edges: u64,
    features: u64,
    inputs: u64,
    failed: Vec<PathBuf>,
}

impl std::fmt::Display for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            target,
            seconds,
            executions,
            edges,
            features,
            inputs,
            failed,
        } = self;
        let failed = failed.len();
        write!(
            out,
            "{target:<14}{seconds:>8}{executions:>12}{edges:>8}{features:>10}{inputs:>8}{failed:>8}"
        )
    }
}

/// Prints a table and the commands that execute failed inputs again; false if any failed.
fn show(mut rows: Vec<Row>) -> Result<bool> {
    rows.sort_by(|one, other| one.target.cmp(&other.target));
    println!("\ntarget         seconds  executions   edges  features  inputs  failed");
    for row in &rows {
        println!("{row}");
    }
    for row in &rows {
        for input in &row.failed {
            let (target, input) = (&row.target, input.display());
            println!("cargo xtask soak fuzz --target {target} --input {input}");
        }
    }
    Ok(rows.iter().all(|row| row.failed.is_empty()))
}

/// Reads the log of one target, also while it is written.
fn read(target: &str, log: &Path) -> Result<Row> {
    let text = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    let metadata = fs::metadata(log).context("cannot read the log")?;
    Ok(parse(target, &text, seconds_of(&metadata)))
}

/// Sums up the starts of a log that was last written at `end`.
fn parse(target: &str, log: &str, end: u64) -> Row {
    let mut row = Row {
        target: target.to_owned(),
        ..Row::default()
    };
    for start in log.split(BEGIN).skip(1) {
        let last = |label: &str| start.rsplit_once(label).and_then(|(_, rest)| number(rest));
        let ended = last("stat::number_of_executed_units:");
        row.executions += ended.or_else(|| last("\n#")).unwrap_or(0);
        row.edges = row.edges.max(last(" cov: ").unwrap_or(0));
        row.features = row.features.max(last(" ft: ").unwrap_or(0));
        row.inputs = last(" corp: ").unwrap_or(row.inputs);
        let written = start.split("Test unit written to ").skip(1);
        let written = written.filter_map(|rest| rest.lines().next());
        row.failed.extend(written.map(PathBuf::from));
    }
    let began = log.split(BEGIN).nth(1).and_then(number);
    row.seconds = end.saturating_sub(began.unwrap_or(end));
    row
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|own: char| !own.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_starts_of_a_log_are_summed_up() {
        let log = "\nBEGIN 100\n#2 INITED cov: 10 ft: 11 corp: 1/1b exec/s: 0\n\
            #9 NEW cov: 25 ft: 31 corp: 3/9b exec/s: 4\n\
            Test unit written to /x/crash-1\nstat::number_of_executed_units: 9\n\
            \nBEGIN 107\n#12 DONE cov: 24 ft: 35 corp: 4/9b exec/s: 4\n\
            Done 12 runs in 20 second(s)\nstat::number_of_executed_units: 12\n\
            \nBEGIN 127\n#5 pulse cov: 24 ft: 35 corp: 4/9b\n";
        let expected = Row {
            target: "a".to_owned(),
            seconds: 27,
            executions: 26,
            edges: 25,
            features: 35,
            inputs: 4,
            failed: vec![PathBuf::from("/x/crash-1")],
        };
        assert_eq!(parse("a", log, 127), expected);
    }
}
