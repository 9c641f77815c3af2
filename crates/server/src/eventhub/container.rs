//! `steadfast eventhub container`: containers of blobs.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::confirm::confirm;
use crate::globals::Globals;
use crate::listing::rows;
use crate::output::{PageArguments, Table, print};
use crate::server_client::{ServerClient, encoded};

/// The time limit for deleting a container.
const PATIENCE: Duration = Duration::from_secs(600);

/// The columns of containers.
pub(crate) const COLUMNS: &[&str] = &["name", "blobs", "bytes", "modified"];

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the containers of all accounts
    #[command(after_help = "Examples:\n  steadfast eventhub container list")]
    List(PageArguments),
    /// Create a container, unless it exists
    #[command(
        after_help = "Examples:\n  steadfast eventhub container create devstoreaccount1/checkpoints"
    )]
    Create {
        /// The container: ACCOUNT/CONTAINER
        container: String,
    },
    /// Delete a container with all its blobs
    #[command(
        after_help = "Examples:\n  steadfast eventhub container delete devstoreaccount1/checkpoints --yes"
    )]
    Delete {
        /// The container: ACCOUNT/CONTAINER
        container: String,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::List(page) => list(&remote, page, globals),
        Command::Create { container } => {
            let path = container_path(container);
            let _: Value = remote.request(Method::PUT, &path, None)?;
            print(&[("created", json!(container))], output)
        }
        Command::Delete { container } => delete(&remote, container, globals),
    }
}

/// The path of a container.
pub(crate) fn container_path(container: &str) -> String {
    format!("/v1/blobs/{}", encoded(container))
}

fn list(remote: &ServerClient, page: &PageArguments, globals: &Globals) -> Result<()> {
    let answer: Value = remote.request(Method::GET, "/v1/blobs", None)?;
    let page = page.cut(rows(&answer, "containers")?.clone(), "name")?;
    let table = Table::new("containers", COLUMNS);
    table.page(page).print(globals.output())
}

/// Deletes a container with all its blobs.
pub(crate) fn delete(remote: &ServerClient, container: &str, globals: &Globals) -> Result<()> {
    confirm(
        globals,
        &format!("delete the container '{container}' with all its blobs"),
    )?;
    let path = container_path(container);
    let _: Value = remote.request_within(PATIENCE, Method::DELETE, &path, None)?;
    print(&[("deleted", json!(container))], globals.output())
}
