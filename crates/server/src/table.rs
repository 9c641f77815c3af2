//! Tables for users, or one JSON object for programs.

use anyhow::Result;
use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use serde_json::{Value, json};

use crate::out::out;

/// The output format of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table
    #[default]
    Table,
    /// One JSON object
    Json,
}

/// Rows of one kind.
pub(crate) struct Table {
    name: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Value>,
}

impl Table {
    /// An empty table. The name is that of the list in JSON.
    pub(crate) fn new(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self {
            name,
            columns,
            rows: Vec::new(),
        }
    }

    /// The name of the list.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Adds a row: an object with the columns as fields; JSON output prints further fields.
    pub(crate) fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// Prints all rows.
    pub(crate) fn print(&self, output: OutputFormat) -> Result<()> {
        if output == OutputFormat::Json {
            let object = json!({self.name: self.rows});
            return out(&serde_json::to_string_pretty(&object)?);
        }
        let mut table = comfy_table::Table::new();
        table.load_preset(NOTHING);
        table.set_header(self.columns.iter().map(|name| name.to_uppercase()));
        for row in &self.rows {
            table.add_row(
                self.columns
                    .iter()
                    .map(|column| display_value(&row[*column])),
            );
        }
        let text = table.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        out(&lines.join("\n"))
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
