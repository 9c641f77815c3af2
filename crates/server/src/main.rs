//! The `steadfast` command.
//!
//! Exit codes: 0 success, 1 failure, 2 invalid arguments, 3 resource not found, 4 time-out.
//!
//! # Tests
//!
//! `crates/server/tests` runs the binary as a user does: `server_*.rs` are real servers
//! with real clients, signals, TLS, a collector of spans and a socket of systemd.
//!
//! - `tests/cluster_*.rs`: three nodes on PostgreSQL: they join, leave, are killed and
//!   frozen; a bank; unauthenticated peers; every service through every node; hubs, readers
//!   and processors over all of them; workers of one node for all; real SDKs at a node that
//!   owns nothing, and at nodes that are drained and killed.
//! - `tests/cluster_volatile.rs`: replicated volatile partitions with processes: a node
//!   leaves, one joins, two are killed with -9 under load, one is frozen, all are
//!   killed.
//! - `tests/cluster_isolated.rs`: a node that reaches the database but cannot be reached by
//!   other nodes gives up its partitions, and later acquires its share again.
//! - `tests/cluster_metrics.rs`: the counters of a node for stalled replay, lost responses
//!   of the database and late entries.
//! - `tests/cluster_shards.rs`: partitions over several databases: one of two loses its
//!   primary under load; a move that is killed again and again; scrub and backup.
//! - `tests/cluster_recipe.rs`: the guide's recipe with TLS; a node is reached at its
//!   advertised address.
//! - `tests/cluster_jobs.rs`: a node that is frozen with calls in progress makes none of
//!   them when it continues.
//! - `tests/cluster_stalled.rs`: peers of every kind stop reading under load for 30 s and
//!   are killed: health is answered within 100 ms, everything else continues.
//! - `tests/cluster_regions.rs`: two regions and a witness as processes: killed with their
//!   disks, frozen, cut off; a home for each collection, and names that both request;
//!   `jobs_46_..` to `jobs_50_..`.
//! - `tests/cluster_takeover.rs`: a region that takes over runs every missed occurrence, in
//!   order, behind one that waits.
//! - `tests/durable_bank.rs`: server and workers as processes that are killed.
//! - `tests/guard_rights.rs`, `tests/guard_hubs.rs` and `tests/guard_links.rs`: every route
//!   with every proof and grant.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]

mod allocator;
mod appserver;
mod audit;
mod backup;
mod bench;
mod blob;
mod client;
mod cluster;
mod completions;
mod config;
mod context;
mod doctor;
mod entity;
mod event;
mod eventhub;
mod exit;
mod group;
mod inspect;
mod job;
mod key;
mod migrate;
mod node;
mod orchestration;
mod out;
mod parked;
mod position;
mod progress;
mod region;
mod result;
mod serve;
mod server_client;
mod storage_address;
mod strings;
mod table;
mod tail;
mod taskhub;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::Target;
use table::OutputFormat;

