//! A recurrence as its author wrote it.
//!
//! These types are stored in the definition of a job, so their fields never change
//! their meaning.

use serde::{Deserialize, Serialize};

/// The unit that an interval counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Frequency {
    /// Beyond the original: allowed by a setting only.
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
}

/// A day of the week.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Weekday {
    /// All of them, Monday first.
    pub const ALL: [Self; 7] = [
        Self::Monday,
        Self::Tuesday,
        Self::Wednesday,
        Self::Thursday,
        Self::Friday,
        Self::Saturday,
        Self::Sunday,
    ];

    /// Its English name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Monday => "Monday",
            Self::Tuesday => "Tuesday",
            Self::Wednesday => "Wednesday",
            Self::Thursday => "Thursday",
            Self::Friday => "Friday",
            Self::Saturday => "Saturday",
            Self::Sunday => "Sunday",
        }
    }
}

/// The n-th such weekday of a month; without a number, every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MonthlyOccurrence {
    pub day: Weekday,
    /// 1 to 5 from the front, -1 to -5 from the end.
    pub occurrence: Option<i32>,
}

/// Which moments of the chosen periods are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Schedule {
    pub week_days: Option<Vec<Weekday>>,
    pub hours: Option<Vec<i32>>,
    pub minutes: Option<Vec<i32>>,
    pub month_days: Option<Vec<i32>>,
    pub monthly_occurrences: Option<Vec<MonthlyOccurrence>>,
}

/// How a job repeats.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recurrence {
    pub frequency: Frequency,
    pub interval: u32,
    /// How many occurrences are dispatched at most.
    pub count: Option<u32>,
    /// The last moment at which one may be due, in milliseconds since 1970.
    pub end: Option<i64>,
    pub schedule: Option<Schedule>,
}

/// What happens to a local time that a change of clocks leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Gap {
    /// It runs at the first instant after the gap.
    #[default]
    Next,
    /// It does not run.
    Skip,
}

/// Everything that decides when a job runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timing {
    /// When it starts, if its author said so; in milliseconds since 1970.
    pub start: Option<i64>,
    /// When the job was made, or its timing last changed; likewise.
    pub anchored: i64,
    pub recurrence: Option<Recurrence>,
    /// A cron expression, in place of a recurrence's schedule.
    pub cron: Option<String>,
    /// An IANA time zone; UTC if there is none.
    pub zone: Option<String>,
    #[serde(default)]
    pub gap: Gap,
    /// Each occurrence is put off by some part of it.
    #[serde(default)]
    pub jitter_ms: u64,
}
