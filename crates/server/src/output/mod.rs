//! Output of commands: tables and sentences for users, JSON or YAML for programs.

pub(crate) mod confirm;
mod page;
pub(crate) mod progress;
mod result;
mod stdout;
mod table;
pub(crate) mod units;
mod watch;
mod yaml;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::Value;

pub(crate) use page::{Page, PageArguments};
pub(crate) use result::{Facts, print, timed};
pub(crate) use stdout::out;
pub(crate) use table::{Table, display_value};
pub(crate) use watch::WatchArguments;

/// The output format of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table
    #[default]
    Table,
    /// A table with all columns
    Wide,
    /// One JSON object
    Json,
    /// The same object as YAML
    Yaml,
}

impl OutputFormat {
    /// Whether programs read the output.
    pub(crate) fn is_structured(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// Prints a value: YAML if requested, otherwise JSON.
pub(crate) fn print_value(value: &Value, output: OutputFormat) -> Result<()> {
    match output {
        OutputFormat::Yaml => out(&yaml::text(value).trim_end()),
        _ => out(&serde_json::to_string_pretty(value)?),
    }
}
