//! `steadfast bench`: one subcommand per area.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use steadfast_bench::report::Report;
use steadfast_bench::{runtime, storage};

#[derive(Subcommand)]
pub(crate) enum Area {
    /// Commits, event streams, recovery and reopen of the local engine
    ///
    /// Measures the disk's limits, fjall and Steadfast in turn, several times, and
    /// shows medians. A goal that is not met is shown as MISSED. Takes minutes and
    /// a few gigabytes of disk, which are given back.
    Storage(Measure),
    /// Commands, timers and messages of the partition runtime
    ///
    /// Measures the machine's limits and Steadfast in turn, several times, and shows
    /// medians. A goal that is not met is shown as MISSED. Takes minutes and a few
    /// gigabytes of disk, which are given back.
    Runtime(Measure),
    /// Fills a folder, says READY and waits to be killed
    #[command(hide = true)]
    StorageChild {
        /// The folder to fill
        folder: PathBuf,
        /// How many keys to put
        keys: u64,
    },
    /// Serves a folder, says READY and waits to be killed
    #[command(hide = true)]
    RuntimeChild {
        /// The folder to serve
        folder: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Measure {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Only show that everything works: short, and no number can be trusted
    #[arg(long)]
    quick: bool,
    /// How long each measurement takes, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// The folder whose disk is measured; it must exist
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Runs one area and prints its report.
pub(crate) fn run(area: &Area) -> Result<()> {
    match area {
        Area::Storage(arguments) => run_storage(arguments),
        Area::Runtime(arguments) => run_runtime(arguments),
        Area::StorageChild { folder, keys } => {
            storage::fill(folder, *keys, std::io::stdin(), std::io::stdout())
        }
        Area::RuntimeChild { folder } => {
            runtime::serve(folder, std::io::stdin(), std::io::stdout())
        }
    }
}

fn run_storage(arguments: &Measure) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = match arguments.quick {
        true => storage::Settings::quick(&arguments.dir, &executable),
        false => storage::Settings::full(&arguments.dir, &executable),
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    show(arguments, &storage::run(&settings)?)
}

fn run_runtime(arguments: &Measure) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = match arguments.quick {
        true => runtime::Settings::quick(&arguments.dir, &executable),
        false => runtime::Settings::full(&arguments.dir, &executable),
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    show(arguments, &runtime::run(&settings)?)
}

fn show(arguments: &Measure, report: &Report) -> Result<()> {
    if arguments.json {
        println!("{}", report.json()?);
        return Ok(());
    }
    print!("{report}");
    if arguments.quick {
        println!("\nA quick run: it shows that everything works, and no number can be trusted.");
    }
    Ok(())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match seconds {
        0.01..=600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be between 0.01 and 600".to_string()),
    }
}
