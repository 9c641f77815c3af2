//! `steadfast bench`: one subcommand per area.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use steadfast_bench::report::Report;
use steadfast_bench::{
    cluster, collections, durable, events, jobs, postgres, realtime, runtime, storage,
};

use crate::output::progress::wait_for;
use crate::output::{OutputFormat, print_value};

#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Measure commits, event streams, recovery and reopen of the local engine
    ///
    /// Measures the disk's limits, fjall and Steadfast in turn, several times, and
    /// shows medians. A goal that is not met is shown as MISSED. Takes minutes and
    /// a few gigabytes of disk, which are freed.
    Storage(MeasureArguments),
    /// Measure transactions, reads and scans of reliable collections
    ///
    /// Measures the disk's limits, the bare ledger and the collections in turn,
    /// durable and volatile, several times, and shows medians. A goal that is not
    /// met is shown as MISSED. Takes minutes and a few gigabytes of disk, which are
    /// freed.
    Collections(MeasureArguments),
    /// Measure commands, timers and messages of the partition runtime
    ///
    /// Measures the machine's limits and Steadfast in turn, several times, and shows
    /// medians. A goal that is not met is shown as MISSED. Takes minutes and a few
    /// gigabytes of disk, which are freed.
    Runtime(MeasureArguments),
    /// Measure entities, locked transfers, activities and restart of task hubs
    ///
    /// Measures with workers in the same process and over gRPC, everything durable,
    /// and, where Restate is installed (NODE_PATH), its server with the same counter.
    /// A goal that is not met is shown as MISSED. Takes minutes and a few gigabytes of
    /// disk, which are freed.
    Durable(MeasureArguments),
    /// Measure events in and out by AMQP, idle consumers and restart
    ///
    /// Measures the limits of disk and loopback, Steadfast in a process of its own
    /// and, where redis-server is installed, Redis Streams in turn, several times,
    /// and shows medians. A goal that is not met is shown as MISSED. Takes minutes
    /// and a few gigabytes of disk, which are freed.
    Events(MeasureArguments),
    /// Measure dispatch, lateness, bursts and restart of jobs
    ///
    /// Measures with a receiver on the same machine and durable claims and, where
    /// redis-server and BullMQ are installed (NODE_PATH), BullMQ beside it. A goal
    /// that is not met is shown as MISSED. Takes minutes and a few gigabytes of disk,
    /// which are freed.
    Jobs(MeasureArguments),
    /// Measure idle connections, broadcasts, calls and moves of SignalR clients
    ///
    /// Measures with the service and its app servers in processes of their own and,
    /// where node is installed with socket.io and ws (NODE_PATH), both beside it. A
    /// goal that is not met is shown as MISSED. Takes minutes, and as many open files
    /// as there are clients.
    Realtime(MeasureArguments),
    /// Measure commits, events and takeover of the engine on PostgreSQL
    ///
    /// Measures the bare commit statement and Steadfast in turn, several times, on
    /// a cluster that is running already, in two schemas of its own, which it drops
    /// before and after. A goal that is not met is shown as MISSED.
    Postgres(PostgresArguments),
    /// Measure commits over three nodes, the cost of a hop, and tails across nodes
    ///
    /// Measures the bare commit statement, loopback and three nodes of one process in
    /// turn, several times, on a cluster of PostgreSQL that is running already, in two
    /// schemas of its own, which it drops before and after.
    Cluster(PostgresArguments),
    /// Fill a folder, print READY and wait to be killed
    #[command(hide = true)]
    StorageChild {
        /// The folder to fill
        folder: PathBuf,
        /// How many keys to put
        keys: u64,
    },
    /// Serve a folder, print READY and wait to be killed
    #[command(hide = true)]
    RuntimeChild {
        /// The folder to serve
        folder: PathBuf,
    },
    /// Serve the task hubs of a folder, print READY and wait to be killed
    #[command(hide = true)]
    DurableChild {
        /// The folder to serve
        folder: PathBuf,
    },
    /// Serve the task hubs of a folder by gRPC, print READY and a port, wait to be
    /// killed
    #[command(hide = true)]
    DurableServer {
        /// The folder to serve
        folder: PathBuf,
    },
    /// Serve the event hubs of a folder, print READY and a port, wait to be killed
    #[command(hide = true)]
    EventsChild {
        /// The folder to serve
        folder: PathBuf,
    },
    /// Serve the jobs of a folder, print READY and wait to be killed
    #[command(hide = true)]
    JobsChild {
        /// The folder to serve
        folder: PathBuf,
    },
    /// Serve SignalR clients, print READY and a port, wait to be killed
    #[command(hide = true)]
    RealtimeChild,
    /// Run an app server of a service, print READY, shut down when the input closes
    #[command(hide = true)]
    RealtimeApp {
        /// Host and port of the service
        service: String,
        /// Its name
        name: String,
    },
    /// Hold rows and print by how many MB the process has grown
    #[command(hide = true)]
    CollectionsChild {
        /// Number of rows
        rows: u64,
        /// The folder to fill; without it the rows are volatile
        folder: Option<PathBuf>,
    },
}

