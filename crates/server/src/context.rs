//! `steadfast context`: named servers and their keys.
//!
//! They are stored in a file that only its owner can read. Without contexts, commands use
//! the development server on this machine.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast::protocols::connection_string::ConnectionString;

use crate::exit::CommandError;
use crate::result::{Facts, print};
use crate::table::{OutputFormat, Table};

/// The address and key of the development server.
const DEVELOPMENT_URL: &str = "http://127.0.0.1:7070";
const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";

/// The server that a command uses.
#[derive(Args, Clone, Default)]
pub(crate) struct Target {
    /// The server of this name; see `steadfast context`
    #[arg(long, env = "STEADFAST_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// The server at this address
    #[arg(
        long,
        env = "STEADFAST_URL",
        value_name = "URL",
        conflicts_with = "context"
    )]
    url: Option<String>,
    /// The access key for the server
    #[arg(
        long,
        env = "STEADFAST_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    access_key: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add a server
    Add {
        /// Name of the context
        name: String,
        /// Address of the server: https://host:7070
        #[arg(long)]
        url: String,
        /// The access key; read from standard input if it is `-`
        #[arg(long)]
        key: String,
        /// A PEM file with the authority that signed its certificate
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
    },
    /// Select the default server
    Use {
        /// Which one
        name: String,
    },
    /// Show all servers, without keys
    List,
    /// Show a server, without its key
    Show {
        /// Which one; the one in use unless named
        name: Option<String>,
        /// Print the connection strings of its key, secret included
        #[arg(long)]
        strings: bool,
    },
    /// Remove a server
    Remove {
        /// Which one
        name: String,
    },
}

/// A server and how to reach it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerContext {
    pub(crate) url: String,
    pub(crate) key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    server: BTreeMap<String, ServerContext>,
}

impl Target {
    /// Resolves the server.
    pub(crate) fn server(&self) -> Result<ServerContext> {
        let mut server = match (&self.url, &self.context) {
            (Some(url), _) => ServerContext {
                url: url.clone(),
                key: DEVELOPMENT_KEY.to_owned(),
                ca: None,
            },
            (None, Some(name)) => load()?.server.remove(name).ok_or_else(|| missing(name))?,
            (None, None) => current()?,
        };
        if let Some(key) = &self.access_key {
            server.key.clone_from(key);
        }
        Ok(server)
    }
}

/// Fetches the key name of a context and the connection strings of that key.
pub(crate) type ConnectionStringLookup =
    fn(ServerContext) -> Result<(String, Vec<ConnectionString>)>;

/// Changes or shows the list of servers.
pub(crate) fn run(
    command: &Command,
    ask: ConnectionStringLookup,
    output: OutputFormat,
) -> Result<()> {
    let mut contexts = load()?;
    match command {
        Command::Add { name, url, key, ca } => {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                bail!("'{url}' is no address such as https://host:7070");
            }
            let server = ServerContext {
                url: url.trim_end_matches('/').to_owned(),
                key: secret(key)?,
                ca: ca.clone(),
            };
            contexts.server.insert(name.clone(), server);
            contexts.current.get_or_insert_with(|| name.clone());
        }
        Command::Use { name } => {
            if !contexts.server.contains_key(name) {
                return Err(missing(name).into());
            }
            contexts.current = Some(name.clone());
        }
        Command::Remove { name } => {
            if contexts.server.remove(name).is_none() {
                return Err(missing(name).into());
            }
            contexts.current.take_if(|current| current == name);
        }
        Command::List => return list(&contexts, output),
        Command::Show { name, strings } => {
            let ask = strings.then_some(ask);
            return show(contexts, name.clone(), ask, output);
        }
    }
    store(&contexts)?;
    let done = match command {
        Command::Add { name, .. } => ("added", name),
        Command::Use { name } => ("using", name),
        Command::Remove { name } => ("removed", name),
        Command::List | Command::Show { .. } => return Ok(()),
    };
    print(&[(done.0, json!(done.1))], output)
}

fn list(contexts: &Contexts, output: OutputFormat) -> Result<()> {
    let mut table = Table::new("contexts", &["name", "url", "current"]);
    for (name, server) in &contexts.server {
        let is_current = contexts.current.as_ref() == Some(name);
        table.row(json!({"name": name, "url": server.url, "current": is_current}));
    }
    table.print(output)
}

fn show(
    mut contexts: Contexts,
    name: Option<String>,
    ask: Option<ConnectionStringLookup>,
    output: OutputFormat,
) -> Result<()> {
    let name = name.or_else(|| contexts.current.clone());
    let server = match &name {
        Some(name) => contexts.server.remove(name).ok_or_else(|| missing(name))?,
        None => development(),
    };
    let mut facts: Facts = Vec::new();
    facts.extend(name.map(|name| ("name", json!(name))));
    facts.push(("url", json!(server.url)));
    facts.extend(server.ca.as_ref().map(|ca| ("ca", json!(ca))));
    let Some(ask) = ask else {
        return print(&facts, output);
    };
    let (key, strings) = ask(server)?;
    facts.push(("key", json!(key)));
    let strings = strings.into_iter();
    match output {
        OutputFormat::Table => facts.extend(strings.map(|(name, text)| (name, json!(text)))),
        OutputFormat::Json => {
            let object = strings.map(|(name, text)| (name.to_owned(), json!(text)));
            let object: serde_json::Map<_, _> = object.collect();
            facts.push(("connection_strings", object.into()));
        }
    }
    print(&facts, output)
}

fn current() -> Result<ServerContext> {
    let mut contexts = load()?;
    let named = contexts.current.as_ref();
    let found = named.and_then(|name| contexts.server.remove(name));
    Ok(found.unwrap_or_else(development))
}

/// The development server on this machine.
fn development() -> ServerContext {
    ServerContext {
        url: DEVELOPMENT_URL.to_owned(),
        key: DEVELOPMENT_KEY.to_owned(),
        ca: None,
    }
}

fn missing(name: &str) -> CommandError {
    CommandError::NotFound(format!(
        "there is no context '{name}': see `steadfast context list`"
    ))
}

fn secret(key: &str) -> Result<String> {
    if key != "-" {
        return Ok(key.to_owned());
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("read the key")?;
    Ok(line.trim().to_owned())
}

fn file() -> Result<PathBuf> {
    let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    match config.or_else(home) {
        Some(config) => Ok(config.join("steadfast/contexts.toml")),
        None => bail!("there is no home folder to keep contexts in: set XDG_CONFIG_HOME"),
    }
}

fn load() -> Result<Contexts> {
    let file = file()?;
    match fs::read_to_string(&file) {
        Ok(text) => match toml::from_str(&text) {
            Ok(contexts) => Ok(contexts),
            Err(error) => bail!("{} cannot be read: {}", file.display(), error.message()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contexts::default()),
        Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
    }
}

fn store(contexts: &Contexts) -> Result<()> {
    let file = file()?;
    let text = toml::to_string(contexts)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    // Written atomically, and readable by its owner only.
    let next = file.with_extension(format!("{}.next", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options
        .open(&next)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&next, &file));
    written.with_context(|| format!("write {}", file.display()))
}
