//! Tables for users, or one object for programs.

use anyhow::Result;
use comfy_table::presets::NOTHING;
use serde_json::{Map, Value, json};

use super::format::{OutputFormat, print_value};
use super::page::Page;
use super::progress::note;
use super::stdout::out;
use super::units;

/// Rows of one kind.
pub(crate) struct Table {
    name: &'static str,
    columns: &'static [&'static str],
    wide: &'static [&'static str],
    rows: Vec<Value>,
    next: Option<String>,
}

impl Table {
    /// An empty table. The name is that of the list in JSON.
    pub(crate) fn new(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self {
            name,
            columns,
            wide: &[],
            rows: Vec::new(),
            next: None,
        }
    }

    /// Adds columns that only wide output shows.
    pub(crate) fn wide(mut self, columns: &'static [&'static str]) -> Self {
        self.wide = columns;
        self
    }

    /// The name of the list.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Adds a row: an object with the columns as fields; JSON output prints further fields.
    pub(crate) fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// Adds the rows of a page, and its cursor.
    pub(crate) fn page(mut self, page: Page) -> Self {
        self.rows.extend(page.rows);
        self.next = page.next;
        self
    }

    /// Prints all rows. Says on standard error if the list was cut.
    pub(crate) fn print(&self, output: OutputFormat) -> Result<()> {
        if output.is_structured() {
            let mut object = Map::new();
            object.insert(self.name.to_owned(), json!(self.rows));
            if let Some(next) = &self.next {
                object.insert("next".to_owned(), json!(next));
            }
            return print_value(&object.into(), output);
        }
        let mut columns = self.columns.to_vec();
        if output == OutputFormat::Wide {
            columns.extend(self.wide);
        }
        let mut table = comfy_table::Table::new();
        table.load_preset(NOTHING);
        table.set_header(columns.iter().map(|name| heading(name)));
        for row in &self.rows {
            table.add_row(columns.iter().map(|column| cell(column, &row[*column])));
        }
        let text = table.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        out(&lines.join("\n"))?;
        if let Some(next) = &self.next {
            note(&format!(
                "there are more rows; see them with --all, a higher --limit, or --cursor '{next}'"
            ));
        }
        Ok(())
    }
}

/// The heading of a column: a unit in its name is part of the cells.
fn heading(column: &str) -> String {
    let size = column
        .strip_suffix("_bytes")
        .filter(|name| !name.is_empty());
    match (size, column.strip_suffix("_s")) {
        (Some(name), _) => format!("{name}_SIZE").to_uppercase(),
        (_, Some(name)) => name.to_uppercase(),
        _ => column.to_uppercase(),
    }
}

/// A cell: sizes and times with their unit.
pub(super) fn cell(column: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(bytes) if column == "bytes" || column.ends_with("_bytes") => units::size(bytes),
        Some(time) if column.ends_with("_s") => units::seconds(time),
        _ => display_value(value),
    }
}

/// A value in a table cell.
pub(crate) fn display_value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .map(display_value)
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}
