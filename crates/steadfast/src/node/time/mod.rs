//! The time of a node that is moved by hand.

mod driver;
mod error;
mod report;

pub(super) use driver::VirtualTime;
pub use error::{Error, ErrorKind};
pub use report::{AdvanceOptions, OpenWork, TimeReport, TimerEvent};
