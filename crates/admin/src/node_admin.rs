//! The interface of REST to the node itself.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::clock::Timestamp;
use steadfast_net::access::Principal;
use steadfast_net::http::Problem;

/// The status of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    pub node: String,
    pub version: String,
    /// `starting`, `ready` or `draining`.
    pub state: String,
    pub uptime_s: u64,
    pub engine: String,
    pub data: Option<String>,
    /// Its listening addresses, by name.
    pub addresses: Vec<(String, String)>,
    pub partitions: Vec<StatusPartition>,
    /// The outcome of the last restore of this process.
    pub restore: Option<RestoreOutcome>,
    /// How far a running backup is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<WorkProgress>,
}

/// How far work on all partitions is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkProgress {
    /// Number of partitions.
    pub partitions: usize,
    /// Partitions that are finished.
    pub done: usize,
}

/// A request for a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeBackupRequest {
    /// The folder of backups, on the node's machine.
    pub to: PathBuf,
    /// Only changes since the newest backup there.
    #[serde(default)]
    pub incremental: bool,
}

/// A request to restore a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRestoreRequest {
    /// A backup, or a folder of backups, on the node's machine.
    pub from: PathBuf,
    /// Overwrite existing data.
    #[serde(default)]
    pub force: bool,
}

/// The outcome of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreOutcome {
    /// The number of the restore.
    pub number: u64,
    /// What was restored, or why it failed.
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

/// The report of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainReport {
    /// Partitions handed over.
    pub moved: u64,
    /// In-flight commands that were completed.
    pub completed: u64,
    /// Commands that were aborted at the time limit; their callers got an error.
    pub cut_off: u64,
    /// Partitions that could not be handed over.
    pub left: u64,
    /// Clients that disconnected when they were asked to reconnect: clients of hubs,
    /// AMQP connections, and streams of workers.
    #[serde(default)]
    pub clients: u64,
    /// Clients that were disconnected at the time limit.
    #[serde(default)]
    pub dropped: u64,
    /// Calls of hub clients that were accepted, and not answered before their clients were
    /// asked to reconnect.
    #[serde(default)]
    pub unanswered: u64,
    /// Partitions of volatile services whose state had no replica on another node. Acknowledged
    /// changes of durable ones are in the log, also after an abort.
    pub lost: u64,
    pub took_ms: u64,
}

/// A key, without its secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyInfo {
    pub name: String,
    pub rights: Vec<String>,
    /// Number of valid secrets.
    pub secrets: u8,
    /// The origin: keys of the configuration file are changed there.
    pub from: String,
}

/// A new secret, which is shown only once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeySecret {
    pub name: String,
    pub secret: String,
}

/// A request to move the time of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMoveRequest {
    pub target: TimeMoveTarget,
    /// The real time that the move may take.
    pub limit: Duration,
    /// Do not wait for activities and for calls of jobs.
    pub leaves_activities: bool,
}

/// Where the time is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMoveTarget {
    By(Duration),
    To(Timestamp),
}

/// Administration of the node.
#[async_trait]
pub trait NodeAdmin: Send + Sync + 'static {
    /// Its status.
    fn status(&self) -> NodeStatus;

    /// Its listening addresses, by name.
    fn addresses(&self) -> Vec<(String, String)>;

    /// Its time, and whether it is virtual.
    fn time(&self) -> Value;

    /// Moves virtual time; returns the time that was reached, and the timers that have
    /// fired.
    async fn move_time(&self, request: TimeMoveRequest) -> Result<Value, Problem>;

    /// Whether it accepts the well-known keys of development.
    fn is_development(&self) -> bool;

    /// Drains the node and returns the report. The process exits afterwards.
    async fn drain(&self, limit: Option<Duration>) -> Result<DrainReport, Problem>;

    /// Reloads keys, certificate and log level; returns the reloaded items.
    fn reload(&self) -> Result<Vec<String>, Problem>;

    /// Backs up the running node into a folder of its machine.
    async fn back_up(&self, order: NodeBackupRequest) -> Result<Value, Problem>;

    /// Drains the node, restores a backup and restarts. Returns the number of the restore,
    /// under which the status shows its outcome.
    async fn restore(&self, order: NodeRestoreRequest) -> Result<u64, Problem>;

    /// The status of the cluster.
    fn cluster(&self) -> Result<Value, Problem>;

    /// Moves a partition to a node.
    async fn move_partition(&self, partition: u16, node: &str) -> Result<(), Problem>;

    /// Verifies the data on all servers of all databases.
    async fn scrub(&self) -> Result<Value, Problem>;

    /// The status of the region pair.
    fn region(&self) -> Result<Value, Problem>;

    /// Makes this server's region the owner of a home's jobs, or of both homes of its pair.
    async fn fail_over(&self, home: Option<&str>, accepts_loss: bool) -> Result<(), Problem>;

    /// Makes each home of a pair, or this one, the owner of its jobs again.
    async fn fail_back(&self, home: Option<&str>) -> Result<(), Problem>;

    /// Inspects the contents of collections.
    async fn inspect(&self, question: Value) -> Result<Value, Problem>;

    /// All keys.
    fn keys(&self) -> Vec<KeyInfo>;

    /// Creates a key with no more rights than its creator's.
    fn create_key(
        &self,
        maker: &Principal,
        name: &str,
        rights: &[String],
    ) -> Result<KeySecret, Problem>;

    /// Rotates the secret of a key with no more rights than the caller's; the previous one
    /// stays valid until the next rotation.
    fn rotate_key(&self, maker: &Principal, name: &str) -> Result<KeySecret, Problem>;

    /// Deletes a key.
    fn delete_key(&self, name: &str) -> Result<(), Problem>;
}
