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
use steadfast::config::{Config, Layers, template};

use crate::output::{OutputFormat, Table, print};

/// The default configuration file, which may be missing.
const FILE: &str = "steadfast.toml";

/// The sources of settings.
#[derive(Args, Clone, Default)]
pub(crate) struct Settings {
    /// The configuration file; steadfast.toml by default, if it exists
    #[arg(long, env = "STEADFAST_CONFIG", value_name = "FILE")]
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
    Init {
        /// The file to write
        #[arg(default_value = FILE)]
        file: PathBuf,
    },
    /// Check the settings
    Check(Settings),
    /// Show every setting with its value and source
    Show(Settings),
}

impl Settings {
    /// All layers.
    pub(crate) fn layers(&self) -> Result<Layers> {
        let named = self.config.as_deref();
        let found = Some(Path::new(FILE)).filter(|file| file.is_file());
        let mut layers = Layers::new();
        if let Some(file) = named.or(found) {
            layers = layers.file(file)?;
        }
        // A variable that is not UTF-8 is not a setting.
        let variables = env::vars_os();
        let texts = variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        layers = layers.environment(texts)?;
        if let Some(data) = &self.data {
            layers = layers.flag(&format!("data={}", data.display()))?;
        }
        for text in &self.set {
            layers = layers.flag(text)?;
        }
        Ok(layers)
    }

    /// The settings, checked.
    pub(crate) fn config(&self) -> Result<Config> {
        Ok(Config::new(&self.layers()?)?)
    }
}

/// Writes, checks or shows a configuration.
pub(crate) fn run(command: &Command, output: OutputFormat) -> Result<()> {
    match command {
        Command::Init { file } => init(file, output),
        Command::Check(settings) => {
            let config = settings.config()?;
            Node::builder().config(config).serve().check()?;
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
    let layers = settings.layers()?;
    let mut table = Table::new("settings", &["key", "value", "layer"]);
    for (key, value, layer) in layers.shown() {
        table.row(json!({"key": key, "value": value, "layer": layer}));
    }
    table.print(output)
}
