//! `steadfast blob`: list and delete containers and blobs.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::eventhub::rows;
use crate::out::out;
use crate::result::print;
use crate::server_client::ServerClient;
use crate::table::{OutputFormat, Table};
use crate::taskhub::encoded;

/// The time limit for deleting a container or a page of blobs.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show all containers and accounts, or the blobs of one container
    List {
        /// Which container: ACCOUNT/CONTAINER
        container: Option<String>,
        /// Show only blobs whose names begin with this
        #[arg(long, requires = "container")]
        prefix: Option<String>,
        /// Maximum number of blobs to show
        #[arg(long, value_name = "N", default_value_t = 1000, requires = "container")]
        limit: usize,
    },
    /// Delete a blob, all blobs with a prefix, or a whole container
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Delete {
        /// Which container: ACCOUNT/CONTAINER
        container: String,
        /// Which blob
        #[arg(group = "which")]
        blob: Option<String>,
        /// Delete all blobs whose names begin with this
        #[arg(long, group = "which")]
        prefix: Option<String>,
        /// Delete the container itself, with all its blobs
        #[arg(long, group = "which")]
        all: bool,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::List {
            container: None, ..
        } => {
            let answer: Value = remote.request(Method::GET, "/v1/blobs", None)?;
            show_all(&answer, output)
        }
        Command::List {
            container: Some(container),
            prefix,
            limit,
        } => list(&remote, container, prefix.as_deref(), *limit, output),
        Command::Delete {
            container,
            blob: Some(blob),
            ..
        } => {
            let body = json!({"name": blob});
            let path = format!("{}/delete", place(container));
            let _: Value = remote.request(Method::POST, &path, Some(&body))?;
            print(&[("deleted", json!(blob))], output)
        }
        Command::Delete {
            container,
            prefix: Some(prefix),
            ..
        } => {
            let count = delete_all(&remote, container, prefix)?;
            print(&[("deleted", json!(count))], output)
        }
        Command::Delete { container, .. } => {
            let path = place(container);
            let _: Value = remote.request_within(PATIENCE, Method::DELETE, &path, None)?;
            print(&[("deleted", json!(container))], output)
        }
    }
}

/// Prints all containers, and what each account takes of its limit.
fn show_all(answer: &Value, output: OutputFormat) -> Result<()> {
    if output == OutputFormat::Json {
        return out(&serde_json::to_string_pretty(answer)?);
    }
    let mut containers = Table::new("containers", &["name", "blobs", "bytes", "modified"]);
    for container in rows(answer, "containers")? {
        containers.row(container.clone());
    }
    containers.print(output)?;
    let mut accounts = Table::new("accounts", &["account", "blobs", "bytes", "limit"]);
    for account in rows(answer, "accounts")? {
        accounts.row(account.clone());
    }
    out(&"")?;
    accounts.print(output)
}

/// The path of a container.
fn place(container: &str) -> String {
    format!("/v1/blobs/{}", encoded(container))
}

fn list(
    remote: &ServerClient,
    container: &str,
    prefix: Option<&str>,
    limit: usize,
    output: OutputFormat,
) -> Result<()> {
    let columns = &["name", "bytes", "content_type", "modified"];
    let mut table = Table::new("blobs", columns);
    let (mut from, mut left) = (String::new(), limit);
    let has_more = loop {
        let path = format!(
            "{}?prefix={}&from={}&limit={left}",
            place(container),
            encoded(prefix.unwrap_or_default()),
            encoded(&from)
        );
        let answer: Value = remote.request(Method::GET, &path, None)?;
        let blobs = rows(&answer, "blobs")?;
        left = left.saturating_sub(blobs.len());
        for blob in blobs {
            table.row(blob.clone());
        }
        match answer["next"].as_str() {
            Some(next) if left > 0 => next.clone_into(&mut from),
            next => break next.is_some(),
        }
    };
    table.print(output)?;
    if has_more {
        eprintln!("steadfast: there are more; name a --prefix or a higher --limit");
    }
    Ok(())
}

/// Deletes page by page. Returns the number of blobs deleted.
fn delete_all(remote: &ServerClient, container: &str, prefix: &str) -> Result<u64> {
    let (body, path) = (
        json!({"prefix": prefix}),
        format!("{}/delete", place(container)),
    );
    let mut count = 0;
    loop {
        let answer: Value = remote.request_within(PATIENCE, Method::POST, &path, Some(&body))?;
        count += answer["deleted"].as_u64().unwrap_or_default();
        if answer["has_more"] != json!(true) {
            return Ok(count);
        }
    }
}
