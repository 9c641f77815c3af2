//! The native REST interface, below `/v1`.

mod audit;
mod blobs;
mod cluster;
mod collections;
mod event_json;
mod event_routes;
mod eventhub_changes;
mod eventhubs;
mod events;
mod groups;
mod hubs;
mod identity;
mod interface;
mod logs;
mod maintenance;
mod node;
mod node_admin;
mod outgoing;
mod page;
mod region;
mod state;
mod taskhubs;
mod time;
mod transactions;

pub use audit::audit_routes;
pub use cluster::cluster_routes;
pub use collections::{
    CollectionsBackend, CommitResponse, EntryPage, EntryRange, IdempotencyKey, JobPath, PageEntry,
    PartitionAddress, PartitionScheme, QueueEntry, QueuePage, ServiceDescription, ServiceListing,
    ServicePage, StepResult, TransactionCommit, TransactionStep, VisibilityFilter,
    WritePrecondition,
};
pub use event_routes::event_routes;
pub use eventhubs::EventHubContext;
pub use hubs::{HubAdmin, hub_routes};
pub use identity::{CallerIdentity, identity_routes};
pub use interface::{ApiOperation, Interface};
pub use logs::{NodeLog, log_routes};
pub use maintenance::maintenance_routes;
pub use node::{no_method, no_route, routes};
pub use node_admin::{
    DrainReport, KeyInfo, KeySecret, NodeAdmin, NodeBackupRequest, NodeRestoreRequest, NodeStatus,
    RestoreOutcome, StatusPartition, TimeMoveRequest, TimeMoveTarget, WorkProgress,
};
pub use region::region_routes;
pub use state::state_routes;
pub use taskhubs::{TaskHubAdmin, task_hub_routes};
pub use time::time_routes;
pub use transactions::transaction_routes;
