//! Task hubs: the way in for clients and workers.

mod clerk;
mod entities;
mod instances;
mod list;
mod purge;
mod results;
mod task_hub;
mod why;

pub use task_hub::{TaskHub, TaskHubs};
pub use why::{LockView, Open, Why};
