//! What can be asked of the node itself.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Pass;
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
    /// How the last restore of this process went.
    pub restore: Option<RestoreOutcome>,
}

/// A backup to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupOrder {
    /// The folder of backups, on the node's machine.
    pub to: PathBuf,
    /// Only what has changed since the newest backup there.
    #[serde(default)]
    pub incremental: bool,
}

/// A backup to bring back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreOrder {
    /// A backup, or a folder of backups, on the node's machine.
    pub from: PathBuf,
    /// Give up whatever is there.
    #[serde(default)]
    pub force: bool,
}

/// How bringing a backup back went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreOutcome {
    /// Which one this was.
    pub number: u64,
    /// What was restored, or why nothing was.
    pub outcome: Result<Value, String>,
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
    /// Clients that went when they were told to come back elsewhere: those of hubs,
    /// connections of AMQP, and streams of workers.
    #[serde(default)]
    pub clients: u64,
    /// Clients that did not go in time.
    #[serde(default)]
    pub dropped: u64,
    /// Calls of clients of hubs that were taken, and not answered before their clients
    /// were told to go.
    #[serde(default)]
    pub unanswered: u64,
    /// Slots of volatile services whose state no other node had. What was acknowledged
    /// of durable ones is in the log, also where the limit struck.
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

    /// What it listens on, by name.
    fn addresses(&self) -> Vec<(String, String)>;

    /// Whether it lets in the keys that everybody knows.
    fn is_development(&self) -> bool;

    /// Leaves, and says what became of everything. The process ends afterwards.
    async fn drain(&self, limit: Option<Duration>) -> Result<DrainSheet, Problem>;

    /// Reads keys, certificate and log level again; says what was read.
    fn reload(&self) -> Result<Vec<String>, Problem>;

    /// Backs up everything while it is in use, into a folder of the node's machine.
    async fn back_up(&self, order: BackupOrder) -> Result<Value, Problem>;

    /// Has the node leave, bring a backup back, and start again. Answers the number
    /// under which its status tells how that went.
    async fn restore(&self, order: RestoreOrder) -> Result<u64, Problem>;

    /// How the cluster stands.
    fn cluster(&self) -> Result<Value, Problem>;

    /// Has a node take a partition.
    async fn move_partition(&self, partition: u16, node: &str) -> Result<(), Problem>;

    /// Checks everything on all servers of all databases.
    async fn scrub(&self) -> Result<Value, Problem>;

    /// How the pair of regions stands.
    fn region(&self) -> Result<Value, Problem>;

    /// Has this server's region own the jobs of a home, or of both homes of its pair.
    async fn fail_over(&self, home: Option<&str>, accepts_loss: bool) -> Result<(), Problem>;

    /// Has each home of a pair, or this one, own its jobs.
    async fn fail_back(&self, home: Option<&str>) -> Result<(), Problem>;

    /// Looks at what collections hold.
    async fn inspect(&self, question: Value) -> Result<Value, Problem>;

    /// All keys.
    fn keys(&self) -> Vec<KeyInfo>;

    /// Makes a key that may do no more than its maker's.
    fn create_key(&self, maker: &Pass, name: &str, rights: &[String])
    -> Result<KeySecret, Problem>;

    /// Gives a key that may do no more than the maker's a new secret; the former one counts until the next time.
    fn rotate_key(&self, maker: &Pass, name: &str) -> Result<KeySecret, Problem>;

    /// Removes a key.
    fn delete_key(&self, name: &str) -> Result<(), Problem>;
}
