//! `steadfast region`: who runs the jobs of a pair.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::out::out;
use crate::remote::Remote;
use crate::result::print;
use crate::table::Output;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show who owns the jobs of the pair, and whether both regions have everything
    Status,
    /// Have the region that does not own the jobs own them
    ///
    /// If the owner is there it hands them over, without a loss. If it is not, the other
    /// region takes them as soon as nobody is promised them any more.
    Failover {
        /// Also if the owner worked alone: what only it has is lost
        #[arg(long)]
        accept_loss: bool,
    },
    /// Have the home region own the jobs again
    Failback,
}

pub(crate) fn run(command: &Command, target: &Target, output: Output) -> Result<()> {
    let remote = Remote::new(target)?;
    match command {
        Command::Status => status(&remote, output),
        Command::Failover { accept_loss } => {
            let body = json!({"accept_loss": accept_loss});
            moved(&remote, "/v1/region/failover", Some(&body))?;
            status(&remote, output)
        }
        Command::Failback => {
            moved(&remote, "/v1/region/failback", None)?;
            status(&remote, output)
        }
    }
}

/// Calls under way are waited for, and then the other region takes over.
const MOVING: Duration = Duration::from_secs(40);

fn moved(remote: &Remote, path: &str, body: Option<&Value>) -> Result<()> {
    let _: Value = remote.ask_within(MOVING, Method::POST, path, body)?;
    Ok(())
}

fn status(remote: &Remote, output: Output) -> Result<()> {
    let mut status: Value = remote.ask(Method::GET, "/v1/region", None)?;
    if output == Output::Json {
        return out(&serde_json::to_string_pretty(&status)?);
    }
    let mut take = |name: &str| status[name].take();
    print(
        &[
            ("region", take("region")),
            ("pair", take("pair")),
            ("home", take("home")),
            ("owner", take("owner")),
            ("epoch", take("epoch")),
            ("mode", take("mode")),
            ("lag in ms", take("lag_ms")),
            ("reaches pair", take("reaches_pair")),
            ("reaches witness", take("reaches_witness")),
        ],
        output,
    )
}
