//! `steadfast store inspect`: contents of a server or a store.
//!
//! Each partition of a folder or a database is acquired as its owner would acquire it,
//! because only the owner sees commits that are not flushed to the tables yet. That
//! raises its epoch; no row and no event is written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};
use steadfast::collections::Inspector;
use steadfast::id::{Owner, Partition};
use steadfast::inspect::{Error as NotThere, InspectRequest, InspectTable, look};
use steadfast::storage::backup::{DatabaseOptions, StorageLocation};
use steadfast::storage::local::{self, LocalEngine};
use steadfast::storage::{Options, Store};

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::output::{note, out, print_value};
use crate::server_client::ServerClient;
use crate::store::database::ExclusiveAccess;
use crate::store::durability_argument::DurabilityArgument;
use crate::store::storage_address::StorageAddress;

/// The time limit; counting all rows takes long.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Args)]
pub(crate) struct InspectArguments {
    /// A data folder that is not in use, or
    /// postgres://user:password@host1,host2,host3/database, instead of a running server
    #[arg(long, value_name = "PLACE")]
    data: Option<StorageAddress>,
    /// How the database keeps the second copy of an acknowledged commit
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Quorum)]
    durability: DurabilityArgument,
    /// `collections` to list all collections, or a name to show its entries
    #[arg(value_name = "collections|NAME")]
    what: Option<String>,
    /// Show only this partition; an index of space 0, or SPACE/INDEX
    #[arg(long, value_name = "N", value_parser = parse_partition)]
    partition: Option<Partition>,
    /// Show only the entry with this key, as JSON
    #[arg(long, value_name = "JSON", requires = "what", value_parser = parse_json)]
    key: Option<Value>,
    /// Maximum number of entries to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Shows partitions, collections or entries.
pub(crate) fn run(arguments: &InspectArguments, globals: &Globals) -> Result<()> {
    let sheet = match &arguments.data {
        Some(address) => {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.enable_all().build().context("start a runtime")?;
            runtime.block_on(async {
                match address.location(arguments.durability) {
                    StorageLocation::Folder(folder) => look_inside(&folder, arguments).await,
                    StorageLocation::Database(options) => look_into(&options, arguments).await,
                }
            })?
        }
        None => ask(arguments, globals)?,
    };
    if globals.output().is_structured() {
        print_value(&object(&sheet), globals.output())
    } else {
        print_table(&sheet)
    }
}

/// Opens the folder, acquires its partitions and inspects them.
async fn look_inside(folder: &Path, arguments: &InspectArguments) -> Result<InspectTable> {
    let engine = LocalEngine::open_existing(folder, &local::Options::default())?;
    let partitions = chosen(engine.partitions(), arguments)?;
    let owner = Owner {
        node: 0,
        incarnation: incarnation(),
    };
    let mut options = Options::new(owner);
    // Nothing is written, so nothing has to be flushed.
    options.log_target = u64::MAX;
    let store = Store::start(Arc::new(engine), options);
    let mut inspectors = Vec::new();
    for partition in partitions {
        inspectors.push(Inspector::new(store.acquire(partition).await?));
    }
    let sheet = answer(&inspectors, arguments).await;
    store.close().await;
    sheet
}

/// Acquires the partitions of a database that no node uses, and inspects them.
async fn look_into(
    options: &DatabaseOptions,
    arguments: &InspectArguments,
) -> Result<InspectTable> {
    let mut hold = ExclusiveAccess::begin(options).await?;
    let sheet = async {
        let mut inspectors = Vec::new();
        for partition in chosen(hold.partitions().await?, arguments)? {
            inspectors.push(Inspector::new(hold.acquire(partition).await?));
        }
        answer(&inspectors, arguments).await
    };
    let sheet = sheet.await;
    hold.end().await?;
    sheet
}

/// The selected partitions.
fn chosen(mut partitions: Vec<Partition>, arguments: &InspectArguments) -> Result<Vec<Partition>> {
    let Some(only) = arguments.partition else {
        return Ok(partitions);
    };
    partitions.retain(|partition| *partition == only);
    if partitions.is_empty() {
        let message = format!("there is no partition {only}; list them first");
        return Err(CommandError::NotFound(message).into());
    }
    Ok(partitions)
}

async fn answer(inspectors: &[Inspector], arguments: &InspectArguments) -> Result<InspectTable> {
    let sheet = look(inspectors, &arguments.question()).await;
    sheet.map_err(|error| match error {
        NotThere::NotFound(what) => CommandError::NotFound(what).into(),
        other => other.into(),
    })
}

/// Inspects a running server.
fn ask(arguments: &InspectArguments, globals: &Globals) -> Result<InspectTable> {
    let remote = ServerClient::new(globals)?;
    let mut body = serde_json::to_value(arguments.question())?;
    body["partition"] = json!(arguments.partition.map(|partition| partition.to_string()));
    remote.request_within(PATIENCE, Method::POST, "/v1/inspect", Some(&body))
}

impl InspectArguments {
    fn question(&self) -> InspectRequest {
        InspectRequest {
            what: self.what.clone(),
            key: self.key.clone(),
            limit: self.limit,
        }
    }
}

fn object(sheet: &InspectTable) -> Value {
    let mut whole = Map::new();
    whole.insert(sheet.name.clone(), json!(sheet.rows));
    if sheet.name == "entries" {
        whole.insert("has_more".to_owned(), json!(sheet.has_more));
    }
    whole.into()
}

/// Prints a table; leaves out scope and time where no row has one.
fn print_table(sheet: &InspectTable) -> Result<()> {
    let cell = |row: &Map<String, Value>, column: &str| {
        let value = row.get(&column.replace(' ', "_"));
        match value {
            None => String::new(),
            // Keys and values are JSON; all else is plain.
            Some(Value::String(text)) if !matches!(column, "key" | "value") => text.clone(),
            Some(other) => other.to_string(),
        }
    };
    let mut columns: Vec<(&str, Vec<String>)> = Vec::new();
    for column in &sheet.columns {
        let cells: Vec<_> = sheet.rows.iter().map(|row| cell(row, column)).collect();
        let is_optional = matches!(column.as_str(), "scope" | "time_ms");
        if !(is_optional && cells.iter().all(String::is_empty)) {
            columns.push((column, cells));
        }
    }
    let width = |(name, cells): &(&str, Vec<String>)| {
        let cells = cells.iter().map(|cell| cell.chars().count());
        cells.fold(name.len(), usize::max)
    };
    let widths: Vec<_> = columns.iter().map(width).collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths);
        let line: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        line.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(columns.iter().map(|(name, _)| *name).collect())];
    lines.extend((0..sheet.rows.len()).map(|index| {
        let cells = columns.iter().map(|(_, cells)| cells[index].as_str());
        line(cells.collect())
    }));
    out(&lines.join("\n"))?;
    if sheet.has_more {
        note("there are more; raise --limit to see them");
    }
    Ok(())
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("{error}; a text needs its quotes: '\"alice\"'"))
}

fn parse_partition(text: &str) -> Result<Partition, String> {
    let (space, index) = text.split_once('/').unwrap_or(("0", text));
    let number = |text: &str| text.parse::<u16>().map_err(|error| error.to_string());
    Ok(Partition::new(number(space)?, number(index)?))
}

/// A new incarnation.
fn incarnation() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0).into()
}
