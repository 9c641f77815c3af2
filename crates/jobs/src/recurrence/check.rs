//! Validation of timings.
//!
//! Every error names the invalid member, by its path below the job.

use std::fmt;

use crate::recurrence::rule::{Frequency, JobTiming, Recurrence, Schedule};
use crate::recurrence::zone::Zone;

/// An invalid member, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimingError {
    /// The path of the member, such as `recurrence.interval`.
    pub target: String,
    pub message: String,
}

impl TimingError {
    /// An error about one member.
    pub fn new(target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.target, self.message)
    }
}

impl std::error::Error for TimingError {}

impl JobTiming {
    /// Checks everything except that there is an occurrence.
    pub(crate) fn check(&self) -> Result<(), TimingError> {
        if let Some(name) = &self.zone
            && Zone::find(name).is_none()
        {
            return Err(TimingError::new(
                "steadfast.timeZone",
                format!("`{name}` is no IANA time zone"),
            ));
        }
        if let Some(recurrence) = &self.recurrence {
            recurrence.check()?;
            if self.cron.is_some() && recurrence.schedule.is_some() {
                let message = "a cron expression and a schedule exclude each other";
                return Err(TimingError::new("steadfast.cron", message));
            }
        }
        Ok(())
    }
}

impl Recurrence {
    fn check(&self) -> Result<(), TimingError> {
        let limit = match self.frequency {
            Frequency::Second | Frequency::Minute | Frequency::Hour => 1000,
            Frequency::Day => 548,
            Frequency::Week => 78,
            Frequency::Month => 18,
        };
        if self.interval == 0 || self.interval > limit {
            let message = format!("the interval must be 1 to {limit}");
            return Err(TimingError::new("recurrence.interval", message));
        }
        if self.count == Some(0) {
            return Err(TimingError::new(
                "recurrence.count",
                "the count must be 1 or more",
            ));
        }
        match &self.schedule {
            Some(schedule) => schedule.check(self.frequency),
            None => Ok(()),
        }
    }
}

impl Schedule {
    fn check(&self, frequency: Frequency) -> Result<(), TimingError> {
        let at = |member: &str| format!("recurrence.schedule.{member}");
        if frequency == Frequency::Second {
            let message = "seconds have no schedule";
            return Err(TimingError::new("recurrence.schedule", message));
        }
        check_numbers(
            &at("hours"),
            self.hours.as_deref(),
            |hour| (0..24).contains(&hour),
            "0 to 23",
        )?;
        let is_minute = |minute| (0..60).contains(&minute);
        check_numbers(
            &at("minutes"),
            self.minutes.as_deref(),
            is_minute,
            "0 to 59",
        )?;
        let is_day = |day: i32| day != 0 && (-31..=31).contains(&day);
        check_numbers(
            &at("monthDays"),
            self.month_days.as_deref(),
            is_day,
            "1 to 31 or -31 to -1",
        )?;
        if let Some(days) = &self.week_days {
            if frequency != Frequency::Week {
                return Err(TimingError::new(
                    at("weekDays"),
                    "only a weekly job has weekdays",
                ));
            }
            if days.is_empty() {
                return Err(TimingError::new(at("weekDays"), "the list is empty"));
            }
        }
        if self.month_days.is_some() && frequency != Frequency::Month {
            return Err(TimingError::new(
                at("monthDays"),
                "only a monthly job has days of the month",
            ));
        }
        self.check_occurrences(frequency)
    }

    fn check_occurrences(&self, frequency: Frequency) -> Result<(), TimingError> {
        let Some(list) = &self.monthly_occurrences else {
            return Ok(());
        };
        let target = "recurrence.schedule.monthlyOccurrences";
        if frequency != Frequency::Month {
            let message = "only a monthly job has occurrences of weekdays";
            return Err(TimingError::new(target, message));
        }
        if list.is_empty() {
            return Err(TimingError::new(target, "the list is empty"));
        }
        let is_wrong = |n: i32| n == 0 || !(-5..=5).contains(&n);
        if list
            .iter()
            .any(|item| item.occurrence.is_some_and(is_wrong))
        {
            Err(TimingError::new(
                format!("{target}.Occurrence"),
                "the occurrence must be 1 to 5 or -5 to -1",
            ))
        } else {
            Ok(())
        }
    }
}

fn check_numbers(
    target: &str,
    list: Option<&[i32]>,
    is_good: impl Fn(i32) -> bool,
    range: &str,
) -> Result<(), TimingError> {
    let Some(list) = list else {
        return Ok(());
    };
    if list.is_empty() {
        return Err(TimingError::new(target, "the list is empty"));
    }
    match list.iter().find(|number| !is_good(**number)) {
        Some(bad) => Err(TimingError::new(target, format!("{bad} is not {range}"))),
        None => Ok(()),
    }
}
