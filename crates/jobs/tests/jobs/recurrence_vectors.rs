//! The recurrences whose runs are known by heart.

use steadfast_core::clock::Timestamp;
use steadfast_core::iso::{format_time, parse_time};
use steadfast_jobs::recurrence::{
    Frequency, Gap, JobTiming, MonthlyOccurrence, OccurrencePlan, Recurrence, Schedule, Weekday,
};

fn at(text: &str) -> i64 {
    parse_time(text).unwrap_or_else(|| panic!("{text}")).0
}

fn weekday(text: &str) -> Weekday {
    let found = Weekday::ALL
        .into_iter()
        .find(|day| day.name().starts_with(text));
    found.unwrap_or_else(|| panic!("{text}"))
}

fn numbers(text: &str) -> Option<Vec<i32>> {
    Some(text.split(',').map(|n| n.parse().unwrap()).collect())
}

fn occurrence(text: &str) -> MonthlyOccurrence {
    let (day, n) = text.split_at(2);
    let occurrence = (!n.is_empty()).then(|| n.parse().unwrap());
    MonthlyOccurrence {
        day: weekday(day),
        occurrence,
    }
}

/// Reads `Week/2 h[17] m[0] wd[Mo,We] end 2025-06-08T08:00 count 5`.
fn rule(text: &str) -> Option<Recurrence> {
    let mut words = text.split_whitespace();
    let (frequency, interval) = words.next()?.split_once('/')?;
    let frequency = match frequency {
        "Minute" => Frequency::Minute,
        "Hour" => Frequency::Hour,
        "Day" => Frequency::Day,
        "Week" => Frequency::Week,
        "Month" => Frequency::Month,
        other => panic!("{other}"),
    };
    let mut rule = Recurrence {
        frequency,
        interval: interval.parse().unwrap(),
        count: None,
        end: None,
        schedule: None,
    };
    while let Some(word) = words.next() {
        match word {
            "end" => rule.end = Some(at(words.next()?)),
            "count" => rule.count = Some(words.next()?.parse().unwrap()),
            _ => {
                let (name, list) = word.strip_suffix(']').unwrap().split_once('[').unwrap();
                let schedule = rule.schedule.get_or_insert_default();
                match name {
                    "h" => schedule.hours = numbers(list),
                    "m" => schedule.minutes = numbers(list),
                    "md" => schedule.month_days = numbers(list),
                    "wd" => schedule.week_days = Some(list.split(',').map(weekday).collect()),
                    "mo" => {
                        let list = list.split(',').map(occurrence).collect();
                        schedule.monthly_occurrences = Some(list);
                    }
                    other => panic!("{other}"),
                }
            }
        }
    }
    Some(rule)
}

#[test]
fn every_vector_gives_its_runs() {
    let vectors = include_str!("../vectors.txt").lines();
    for line in vectors.filter(|line| line.starts_with('R')) {
        let parts: Vec<_> = line.split('|').map(str::trim).collect();
        let [id, now, start, text, runs] = parts[..] else {
            panic!("{line}");
        };
        let recurrence = rule(text);
        let start = match start {
            "-" => None,
            "=" => Some(at(now)),
            start => Some(at(start)),
        };
        let count = recurrence.as_ref().and_then(|rule| rule.count);
        let anchored = at(now);
        let timing = JobTiming {
            start,
            anchored,
            recurrence,
            ..JobTiming::default()
        };
        let plan = OccurrencePlan::new(&timing).unwrap();
        let (runs, is_end) = match runs.strip_suffix(";end") {
            Some(runs) => (runs, true),
            None => (runs, false),
        };
        let expected: Vec<_> = runs
            .split(' ')
            .map(|run| format_time(Timestamp(at(run))))
            .collect();
        let limit = expected.len() + usize::from(is_end);
        let limit = count.map_or(limit, |count| limit.min(count as usize));
        let found: Vec<_> = plan
            .preview(Timestamp(at(now)))
            .take(limit)
            .map(format_time)
            .collect();
        assert_eq!(found, expected, "{id}");
    }
}

