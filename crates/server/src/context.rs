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
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast::protocols::connection_string::ConnectionString;

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::output::{Facts, OutputFormat, Table, print};

/// The address and key of the development server.
const DEVELOPMENT_URL: &str = "http://127.0.0.1:7070";
const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add a server: its address by --url, its key by --key-file or STEADFAST_KEY
    #[command(after_help = "\
Examples:
  steadfast context add prod --url https://host:7070 --key-file prod.key
  cat prod.key | steadfast context add prod --url https://host:7070 --key-file -")]
    Add {
        /// Name of the context
        name: String,
        /// The access key on standard input.
        #[arg(long, hide = true, value_parser = only_standard_input)]
        key: Option<String>,
        /// A PEM file with the authority that signed the server's certificate
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
    },
    /// Select the server of commands without --context and --url
    #[command(after_help = "Examples:\n  steadfast context use prod")]
    Use {
        /// Name of the context
        name: String,
    },
    /// List all servers, without keys
    #[command(after_help = "Examples:\n  steadfast context list")]
    List,
    /// Show a server, without its key
    #[command(after_help = "\
Examples:
  steadfast context show prod
  steadfast context show --strings")]
    Show {
        /// Name of the context; the one in use by default
        name: Option<String>,
        /// Print the connection strings of its key, secret included
        #[arg(long)]
        strings: bool,
    },
    /// Remove a server
    #[command(after_help = "Examples:\n  steadfast context remove prod")]
    Remove {
        /// Name of the context
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
    /// Whether no key was given, so that `key` is the one of development, or empty.
    #[serde(skip)]
    pub(crate) is_key_assumed: bool,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    server: BTreeMap<String, ServerContext>,
}

impl ServerContext {
    /// The server at an address. On this machine it is taken for a development server
    /// until a key is set.
    pub(crate) fn at(url: &str) -> Result<Self> {
        let url = address(url)?;
        let is_local = is_loopback(&url);
        Ok(Self {
            url,
            key: if is_local {
                DEVELOPMENT_KEY.to_owned()
            } else {
                String::new()
            },
            ca: None,
            is_key_assumed: true,
        })
    }

    /// Sets the key.
    pub(crate) fn set_key(&mut self, key: String) {
        self.key = key;
        self.is_key_assumed = false;
    }
}

/// An address without a slash at its end.
fn address(url: &str) -> Result<String> {
    let url = url.trim_end_matches('/');
    match reqwest::Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => {
            Ok(url.to_owned())
        }
        _ => bail!("'{url}' is not an address such as https://host:7070"),
    }
}

fn is_loopback(url: &str) -> bool {
    let parsed = reqwest::Url::parse(url);
    let host = parsed
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| {
        let host = host.trim_matches(['[', ']']);
        let number = host.parse::<std::net::IpAddr>();
        host == "localhost" || number.is_ok_and(|number| number.is_loopback())
    })
}

fn only_standard_input(text: &str) -> Result<String, String> {
    if text == "-" {
        Ok(text.to_owned())
    } else {
        Err(
            "an access key on the command line is visible to other users: use --key-file"
                .to_owned(),
        )
    }
}

/// Fetches the key name of a context and the connection strings of that key.
pub(crate) type ConnectionStringLookup =
    fn(ServerContext) -> Result<(String, Vec<ConnectionString>)>;

/// Changes or shows the list of servers.
pub(crate) fn run(command: &Command, globals: &Globals, ask: ConnectionStringLookup) -> Result<()> {
    let output = globals.output();
    let mut contexts = load()?;
    match command {
        Command::Add { name, key, ca } => {
            let server = added(globals, key.is_some(), ca.clone())?;
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
            return show(contexts, name.clone(), globals, ask);
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

/// The server to add: where the global options say.
fn added(globals: &Globals, reads_input: bool, ca: Option<PathBuf>) -> Result<ServerContext> {
    let Some(url) = &globals.url else {
        let message = "a context needs the address of its server: --url https://host:7070";
        return Err(CommandError::Usage(message.to_owned()).into());
    };
    let mut globals = globals.clone();
    if reads_input {
        globals.key_file = Some(PathBuf::from("-"));
    }
    let Some(key) = globals.key()? else {
        let message = "a context needs an access key: --key-file FILE, or STEADFAST_KEY";
        return Err(CommandError::Usage(message.to_owned()).into());
    };
    Ok(ServerContext {
        url: address(url)?,
        key,
        ca,
        is_key_assumed: false,
    })
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
    globals: &Globals,
    ask: Option<ConnectionStringLookup>,
) -> Result<()> {
    let output = globals.output();
    let name = name.or_else(|| contexts.current.clone().filter(|_| !globals.names_server()));
    let server = match &name {
        Some(name) => contexts.server.remove(name).ok_or_else(|| missing(name))?,
        None => globals.server()?,
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
    if output.is_structured() {
        let object = strings.map(|(name, text)| (name.to_owned(), json!(text)));
        let object: serde_json::Map<_, _> = object.collect();
        facts.push(("connection_strings", object.into()));
    } else {
        facts.extend(strings.map(|(name, text)| (name, json!(text))));
    }
    print(&facts, output)
}

/// The server of a context.
pub(crate) fn named(name: &str) -> Result<ServerContext> {
    let found = load()?.server.remove(name);
    Ok(found.ok_or_else(|| missing(name))?)
}

/// The server of the context in use, or the development server.
pub(crate) fn current() -> Result<ServerContext> {
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
        is_key_assumed: true,
    }
}

fn missing(name: &str) -> CommandError {
    CommandError::NotFound(format!(
        "there is no context '{name}': see `steadfast context list`"
    ))
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
