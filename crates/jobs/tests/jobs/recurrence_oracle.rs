//! Random recurrences against a filter of every minute.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use proptest::prelude::*;
use steadfast_core::clock::Timestamp;
use steadfast_jobs::recurrence::{
    Frequency, Gap, JobTiming, MonthlyOccurrence, OccurrencePlan, Recurrence, Schedule, Weekday,
};

const MINUTE: i64 = 60_000;

/// Asks the rule of every minute, in the words of the specification.
struct Oracle<'a> {
    rule: &'a Recurrence,
    schedule: &'a Schedule,
    zone: &'a TimeZone,
    start: i64,
}

impl Oracle<'_> {
    fn local(&self, instant: i64) -> DateTime {
        let stamp = jiff::Timestamp::from_millisecond(instant).unwrap();
        self.zone.to_datetime(stamp)
    }

    fn is_period(&self, local: DateTime, elapsed_minutes: i64, minutes_before: i64) -> bool {
        let first = self.local(self.start);
        let days = |when: DateTime| first.date().until(when.date()).unwrap().get_days();
        let interval = i64::from(self.rule.interval);
        let distance = match self.rule.frequency {
            Frequency::Minute => elapsed_minutes,
            Frequency::Hour => (elapsed_minutes + minutes_before).div_euclid(60),
            Frequency::Day => i64::from(days(local)),
            Frequency::Week => {
                let monday = |when: DateTime| i64::from(when.weekday().to_monday_zero_offset());
                let days = i64::from(days(local));
                (days - monday(local) + monday(first)) / 7
            }
            Frequency::Month => {
                let number = |when: DateTime| i64::from(when.year()) * 12 + i64::from(when.month());
                number(local) - number(first)
            }
            Frequency::Second => unreachable!("no schedule has seconds"),
        };
        distance % interval == 0
    }

    fn is_day(&self, local: DateTime) -> bool {
        let first = self.local(self.start);
        let own = Weekday::ALL[local.weekday().to_monday_zero_offset() as usize];
        match self.rule.frequency {
            Frequency::Week => match &self.schedule.week_days {
                Some(days) => days.contains(&own),
                None => local.weekday() == first.weekday(),
            },
            Frequency::Month => {
                let (day, length) = (i32::from(local.day()), i32::from(local.days_in_month()));
                let is_nth = |item: &MonthlyOccurrence| {
                    let before = (1..=day).filter(|d| (day - d) % 7 == 0).count() as i32;
                    let behind = (day..=length).filter(|d| (d - day) % 7 == 0).count() as i32;
                    let is_nth = |n: i32| n == before || n == -behind;
                    item.day == own && item.occurrence.is_none_or(is_nth)
                };
                let (listed, nth) = (
                    &self.schedule.month_days,
                    &self.schedule.monthly_occurrences,
                );
                if listed.is_none() && nth.is_none() {
                    return local.day() == first.day();
                }
                let is_listed =
                    |list: &Vec<i32>| list.iter().any(|d| *d == day || length + 1 + d == day);
                listed.as_ref().is_none_or(is_listed)
                    && nth.as_ref().is_none_or(|list| list.iter().any(is_nth))
            }
            _ => true,
        }
    }

    fn is_time(&self, local: DateTime) -> bool {
        let first = self.local(self.start);
        let (hours, minutes) = (&self.schedule.hours, &self.schedule.minutes);
        let in_list = |list: &Option<Vec<i32>>, n: i8| {
            list.as_ref().is_none_or(|l| l.contains(&i32::from(n)))
        };
        let is_hour = in_list(hours, local.hour());
        let is_minute = in_list(minutes, local.minute());
        let own_minute = minutes.is_some() || local.minute() == first.minute();
        match self.rule.frequency {
            Frequency::Minute => is_hour && is_minute,
            Frequency::Hour => is_hour && is_minute && own_minute,
            _ => {
                let own_hour = hours.is_some() || minutes.is_some() || local.hour() == first.hour();
                is_hour && is_minute && own_hour && own_minute
            }
        }
    }

    /// All slots in `[start, start + span)`.
    fn slots(&self, span_minutes: i64, gap: Gap) -> Vec<i64> {
        let first_minute = i64::from(self.local(self.start).minute());
        let by_elapsed = matches!(self.rule.frequency, Frequency::Minute | Frequency::Hour);
        let mut found = Vec::new();
        for minute in 0..span_minutes {
            let instant = self.start + minute * MINUTE;
            let local = self.local(instant);
            let is_it = |local| {
                self.is_period(local, minute, first_minute)
                    && self.is_day(local)
                    && self.is_time(local)
            };
            let is_second = match self.zone.to_ambiguous_timestamp(local).offset() {
                AmbiguousOffset::Fold { before, .. } => {
                    before.to_timestamp(local).unwrap().as_millisecond() != instant
                }
                _ => false,
            };
            let takes_both = by_elapsed && self.schedule.hours.is_none();
            if is_it(local) && (!is_second || takes_both) {
                found.push(instant);
            }
            // The minutes that the clocks leave out belong to the first one after.
            let before = self.local(instant - MINUTE);
            let mut left_out = before.checked_add(jiff::Span::new().minutes(1)).unwrap();
            while !by_elapsed && gap == Gap::Next && minute > 0 && left_out < local {
                if is_it(left_out) {
                    found.push(instant);
                }
                left_out = left_out.checked_add(jiff::Span::new().minutes(1)).unwrap();
            }
        }
        found.dedup();
        found
    }
}

fn frequency() -> impl Strategy<Value = Frequency> {
    use Frequency::{Day, Hour, Minute, Month, Week};
    prop::sample::select(vec![Minute, Hour, Day, Week, Month])
}

