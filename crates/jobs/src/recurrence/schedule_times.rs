//! The times of a schedule.
//!
//! Daily and longer frequencies are searched from large to small: period, day, time of
//! day. Minutes and hours are searched on elapsed time, filtered by the schedule. Every
//! search is bounded by ten years.

use crate::recurrence::rule::{Frequency, Gap, MonthlyOccurrence, Schedule};
use crate::recurrence::zone::Zone;
use steadfast_core::calendar::{DAY_MS, Date, HOUR_MS, MINUTE_MS, week, weekday};

/// How far ahead an occurrence is searched.
pub(crate) const REACH_MS: i64 = 3660 * DAY_MS;

/// A schedule, compiled for queries.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleTimes {
    frequency: Frequency,
    interval: i64,
    start: i64,
    zone: Zone,
    gap: Gap,
    /// Seconds and less of every slot.
    phase_ms: i64,
    hours: Option<u32>,
    minutes: Option<u64>,
    /// Minutes of the day at which a matching day has slots, ascending.
    times: Vec<i64>,
    week_days: u8,
    month_days: Option<Vec<i32>>,
    occurrences: Option<Vec<MonthlyOccurrence>>,
}

impl ScheduleTimes {
    pub(crate) fn new(
        frequency: Frequency,
        interval: u32,
        schedule: &Schedule,
        start: i64,
        phase_ms: i64,
        zone: Zone,
        gap: Gap,
    ) -> Self {
        let local = zone.local(start);
        let hours = schedule.hours.as_ref().map(|hours| mask(hours) as u32);
        let minutes = schedule.minutes.as_ref().map(|minutes| mask(minutes));
        let days = schedule.week_days.as_ref();
        let own_day = 1 << weekday(local.div_euclid(DAY_MS));
        let week_days = days.map_or(own_day, |days| {
            days.iter().fold(0, |m, day| m | 1 << *day as u8)
        });
        let date = Date::of(local.div_euclid(DAY_MS));
        let mut month_days = schedule.month_days.clone();
        if month_days.is_none() && schedule.monthly_occurrences.is_none() {
            month_days = Some(vec![date.day as i32]);
        }
        Self {
            frequency,
            interval: i64::from(interval),
            start,
            zone,
            gap,
            phase_ms,
            times: times(hours, minutes, local),
            hours,
            minutes,
            week_days,
            month_days,
            occurrences: schedule.monthly_occurrences.clone(),
        }
    }

    /// The first slot at `from` or later.
    pub(crate) fn at_or_after(&self, from: i64) -> Option<i64> {
        let from = from.max(self.start);
        match self.frequency {
            Frequency::Second | Frequency::Minute => self.minute_at_or_after(from),
            Frequency::Hour => self.hour_at_or_after(from),
            Frequency::Day | Frequency::Week | Frequency::Month => self.day_at_or_after(from),
        }
    }

    fn day_at_or_after(&self, from: i64) -> Option<i64> {
        let first = self.zone.local(from).div_euclid(DAY_MS);
        // A gap may move a slot of the previous day past midnight.
        let mut day = first - i64::from(!self.zone.is_utc());
        let last = first + REACH_MS / DAY_MS;
        while day <= last {
            let next = self.next_period(day);
            if next > day {
                day = next;
                continue;
            }
            if self.is_day(day)
                && let Some(slot) = self.slot_of_day(day, from)
            {
                return Some(slot);
            }
            day += 1;
        }
        None
    }

    /// The day itself if its period counts, else the first day of the next that
    /// does.
    fn next_period(&self, day: i64) -> i64 {
        let start = self.zone.local(self.start).div_euclid(DAY_MS);
        let missing = |number: i64, first: i64| (first - number).rem_euclid(self.interval);
        match self.frequency {
            Frequency::Week => match missing(week(day), week(start)) {
                0 => day,
                // Week 0 begins on Monday, three days before 1970.
                weeks => (week(day) + weeks) * 7 - 3,
            },
            Frequency::Month => {
                let month = Date::of(day).month_number();
                match missing(month, Date::of(start).month_number()) {
                    0 => day,
                    months => Date::clamped(month + months, 1).number(),
                }
            }
            _ => day + missing(day, start),
        }
    }

    fn is_day(&self, day: i64) -> bool {
        match self.frequency {
            Frequency::Week => self.week_days & 1 << weekday(day) != 0,
            Frequency::Month => self.is_day_of_month(day),
            _ => true,
        }
    }

