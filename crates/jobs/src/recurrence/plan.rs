//! The occurrences of a job, one after the other.
//!
//! A plan is built from a [`JobTiming`] and is then read-only. The grid of a recurrence
//! without a schedule is anchored at the start: occurrence k is computed from the
//! start and never from the last run, so nothing drifts.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use steadfast_core::clock::Timestamp;

use crate::recurrence::check::TimingError;
use crate::recurrence::rule::{Frequency, Gap, JobTiming, Recurrence};
use crate::recurrence::schedule_times::{REACH_MS, ScheduleTimes};
use crate::recurrence::zone::Zone;
use steadfast_core::calendar::{DAY_MS, Date, HOUR_MS, MINUTE_MS};

/// When a job runs.
#[derive(Clone, Debug)]
pub struct OccurrencePlan {
    start: i64,
    /// Whether a start was given; otherwise the first run is immediate.
    has_start: bool,
    end: i64,
    rule: Rule,
    zone: Zone,
    gap: Gap,
}

#[derive(Clone, Debug)]
enum Rule {
    Once,
    /// An interval in milliseconds.
    Elapsed(i64),
    /// An interval in local days.
    Days(i64),
    /// An interval in months, clamped to their last day.
    Months(i64),
    Slots(Box<ScheduleTimes>),
    Cron(Box<Cron>),
}

impl OccurrencePlan {
    /// Validates a timing and builds its plan.
    pub fn new(timing: &JobTiming) -> Result<Self, TimingError> {
        timing.check()?;
        let zone = timing
            .zone
            .as_deref()
            .and_then(Zone::find)
            .unwrap_or(Zone::Utc);
        let start = timing.start.unwrap_or(timing.anchored);
        let recurrence = timing.recurrence.as_ref();
        let rule = match (&timing.cron, recurrence) {
            (Some(cron), _) => Rule::Cron(Box::new(parse_cron(cron)?)),
            (None, None) => Rule::Once,
            (None, Some(recurrence)) => repeat(recurrence, timing, &zone, start),
        };
        Ok(Self {
            start,
            has_start: timing.start.is_some(),
            end: recurrence
                .and_then(|recurrence| recurrence.end)
                .unwrap_or(i64::MAX),
            rule,
            zone,
            gap: timing.gap,
        })
    }

    /// Whether there is more than one occurrence.
    pub fn is_recurring(&self) -> bool {
        !matches!(self.rule, Rule::Once)
    }

    /// The first occurrence of a job that is created, or changed, now.
    pub fn first(&self, now: Timestamp) -> Option<Timestamp> {
        let is_immediate = !self.has_start && !matches!(self.rule, Rule::Cron(_));
        match &self.rule {
            Rule::Once => Some(Timestamp(self.start.max(now.0))),
            _ if is_immediate => (now.0 <= self.end).then_some(now),
            _ => self.at_or_after(now),
        }
    }

    /// The first occurrence of a recurring job at `from` or later.
    pub fn at_or_after(&self, from: Timestamp) -> Option<Timestamp> {
        let from = from.0.max(self.start);
        let found = match &self.rule {
            Rule::Once => None,
            Rule::Elapsed(step) => {
                let steps = (from - self.start + step - 1).div_euclid(*step);
                Some(self.start + steps * step)
            }
            Rule::Days(days) => self.day_step(from, *days),
            Rule::Months(months) => self.month_step(from, *months),
            Rule::Slots(slots) => slots.at_or_after(from),
            Rule::Cron(cron) => self.cron_slot(cron, from),
        };
        found.filter(|found| *found <= self.end).map(Timestamp)
    }