fn list(range: std::ops::Range<i32>, most: usize) -> impl Strategy<Value = Option<Vec<i32>>> {
    prop::option::of(prop::collection::vec(range, 1..most))
}

fn schedule(frequency: Frequency) -> impl Strategy<Value = Schedule> {
    let day = || prop::sample::select(Weekday::ALL.to_vec());
    let nth = prop::option::of(prop::sample::select(vec![
        1, 2, 3, 4, 5, -1, -2, -3, -4, -5,
    ]));
    let monthly = (day(), nth).prop_map(|(day, occurrence)| MonthlyOccurrence { day, occurrence });
    let month_day = prop_oneof![1..32, -31..0];
    let parts = (
        prop::option::of(prop::collection::vec(day(), 1..4)),
        list(0..24, 5),
        list(0..60, 5),
        prop::option::of(prop::collection::vec(month_day, 1..5)),
        prop::option::of(prop::collection::vec(monthly, 1..4)),
    );
    parts.prop_map(
        move |(week_days, hours, minutes, month_days, monthly_occurrences)| Schedule {
            week_days: week_days.filter(|_| frequency == Frequency::Week),
            hours,
            minutes,
            month_days: month_days.filter(|_| frequency == Frequency::Month),
            monthly_occurrences: monthly_occurrences.filter(|_| frequency == Frequency::Month),
        },
    )
}

fn recurrence() -> impl Strategy<Value = Recurrence> {
    let with = |frequency| (Just(frequency), 1..4u32, schedule(frequency));
    let parts = frequency().prop_flat_map(with);
    parts.prop_map(|(frequency, interval, schedule)| Recurrence {
        frequency,
        interval,
        count: None,
        end: None,
        schedule: Some(schedule),
    })
}

/// Zones whose clocks change by an hour, by half an hour, or not at all.
fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "UTC",
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
    ])
}

fn compare(rule: &Recurrence, zone_name: &str, start: i64, gap: Gap, span_minutes: i64) {
    let timing = JobTiming {
        start: Some(start),
        anchored: start,
        recurrence: Some(rule.clone()),
        zone: Some(zone_name.into()),
        gap,
        ..JobTiming::default()
    };
    let plan = OccurrencePlan::new(&timing).unwrap();
    let zone = TimeZone::get(zone_name).unwrap();
    let schedule = rule.schedule.as_ref().unwrap();
    let oracle = Oracle {
        rule,
        schedule,
        zone: &zone,
        start,
    };
    let expected = oracle.slots(span_minutes, gap);
    let end = start + span_minutes * MINUTE;
    let found: Vec<_> = plan
        .preview(Timestamp(start))
        .map(|t| t.0)
        .take_while(|t| *t < end)
        .collect();
    assert_eq!(found, expected, "{rule:?} {zone_name} from {start}");
    // Asking from anywhere gives the same answer as walking.
    for pick in [1, span_minutes / 3, span_minutes / 2] {
        let from = start + pick * MINUTE + 1;
        let next = expected.iter().copied().find(|slot| *slot >= from);
        if let Some(next) = next {
            assert_eq!(plan.at_or_after(Timestamp(from)), Some(Timestamp(next)));
        }
    }
}

/// 2024-01-01.
const BEGIN: i64 = 1_704_067_200_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_names_the_minutes_that_the_filter_names(
        rule in recurrence(), zone in zone(), offset in 0..(3 * 365 * 1440i64), skip in any::<bool>(),
    ) {
        let gap = if skip { Gap::Skip } else { Gap::Next };
        let start = BEGIN + offset * MINUTE;
        compare(&rule, zone, start, gap, 60 * 1440);
    }

    #[test]
    fn clocks_change_within_every_span(
        rule in recurrence(), offset in 0..1440i64, spring in any::<bool>(), skip in any::<bool>(),
    ) {
        // Two days before clocks change in Berlin, in 2025.
        let day = if spring { 1_743_120_000_000 } else { 1_761_264_000_000i64 };
        let gap = if skip { Gap::Skip } else { Gap::Next };
        compare(&rule, "Europe/Berlin", day + offset * MINUTE, gap, 5 * 1440);
    }

    #[test]
    fn steps_without_a_schedule_are_counted_from_the_start(
        frequency in frequency(), interval in 1..19u32, offset in 0..(365 * 1440i64), skip in 0..400i64,
    ) {
        let start = BEGIN + offset * MINUTE + 123;
        let recurrence = Recurrence { frequency, interval, count: None, end: None, schedule: None };
        let timing = JobTiming { start: Some(start), recurrence: Some(recurrence), ..JobTiming::default() };
        let plan = OccurrencePlan::new(&timing).unwrap();
        let first = jiff::Timestamp::from_millisecond(start).unwrap().to_zoned(TimeZone::UTC);
        let span = |k: i64| {
            let n = k * i64::from(interval);
            match frequency {
                Frequency::Second => jiff::Span::new().seconds(n),
                Frequency::Minute => jiff::Span::new().minutes(n),
                Frequency::Hour => jiff::Span::new().hours(n),
                Frequency::Day => jiff::Span::new().days(n),
                Frequency::Week => jiff::Span::new().weeks(n),
                Frequency::Month => jiff::Span::new().months(n),
            }
        };
        let kth = |k: i64| first.checked_add(span(k)).unwrap().timestamp().as_millisecond();
        let from = start + skip * 1000 * MINUTE;
        let expected: Vec<_> = (0..).map(kth).skip_while(|t| *t < from).take(5).collect();
        let found: Vec<_> = plan.preview(Timestamp(from)).map(|t| t.0).take(5).collect();
        prop_assert_eq!(found, expected);
    }
}
