//! The tree of commands: nouns with their verbs. Former names work, but help does not
//! show them.

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::globals::Globals;
use crate::output::WatchArguments;
use crate::server::{audit, doctor, explain, logs, node, serve, top};
use crate::{
    bench, blob, cluster, config, context, entity, eventhub, hub, job, key, shell, state, store,
    strings, taskhub, workflow,
};

/// Durable state, event streams and messaging in one server.
#[derive(Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) globals: Globals,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a development server with well-known keys
    ///
    /// It listens on loopback only, keeps its data in ./steadfast-data, and prints
    /// every address and connection string, ready to paste.
    #[command(after_help = "\
Examples:
  steadfast dev
  steadfast dev --data try --set memory=256MiB")]
    Dev(serve::ServeArguments),
    /// Run a server
    ///
    /// It refuses to listen beyond loopback without keys, and without TLS unless
    /// tls.allow_plain is set. SIGTERM drains it, a second one ends it at once; SIGHUP
    /// reloads keys, certificate and log level.
    #[command(after_help = "Examples:\n  steadfast serve --config steadfast.toml")]
    Serve(serve::ServeArguments),
    /// Show server status
    #[command(after_help = "Examples:\n  steadfast status\n  steadfast status -o yaml")]
    Status(WatchArguments),
    /// Show the busiest partitions, refreshed every second
    #[command(after_help = "Examples:\n  steadfast top --count 2")]
    Top(top::TopArguments),
    /// Show the log of a running server
    #[command(after_help = "Examples:\n  steadfast logs --limit 20\n  steadfast logs --level warn")]
    Logs(logs::LogsArguments),
    /// Drain a server: finish in-flight work, hand over partitions, exit
    #[command(after_help = "Examples:\n  steadfast drain --limit 30")]
    Drain(node::DrainArguments),
    /// Reload keys, certificate and log level of a running server
    #[command(after_help = "Examples:\n  steadfast reload")]
    Reload,
    /// Check this machine for problems that affect a server
    #[command(after_help = "Examples:\n  steadfast doctor --config steadfast.toml")]
    Doctor(doctor::DoctorArguments),
    /// Explain an error code: what happened, why, and what to do
    #[command(after_help = "Examples:\n  steadfast explain STF-2001")]
    Explain(explain::ExplainArguments),
    /// List key changes, refusals and revoked connections
    #[command(subcommand)]
    Audit(audit::Command),
    /// Manage event hubs, their events, groups and dead letters
    #[command(name = "eventhub", subcommand)]
    EventHub(eventhub::Command),
    /// Start, show, diagnose and control orchestrations
    #[command(visible_alias = "orchestration")]
    Workflow {
        #[command(subcommand)]
        command: workflow::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
    },
    /// List, call and signal entities, and manage their locks
    Entity {
        #[command(subcommand)]
        command: entity::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
    },
    /// Show task hubs and their workers
    #[command(name = "taskhub", subcommand)]
    TaskHub(taskhub::Command),
    /// Manage SignalR hubs, their clients and app servers
    #[command(subcommand)]
    Hub(hub::Command),
    /// Create, run, show and preview jobs, and manage their collections
    Job {
        #[command(subcommand)]
        command: job::Command,
        #[command(flatten)]
        scope: job::scope::CollectionScope,
    },
    /// Read and write reliable collections
    #[command(subcommand)]
    State(state::Command),
    /// List and delete blobs
    #[command(subcommand)]
    Blob(blob::Command),
    /// Back up, restore, migrate and inspect stores
    #[command(subcommand)]
    Store(store::Command),
    /// Show nodes, move partitions, verify databases, manage region pairs
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Create, list, rotate and delete access keys
    #[command(subcommand)]
    Key(key::Command),
    /// Manage named servers for commands
    #[command(subcommand)]
    Context(context::Command),
    /// Write, check and show the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Measure this machine, a peer and Steadfast side by side
    #[command(
        subcommand,
        after_help = "Examples:\n  steadfast bench collections --quick"
    )]
    Bench(bench::Benchmark),
    /// Print completions for a shell
    #[command(after_help = "Examples:\n  steadfast completions bash")]
    Completions(shell::CompletionsArguments),
    /// Write manual pages
    #[command(after_help = "Examples:\n  steadfast man pages")]
    Man(shell::ManArguments),
    #[command(flatten)]
    Former(FormerCommand),
}

