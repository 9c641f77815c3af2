//! Named servers and their keys, in a private file.
//!
//! Without contexts, commands use the development server on this machine.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::exit::CommandError;

/// The address and key of the development server.
const DEVELOPMENT_URL: &str = "http://127.0.0.1:7070";
const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";

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
pub(crate) struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) server: BTreeMap<String, ServerContext>,
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
pub(crate) fn address(url: &str) -> Result<String> {
    let url = url.trim_end_matches('/');
    match reqwest::Url::parse(url) {
        Ok(parsed)
            if matches!(parsed.scheme(), "http" | "https")
                && parsed.has_host()
                && parsed.username().is_empty()
                && parsed.password().is_none()
                && parsed.query().is_none() =>
        {
            Ok(url.to_owned())
        }
        _ => {
            let message = "the URL is not an address such as https://host:7070, without a user";
            Err(CommandError::Usage(message.to_owned()).into())
        }
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

pub(crate) fn missing(name: &str) -> CommandError {
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

pub(crate) fn load() -> Result<Contexts> {
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

pub(crate) fn store(contexts: &Contexts) -> Result<()> {
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