fn berlin(gap: Gap, hours: Option<Vec<i32>>, frequency: Frequency, start: &str) -> OccurrencePlan {
    let minutes = Some(vec![30]);
    let schedule = Some(Schedule {
        hours,
        minutes,
        ..Schedule::default()
    });
    let recurrence = Recurrence {
        frequency,
        interval: 1,
        count: None,
        end: None,
        schedule,
    };
    let timing = JobTiming {
        start: Some(at(start)),
        anchored: at(start),
        recurrence: Some(recurrence),
        zone: Some("Europe/Berlin".into()),
        gap,
        ..JobTiming::default()
    };
    OccurrencePlan::new(&timing).unwrap()
}

fn runs(plan: &OccurrencePlan, now: &str, count: usize) -> Vec<String> {
    plan.preview(Timestamp(at(now)))
        .take(count)
        .map(format_time)
        .collect()
}

#[test]
fn clocks_that_change_neither_lose_nor_repeat_a_daily_run() {
    let start = "2025-03-01T00:00:00Z";
    let plan = berlin(Gap::Next, Some(vec![2]), Frequency::Day, start);
    let spring = [
        "2025-03-29T01:30:00Z",
        "2025-03-30T01:00:00Z",
        "2025-03-31T00:30:00Z",
    ];
    assert_eq!(runs(&plan, "2025-03-28T12:00Z", 3), spring);
    let autumn = [
        "2025-10-25T00:30:00Z",
        "2025-10-26T00:30:00Z",
        "2025-10-27T01:30:00Z",
    ];
    assert_eq!(runs(&plan, "2025-10-24T12:00Z", 3), autumn);
    let plan = berlin(Gap::Skip, Some(vec![2]), Frequency::Day, start);
    let skipped = ["2025-03-29T01:30:00Z", "2025-03-31T00:30:00Z"];
    assert_eq!(runs(&plan, "2025-03-28T12:00Z", 2), skipped);
}

#[test]
fn an_hourly_run_goes_by_elapsed_time() {
    let plan = berlin(Gap::Next, None, Frequency::Hour, "2025-03-01T00:00:00Z");
    let spring = [
        "2025-03-30T00:30:00Z",
        "2025-03-30T01:30:00Z",
        "2025-03-30T02:30:00Z",
    ];
    assert_eq!(runs(&plan, "2025-03-30T00:00Z", 3), spring);
    let autumn = [
        "2025-10-26T00:30:00Z",
        "2025-10-26T01:30:00Z",
        "2025-10-26T02:30:00Z",
    ];
    assert_eq!(runs(&plan, "2025-10-26T00:00Z", 3), autumn);
}

#[test]
fn a_daily_grid_keeps_its_local_time() {
    let recurrence = rule("Day/1");
    let timing = JobTiming {
        start: Some(at("2025-03-28T08:00+01:00")),
        anchored: 0,
        recurrence,
        zone: Some("Europe/Berlin".into()),
        ..JobTiming::default()
    };
    let plan = OccurrencePlan::new(&timing).unwrap();
    let expected = [
        "2025-03-28T07:00:00Z",
        "2025-03-29T07:00:00Z",
        "2025-03-30T06:00:00Z",
        "2025-03-31T06:00:00Z",
    ];
    assert_eq!(runs(&plan, "2025-03-01T00:00Z", 4), expected);
}

