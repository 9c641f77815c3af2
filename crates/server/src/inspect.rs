//! `steadfast inspect`: what a data folder holds.
//!
//! Each partition is taken as its owner would take it, because only an owner sees
//! what is committed but not yet in the tables. That raises its epoch; no row and
//! no event is written.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};
use steadfast::collections::{Entry, Inspector, Summary};
use steadfast::id::{Owner, Partition};
use steadfast::storage::local::{self, Local};
use steadfast::storage::{Options, Store};

use crate::exit::Failure;
use crate::out::out;
use crate::table::Output;

#[derive(Args)]
pub(crate) struct Inspect {
    /// The data folder
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// `collections` lists them all; a name shows what one holds
    #[arg(value_name = "collections|NAME")]
    what: Option<String>,
    /// Only this partition; an index of space 0, or SPACE/INDEX
    #[arg(long, value_name = "N", value_parser = parse_partition)]
    partition: Option<Partition>,
    /// Only the entry with this key, as it is shown
    #[arg(long, value_name = "JSON", requires = "what", value_parser = parse_json)]
    key: Option<Value>,
    /// How many entries to show at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Rows of one kind, ready to print.
struct Sheet {
    /// What the rows are, in JSON.
    name: &'static str,
    /// In the order of the table's columns.
    columns: &'static [&'static str],
    rows: Vec<Map<String, Value>>,
    /// Whether the limit has left some out.
    has_more: bool,
}

/// Shows partitions, collections or entries.
pub(crate) fn run(arguments: &Inspect, output: Output) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_time().build().context("start a runtime")?;
    let sheet = runtime.block_on(look(arguments))?;
    match output {
        Output::Json => print_json(&sheet),
        Output::Table => print_table(&sheet),
    }
}

async fn look(arguments: &Inspect) -> Result<Sheet> {
    let engine = Local::open_existing(&arguments.data, &local::Options::default())?;
    let mut partitions = engine.partitions();
    if let Some(only) = arguments.partition {
        partitions.retain(|partition| *partition == only);
        if partitions.is_empty() {
            return not_found(format!("there is no partition {only}; list them first"));
        }
    }
    let owner = Owner {
        node: 0,
        incarnation: incarnation(),
    };
    let mut options = Options::new(owner);
    // Nothing is written, so nothing need be flushed.
    options.log_target = u64::MAX;
    let store = Store::start(Arc::new(engine), options);
    let mut inspectors = Vec::new();
    for partition in partitions {
        inspectors.push(Inspector::new(store.acquire(partition).await?));
    }
    let sheet = match (arguments.what.as_deref(), &arguments.key) {
        (None, _) => list_partitions(&inspectors).await,
        (Some("collections"), None) => list_collections(&inspectors).await,
        (Some(name), Some(key)) => find_entry(&inspectors, name, key).await,
        (Some(name), None) => list_entries(&inspectors, name, arguments.limit).await,
    };
    store.close().await;
    sheet
}

async fn list_partitions(inspectors: &[Inspector]) -> Result<Sheet> {
    let mut rows = Vec::new();
    for inspector in inspectors.iter().filter(|found| found.lsn().0 > 0) {
        let collections = inspector.collections().await?;
        let count = |of: fn(&Summary) -> u64| collections.iter().map(of).sum::<u64>();
        rows.push(object([
            ("partition", json!(inspector.partition().to_string())),
            ("lsn", json!(inspector.lsn().0)),
            ("collections", json!(collections.len())),
            ("entries", json!(count(|found| found.count))),
            ("bytes", json!(count(|found| found.bytes))),
        ]));
    }
    Ok(Sheet {
        name: "partitions",
        columns: &["partition", "lsn", "collections", "entries", "bytes"],
        rows,
        has_more: false,
    })
}

async fn list_collections(inspectors: &[Inspector]) -> Result<Sheet> {
    let mut rows = Vec::new();
    for inspector in inspectors {
        for found in inspector.collections().await? {
            rows.push(object([
                ("partition", json!(inspector.partition().to_string())),
                ("scope", json!(found.scope)),
                ("name", json!(found.name)),
                ("shape", json!(found.what.shape.word())),
                ("key type", json!(found.what.key_type)),
                ("value type", json!(found.what.value_type)),
                ("count", json!(found.count)),
                ("bytes", json!(found.bytes)),
            ]));
        }
    }
    Ok(Sheet {
        name: "collections",
        columns: &[
            "partition",
            "scope",
            "name",
            "shape",
            "key type",
            "value type",
            "count",
            "bytes",
        ],
        rows,
        has_more: false,
    })
}

async fn list_entries(inspectors: &[Inspector], name: &str, limit: usize) -> Result<Sheet> {
    let mut is_known = false;
    let mut rows = Vec::new();
    for inspector in inspectors {
        // One more than is shown tells whether there are more.
        let wanted = limit.saturating_add(1) - rows.len();
        if let Some(found) = inspector.entries(name, wanted).await? {
            is_known = true;
            rows.extend(found.into_iter().map(|entry| row(inspector, entry)));
        }
    }
    if !is_known {
        return unknown(name);
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    Ok(entries(rows, has_more))
}

async fn find_entry(inspectors: &[Inspector], name: &str, key: &Value) -> Result<Sheet> {
    let mut is_known = false;
    let mut rows = Vec::new();
    for inspector in inspectors {
        if let Some(found) = inspector.entry(name, key).await? {
            is_known = true;
            rows.extend(found.into_iter().map(|entry| row(inspector, entry)));
        }
    }
    match (is_known, rows.is_empty()) {
        (false, _) => unknown(name),
        (true, true) => not_found(format!("collection {name} has no key {key}")),
        (true, false) => Ok(entries(rows, false)),
    }
}

fn unknown(name: &str) -> Result<Sheet> {
    let advice = "`steadfast inspect --data DIR collections` lists what there is";
    not_found(format!("there is no collection {name}; {advice}"))
}

fn not_found(what: String) -> Result<Sheet> {
    Err(Failure::NotFound(what).into())
}

fn row(inspector: &Inspector, entry: Entry) -> Map<String, Value> {
    let mut row = object([
        ("partition", json!(inspector.partition().to_string())),
        ("scope", json!(entry.scope)),
        ("key", entry.key),
        ("value", entry.value),
    ]);
    if let Some(time) = entry.time {
        row.insert("time_ms".to_owned(), json!(time.0));
    }
    row
}

fn entries(rows: Vec<Map<String, Value>>, has_more: bool) -> Sheet {
    Sheet {
        name: "entries",
        columns: &["partition", "scope", "time_ms", "key", "value"],
        rows,
        has_more,
    }
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.replace(' ', "_"), value))
        .collect()
}

fn print_json(sheet: &Sheet) -> Result<()> {
    let mut whole = object([(sheet.name, json!(sheet.rows))]);
    if sheet.name == "entries" {
        whole.insert("has_more".to_owned(), json!(sheet.has_more));
    }
    out(&serde_json::to_string_pretty(&whole)?)
}

/// Prints a table; leaves out scope and time where no row has one.
fn print_table(sheet: &Sheet) -> Result<()> {
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
    for column in sheet.columns {
        let cells: Vec<_> = sheet.rows.iter().map(|row| cell(row, column)).collect();
        let is_optional = matches!(*column, "scope" | "time_ms");
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
        eprintln!("steadfast: there are more; raise --limit to see them");
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

/// A life that no owner had before.
fn incarnation() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0).into()
}
