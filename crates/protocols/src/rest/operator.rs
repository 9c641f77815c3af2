//! What can be asked of the node itself.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::http::Problem;

/// How a node is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub node: String,
    pub version: String,
    /// `starting`, `ready` or `draining`.
    pub state: String,
    pub uptime_s: u64,
    pub engine: String,
    pub data: Option<String>,
    /// What it listens on, by name.
    pub addresses: Vec<(String, String)>,
    pub partitions: Vec<StatusPartition>,
}

/// A partition that the node serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusPartition {
    pub partition: String,
    pub epoch: u64,
    pub commands: u64,
    pub timers: u64,
    pub backlog: u64,
}

/// What became of everything when a node left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainSheet {
    /// Partitions that were handed over.
    pub moved: u64,
    /// Commands that were under way and were completed.
    pub completed: u64,
    /// Commands that were cut off at the limit; their callers were told.
    pub cut_off: u64,
    /// Partitions that could not be handed over.
    pub left: u64,
    /// Acknowledged changes that are gone.
    pub lost: u64,
    pub took_ms: u64,
}

/// A key, without its secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyInfo {
    pub name: String,
    pub rights: Vec<String>,
    /// How many secrets count now.
    pub secrets: u8,
    /// Keys of the configuration file are changed there.
    pub from: String,
}

/// A secret, on the one occasion when it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeySecret {
    pub name: String,
    pub secret: String,
}

/// The node, as its operators see it.
#[async_trait]
pub trait Operator: Send + Sync + 'static {
    /// How it is.
    fn status(&self) -> Status;

    /// Leaves, and says what became of everything. The process ends afterwards.
    async fn drain(&self, limit: Option<Duration>) -> Result<DrainSheet, Problem>;

    /// Reads keys, certificate and log level again; says what was read.
    fn reload(&self) -> Result<Vec<String>, Problem>;

    /// All keys.
    fn keys(&self) -> Vec<KeyInfo>;

    /// Makes a key.
    fn create_key(&self, name: &str, rights: &[String]) -> Result<KeySecret, Problem>;

    /// Gives a key a new secret; the former one counts until the next time.
    fn rotate_key(&self, name: &str) -> Result<KeySecret, Problem>;

    /// Removes a key.
    fn delete_key(&self, name: &str) -> Result<(), Problem>;
}
