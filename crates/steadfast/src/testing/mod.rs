//! Nodes for tests: virtual time, faults by name, restarts.
//!
//! A [`TestNode`] keeps its state in memory, opens no port, and its time stands still
//! until a test moves it. A job of next month runs now, and an orchestration that sleeps
//! for three days goes on at once:
//!
//! ```
//! use std::time::Duration;
//! use steadfast::durable::{Context, FailureDetails, NewInstance, Task};
//! use steadfast::testing::TestNode;
//!
//! async fn remind(cx: Context, text: String) -> Result<String, FailureDetails> {
//!     cx.sleep(Duration::from_secs(3 * 86_400)).await;
//!     Ok(format!("do not forget: {text}"))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = TestNode::builder().orchestration("remind", remind).start().await?;
//! let hub = world.node().task_hubs().hub("default")?;
//! let id = hub.start(NewInstance::of(Task::new("remind", &"milk")?)).await?;
//!
//! let report = world.advance(Duration::from_secs(3 * 86_400)).await?;
//!
//! assert_eq!(report.fired[0].key, id); // its timer
//! let end = hub.ended(&id, true).await?;
//! assert_eq!(end.output.as_deref(), Some("\"do not forget: milk\""));
//! # Ok(())
//! # }
//! ```
//!
//! # Which time is virtual
//!
//! Everything that is stored follows virtual time: timers of orchestrations, due times,
//! retries and histories of jobs, retention, the enqueued times of events, leases of
//! blobs, the times in results. It begins at 2026-01-01T00:00:00Z unless
//! [`TestNodeBuilder::starting_at`] says otherwise, and stands still between two moves.
//!
//! Everything that exists only while the process runs follows the system's clocks:
//! time-outs of calls and locks, idle connections, the validity of keys and tokens, leases
//! of nodes. Processors compare both, see the guide. So no move ends a connection, loses a
//! lock, or lets a token expire; and a test whose code hangs fails in real time.
//!
//! # What a move does
//!
//! [`TestNode::advance`] goes from one moment at which a timer is due to the next, in
//! order, and stops at each until everything has ended that the timers there have caused:
//! turns of orchestrations, activities, operations of entities, messages between
//! partitions, calls of jobs. Timers that are set on the way and are due before the
//! destination fire too, each at its own moment. A daily job runs 30 times in 30 days,
//! each time at its own time of day. Two moves of a day each do the same as one of two
//! days.
//!
//! A move that waits too long in real time fails with `STF-7072`, which counts what has not
//! ended; the time then stands at the moment that it was waiting at, and the next move
//! continues there. [`AdvanceOptions`] sets the limit, and can let activities go on while
//! time passes. Handlers of event processors are not waited for, nor are pushes to clients:
//! await their effects.
//!
//! # Faults
//!
//! [`TestNode::faults`] injects [`Fault`]s by name below the store, where a disk fails;
//! [`TestNode::restart`] ends the node as `kill -9` does and starts it again on what it had
//! committed.

mod fault;
mod faulty_engine;
mod test_node;

pub use fault::{Fault, Faults};
pub use test_node::{TestNode, TestNodeBuilder};

pub use crate::node::{
    AdvanceOptions, OpenWork, TimeError as Error, TimeErrorKind as ErrorKind, TimeReport,
    TimerEvent,
};
