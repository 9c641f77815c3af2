//! Processors: members of a group that share its partitions.

mod attempt;
mod balance;
mod handler;
mod options;
mod progress;
mod pump;
mod work;

pub use balance::Processor;
pub use handler::{CloseReason, Context, Failure, Handled, Handler, Opening, Received, Trouble};
pub use options::{Guarantee, ProcessorOptions};
pub use progress::Every;
