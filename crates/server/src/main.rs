//! The `steadfast` command.
//!
//! Exit codes: 0 if it did what was asked, 1 if it failed, 2 if it was not
//! understood, 3 if there is no such thing, 4 if it took too long.
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
mod origin;
mod out;
mod parked;
mod place;
mod progress;
mod region;
mod remote;
mod result;
mod serve;
mod strings;
mod table;
mod tail;
mod taskhub;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::Target;
use table::Output;

/// Durable state, event streams and messaging in one server.
#[derive(Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// How to print the result
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Short for `--output json`
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server for development, with keys that everybody knows
    ///
    /// It listens on loopback only, keeps its data in ./steadfast-data, and prints
    /// every address and connection string, ready to paste.
    Dev(serve::Serve),
    /// Run a server
    ///
    /// It refuses to listen beyond loopback without keys, and without TLS unless
    /// told. SIGTERM drains it, a second one ends it at once; SIGHUP has it read
    /// keys, certificate and log level again.
    Serve(serve::Serve),
    /// Show how a running server is
    Status(Target),
    /// Have a running server leave: complete or hand over everything, then end
    Drain(node::Drain),
    /// Have a running server read keys, certificate and log level again
    Reload(Target),
    /// Show the nodes of a cluster, and move partitions between them
    Cluster {
        #[command(subcommand)]
        command: cluster::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show a pair of regions, and move its jobs from one to the other
    Region {
        #[command(subcommand)]
        command: region::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Look for what would keep a server from running well here
    Doctor(doctor::Doctor),
    /// Make, list, rotate and delete the keys of a running server
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
    /// Make, list, enable, disable and delete collections of jobs
    Collection {
        #[command(subcommand)]
        command: job::Collections,
        #[command(flatten)]
        place: job::Place,
        #[command(flatten)]
        target: Target,
    },
    /// Make, run, show and preview jobs
    Job {
        #[command(subcommand)]
        command: job::Jobs,
        #[command(flatten)]
        place: job::Place,
        #[command(flatten)]
        target: Target,
    },
    /// Make, show and delete event hubs
    #[command(name = "eventhub")]
    EventHub {
        #[command(subcommand)]
        command: eventhub::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Send events, and show them as they come
    Event {
        #[command(subcommand)]
        command: event::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show and move how far consumer groups have come
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
    /// Show, tell and close clients of hubs, and make tokens for them
    Client {
        #[command(subcommand)]
        command: client::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show app servers of hubs
    #[command(name = "appserver")]
    AppServer {
        #[command(subcommand)]
        command: appserver::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Show events that nobody could handle, and have them handled again
    Parked {
        #[command(subcommand)]
        command: parked::Command,
        #[command(flatten)]
        target: Target,
    },
    /// Start, show, explain and steer orchestrations
    Orchestration {
        #[command(subcommand)]
        command: orchestration::Command,
        #[command(flatten)]
        hub: taskhub::Hub,
        #[command(flatten)]
        target: Target,
    },
    /// Signal, call and show entities
    Entity {
        #[command(subcommand)]
        command: entity::Command,
        #[command(flatten)]
        hub: taskhub::Hub,
        #[command(flatten)]
        target: Target,
    },
    /// Show and release locks of entities
    Lock {
        #[command(subcommand)]
        command: entity::Locks,
        #[command(flatten)]
        hub: taskhub::Hub,
        #[command(flatten)]
        target: Target,
    },
    /// Write, check and show configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Name servers, so that commands find them
    #[command(subcommand)]
    Context(context::Command),
    /// Back a running server, a data folder or a database up
    ///
    /// A backup is a folder inside DIR, and an incremental one builds on the newest
    /// that is there. A running server goes on working meanwhile; its DIR is on its own
    /// machine. Data that is named must not be in use.
    Backup(backup::Backup),
    /// Bring a backup back into a running server, a data folder or a database
    ///
    /// A running server leaves, restores and starts again. Everything is verified before anything is written, and compared after it. An
    /// unfinished restore cannot be opened: run it again.
    Restore(backup::Restore),
    /// Move a store between a data folder and PostgreSQL
    ///
    /// A full copy into an empty place, which is then read back and compared. Nobody
    /// may use either place meanwhile. The old state stays as it is.
    Migrate(migrate::Migrate),
    /// Show what a running server or a data folder holds
    ///
    /// Without a name: its partitions. Nobody else may have a data folder open.
    Inspect(inspect::Inspect),
    /// Measure this machine, a peer and Steadfast side by side
    #[command(subcommand)]
    Bench(bench::Area),
    /// Print what a shell needs to complete commands
    Completions(completions::Completions),
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
    // Whoever encrypts in this process does it with ring; it can only be set once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if arguments.command.keeps_state() {
        // Also for files that other libraries make, such as those of tables.
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
    let output = match arguments.json {
        true => Output::Json,
        false => arguments.output,
    };
    match &arguments.command {
        Command::Dev(arguments) => serve::run(arguments, serve::Mode::Development, output),
        Command::Serve(arguments) => serve::run(arguments, serve::Mode::Production, output),
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
