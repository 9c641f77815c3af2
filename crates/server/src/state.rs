//! `steadfast state`: reliable collections.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::confirm::confirm;
use crate::exit::CommandError;
use crate::globals::Globals;
use crate::listing::{rows, rows_by_page};
use crate::output::{
    OutputFormat, Page, PageArguments, Table, display_value, out, print, print_value,
};
use crate::server_client::{ServerClient, encoded};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List services
    #[command(after_help = "Examples:\n  steadfast state services")]
    Services(PageArguments),
    /// List the collections of a service, or of all services
    #[command(after_help = "Examples:\n  steadfast state list bank")]
    List {
        /// Name of the service
        service: Option<String>,
        #[command(flatten)]
        page: PageArguments,
    },
    /// Print the value of a key
    #[command(after_help = "Examples:\n  steadfast state get bank accounts alice")]
    Get(EntryName),
    /// Set the value of a key
    #[command(after_help = "\
Examples:
  steadfast state put bank accounts alice 100
  steadfast state put bank accounts bob '{\"balance\": 10}'")]
    Put {
        #[command(flatten)]
        name: EntryName,
        /// The value, as JSON or as text
        #[arg(allow_negative_numbers = true)]
        value: String,
    },
    /// Delete a key
    #[command(after_help = "Examples:\n  steadfast state delete bank accounts alice --yes")]
    Delete(EntryName),
    /// List the entries of a dictionary in key order
    #[command(after_help = "Examples:\n  steadfast state scan bank accounts --prefix a")]
    Scan {
        #[command(flatten)]
        name: CollectionName,
        /// Show only keys that begin with this
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
        #[command(flatten)]
        page: PageArguments,
    },
    /// Show the first entries of a queue; they stay in it
    #[command(after_help = "Examples:\n  steadfast state peek bank orders --limit 5")]
    Peek {
        #[command(flatten)]
        name: CollectionName,
        #[command(flatten)]
        page: PageArguments,
    },
    /// Execute steps in one transaction: all of them or none
    ///
    /// The steps are a JSON list, in a file or on standard input. A step is an object with
    /// `op` (get, put, delete, enqueue or dequeue), `collection`, and `key`, `value` and
    /// `if` as needed.
    #[command(after_help = "\
Examples:
  echo '[{\"op\": \"enqueue\", \"collection\": \"orders\", \"value\": 1}]' | steadfast state tx bank")]
    Tx {
        /// Name of the service
        service: String,
        /// Read the steps from this file; standard input by default
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The partition, in a service that has several
        #[arg(long, value_name = "NAME")]
        partition: Option<String>,
    },
}

/// A collection.
#[derive(Args)]
pub(crate) struct CollectionName {
    /// Name of the service
    service: String,
    /// Name of the collection
    collection: String,
    /// The partition, in a service that has several
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
}

/// An entry of a dictionary.
#[derive(Args)]
pub(crate) struct EntryName {
    #[command(flatten)]
    place: CollectionName,
    /// The key
    key: String,
}

impl CollectionName {
    fn path(&self) -> String {
        let (service, collection) = (encoded(&self.service), encoded(&self.collection));
        format!("/v1/state/{service}/{collection}")
    }

    /// The partition as a query parameter.
    fn query(&self) -> String {
        let partition = self.partition.as_ref();
        partition.map_or_else(String::new, |name| format!("slot={}", encoded(name)))
    }
}

impl EntryName {
    fn path(&self) -> String {
        let place = &self.place;
        format!("{}/{}?{}", place.path(), encoded(&self.key), place.query())
    }
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::Services(page) => services(&remote, page, output),
        Command::List { service, page } => list(&remote, service.as_deref(), page, output),
        Command::Get(entry) => {
            let value: Value = remote.request(Method::GET, &entry.path(), None)?;
            print_value(&value, output)
        }
        Command::Put { name, value } => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            let _: Value = remote.request(Method::PUT, &name.path(), Some(&value))?;
            print(&[("put", json!(name.key))], output)
        }
        Command::Delete(entry) => {
            confirm(globals, &format!("delete the key '{}'", entry.key))?;
            let _: Value = remote.request(Method::DELETE, &entry.path(), None)?;
            print(&[("deleted", json!(entry.key))], output)
        }
        Command::Scan { name, prefix, page } => {
            scan(&remote, name, prefix.as_deref(), page, output)
        }
        Command::Peek { name, page } => {
            let path = format!("{}/queue/peek?{}", name.path(), name.query());
            let page = rows_by_page(&remote, &path, "entries", page)?;
            let table = Table::new("entries", &["number", "value"]);
            table.page(page).print(output)
        }
        Command::Tx {
            service,
            file,
            partition,
        } => transact(&remote, service, file.as_ref(), partition.as_ref(), output),
    }
}