#[test]
fn cron_expressions_have_five_or_six_fields() {
    let plan = |cron: &str, zone: Option<&str>| {
        OccurrencePlan::new(&JobTiming {
            cron: Some(cron.into()),
            zone: zone.map(Into::into),
            anchored: at("2025-06-01T00:00Z"),
            ..JobTiming::default()
        })
    };
    let five = plan("30 8 * * MON-FRI", Some("Europe/Berlin")).unwrap();
    let expected = ["2025-06-06T06:30:00Z", "2025-06-09T06:30:00Z"];
    assert_eq!(runs(&five, "2025-06-05T12:00Z", 2), expected);
    let six = plan("*/20 * * * * *", None).unwrap();
    let expected = [
        "2025-06-05T12:00:20Z",
        "2025-06-05T12:00:40Z",
        "2025-06-05T12:01:00Z",
    ];
    assert_eq!(runs(&six, "2025-06-05T12:00:01Z", 3), expected);
    for bad in ["* * *", "61 * * * *", "", "a b c d e", "* * * * * * 2030"] {
        let error = plan(bad, None).unwrap_err();
        assert_eq!(error.target, "steadfast.cron", "{bad}");
    }
}

#[test]
fn bad_rules_name_the_member_that_is_wrong() {
    let cases = [
        ("Day/0", "recurrence.interval"),
        ("Day/549", "recurrence.interval"),
        ("Week/79", "recurrence.interval"),
        ("Month/19", "recurrence.interval"),
        ("Hour/1001", "recurrence.interval"),
        ("Day/1 count 0", "recurrence.count"),
        ("Day/1 h[24]", "recurrence.schedule.hours"),
        ("Day/1 h[-1]", "recurrence.schedule.hours"),
        ("Day/1 m[60]", "recurrence.schedule.minutes"),
        ("Day/1 wd[Mo]", "recurrence.schedule.weekDays"),
        ("Week/1 md[1]", "recurrence.schedule.monthDays"),
        ("Month/1 md[0]", "recurrence.schedule.monthDays"),
        ("Month/1 md[32]", "recurrence.schedule.monthDays"),
        ("Week/1 mo[Fr+1]", "recurrence.schedule.monthlyOccurrences"),
        (
            "Month/1 mo[Fr+6]",
            "recurrence.schedule.monthlyOccurrences.Occurrence",
        ),
        (
            "Month/1 mo[Fr+0]",
            "recurrence.schedule.monthlyOccurrences.Occurrence",
        ),
    ];
    for (text, target) in cases {
        let timing = JobTiming {
            recurrence: rule(text),
            ..JobTiming::default()
        };
        assert_eq!(
            OccurrencePlan::new(&timing).unwrap_err().target,
            target,
            "{text}"
        );
    }
    let timing = JobTiming {
        zone: Some("Nowhere/Town".into()),
        ..JobTiming::default()
    };
    assert_eq!(
        OccurrencePlan::new(&timing).unwrap_err().target,
        "steadfast.timeZone"
    );
}

#[test]
fn a_rule_without_any_slot_says_so() {
    for text in ["Month/12 md[30]", "Minute/60 m[5]", "Hour/24 h[9]"] {
        let timing = JobTiming {
            start: Some(at("2025-02-01T08:00")),
            recurrence: rule(text),
            ..JobTiming::default()
        };
        let plan = OccurrencePlan::new(&timing).unwrap();
        assert_eq!(
            plan.first(Timestamp(at("2025-02-01T08:00"))),
            None,
            "{text}"
        );
    }
}

#[test]
fn the_last_occurrence_before_a_moment_is_found() {
    let timing = JobTiming {
        start: Some(at("2025-01-01T00:00")),
        recurrence: rule("Month/1 md[13] mo[Fr]"),
        ..JobTiming::default()
    };
    let plan = OccurrencePlan::new(&timing).unwrap();
    let begin = Timestamp(at("2025-01-01T00:00"));
    let last = plan.last_between(begin, Timestamp(at("2026-02-01T00:00")));
    assert_eq!(last.map(format_time).unwrap(), "2025-06-13T00:00:00Z");
    assert_eq!(
        plan.last_between(begin, Timestamp(at("2025-06-13T00:00"))),
        None
    );
}
