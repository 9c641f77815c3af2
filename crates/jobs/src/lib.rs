//! Jobs that run when they are due.

mod calendar;
pub mod iso;
pub mod recurrence;
