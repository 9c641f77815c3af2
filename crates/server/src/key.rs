//! `steadfast key`: access keys and their rights.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};
use steadfast::admin::{KeyInfo, KeySecret};

use crate::confirm::confirm;
use crate::globals::Globals;
use crate::output::{OutputFormat, PageArguments, Table, display_value, print};
use crate::server_client::{ServerClient, segment};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create a key and show its secret once
    #[command(after_help = "\
Examples:
  steadfast key create sensors --right 'send events/houses'
  steadfast key create desk --right 'read events' --right 'read jobs'")]
    Create {
        /// Name of the key
        name: String,
        /// A right: '<right> <area>[/<entity>]', such as 'send events/houses'
        #[arg(long = "right", value_name = "RIGHT", required = true)]
        rights: Vec<String>,
    },
    /// List keys, without secrets
    #[command(after_help = "Examples:\n  steadfast key list")]
    List(PageArguments),
    /// Show a key and its rights, without its secret
    #[command(after_help = "Examples:\n  steadfast key show sensors")]
    Show {
        /// Name of the key
        name: String,
    },
    /// Rotate a key: create a new secret and keep the previous one until the next rotation
    #[command(after_help = "Examples:\n  steadfast key rotate sensors")]
    Rotate {
        /// Name of the key
        name: String,
    },
    /// Delete a key; its open connections close
    #[command(after_help = "Examples:\n  steadfast key delete sensors --yes")]
    Delete {
        /// Name of the key
        name: String,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::Create { name, rights } => {
            let body = json!({"name": name, "rights": rights});
            let created = remote.request(Method::POST, "/v1/keys", Some(&body))?;
            print_secret(&created, output)
        }
        Command::Rotate { name } => {
            let path = format!("{}/rotate", key_path(name)?);
            print_secret(&remote.request(Method::POST, &path, None)?, output)
        }
        Command::Delete { name } => {
            confirm(globals, &format!("delete the key '{name}'"))?;
            let _: Value = remote.request(Method::DELETE, &key_path(name)?, None)?;
            print(&[("deleted", json!(name))], output)
        }
        Command::Show { name } => {
            let key: Value = remote.request(Method::GET, &key_path(name)?, None)?;
            let fields = ["name", "rights", "secrets", "from"];
            let value = |name: &str| {
                if output.is_structured() {
                    key[name].clone()
                } else {
                    json!(display_value(&key[name]))
                }
            };
            print(&fields.map(|name| (name, value(name))), output)
        }
        Command::List(page) => list(&remote, page, output),
    }
}

fn key_path(name: &str) -> Result<String> {
    Ok(format!("/v1/keys/{}", segment(name)?))
}

fn print_secret(made: &KeySecret, output: OutputFormat) -> Result<()> {
    print(
        &[("name", json!(made.name)), ("secret", json!(made.secret))],
        output,
    )
}

fn list(remote: &ServerClient, page: &PageArguments, output: OutputFormat) -> Result<()> {
    let keys: Vec<KeyInfo> = remote.request(Method::GET, "/v1/keys", None)?;
    let rows = keys.into_iter().map(serde_json::to_value);
    let page = page.cut(rows.collect::<Result<_, _>>()?, "name")?;
    let table = Table::new("keys", &["name", "rights", "secrets", "from"]);
    table.page(page).print(output)
}
