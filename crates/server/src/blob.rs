//! `steadfast blob`: list and delete blobs.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::confirm::confirm;
use crate::eventhub::container::{self, container_path};
use crate::globals::Globals;
use crate::listing::rows;
use crate::output::{OutputFormat, Page, PageArguments, Table, out, print, print_value, units};
use crate::server_client::{ServerClient, encoded};

/// The time limit for deleting a page of blobs.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List containers and the size of accounts, or the blobs of one container
    #[command(after_help = "\
Examples:
  steadfast blob list
  steadfast blob list devstoreaccount1/checkpoints --prefix houses/")]
    List {
        /// The container: ACCOUNT/CONTAINER
        container: Option<String>,
        /// Show only blobs whose names begin with this
        #[arg(long, requires = "container")]
        prefix: Option<String>,
        #[command(flatten)]
        page: PageArguments,
    },
    /// Delete a blob, all blobs with a prefix, or a whole container
    #[command(group = clap::ArgGroup::new("which").required(true), after_help = "\
Examples:
  steadfast blob delete devstoreaccount1/checkpoints --prefix houses/ --yes")]
    Delete {
        /// The container: ACCOUNT/CONTAINER
        container: String,
        /// Name of the blob
        #[arg(group = "which")]
        blob: Option<String>,
        /// Delete all blobs whose names begin with this
        #[arg(long, group = "which")]
        prefix: Option<String>,
        /// Delete the container itself, with all its blobs
        #[arg(long = "container", group = "which", alias = "all")]
        is_whole: bool,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::List {
            container: None,
            page,
            ..
        } => list_all(&remote, page, globals),
        Command::List {
            container: Some(container),
            prefix,
            page,
        } => list(&remote, container, prefix.as_deref(), page, output),
        Command::Delete {
            container,
            blob: Some(blob),
            ..
        } => {
            confirm(globals, &format!("delete the blob '{blob}'"))?;
            let body = json!({"name": blob});
            let path = format!("{}/delete", container_path(container));
            let _: Value = remote.request(Method::POST, &path, Some(&body))?;
            print(&[("deleted", json!(blob))], output)
        }
        Command::Delete {
            container,
            prefix: Some(prefix),
            ..
        } => {
            confirm(
                globals,
                &format!("delete all blobs that begin with '{prefix}'"),
            )?;
            let count = delete_all(&remote, container, prefix)?;
            print(&[("deleted", json!(count))], output)
        }
        Command::Delete { container, .. } => container::delete(&remote, container, globals),
    }
}

/// Prints all containers, and what each account takes of its limit.
fn list_all(remote: &ServerClient, page: &PageArguments, globals: &Globals) -> Result<()> {
    let output = globals.output();
    let answer: Value = remote.request(Method::GET, "/v1/blobs", None)?;
    let page = page.cut(rows(&answer, "containers")?.clone(), "name")?;
    if output.is_structured() {
        let mut object = json!({"containers": page.rows, "accounts": answer["accounts"]});
        if let Some(next) = page.next {
            object["next"] = json!(next);
        }
        return print_value(&object, output);
    }
    let containers = Table::new("containers", container::COLUMNS);
    containers.page(page).print(output)?;
    out(&"")?;
    let mut accounts = Table::new("accounts", &["account", "blobs", "bytes", "limit"]);
    for account in rows(&answer, "accounts")? {
        let mut row = account.clone();
        let limit = row["limit"].as_u64();
        row["limit"] = json!(limit.map(units::size));
        accounts.row(row);
    }
    accounts.print(output)
}

fn list(
    remote: &ServerClient,
    container: &str,
    prefix: Option<&str>,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let prefix = encoded(prefix.unwrap_or_default());
    let path = container_path(container);
    let page = page.fetch(|cursor, limit| {
        let from = encoded(cursor.unwrap_or_default());
        let path = format!("{path}?prefix={prefix}&from={from}&limit={limit}");
        let answer: Value = remote.request(Method::GET, &path, None)?;
        Ok(Page {
            rows: rows(&answer, "blobs")?.clone(),
            next: answer["next"].as_str().map(str::to_owned),
        })
    })?;
    let table = Table::new("blobs", &["name", "bytes", "content_type", "modified"]);
    table.page(page).print(output)
}

/// Deletes page by page. Returns the number of blobs deleted.
fn delete_all(remote: &ServerClient, container: &str, prefix: &str) -> Result<u64> {
    let path = format!("{}/delete", container_path(container));
    let body = json!({"prefix": prefix});
    let mut count = 0;
    loop {
        let answer: Value = remote.request_within(PATIENCE, Method::POST, &path, Some(&body))?;
        count += answer["deleted"].as_u64().unwrap_or_default();
        if answer["has_more"] != json!(true) {
            return Ok(count);
        }
    }
}