/// Former names of commands. They are kept, so that scripts go on working.
#[derive(Subcommand)]
pub(crate) enum FormerCommand {
    /// The former name of `job collection`
    #[command(hide = true)]
    Collection {
        #[command(subcommand)]
        command: job::collection::Command,
        #[command(flatten)]
        scope: job::scope::CollectionScope,
    },
    /// The former name of `eventhub send` and `eventhub tail`
    #[command(hide = true, subcommand)]
    Event(FormerEventCommand),
    /// The former name of `eventhub group`
    #[command(hide = true, subcommand)]
    Group(eventhub::group::Command),
    /// The former name of `eventhub dead-letter`
    #[command(hide = true, subcommand)]
    Parked(eventhub::dead_letter::Command),
    /// The former name of `hub client`, `hub send` and `hub token`
    #[command(hide = true, subcommand)]
    Client(hub::client::Command),
    /// The former name of `hub server`
    #[command(name = "appserver", hide = true, subcommand)]
    AppServer(hub::app_server::Command),
    /// The former name of `entity lock`
    #[command(hide = true)]
    Lock {
        #[command(subcommand)]
        command: entity::lock::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
    },
    /// The former name of `cluster region`
    #[command(hide = true, subcommand)]
    Region(cluster::region::Command),
    /// The former name of `store backup`
    #[command(hide = true)]
    Backup(store::backup::BackupArguments),
    /// The former name of `store restore`
    #[command(hide = true)]
    Restore(store::backup::RestoreArguments),
    /// The former name of `store migrate`
    #[command(hide = true)]
    Migrate(store::migrate::MigrateArguments),
    /// The former name of `store inspect`
    #[command(hide = true)]
    Inspect(store::inspect::InspectArguments),
}

#[derive(Subcommand)]
pub(crate) enum FormerEventCommand {
    /// The former name of `eventhub send`
    Send(eventhub::send::SendArguments),
    /// The former name of `eventhub tail`
    Tail(eventhub::tail::TailArguments),
}

impl Command {
    /// Whether it writes files that only their owner may read.
    pub(crate) fn keeps_state(&self) -> bool {
        matches!(
            self,
            Self::Dev(_)
                | Self::Serve(_)
                | Self::Store(_)
                | Self::Doctor(_)
                | Self::Former(
                    FormerCommand::Backup(_)
                        | FormerCommand::Restore(_)
                        | FormerCommand::Migrate(_)
                        | FormerCommand::Inspect(_)
                )
        )
    }

    /// Runs the command.
    pub(crate) fn run(&self, globals: &Globals) -> Result<()> {
        let output = globals.output();
        match self {
            Self::Dev(arguments) => serve::run(arguments, serve::ServerMode::Development, output),
            Self::Serve(arguments) => serve::run(arguments, serve::ServerMode::Production, output),
            Self::Status(watch) => watch.run(|| node::status(globals)),
            Self::Top(arguments) => top::run(arguments, globals),
            Self::Logs(arguments) => logs::run(arguments, globals),
            Self::Drain(arguments) => node::drain(arguments, globals),
            Self::Reload => node::reload(globals),
            Self::Doctor(arguments) => doctor::run(arguments, output),
            Self::Explain(arguments) => explain::run(arguments, globals),
            Self::Audit(command) => audit::run(command, globals),
            Self::EventHub(command) => eventhub::run(command, globals),
            Self::Workflow { command, hub } => workflow::run(command, hub, globals),
            Self::Entity { command, hub } => entity::run(command, hub, globals),
            Self::TaskHub(command) => taskhub::run(command, globals),
            Self::Hub(command) => hub::run(command, globals),
            Self::Job { command, scope } => job::run(command, scope, globals),
            Self::State(command) => state::run(command, globals),
            Self::Blob(command) => blob::run(command, globals),
            Self::Store(command) => store::run(command, globals),
            Self::Cluster(command) => cluster::run(command, globals),
            Self::Key(command) => key::run(command, globals),
            Self::Context(command) => context::run(command, globals, strings::strings),
            Self::Config(command) => config::run(command, output),
            Self::Bench(area) => bench::run(area, output),
            Self::Completions(arguments) => shell::completions::<Arguments>(arguments),
            Self::Man(arguments) => shell::man::<Arguments>(arguments, globals),
            Self::Former(command) => command.run(globals),
        }
    }
}

impl FormerCommand {
    fn run(&self, globals: &Globals) -> Result<()> {
        match self {
            Self::Collection { command, scope } => job::collection::run(command, scope, globals),
            Self::Event(FormerEventCommand::Send(arguments)) => {
                eventhub::send::run(arguments, globals)
            }
            Self::Event(FormerEventCommand::Tail(arguments)) => {
                eventhub::tail::run(arguments, globals)
            }
            Self::Group(command) => eventhub::group::run(command, globals),
            Self::Parked(command) => eventhub::dead_letter::run(command, globals),
            Self::Client(command) => hub::client::run(command, globals),
            Self::AppServer(command) => hub::app_server::run(command, globals),
            Self::Lock { command, hub } => entity::lock::run(command, hub, globals),
            Self::Region(command) => cluster::region::run(command, globals),
            Self::Backup(arguments) => store::backup::run(arguments, globals),
            Self::Restore(arguments) => store::backup::run_restore(arguments, globals),
            Self::Migrate(arguments) => store::migrate::run(arguments, globals),
            Self::Inspect(arguments) => store::inspect::run(arguments, globals),
        }
    }
}
