//! Task hubs: the API for clients and workers.

mod census;
mod diagnosis;
mod entities;
mod instances;
mod list;
mod owner_handler;
mod peers;
mod relay;
mod results;
mod task_hub;

pub use census::{ConnectedWorker, TaskHubDetails, TaskHubPage, WorkerPage};
pub use diagnosis::{Diagnosis, LockView, PendingWait};
pub use peers::WorkerPeers;
pub(crate) use task_hub::check_payload;
pub use task_hub::{TaskHub, TaskHubs};
