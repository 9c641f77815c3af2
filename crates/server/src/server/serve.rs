//! `steadfast dev` and `steadfast serve`.
//!
//! The node runs until a signal stops it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use serde_json::json;
use steadfast::Node;
use steadfast::admin::DrainReport;
use steadfast::clock::{Clock, SteppedClock, SystemClock};
use steadfast::config::{Config, LogFormat};
use steadfast::net::telemetry::{Format, Telemetry};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::allocator;
use crate::config::{Settings, not_started};
use crate::exit::CommandError;
use crate::output::{OutputFormat, out, print, print_value};
use crate::server::node::facts;

/// The time limit for closing connections after the drain.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
pub(crate) struct DevArguments {
    #[command(flatten)]
    serve: ServeArguments,
    /// Let the time stand still until a test moves it (steadfast time advance)
    #[arg(long)]
    virtual_time: bool,
}

/// The kind of server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerMode {
    /// Well-known keys, loopback only.
    Development,
    /// Configured keys.
    Production,
}

/// Runs a development server until it is stopped.
pub(crate) fn run_dev(arguments: &DevArguments, output: OutputFormat) -> Result<()> {
    let time = arguments
        .virtual_time
        .then(|| SteppedClock::starting_at(SystemClock::new().now()));
    start(&arguments.serve, ServerMode::Development, time, output)
}

/// Runs a server until it is stopped.
pub(crate) fn run(arguments: &ServeArguments, output: OutputFormat) -> Result<()> {
    start(arguments, ServerMode::Production, None, output)
}

/// Runs a node until it is stopped; on virtual time if there is a clock.
fn start(
    arguments: &ServeArguments,
    mode: ServerMode,
    time: Option<SteppedClock>,
    output: OutputFormat,
) -> Result<()> {
    allocator::set_up();
    let config = arguments.settings.config()?;
    allow_files();
    let telemetry = Telemetry::start(&config.log_level, format(&config));
    let telemetry = Arc::new(telemetry.map_err(anyhow::Error::msg)?);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().context("start a runtime")?;
    let kind = (mode, time);
    let served = runtime.block_on(serve(arguments, config, &telemetry, kind, output));
    // Tasks that still run are cut off: their time limit has passed.
    runtime.shutdown_timeout(Duration::from_millis(100));
    telemetry.end();
    served
}

/// Raises the limit of open files to the maximum: every connection is a file.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // On failure the limit stays; `steadfast doctor` reports it.
    let _ = setrlimit(Resource::Nofile, all);
}

fn format(config: &Config) -> Format {
    match config.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
        LogFormat::Auto if std::io::stderr().is_terminal() => Format::Text,
        LogFormat::Auto => Format::Json,
    }
}

async fn serve(
    arguments: &ServeArguments,
    config: Config,
    telemetry: &Arc<Telemetry>,
    (mode, time): (ServerMode, Option<SteppedClock>),
    output: OutputFormat,
) -> Result<()> {
    let mut signals = ServerSignals::new()?;
    let limit = config.drain_limit;
    let settings = arguments.settings.clone();
    let reread = move || settings.config().map_err(|error| format!("{error:#}"));
    let mut config = config;
    let mut restored = None;
    loop {
        let mut builder = Node::builder().config(config.clone()).serve();
        builder = builder.reread(reread.clone()).restored(restored);
        builder = builder.log(Arc::clone(telemetry.log()));
        if mode == ServerMode::Development {
            builder = builder.development();
        }
        if let Some(time) = &time {
            builder = builder.virtual_time(time.clone());
        }
        let node = tokio::select! {
            node = builder.start() => node.map_err(not_started)?,
            () = signals.ends.next() => bail!("ended by a signal before it was ready"),
        };
        // After a restore it listens on the same port.
        config.http_port = node.http_port().unwrap_or(config.http_port);
        let sheet = live(&node, limit, telemetry, &mut signals, mode, output).await?;
        restored = node.restore().await;
        let Some(done) = &restored else {
            return print(&facts(&sheet), output);
        };
        tracing::info!(event = "node.restored", outcome = ?done.outcome);
    }
}

