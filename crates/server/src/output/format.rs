//! Output formats.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::Value;

use super::stdout::out;
use super::yaml;

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
