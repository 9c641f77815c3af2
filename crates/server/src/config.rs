//! `steadfast config`, and the settings of `dev` and `serve`.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use steadfast::Node;
use steadfast::config::{Config, Error as ConfigError, Layers, template};

use crate::exit::CommandError;
use crate::output::{OutputFormat, Table, print};

/// The default configuration file, which may be missing.
const FILE: &str = "steadfast.toml";

/// The variable that names another one.
const FILE_VARIABLE: &str = "STEADFAST_CONFIG";

/// The sources of settings.
#[derive(Args, Clone, Default)]
pub(crate) struct Settings {
    /// The configuration file [env: STEADFAST_CONFIG]; steadfast.toml by default, if it
    /// exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A setting that overrides file and environment
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write a configuration file with every setting as a comment
    #[command(after_help = "Examples:\n  steadfast config init steadfast.toml")]
    Init {
        /// The file to write
        #[arg(default_value = FILE)]
        file: PathBuf,
    },
    /// Check the settings and report every mistake
    #[command(after_help = "\
Examples:
  steadfast config check --config steadfast.toml --set http.port=8080")]
    Check(Settings),
    /// Show every setting with its value and source
    #[command(after_help = "Examples:\n  steadfast config show")]
    Show(Settings),
}

impl Settings {
    /// All layers, with their errors.
    fn layers(&self) -> Layers {
        let variable = env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
        let named = self.config.clone().or_else(|| variable.map(PathBuf::from));
        let found = Some(PathBuf::from(FILE)).filter(|file| file.is_file());
        let mut layers = Layers::new();
        if let Some(file) = named.or(found) {
            layers.add_file(&file);
        }
        // A variable that is not UTF-8 is not a setting.
        let variables = env::vars_os();
        let texts = variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        layers.add_environment(texts);
        if let Some(data) = &self.data {
            layers.add_flag(&format!("data={}", data.display()));
        }
        for text in &self.set {
            layers.add_flag(text);
        }
        layers
    }

    /// The settings, checked.
    pub(crate) fn config(&self) -> Result<Config> {
        Config::new(&self.layers()).map_err(|error| invalid(&error))
    }
}

/// An invalid configuration, which has an exit code of its own.
fn invalid(error: &ConfigError) -> anyhow::Error {
    CommandError::Configuration(error.to_string()).into()
}

/// The error of a node that does not start.
pub(crate) fn not_started(error: steadfast::Error) -> anyhow::Error {
    match error {
        steadfast::Error::Config(error) => invalid(&error),
        error => error.into(),
    }
}

/// Writes, checks or shows a configuration.
pub(crate) fn run(command: &Command, output: OutputFormat) -> Result<()> {
    match command {
        Command::Init { file } => init(file, output),
        Command::Check(settings) => {
            let config = settings.config()?;
            let node = Node::builder().config(config).serve();
            node.check().map_err(not_started)?;
            print(&[("settings", json!("ok"))], output)
        }
        Command::Show(settings) => show(settings, output),
    }
}

fn init(file: &Path, output: OutputFormat) -> Result<()> {
    // Keys may be added to the file, so only its owner can read it.
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(file)
        .and_then(|mut file| file.write_all(template().as_bytes()));
    let place = file.display();
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{place} is there already: move it away, or name another file")
        }
        written => written.with_context(|| format!("write {place}"))?,
    }
    print(&[("written", json!(file.display().to_string()))], output)
}

fn show(settings: &Settings, output: OutputFormat) -> Result<()> {
    let layers = settings
        .layers()
        .checked()
        .map_err(|error| invalid(&error))?;
    let mut table = Table::new("settings", &["key", "value", "layer"]);
    for (key, value, layer) in layers.shown() {
        table.row(json!({"key": key, "value": value, "layer": layer}));
    }
    table.print(output)
}
