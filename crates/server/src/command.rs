//! The tree of commands: nouns with their verbs. Former names work, but help does not
//! show them.

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::globals::Globals;
use crate::output::WatchArguments;
use crate::server::{audit, doctor, explain, logs, node, serve, time, top};
use crate::{config, context, key, shell, state, store, strings};

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
  steadfast dev --data try --set memory=256MiB
  steadfast dev --set engine=memory --virtual-time")]
    Dev(serve::DevArguments),
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
    /// Show and move the time of a server on virtual time
    #[command(subcommand)]
    Time(time::Command),
    #[cfg(feature = "eventhubs")]
    #[command(flatten)]
    EventHubs(crate::capability::eventhubs::Command),
    #[cfg(feature = "durabletask")]
    #[command(flatten)]
    TaskHubs(crate::capability::durabletask::Command),
    #[cfg(feature = "signalr")]
    #[command(flatten)]
    Hubs(crate::capability::signalr::Command),
    #[cfg(feature = "scheduler")]
    #[command(flatten)]
    Jobs(crate::capability::scheduler::Command),
    /// Read and write reliable collections
    #[command(subcommand)]
    State(state::Command),
    /// Back up, restore, migrate and inspect stores
    #[command(subcommand)]
    Store(store::Command),
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    Cluster(crate::capability::cluster::Command),
    /// Create, list, rotate and delete access keys
    #[command(subcommand)]
    Key(key::Command),
    /// Manage named servers for commands
    #[command(subcommand)]
    Context(context::Command),
    /// Write, check and show the configuration
    #[command(subcommand)]
    Config(config::Command),
    #[cfg(feature = "bench")]
    #[command(flatten)]
    Bench(crate::capability::bench::Command),
    /// Print completions for a shell
    #[command(after_help = "Examples:\n  steadfast completions bash")]
    Completions(shell::CompletionsArguments),
    /// Write manual pages
    #[command(after_help = "Examples:\n  steadfast man pages")]
    Man(shell::ManArguments),
    #[command(flatten)]
    Former(FormerCommand),
}

/// Former names of commands that every build has. They are kept, so that scripts go on working.
#[derive(Subcommand)]
pub(crate) enum FormerCommand {
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
            Self::Dev(arguments) => serve::run_dev(arguments, output),
            Self::Serve(arguments) => serve::run(arguments, output),
            Self::Status(watch) => watch.run(|| node::status(globals)),
            Self::Top(arguments) => top::run(arguments, globals),
            Self::Logs(arguments) => logs::run(arguments, globals),
            Self::Drain(arguments) => node::drain(arguments, globals),
            Self::Reload => node::reload(globals),
            Self::Doctor(arguments) => doctor::run(arguments, output),
            Self::Explain(arguments) => explain::run(arguments, globals),
            Self::Audit(command) => audit::run(command, globals),
            Self::Time(command) => time::run(command, globals),
            #[cfg(feature = "eventhubs")]
            Self::EventHubs(command) => crate::capability::eventhubs::run(command, globals),
            #[cfg(feature = "durabletask")]
            Self::TaskHubs(command) => crate::capability::durabletask::run(command, globals),
            #[cfg(feature = "signalr")]
            Self::Hubs(command) => crate::capability::signalr::run(command, globals),
            #[cfg(feature = "scheduler")]
            Self::Jobs(command) => crate::capability::scheduler::run(command, globals),
            Self::State(command) => state::run(command, globals),
            Self::Store(command) => store::run(command, globals),
            #[cfg(feature = "cluster")]
            Self::Cluster(command) => crate::capability::cluster::run(command, globals),
            Self::Key(command) => key::run(command, globals),
            Self::Context(command) => context::run(command, globals, strings::strings),
            Self::Config(command) => config::run(command, output),
            #[cfg(feature = "bench")]
            Self::Bench(command) => crate::capability::bench::run(command, globals),
            Self::Completions(arguments) => shell::completions::<Arguments>(arguments),
            Self::Man(arguments) => shell::man::<Arguments>(arguments, globals),
            Self::Former(command) => command.run(globals),
        }
    }
}

impl FormerCommand {
    fn run(&self, globals: &Globals) -> Result<()> {
        match self {
            Self::Backup(arguments) => store::backup::run(arguments, globals),
            Self::Restore(arguments) => store::backup::run_restore(arguments, globals),
            Self::Migrate(arguments) => store::migrate::run(arguments, globals),
            Self::Inspect(arguments) => store::inspect::run(arguments, globals),
        }
    }
}
