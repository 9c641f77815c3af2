//! Durable orchestrations and entities.
//!
//! An orchestration is replayed from its history; an entity is a state with a queue of
//! requests. Both are instances of one partitioned service. Workers run user code, in
//! this process or in another one: they receive [`Item`]s, and each result is one commit.

mod action;
mod aide;
mod command;
mod dispatch;
mod entity;
mod errands;
mod error;
mod event;
mod failure;
mod hub;
mod id;
mod instance;
mod letter;
mod moment;
pub mod native;
mod rows;
mod service;
mod status;
mod view;
mod work;

pub use action::{Action, Deed};
pub use command::Reuse;
pub use dispatch::{Delivery, Dispatcher, Worker};
pub use entity::Outcome;
pub use error::{Error, ErrorKind, Result};
pub use event::{
    Event, Legacy, LockRequest, NO_ACTION, Operation, Parent, Start, Tags, Task, Trace, Unlock,
    What,
};
pub use failure::Failure;
pub use hub::{LockView, Open, Others, TaskHub, TaskHubs, Why};
pub use id::{EntityId, KIND, is_entity};
pub use letter::{signal_letter, start_letter};
pub use moment::Moment;
pub use service::Instances;
pub use status::Status;
pub use view::{
    EntityQuery, EntityView, FinishedQuery, InstanceQuery, NewInstance, Overview, Page, PurgeQuery,
    Purged,
};
pub use work::{
    ActivityResult, ActivityWork, BatchResult, BatchWork, EntityAction, Filter, Filters, Item,
    Past, Requested, Span, Terms, TurnResult, TurnWork, Work,
};
