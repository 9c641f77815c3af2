//! `steadfast dev` and `steadfast serve`.
//!
//! A node runs until a signal ends it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use sd_notify::NotifyState;
use steadfast::Node;
use steadfast::config::{Config, LogFormat};
use steadfast::protocols::rest::DrainSheet;
use steadfast::protocols::telemetry::{Format, Telemetry};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Settings;
use crate::node::facts;
use crate::result::print;
use crate::table::Output;

/// How long connections may take to end after everything else has.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Settings,
}

/// Which kind of server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Known keys, loopback only.
    Development,
    /// Keys of one's own.
    Production,
}

/// Runs a node until it is told to end.
pub(crate) fn run(arguments: &Serve, mode: Mode, output: Output) -> Result<()> {
    let config = arguments.settings.config()?;
    let telemetry = Telemetry::start(&config.log_level, format(&config));
    let telemetry = Arc::new(telemetry.map_err(anyhow::Error::msg)?);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().context("start a runtime")?;
    let served = runtime.block_on(serve(arguments, config, &telemetry, mode, output));
    // What still runs is cut off: it has had its time.
    runtime.shutdown_timeout(Duration::from_millis(100));
    telemetry.end();
    served
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
    arguments: &Serve,
    config: Config,
    telemetry: &Arc<Telemetry>,
    mode: Mode,
    output: Output,
) -> Result<()> {
    let mut signals = Signals::new()?;
    let limit = config.drain_limit;
    let settings = arguments.settings.clone();
    let reread = move || settings.config().map_err(|error| format!("{error:#}"));
    let mut config = config;
    let mut restored = None;
    loop {
        let mut builder = Node::builder().config(config.clone()).serve();
        builder = builder.reread(reread.clone()).restored(restored);
        if mode == Mode::Development {
            builder = builder.development();
        }
        let node = builder.start().await?;
        // After a restore it listens where it did before.
        config.http_port = node.http_port().unwrap_or(config.http_port);
        let sheet = live(&node, limit, telemetry, &mut signals, mode).await?;
        node.stop(LAST_WORDS).await;
        restored = node.restore().await;
        let Some(done) = &restored else {
            return print(&facts(&sheet), output);
        };
        tracing::info!(event = "node.restored", outcome = ?done.outcome);
    }
}

/// One life of the node, until it has left.
async fn live(
    node: &Node,
    limit: Duration,
    telemetry: &Arc<Telemetry>,
    signals: &mut Signals,
    mode: Mode,
) -> Result<DrainSheet> {
    let level = Arc::clone(telemetry);
    node.on_reload("log level", move |config| {
        level.set_level(&config.log_level)
    });
    greet(node, mode);
    tell_systemd(&[NotifyState::Ready]);
    tracing::info!(event = "node.ready", addresses = ?node.addresses());
    loop {
        tokio::select! {
            () = node.drained() => break,
            _ = signals.term.recv() => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.hangup.recv() => reload(node),
        }
    }
    tell_systemd(&[NotifyState::Stopping]);
    tokio::select! {
        sheet = node.drain(limit) => return Ok(sheet),
        // The second signal means: now.
        _ = signals.term.recv() => {}
        _ = signals.interrupt.recv() => {}
    }
    bail!(
        "ended by a second signal, before everything was handed over; nothing acknowledged is lost"
    )
}

struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            term: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }
}

/// Reads keys, certificate and log level again. What cannot be read stays as it is.
fn reload(node: &Node) {
    tell_systemd(&[NotifyState::Reloading]);
    if let Err(error) = node.reload() {
        tracing::error!(event = "node.reload_failed", error);
    }
    tell_systemd(&[NotifyState::Ready]);
}

fn tell_systemd(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(event = "node.notify_failed", %error);
    }
}

/// Prints every address, and what to paste.
fn greet(node: &Node, mode: Mode) {
    println!("steadfast {} is ready", env!("CARGO_PKG_VERSION"));
    for address in node.addresses() {
        println!("  {:8} {}", address.name, address.url);
    }
    if mode == Mode::Development {
        println!("\nfor development only: everybody knows these keys");
        for (name, text) in node.connection_strings() {
            println!("  {name:8} {text}");
        }
    }
}
