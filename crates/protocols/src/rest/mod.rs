//! The native REST interface, below `/v1`.

mod audit;
mod blobs;
mod care;
mod cluster;
mod collections;
mod event_form;
mod event_routes;
mod eventhubs;
mod events;
mod groups;
mod hub_changes;
mod hubs;
mod identity;
mod interface;
mod node;
mod operator;
mod region;
mod state;

pub use audit::audit_routes;
pub use care::care_routes;
pub use cluster::cluster_routes;
pub use collections::{
    Collections, Condition, Described, Found, Page, PageEntry, Place, Range, SlotScheme, Step,
};
pub use event_routes::event_routes;
pub use eventhubs::Hubs;
pub use hubs::{HubDesk, hub_routes};
pub use identity::{Identity, identity_routes};
pub use interface::{Interface, Operation};
pub use node::{no_method, no_route, routes};
pub use operator::{
    BackupOrder, DrainSheet, KeyInfo, KeySecret, Operator, RestoreOrder, RestoreOutcome, Status,
    StatusPartition,
};
pub use region::region_routes;
pub use state::state_routes;