    /// The next occurrence after another.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        self.at_or_after(Timestamp(time.0.saturating_add(1)))
    }

    /// The last occurrence in `[from, to)`, if there is one. It costs about as much
    /// as there are occurrences in twice the distance to it.
    pub fn last_between(&self, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let mut reach = MINUTE_MS;
        loop {
            let begin = to.0.saturating_sub(reach).max(from.0);
            let found = self
                .at_or_after(Timestamp(begin))
                .filter(|found| *found < to);
            if let Some(mut last) = found {
                while let Some(next) = self.after(last).filter(|next| *next < to) {
                    last = next;
                }
                return Some(last);
            }
            if begin <= from.0 {
                return None;
            }
            reach = reach.saturating_mul(2);
        }
    }

    /// The last occurrences in `[from, to)`, at most `count`, in order. It costs about
    /// as much as there are occurrences in twice the distance to the first of them.
    pub fn last_ones(&self, from: Timestamp, to: Timestamp, count: usize) -> Vec<Timestamp> {
        let mut reach = MINUTE_MS;
        loop {
            let begin = to.0.saturating_sub(reach).max(from.0);
            let first = self.at_or_after(Timestamp(begin));
            let all = std::iter::successors(first, |last| self.after(*last));
            let mut found: Vec<_> = all.take_while(|found| *found < to).collect();
            if found.len() >= count || begin <= from.0 {
                return found.split_off(found.len().saturating_sub(count));
            }
            reach = reach.saturating_mul(2);
        }
    }

    /// The smallest distance between two of the next `count` occurrences.
    pub fn smallest_gap_ms(&self, now: Timestamp, count: usize) -> Option<i64> {
        let mut last = self.at_or_after(now)?;
        let mut smallest = None;
        for _ in 0..count {
            let Some(next) = self.after(last) else {
                break;
            };
            let gap = next.0 - last.0;
            smallest = Some(smallest.map_or(gap, |smallest: i64| smallest.min(gap)));
            last = next;
        }
        smallest
    }

    /// The occurrences of a job that is created now, ignoring its count.
    pub fn preview(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.first(now), |last| self.after(*last))
    }

    /// Steps of whole local days, at the local time of the start.
    fn day_step(&self, from: i64, days: i64) -> Option<i64> {
        let local = self.zone.local(self.start);
        let elapsed = (from - self.start).div_euclid(DAY_MS * days);
        self.first_step(from, elapsed, |step| local + step * days * DAY_MS)
    }

    fn month_step(&self, from: i64, months: i64) -> Option<i64> {
        let local = self.zone.local(self.start);
        let (day, of_day) = (local.div_euclid(DAY_MS), local.rem_euclid(DAY_MS));
        let date = Date::of(day);
        let wanted = Date::of(self.zone.local(from).div_euclid(DAY_MS));
        let elapsed = (wanted.month_number() - date.month_number()).div_euclid(months);
        self.first_step(from, elapsed, |step| {
            let month = date.month_number() + step * months;
            Date::clamped(month, date.day).number() * DAY_MS + of_day
        })
    }

    /// The first of ascending steps, from about step `near`, that is not too early.
    fn first_step(&self, from: i64, near: i64, local: impl Fn(i64) -> i64) -> Option<i64> {
        let mut step = (near - 1).max(0);
        loop {
            let at = local(step);
            if at > from + REACH_MS {
                return None;
            }
            match self.zone.resolve(at, self.gap) {
                Some(instant) if instant >= from => return Some(instant),
                _ => step += 1,
            }
        }
    }

    fn cron_slot(&self, cron: &Cron, from: i64) -> Option<i64> {
        let second = (from + 999).div_euclid(1000);
        let stamp = jiff::Timestamp::from_second(second).ok()?;
        let zoned = Zoned::new(stamp, self.zone.time_zone());
        let found = cron.find_next_occurrence(&zoned, true).ok()?;
        Some(found.timestamp().as_millisecond())
    }
}

fn parse_cron(text: &str) -> Result<Cron, TimingError> {
    let fields = text.split_whitespace().count();
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build();
    let wrong = |message: String| TimingError::new("steadfast.cron", message);
    if fields != 5 && fields != 6 && !text.trim_start().starts_with('@') {
        return Err(wrong("a cron expression has 5 or 6 fields".into()));
    }
    parser.parse(text).map_err(|error| wrong(error.to_string()))
}

fn repeat(recurrence: &Recurrence, timing: &JobTiming, zone: &Zone, start: i64) -> Rule {
    let interval = i64::from(recurrence.interval);
    if let Some(schedule) = &recurrence.schedule {
        // Without a start the slots fall on whole minutes.
        let phase_ms = timing
            .start
            .map_or(0, |start| zone.local(start).rem_euclid(MINUTE_MS));
        let slots = ScheduleTimes::new(
            recurrence.frequency,
            recurrence.interval,
            schedule,
            start,
            phase_ms,
            zone.clone(),
            timing.gap,
        );
        return Rule::Slots(Box::new(slots));
    }
    match recurrence.frequency {
        Frequency::Second => Rule::Elapsed(interval * 1000),
        Frequency::Minute => Rule::Elapsed(interval * MINUTE_MS),
        Frequency::Hour => Rule::Elapsed(interval * HOUR_MS),
        Frequency::Day if zone.is_utc() => Rule::Elapsed(interval * DAY_MS),
        Frequency::Week if zone.is_utc() => Rule::Elapsed(interval * 7 * DAY_MS),
        Frequency::Day => Rule::Days(interval),
        Frequency::Week => Rule::Days(interval * 7),
        Frequency::Month => Rule::Months(interval),
    }
}
