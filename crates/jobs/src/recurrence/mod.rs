//! Computes when a job runs, as pure functions.

mod check;
mod plan;
mod rule;
mod schedule_times;
mod zone;

pub use check::TimingError;
pub use plan::OccurrencePlan;
pub use rule::{Frequency, Gap, JobTiming, MonthlyOccurrence, Recurrence, Schedule, Weekday};
