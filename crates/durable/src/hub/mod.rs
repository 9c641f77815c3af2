//! Task hubs: the API for clients and workers.

mod clerk;
mod direct;
mod entities;
mod instances;
mod list;
mod others;
mod purge;
mod relay;
mod results;
mod task_hub;
mod why;

pub use others::Others;
pub use task_hub::{TaskHub, TaskHubs};
pub use why::{LockView, Open, Why};
