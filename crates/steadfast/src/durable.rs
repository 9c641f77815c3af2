//! Orchestrations, activities and entities.
//!
//! An entity is a type whose methods are its operations. An orchestration is an
//! async function that survives its process: it is replayed from its history, so
//! it may await only futures of its [`Context`].
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use steadfast::durable::{Context, FailureDetails, NewInstance, Task, entity};
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Account {
//!     balance: i64,
//! }
//!
//! #[entity]
//! impl Account {
//!     fn add(&mut self, amount: i64) -> i64 {
//!         self.balance += amount;
//!         self.balance
//!     }
//!
//!     fn balance(&self) -> i64 {
//!         self.balance
//!     }
//! }
//!
//! async fn transfer(cx: Context, (from, to, amount): (String, String, i64)) -> Result<bool, FailureDetails> {
//!     let (from, to) = (Account::at(&from)?, Account::at(&to)?);
//!     let section = cx.lock([from.id(), to.id()]).await?; // released when it is dropped
//!     if from.balance(&cx).await? < amount {
//!         return Ok(false);
//!     }
//!     from.add(&cx, -amount).await?;
//!     to.add(&cx, amount).await?;
//!     drop(section);
//!     Ok(true)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = steadfast::Node::builder()
//!     .memory() // or .data("./data")
//!     .entity::<Account>()
//!     .orchestration("transfer", transfer)
//!     .start()
//!     .await?;
//! let hub = node.task_hubs().hub("default")?;
//! assert_eq!(Account::at("alice")?.add(&hub, 100).await, Ok(100));
//!
//! let task = Task::new("transfer", &("alice", "bob", 30))?;
//! let id = hub.start(NewInstance::of(task)).await?;
//! let end = hub.ended(&id, true).await?;
//! assert_eq!(end.output.as_deref(), Some("true"));
//! assert_eq!(Account::at("bob")?.balance(&hub).await, Ok(30));
//! # Ok(())
//! # }
//! ```
//!
//! The same functions can run in another process, as a [`TaskHubWorker`] of a server; there a
//! [`TaskHubClient`] takes the place of the [`TaskHub`].

#[cfg(feature = "client")]
pub use steadfast_client::durabletask::{TaskHubClient, TaskHubWorker, WorkerBuilder};
pub use steadfast_durable::native::*;
pub use steadfast_durable::*;
pub use steadfast_macros::entity;
