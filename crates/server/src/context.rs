//! `steadfast context`: named servers and their keys.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;
use steadfast::net::connection_string::ConnectionString;

use crate::confirm::confirm;
use crate::exit::CommandError;
use crate::globals::{Globals, KEY_IS_VISIBLE};
use crate::output::{Facts, OutputFormat, PageArguments, Table, print};
use crate::server_context::{Contexts, ServerContext, address, load, missing, store};

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
        #[arg(long, hide = true)]
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
    List(PageArguments),
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
    #[command(after_help = "Examples:\n  steadfast context remove prod --yes")]
    Remove {
        /// Name of the context
        name: String,
    },
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
            if key.as_ref().is_some_and(|key| key != "-") {
                return Err(CommandError::Usage(KEY_IS_VISIBLE.to_owned()).into());
            }
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
            confirm(
                globals,
                &format!("remove the context '{name}' with its key"),
            )?;
            contexts.current.take_if(|current| current == name);
        }
        Command::List(page) => return list(&contexts, page, output),
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
        Command::List(_) | Command::Show { .. } => return Ok(()),
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

fn list(contexts: &Contexts, page: &PageArguments, output: OutputFormat) -> Result<()> {
    let row = |(name, server): (&String, &ServerContext)| {
        let is_current = contexts.current.as_ref() == Some(name);
        json!({"name": name, "url": server.url, "current": is_current})
    };
    let rows = contexts.server.iter().map(row).collect();
    Table::new("contexts", &["name", "url", "current"])
        .page(page.cut(rows, "name")?)
        .print(output)
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
