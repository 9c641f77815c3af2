//! When a job runs: pure, in and out.

mod check;
mod plan;
mod rule;
mod slots;
mod zone;

pub use check::Invalid;
pub use plan::Plan;
pub use rule::{Frequency, Gap, MonthlyOccurrence, Recurrence, Schedule, Timing, Weekday};
