//! Options of every command, anywhere on its line.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::exit::CommandError;
use crate::output::OutputFormat;
use crate::server_context::{self, ServerContext};

/// The URL of the server, for commands without `--url`.
const URL_VARIABLE: &str = "STEADFAST_URL";
/// The name of a context, for commands without `--context`.
const CONTEXT_VARIABLE: &str = "STEADFAST_CONTEXT";
/// An access key.
const KEY_VARIABLE: &str = "STEADFAST_KEY";
/// The path of a file with an access key.
const KEY_FILE_VARIABLE: &str = "STEADFAST_KEY_FILE";

/// Why there is no option for a key.
pub(crate) const KEY_IS_VISIBLE: &str = "an access key on the command line is visible to other users of \
    this machine: write it to a file for --key-file, or set STEADFAST_KEY";

/// The largest file that is read as a key.
const KEY_BYTES: u64 = 64 * 1024;

/// The options of every command.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Use the server at this URL [env: STEADFAST_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Use the server of this context [env: STEADFAST_CONTEXT]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Read the access key from a file, or from standard input if it is `-`
    /// [env: STEADFAST_KEY_FILE, or STEADFAST_KEY with the key itself]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Refused: other users see it.
    #[arg(long, global = true, hide = true, value_name = "KEY")]
    access_key: Option<String>,
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table, hide_possible_values = true, value_name = "table|wide|json|yaml")]
    output: OutputFormat,
    /// Same as `--output json`
    #[arg(long, global = true, hide = true)]
    json: bool,
    /// Print no notes and no progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print each request to the server
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Print no colors
    #[arg(long, global = true)]
    no_color: bool,
    /// Do not ask before something is destroyed
    #[arg(long = "yes", global = true)]
    pub(crate) is_confirmed: bool,
}

impl Globals {
    /// The output format.
    pub(crate) fn output(&self) -> OutputFormat {
        if self.json {
            OutputFormat::Json
        } else {
            self.output
        }
    }

    /// Whether an option or a variable names the server.
    pub(crate) fn names_server(&self) -> bool {
        let options = self.url.is_some() || self.context.is_some();
        options || variable(URL_VARIABLE).is_some() || variable(CONTEXT_VARIABLE).is_some()
    }

    /// Resolves the server: options before environment variables, a URL before a context,
    /// and without either the context in use.
    pub(crate) fn server(&self) -> Result<ServerContext> {
        let key = self.key()?;
        let named = self.context.clone();
        let url = self
            .url
            .clone()
            .or_else(|| variable(URL_VARIABLE).filter(|_| named.is_none()));
        let named = named.or_else(|| variable(CONTEXT_VARIABLE));
        let mut server = match (url, named) {
            (Some(url), _) => ServerContext::at(&url)?,
            (None, Some(name)) => server_context::named(&name)?,
            (None, None) => server_context::current()?,
        };
        if let Some(key) = key {
            server.set_key(key);
        }
        Ok(server)
    }

    /// Rejects a key on the command line, without printing it.
    pub(crate) fn check(&self) -> Result<()> {
        if self.access_key.is_some() {
            return Err(CommandError::Usage(KEY_IS_VISIBLE.to_owned()).into());
        }
        if self.url.is_some() && self.context.is_some() {
            let message = "--url and --context name two servers: give one of them";
            return Err(CommandError::Usage(message.to_owned()).into());
        }
        Ok(())
    }

    /// The key that was given, if any.
    pub(crate) fn key(&self) -> Result<Option<String>> {
        let file = self.key_file.clone();
        if let Some(file) = file {
            return read_key(&file).map(Some);
        }
        if let Some(key) = variable(KEY_VARIABLE) {
            return first_line(&key, KEY_VARIABLE).map(Some);
        }
        let file = variable(KEY_FILE_VARIABLE);
        file.map(|file| read_key(Path::new(&file))).transpose()
    }
}

/// An environment variable; an empty one is unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads a key: the first line of the file.
fn read_key(file: &Path) -> Result<String> {
    use std::io::Read as _;
    let shown = file.display();
    let mut text = String::new();
    if file == Path::new("-") {
        let read = std::io::stdin().read_line(&mut text);
        read.context("read the key from standard input")?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| format!("read {shown}"))?;
        let read = opened.take(KEY_BYTES).read_to_string(&mut text);
        read.with_context(|| format!("read {shown}"))?;
    }
    first_line(&text, &shown.to_string())
}

/// The key in the first line of a text.
fn first_line(text: &str, place: &str) -> Result<String> {
    match text.lines().next().map(str::trim) {
        Some(key) if !key.is_empty() && !key.contains(char::is_control) => Ok(key.to_owned()),
        _ => bail!("{place} has no key in its first line"),
    }
}