fn services(remote: &ServerClient, page: &PageArguments, output: OutputFormat) -> Result<()> {
    let mut page = rows_by_page(remote, "/v1/state", "services", page)?;
    if !output.is_structured() {
        for row in &mut page.rows {
            let scheme = row["scheme"].take();
            let kind = scheme.as_object().and_then(|scheme| scheme.keys().next());
            row["scheme"] = kind.map_or(scheme.clone(), |kind| json!(kind));
        }
    }
    let columns = &["name", "scheme", "partitions", "volatile"];
    Table::new("services", columns).page(page).print(output)
}

/// Lists collections. Their scope begins with the name of the service.
fn list(
    remote: &ServerClient,
    service: Option<&str>,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let body = json!({"what": "collections", "key": null, "limit": 0});
    let found: Value = remote.request(Method::POST, "/v1/inspect", Some(&body))?;
    let all = found["rows"].as_array().into_iter().flatten();
    let rows = all.map(|row| {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let (scope, name) = (text("scope"), text("name"));
        let service = scope.rsplit_once('#').map_or(scope, |(service, _)| service);
        json!({
            "id": format!("{}/{scope}/{name}", text("partition")),
            "service": service,
            "name": name,
            "shape": row["shape"],
            "count": row["count"],
            "bytes": row["bytes"],
            "partition": row["partition"],
        })
    });
    let wanted = rows.filter(|row| service.is_none_or(|service| row["service"] == service));
    let page = page.cut(wanted.collect(), "id")?;
    let columns = &["service", "name", "shape", "count", "bytes", "partition"];
    Table::new("collections", columns).page(page).print(output)
}

fn scan(
    remote: &ServerClient,
    name: &CollectionName,
    prefix: Option<&str>,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let prefix = prefix.map(|prefix| format!("&prefix={}", encoded(prefix)));
    let path = format!(
        "{}?{}{}",
        name.path(),
        name.query(),
        prefix.unwrap_or_default()
    );
    let page = page.fetch(|cursor, limit| {
        let from = cursor.map(|cursor| format!("&from={}", encoded(cursor)));
        let path = format!("{path}&limit={limit}{}", from.unwrap_or_default());
        let answer: Value = remote.request(Method::GET, &path, None)?;
        Ok(Page {
            rows: rows(&answer, "entries")?.clone(),
            next: answer["next"].as_str().map(str::to_owned),
        })
    })?;
    let table = Table::new("entries", &["key", "value"]).wide(&["etag"]);
    table.page(page).print(output)
}

fn transact(
    remote: &ServerClient,
    service: &str,
    file: Option<&PathBuf>,
    partition: Option<&String>,
    output: OutputFormat,
) -> Result<()> {
    let text = match file {
        Some(file) => {
            std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?
        }
        None => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.context("read standard input")?;
            text
        }
    };
    let steps: Value = serde_json::from_str(&text).context("the steps are not JSON")?;
    if !steps.is_array() {
        let message = "the steps are not a list, such as [{\"op\": \"get\", ..}]";
        return Err(CommandError::Usage(message.to_owned()).into());
    }
    let body = json!({"slot": partition, "steps": steps});
    let path = format!("/v1/state/{}", encoded(service));
    let done: Value = remote.request(Method::POST, &path, Some(&body))?;
    if output.is_structured() {
        return print_value(&done, output);
    }
    for result in rows(&done, "results")? {
        let value = display_value(&result["value"]);
        let found = if result["found"] == true {
            "found"
        } else {
            "not found"
        };
        out(&format!("{found}  {value}"))?;
    }
    Ok(())
}