/// Runs the node once, until it is drained and stopped.
async fn live(
    node: &Node,
    limit: Duration,
    telemetry: &Arc<Telemetry>,
    signals: &mut ServerSignals,
    mode: ServerMode,
    output: OutputFormat,
) -> Result<DrainReport> {
    let level = Arc::clone(telemetry);
    node.on_reload("log level", move |config| {
        level.set_level(&config.log_level)
    });
    greet(node, mode, output)?;
    tell_systemd(&[NotifyState::Ready]);
    tracing::info!(event = "node.ready", addresses = %shown(node));
    let is_signalled = loop {
        tokio::select! {
            () = node.drained() => break false,
            () = signals.ends.next() => break true,
            _ = signals.hangup.recv() => reload(node).await,
        }
    };
    tell_systemd(&[NotifyState::Stopping]);
    let leaving = async {
        let sheet = node.drain(limit).await;
        node.stop(LAST_WORDS).await;
        sheet
    };
    // The second signal stops the node at once.
    let now = async {
        if !is_signalled {
            signals.ends.next().await;
        }
        signals.ends.next().await;
    };
    tokio::select! {
        sheet = leaving => Ok(sheet),
        () = now => bail!("ended by a second signal, {NOT_LOST}"),
        // A drain over REST may have a longer limit.
        () = tokio::time::sleep(limit + 2 * LAST_WORDS) => {
            let seconds = limit.as_secs();
            let message = format!("ended after {seconds} s, {NOT_LOST}");
            Err(CommandError::TimedOut(message).into())
        }
    }
}

/// The end of every message about an early stop.
const NOT_LOST: &str = "before everything was handed over; nothing durable is lost";

struct ServerSignals {
    ends: StopSignals,
    hangup: Signal,
}

/// The signals that stop the server.
struct StopSignals {
    term: Signal,
    interrupt: Signal,
}

impl ServerSignals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        let ends = StopSignals {
            term: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        };
        Ok(Self {
            ends,
            hangup: listen(SignalKind::hangup())?,
        })
    }
}

impl StopSignals {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reloads keys, certificate and log level. A part that cannot be read stays unchanged.
async fn reload(node: &Node) {
    // systemd accepts the state only together with its start time.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell_systemd(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(event = "node.notify_failed", %error),
    }
    let own = node.clone();
    let reloaded = tokio::task::spawn_blocking(move || own.reload()).await;
    if let Err(error) = reloaded.expect("reloading does not panic") {
        tracing::error!(event = "node.reload_failed", error);
    }
    tell_systemd(&[NotifyState::Ready]);
}

fn tell_systemd(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(event = "node.notify_failed", %error);
    }
}

/// Prints every address and connection string.
fn greet(node: &Node, mode: ServerMode, output: OutputFormat) -> Result<()> {
    let strings = match mode {
        ServerMode::Development => node.connection_strings(),
        ServerMode::Production => Vec::new(),
    };
    if output.is_structured() {
        let object = |(name, text): (&str, String)| (name.to_owned(), json!(text));
        let addresses = node.addresses().into_iter();
        let addresses = addresses.map(|own| object((own.name, own.url)));
        let ready = json!({
            "ready": env!("CARGO_PKG_VERSION"),
            "addresses": addresses.collect::<serde_json::Map<_, _>>(),
            "connection_strings": strings.into_iter().map(object).collect::<serde_json::Map<_, _>>(),
        });
        // JSON in one line: the server goes on, and its reader waits for a line.
        return match output {
            OutputFormat::Yaml => print_value(&ready, output),
            _ => out(&ready),
        };
    }
    let mut text = format!("steadfast {} is ready\n", env!("CARGO_PKG_VERSION"));
    for address in node.addresses() {
        text += &format!("  {:8} {}\n", address.name, address.url);
    }
    if !strings.is_empty() {
        text += "\nfor development only: everybody knows these keys\n";
    }
    for (name, string) in strings {
        text += &format!("  {name:8} {string}\n");
    }
    out(&text.trim_end())
}

fn shown(node: &Node) -> String {
    let addresses = node.addresses();
    let urls = addresses.iter().map(|address| address.url.as_str());
    urls.collect::<Vec<_>>().join(" ")
}
