//! A node without the engine on PostgreSQL.
//!
//! There is no value of [`ShardedEngine`], so that nothing has to be handled.

use std::sync::Arc;

use serde_json::Value;
use steadfast_backup::{BackupOptions, BackupProgress, BackupReport};
use steadfast_storage::Engine;
use tokio::sync::watch;

use super::error::{Error, Result};
use crate::config::{Config, EngineKind, Error as ConfigError, ErrorKind};

pub(super) enum ShardedEngine {}

impl ShardedEngine {
    pub(super) fn cluster(&self) -> &str {
        match *self {}
    }

    pub(super) fn replay_lags_ms(&self) -> Vec<u64> {
        match *self {}
    }

    pub(super) fn statements(&self) -> Vec<u64> {
        match *self {}
    }
}

/// Refuses a configuration with this engine.
pub(super) fn check(config: &Config) -> Result<()> {
    match config.engine {
        EngineKind::Postgres => Err(refusal()),
        EngineKind::Local | EngineKind::Memory => Ok(()),
    }
}

pub(super) async fn open(_: &Config) -> Result<(Arc<dyn Engine>, Arc<ShardedEngine>)> {
    Err(refusal())
}

pub(super) async fn scrub(shards: &ShardedEngine) -> Value {
    match *shards {}
}

pub(super) async fn take_running(
    shards: &ShardedEngine,
    _: &BackupOptions,
    _: &watch::Sender<BackupProgress>,
) -> steadfast_storage::Result<BackupReport> {
    match *shards {}
}

fn refusal() -> Error {
    Error::Config(ConfigError::new(ErrorKind::Feature {
        key: "engine".to_owned(),
        place: "the program".to_owned(),
        feature: "postgres",
    }))
}
