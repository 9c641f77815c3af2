//! The time of a node that is moved by hand.

mod driver;
mod error;
mod report;
mod virtual_time;

pub use error::{Error, ErrorKind};
pub use report::{AdvanceOptions, OpenWork, TimeReport, TimerEvent};
pub(super) use virtual_time::VirtualTime;