#[derive(Args)]
pub(crate) struct MeasureArguments {
    /// Run briefly to check that everything works; the numbers are not reliable
    #[arg(long)]
    quick: bool,
    /// How long each measurement takes, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// The folder whose disk is measured; it must exist
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct PostgresArguments {
    /// The cluster: postgres://user:password@host1,host2,host3/database
    #[arg(long, value_name = "URL")]
    url: String,
    /// The cluster is one server without standbys
    #[arg(long)]
    single: bool,
    /// Run briefly to check that everything works; the numbers are not reliable
    #[arg(long)]
    quick: bool,
}

/// Runs one area and prints its report.
pub(crate) fn run(area: &Benchmark, output: OutputFormat) -> Result<()> {
    match area {
        Benchmark::Storage(arguments) => run_storage(arguments, output),
        Benchmark::Runtime(arguments) => run_runtime(arguments, output),
        Benchmark::Postgres(arguments) => run_postgres(arguments, output),
        Benchmark::Cluster(arguments) => run_cluster(arguments, output),
        Benchmark::Collections(arguments) => run_collections(arguments, output),
        Benchmark::CollectionsChild { rows, folder } => {
            let volatile = collections::RowStorage::Volatile;
            let place = folder
                .clone()
                .map_or(volatile, collections::RowStorage::Durable);
            collections::hold(&place, *rows, std::io::stdout())
        }
        Benchmark::StorageChild { folder, keys } => {
            storage::fill(folder, *keys, std::io::stdin(), std::io::stdout())
        }
        Benchmark::Durable(arguments) => run_durable(arguments, output),
        Benchmark::DurableChild { folder } => {
            durable::serve(folder, std::io::stdin(), std::io::stdout())
        }
        Benchmark::DurableServer { folder } => {
            durable::serve_grpc(folder, std::io::stdin(), std::io::stdout())
        }
        Benchmark::Events(arguments) => run_events(arguments, output),
        Benchmark::EventsChild { folder } => {
            events::serve(folder, std::io::stdin(), std::io::stdout())
        }
        Benchmark::Jobs(arguments) => run_jobs(arguments, output),
        Benchmark::JobsChild { folder } => jobs::serve(folder, std::io::stdin(), std::io::stdout()),
        Benchmark::Realtime(arguments) => run_realtime(arguments, output),
        Benchmark::RealtimeChild => realtime::serve(std::io::stdin(), std::io::stdout()),
        Benchmark::RealtimeApp { service, name } => {
            realtime::serve_app(service, name, std::io::stdin(), std::io::stdout())
        }
        Benchmark::RuntimeChild { folder } => {
            runtime::serve(folder, std::io::stdin(), std::io::stdout())
        }
    }
}

fn run_storage(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        storage::Settings::quick(&arguments.dir, &executable)
    } else {
        storage::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || storage::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_collections(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        collections::Settings::quick(&arguments.dir, &executable)
    } else {
        collections::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || collections::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_runtime(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        runtime::Settings::quick(&arguments.dir, &executable)
    } else {
        runtime::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || runtime::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_durable(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        durable::Settings::quick(&arguments.dir, &executable)
    } else {
        durable::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || durable::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_events(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        events::Settings::quick(&arguments.dir, &executable)
    } else {
        events::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || events::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_jobs(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        jobs::Settings::quick(&arguments.dir, &executable)
    } else {
        jobs::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || jobs::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_realtime(arguments: &MeasureArguments, output: OutputFormat) -> Result<()> {
    let executable = std::env::current_exe().context("find this executable")?;
    let mut settings = if arguments.quick {
        realtime::Settings::quick(&arguments.dir, &executable)
    } else {
        realtime::Settings::full(&arguments.dir, &executable)
    };
    if let Some(duration) = arguments.seconds {
        settings.duration = duration;
    }
    let report = wait_for("measuring", || realtime::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_postgres(arguments: &PostgresArguments, output: OutputFormat) -> Result<()> {
    let settings = if arguments.quick {
        postgres::Settings::quick(&arguments.url, arguments.single)
    } else {
        postgres::Settings::full(&arguments.url, arguments.single)
    };
    let report = wait_for("measuring", || postgres::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn run_cluster(arguments: &PostgresArguments, output: OutputFormat) -> Result<()> {
    let settings = if arguments.quick {
        cluster::Settings::quick(&arguments.url, arguments.single)
    } else {
        cluster::Settings::full(&arguments.url, arguments.single)
    };
    let report = wait_for("measuring", || cluster::run(&settings))?;
    show(&report, output, arguments.quick)
}

fn show(report: &Report, output: OutputFormat, is_quick: bool) -> Result<()> {
    if output.is_structured() {
        return print_value(&serde_json::from_str(&report.json()?)?, output);
    }
    print!("{report}");
    if is_quick {
        println!("\nA quick run: it shows that everything works; the numbers are not reliable.");
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
