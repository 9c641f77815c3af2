//! The server's secret and the keys derived from it.
//!
//! The keys encrypt the secrets of jobs, seal the keys of policies and backups, and sign
//! the tokens of SignalR clients. All nodes of a cluster derive the same keys.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use steadfast_backup::BackupKey;
use steadfast_net::access::CLIENT_KEY;
use steadfast_net::access::{Grant, Key, Secret};
use steadfast_storage::private;

use super::error::{Error, Result};
use crate::config::{Config, EngineKind};

/// The key that signs tokens of SignalR clients and has no other right.
pub(super) fn client_key(secret: &Secret) -> Key {
    let right = "listen realtime".parse::<Grant>();
    Key {
        name: CLIENT_KEY.to_owned(),
        grants: vec![right.expect("it is written as it should be")],
        primary: secret.derive("tokens for clients of hubs"),
        secondary: None,
    }
}

/// The key that seals backups: the text of the secret file as it is, so that a copy of the
/// file opens them on another machine. A node without durable state has none.
pub(super) fn backup_key(config: &Config) -> Result<Option<BackupKey>> {
    Ok(match origin(config)? {
        SecretSource::File(file) => {
            let key = BackupKey::new(read_or_make(&file)?.reveal());
            Some(key.of(file.display()))
        }
        SecretSource::Cluster(key) => Some(BackupKey::new(key).of("cluster.key")),
        SecretSource::Nowhere => None,
    })
}

/// The text of the secret file that the configuration names. A data folder without one
/// gets a new file; a node without durable state needs none.
pub(super) fn text(config: &Config) -> Result<Secret> {
    match origin(config)? {
        SecretSource::File(file) => read_or_make(&file),
        SecretSource::Cluster(key) => Ok(Secret::new(format!("secrets of jobs: {key}"))),
        SecretSource::Nowhere => fresh(Path::new("memory")),
    }
}

/// The source of a node's secret.
enum SecretSource<'a> {
    File(PathBuf),
    /// Derived from the cluster key, so that all nodes or both regions share it.
    Cluster(&'a str),
    /// Generated at every start.
    Nowhere,
}

fn origin(config: &Config) -> Result<SecretSource<'_>> {
    let cluster = config.cluster_key.as_deref();
    Ok(match (&config.jobs_secret_key, config.engine) {
        (Some(file), _) => SecretSource::File(file.clone()),
        (None, EngineKind::Local) if config.regions.role.is_some() => {
            SecretSource::Cluster(cluster.unwrap_or_default())
        }
        (None, EngineKind::Local) => SecretSource::File(config.data.join("secret.key")),
        (None, EngineKind::Memory) => SecretSource::Nowhere,
        (None, EngineKind::Postgres) => match cluster {
            Some(key) => SecretSource::Cluster(key),
            None => {
                let why = "the engine postgres needs it or cluster.key, the same on every node";
                let error = crate::config::Error::value("jobs.secret_key", "the settings", why);
                return Err(error.into());
            }
        },
    })
}

fn read_or_make(file: &Path) -> Result<Secret> {
    match fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => Ok(Secret::new(text.trim())),
        Ok(_) => Err(wrong(file, &"it is empty")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(file),
        Err(error) => Err(wrong(file, &error)),
    }
}

fn make(file: &Path) -> Result<Secret> {
    let secret = fresh(file)?;
    let text = secret.reveal();
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = private::create_dir_all(folder)
        .and_then(|()| options.open(file))
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::File::open(folder)?.sync_all());
    written.map_err(|error| wrong(file, &error))?;
    Ok(secret)
}

fn fresh(file: &Path) -> Result<Secret> {
    Secret::random().ok_or_else(|| wrong(file, &"the system has no random bytes"))
}

fn wrong(file: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Keys {
        file: file.to_owned(),
        why: why.to_string(),
    }
}
