//! The text from which keys that seal secrets are made.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use steadfast_protocols::access::Secret;
use steadfast_storage::private;

use super::error::{Error, Result};
use crate::config::{Config, Engine};

/// The text of the file that the configuration names. A data folder without one gets
/// a new one; a node that keeps nothing needs no file.
pub(super) fn text(config: &Config) -> Result<String> {
    let file = match (&config.jobs_secret_key, config.engine) {
        (Some(file), _) => file.clone(),
        // Both regions open what either has closed.
        (None, Engine::Local) if config.regions.role.is_some() => {
            let key = config.cluster_key.as_deref().unwrap_or_default();
            return Ok(format!("secrets of jobs: {key}"));
        }
        (None, Engine::Local) => config.data.join("secret.key"),
        (None, Engine::Memory) => return Ok(fresh(Path::new("memory"))?.reveal().to_owned()),
        // All nodes have the same one then.
        (None, Engine::Postgres) if config.cluster_key.is_some() => {
            let key = config.cluster_key.as_deref().unwrap_or_default();
            return Ok(format!("secrets of jobs: {key}"));
        }
        (None, Engine::Postgres) => {
            let why = "the engine postgres needs it or cluster.key, the same on every node";
            let error = crate::config::Error::value("jobs.secret_key", "the settings", why);
            return Err(error.into());
        }
    };
    match fs::read_to_string(&file) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Ok(_) => Err(wrong(&file, &"it is empty")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(&file),
        Err(error) => Err(wrong(&file, &error)),
    }
}

fn make(file: &PathBuf) -> Result<String> {
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
    Ok(text.to_owned())
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
