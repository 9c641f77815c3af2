//! The recurrence in a job's definition.
//!
//! These types are stored in the definition of a job, so their fields never change
//! their meaning.

use steadfast_collections::schema::Record;

/// The unit that an interval counts.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Frequency {
    /// An extension of the original API, enabled by a setting.
    #[n(0)]
    Second,
    #[n(1)]
    Minute,
    #[n(2)]
    Hour,
    #[n(3)]
    Day,
    #[n(4)]
    Week,
    #[n(5)]
    Month,
}

/// A day of the week.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Weekday {
    #[n(0)]
    Monday,
    #[n(1)]
    Tuesday,
    #[n(2)]
    Wednesday,
    #[n(3)]
    Thursday,
    #[n(4)]
    Friday,
    #[n(5)]
    Saturday,
    #[n(6)]
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
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct MonthlyOccurrence {
    #[n(0)]
    pub day: Weekday,
    /// 1 to 5 from the front, -1 to -5 from the end.
    #[n(1)]
    pub occurrence: Option<i32>,
}

/// The times within the chosen periods.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub struct Schedule {
    #[n(0)]
    pub week_days: Option<Vec<Weekday>>,
    #[n(1)]
    pub hours: Option<Vec<i32>>,
    #[n(2)]
    pub minutes: Option<Vec<i32>>,
    #[n(3)]
    pub month_days: Option<Vec<i32>>,
    #[n(4)]
    pub monthly_occurrences: Option<Vec<MonthlyOccurrence>>,
}

/// How a job repeats.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Recurrence {
    #[n(0)]
    pub frequency: Frequency,
    #[n(1)]
    pub interval: u32,
    /// The maximum number of dispatched occurrences.
    #[n(2)]
    pub count: Option<u32>,
    /// The end of the recurrence, inclusive, in milliseconds since 1970.
    #[n(3)]
    pub end: Option<i64>,
    #[n(4)]
    pub schedule: Option<Schedule>,
}

/// What happens to a local time that a clock change skips.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum Gap {
    /// It runs at the first instant after the gap.
    #[default]
    #[n(0)]
    Next,
    /// It does not run.
    #[n(1)]
    Skip,
}

/// Everything that decides when a job runs.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", name = "Timing", closed)]
pub struct JobTiming {
    /// The start, if the definition has one; in milliseconds since 1970.
    #[n(0)]
    pub start: Option<i64>,
    /// When the job was created, or its timing last changed; likewise.
    #[n(1)]
    pub anchored: i64,
    #[n(2)]
    pub recurrence: Option<Recurrence>,
    /// A cron expression, in place of a recurrence's schedule.
    #[n(3)]
    pub cron: Option<String>,
    /// An IANA time zone; UTC if there is none.
    #[n(4)]
    pub zone: Option<String>,
    #[record(default)]
    #[n(5)]
    pub gap: Gap,
    /// Each occurrence is delayed by a fraction of it.
    #[record(default)]
    #[n(6)]
    pub jitter_ms: u64,
}
