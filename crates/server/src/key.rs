//! `steadfast key`: access keys and their rights.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};
use steadfast::protocols::rest::{KeyInfo, KeySecret};

use crate::context::Target;
use crate::result::print;
use crate::server_client::{ServerClient, segment};
use crate::table::{OutputFormat, Table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create a key and show its secret once
    Create {
        /// Its name
        name: String,
        /// A right: '<right> <area>[/<entity>]', such as 'send events/houses'
        #[arg(long = "right", value_name = "RIGHT", required = true)]
        rights: Vec<String>,
    },
    /// Show all keys, without secrets
    List,
    /// Rotate a key: create a new secret and keep the previous one until the next rotation
    Rotate {
        /// Which key
        name: String,
    },
    /// Delete a key
    Delete {
        /// Which key
        name: String,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::Create { name, rights } => {
            let body = json!({"name": name, "rights": rights});
            show(
                &remote.request(Method::POST, "/v1/keys", Some(&body))?,
                output,
            )
        }
        Command::Rotate { name } => {
            let path = format!("/v1/keys/{}/rotate", segment(name)?);
            show(&remote.request(Method::POST, &path, None)?, output)
        }
        Command::Delete { name } => {
            let path = format!("/v1/keys/{}", segment(name)?);
            let Value::Null = remote.request(Method::DELETE, &path, None)? else {
                anyhow::bail!("the server answered more than it should");
            };
            print(&[("deleted", json!(name))], output)
        }
        Command::List => list(&remote, output),
    }
}

fn show(made: &KeySecret, output: OutputFormat) -> Result<()> {
    print(
        &[("name", json!(made.name)), ("secret", json!(made.secret))],
        output,
    )
}

fn list(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let keys: Vec<KeyInfo> = remote.request(Method::GET, "/v1/keys", None)?;
    let mut table = Table::new("keys", &["name", "rights", "secrets", "from"]);
    for key in keys {
        table.row(serde_json::to_value(key)?);
    }
    table.print(output)
}
