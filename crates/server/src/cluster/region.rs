//! `steadfast cluster region`: owners of the jobs of a pair.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::globals::Globals;
use crate::output::progress::wait_for;
use crate::output::{OutputFormat, Table, WatchArguments, out, print, print_value};
use crate::server_client::ServerClient;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the owner of each home's jobs and the state of replication
    #[command(after_help = "Examples:\n  steadfast cluster region status")]
    Status(WatchArguments),
    /// Move all jobs of the pair to the region of the addressed server
    ///
    /// If the owner is reachable, it hands them over without loss. Otherwise this region
    /// takes them over as soon as the promise of the voters to the owner has expired.
    #[command(after_help = "\
Examples:
  steadfast cluster region failover
  steadfast cluster region failover --home west --accept-loss")]
    Failover {
        /// Move only the jobs of this home
        #[arg(long)]
        home: Option<String>,
        /// Move them even if the owner worked alone; changes that only it has are lost
        #[arg(long)]
        accept_loss: bool,
    },
    /// Move the jobs back to their home regions
    #[command(after_help = "Examples:\n  steadfast cluster region failback --home west")]
    Failback {
        /// Move only the jobs of this home
        #[arg(long)]
        home: Option<String>,
    },
}

pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::Status(watch) => watch.run(|| status(&remote, output)),
        Command::Failover { home, accept_loss } => {
            let body = json!({"home": home, "accept_loss": accept_loss});
            moved(&remote, "/v1/region/failover", &body)?;
            status(&remote, output)
        }
        Command::Failback { home } => {
            moved(&remote, "/v1/region/failback", &json!({"home": home}))?;
            status(&remote, output)
        }
    }
}

/// The time limit of a move: calls in flight complete before the other region takes over.
const MOVING: Duration = Duration::from_secs(40);

fn moved(remote: &ServerClient, path: &str, body: &Value) -> Result<()> {
    let _: Value = wait_for("moving", || {
        remote.request_within(MOVING, Method::POST, path, Some(body))
    })?;
    Ok(())
}

fn status(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let mut status: Value = remote.request(Method::GET, "/v1/region", None)?;
    if output.is_structured() {
        return print_value(&status, output);
    }
    let mut take = |name: &str| status[name].take();
    print(
        &[
            ("region", take("region")),
            ("pair", take("pair")),
            ("reaches pair", take("reaches_pair")),
            ("reaches witness", take("reaches_witness")),
        ],
        output,
    )?;
    let mut homes = Table::new("homes", &["home", "owner", "epoch", "mode", "lag_ms"]);
    for home in status["homes"].as_array_mut().into_iter().flatten() {
        homes.row(home.take());
    }
    out(&"")?;
    homes.print(output)
}