/// Durable state, event streams and messaging in one server.
#[derive(Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
    /// Short for `--output json`
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a development server with well-known keys
    ///
    /// It listens on loopback only, keeps its data in ./steadfast-data, and prints
    /// every address and connection string, ready to paste.
    Dev(serve::ServeArguments),
    /// Run a server
    ///
    /// It refuses to listen beyond loopback without keys, and without TLS unless
    /// tls.allow_plain is set. SIGTERM drains it, a second one ends it at once; SIGHUP
    /// reloads keys, certificate and log level.
    Serve(serve::ServeArguments),
    /// Show server status
    Status(Target),
    /// Drain a server: finish in-flight work, hand over partitions, exit
    Drain(node::DrainArguments),
    /// Reload keys, certificate and log level of a running server
    Reload(Target),
    /// Show the nodes of a cluster and move partitions between them
    Cluster {
        #[command(subcommand)]
        command: cluster::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show a region pair and move its jobs between the regions
    Region {
        #[command(subcommand)]
        command: region::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Check this machine for problems that affect a server
    Doctor(doctor::DoctorArguments),
    /// Create, list, rotate and delete access keys
    Key {
        #[command(subcommand)]
        command: key::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show key changes, refusals and revoked connections
    Audit {
        #[command(subcommand)]
        command: audit::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Create, list, enable, disable and delete job collections
    Collection {
        #[command(subcommand)]
        command: job::CollectionSubcommand,
        #[command(flatten)]
        place: job::CollectionScope,
        #[command(flatten)]
        target: Target,
    },
    /// Create, run, show and preview jobs
    Job {
        #[command(subcommand)]
        command: job::JobSubcommand,
        #[command(flatten)]
        place: job::CollectionScope,
        #[command(flatten)]
        target: Target,
    },
    /// Create, show and delete event hubs
    #[command(name = "eventhub")]
    EventHub {
        #[command(subcommand)]
        command: eventhub::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Send and follow events
    Event {
        #[command(subcommand)]
        command: event::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show and move the checkpoints of consumer groups
    Group {
        #[command(subcommand)]
        command: group::Command,
        #[command(flatten)]
        target: Target,
    },
    /// List and delete containers and blobs
    Blob {
        #[command(subcommand)]
        command: blob::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show, call and close SignalR clients, and create tokens for them
    Client {
        #[command(subcommand)]
        command: client::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show and drain app servers of SignalR hubs
    #[command(name = "appserver")]
    AppServer {
        #[command(subcommand)]
        command: appserver::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show and replay dead letters: events that processors could not handle
    Parked {
        #[command(subcommand)]
        command: parked::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Start, show, diagnose and control orchestrations
    Orchestration {
        #[command(subcommand)]
        command: orchestration::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
        #[command(flatten)]
        target: Target,
    },
    /// Signal, call and show entities
    Entity {
        #[command(subcommand)]
        command: entity::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
        #[command(flatten)]
        target: Target,
    },
    /// Show and release locks of entities
    Lock {
        #[command(subcommand)]
        command: entity::LockSubcommand,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
        #[command(flatten)]
        target: Target,
    },
    /// Write, check and show the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Manage named servers for commands
    #[command(subcommand)]
    Context(context::Command),
    /// Back up a running server, a data folder or a database
    ///
    /// A backup is a folder inside DIR; an incremental backup builds on the newest one
    /// there. A running server keeps serving; its DIR is on the server's machine. A data
    /// folder or database must not be in use.
    Backup(backup::BackupArguments),
    /// Restore a backup into a running server, a data folder or a database
    ///
    /// A running server drains, restores and starts again. The backup is verified before
    /// anything is written, and the result is compared with it. An unfinished restore
    /// cannot be opened: run it again.
    Restore(backup::RestoreArguments),
    /// Move a store between a data folder and PostgreSQL
    ///
    /// Copies everything into an empty target, reads it back and compares it. Neither
    /// store may be in use. The source is not changed.
    Migrate(migrate::MigrateArguments),
    /// Show what a running server or a data folder holds
    ///
    /// Without a name it shows the partitions. A data folder must not be in use.
    Inspect(inspect::InspectArguments),
    /// Measure this machine, a peer and Steadfast side by side
    #[command(subcommand)]
    Bench(bench::Benchmark),
    /// Print completions for a shell
    Completions(completions::CompletionsArguments),
}

impl Command {
    /// Whether it writes files that only their owner may read.
    fn keeps_state(&self) -> bool {
        matches!(
            self,
            Self::Dev(_)
                | Self::Serve(_)
                | Self::Backup(_)
                | Self::Restore(_)
                | Self::Migrate(_)
                | Self::Doctor(_)
        )
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // All TLS in this process uses ring; the provider can be installed only once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if arguments.command.keeps_state() {
        // Also applies to files that libraries create, such as tables.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steadfast: {error:#}");
            exit::code(&error)
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let output = if arguments.json {
        OutputFormat::Json
    } else {
        arguments.output
    };
    match &arguments.command {
        Command::Dev(arguments) => serve::run(arguments, serve::ServerMode::Development, output),
        Command::Serve(arguments) => serve::run(arguments, serve::ServerMode::Production, output),
        Command::Status(target) => node::status(target, output),
        Command::Drain(arguments) => node::drain(arguments, output),
        Command::Reload(target) => node::reload(target, output),
        Command::Cluster { command, target } => cluster::run(command, target, output),
        Command::Region { command, target } => region::run(command, target, output),
        Command::Doctor(arguments) => doctor::run(arguments, output),
        Command::Key { command, target } => key::run(command, target, output),
        Command::Audit { command, target } => audit::run(command, target, output),
        Command::Collection {
            command,
            place,
            target,
        } => job::collections(command, place, target, output),
        Command::Job {
            command,
            place,
            target,
        } => job::jobs(command, place, target, output),
        Command::EventHub { command, target } => eventhub::run(command, target, output),
        Command::Event { command, target } => event::run(command, target, output),
        Command::Group { command, target } => group::run(command, target, output),
        Command::Blob { command, target } => blob::run(command, target, output),
        Command::Client { command, target } => client::run(command, target, output),
        Command::AppServer { command, target } => appserver::run(command, target, output),
        Command::Parked { command, target } => parked::run(command, target, output),
        Command::Orchestration {
            command,
            hub,
            target,
        } => orchestration::run(command, hub, target, output),
        Command::Entity {
            command,
            hub,
            target,
        } => entity::run(command, hub, target, output),
        Command::Lock {
            command,
            hub,
            target,
        } => entity::locks(command, hub, target, output),
        Command::Config(command) => config::run(command, output),
        Command::Context(command) => context::run(command, strings::strings, output),
        Command::Backup(arguments) => backup::run(arguments, output),
        Command::Restore(arguments) => backup::run_restore(arguments, output),
        Command::Migrate(arguments) => migrate::run(arguments, output),
        Command::Inspect(arguments) => inspect::run(arguments, output),
        Command::Bench(area) => bench::run(area, output),
        Command::Completions(arguments) => completions::run::<Arguments>(arguments),
    }
}