    fn is_day_of_month(&self, day: i64) -> bool {
        let date = Date::of(day);
        let length = date.month_length();
        let from_end = date.day - length - 1;
        let is_listed = self.month_days.as_ref().is_none_or(|days| {
            let is_it = |listed: &i32| [date.day, from_end].contains(&i64::from(*listed));
            days.iter().any(is_it)
        });
        let own = weekday(day);
        let forwards = (date.day - 1) / 7 + 1;
        let backwards = -((length - date.day) / 7 + 1);
        is_listed
            && self.occurrences.as_ref().is_none_or(|list| {
                let is_nth = |n: i32| [forwards, backwards].contains(&i64::from(n));
                list.iter()
                    .any(|item| item.day as u8 == own && item.occurrence.is_none_or(is_nth))
            })
    }

    /// The first slot of a matching day at `from` or later.
    fn slot_of_day(&self, day: i64, from: i64) -> Option<i64> {
        let local = |minute: i64| day * DAY_MS + minute * MINUTE_MS + self.phase_ms;
        // Instants ascend with local times, so halving finds the first.
        let first = self
            .times
            .partition_point(|minute| self.zone.instant(local(*minute)).0 < from);
        self.times[first..]
            .iter()
            .find_map(|minute| self.zone.resolve(local(*minute), self.gap))
    }

    fn hour_at_or_after(&self, from: i64) -> Option<i64> {
        let offset = self.zone.offset_ms(self.start);
        let number = |instant: i64| (instant + offset).div_euclid(HOUR_MS);
        let first = number(self.start);
        let mut hour = number(from);
        hour += (first - hour).rem_euclid(self.interval);
        let minutes = match self.minutes {
            Some(minutes) => minutes,
            None => 1 << (self.zone.local(self.start).div_euclid(MINUTE_MS)).rem_euclid(60),
        };
        while hour * HOUR_MS - offset <= from + REACH_MS {
            let begin = hour * HOUR_MS - offset;
            for minute in 0..60 {
                let instant = begin + minute * MINUTE_MS + self.phase_ms;
                let is_minute = if self.zone.is_utc() {
                    minutes & 1 << minute != 0
                } else {
                    minutes & 1 << self.minute(instant) != 0
                };
                if is_minute && instant >= from && self.is_hour(instant) {
                    return Some(instant);
                }
            }
            hour += self.interval;
        }
        None
    }

    fn minute_at_or_after(&self, from: i64) -> Option<i64> {
        let first = self.start.div_euclid(MINUTE_MS);
        let align = |minute: i64| minute + (first - minute).rem_euclid(self.interval);
        let mut minute = align((from - self.phase_ms + MINUTE_MS - 1).div_euclid(MINUTE_MS));
        while minute * MINUTE_MS <= from + REACH_MS {
            let instant = minute * MINUTE_MS + self.phase_ms;
            if !self.is_hour(instant) {
                let local = self.zone.local(instant);
                let rest = HOUR_MS - local.rem_euclid(HOUR_MS);
                minute = align((instant + rest).div_euclid(MINUTE_MS).max(minute + 1));
                continue;
            }
            if self
                .minutes
                .is_none_or(|set| set & 1 << self.minute(instant) != 0)
            {
                return Some(instant);
            }
            minute += self.interval;
        }
        None
    }

    fn minute(&self, instant: i64) -> i64 {
        let local = self.zone.local(instant);
        local.div_euclid(MINUTE_MS).rem_euclid(60)
    }

    /// Whether the filter of hours lets an instant pass.
    fn is_hour(&self, instant: i64) -> bool {
        let Some(hours) = self.hours else {
            return true;
        };
        let hour = self.zone.local(instant).div_euclid(HOUR_MS).rem_euclid(24);
        hours & 1 << hour != 0 && !self.zone.is_repeated(instant)
    }
}

fn mask(numbers: &[i32]) -> u64 {
    numbers
        .iter()
        .fold(0, |mask, number| mask | 1 << (*number as u64 % 64))
}

/// The minutes of a day at which it has slots. Minutes alone mean every hour.
fn times(hours: Option<u32>, minutes: Option<u64>, local_start: i64) -> Vec<i64> {
    let own = local_start.rem_euclid(DAY_MS) / MINUTE_MS;
    let hours = match (hours, minutes) {
        (Some(hours), _) => hours,
        (None, Some(_)) => (1 << 24) - 1,
        (None, None) => 1 << (own / 60),
    };
    let minutes = minutes.unwrap_or(1 << (own % 60));
    let in_hours = (0..24).filter(|hour| hours & 1 << hour != 0);
    let in_minutes = |hour: i64| {
        (0..60)
            .filter(move |m| minutes & 1 << m != 0)
            .map(move |m| hour * 60 + m)
    };
    in_hours.flat_map(in_minutes).collect()
}
