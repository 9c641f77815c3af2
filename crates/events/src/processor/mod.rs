//! Processors: members of a group that share its partitions.

mod attempt;
mod balancer;
mod checkpoint_policy;
mod handler;
mod options;
mod pump;
mod shared;

pub use balancer::Processor;
pub use checkpoint_policy::CheckpointPolicy;
pub use handler::{
    CloseReason, Context, Handler, HandlerError, HandlerResult, PartitionStart, ProcessorError,
    ReceivedEvent,
};
pub use options::{Guarantee, ProcessorOptions};
