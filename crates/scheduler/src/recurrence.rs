//! Recurrences as JSON: parsing and serialization.

use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso;
use steadfast_jobs::recurrence::{Frequency, MonthlyOccurrence, Recurrence, Schedule, Weekday};

use super::error::SchedulerError;
use super::value::{JsonObject, spell};

pub(crate) const FREQUENCIES: [(&str, Frequency); 6] = [
    ("Minute", Frequency::Minute),
    ("Hour", Frequency::Hour),
    ("Day", Frequency::Day),
    ("Week", Frequency::Week),
    ("Month", Frequency::Month),
    ("Second", Frequency::Second),
];

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("Monday", Weekday::Monday),
    ("Tuesday", Weekday::Tuesday),
    ("Wednesday", Weekday::Wednesday),
    ("Thursday", Weekday::Thursday),
    ("Friday", Weekday::Friday),
    ("Saturday", Weekday::Saturday),
    ("Sunday", Weekday::Sunday),
];

/// Parses a recurrence. An end before `now` is rejected.
pub(crate) fn read(
    object: &JsonObject<'_>,
    now: Option<Timestamp>,
    allows_seconds: bool,
) -> Result<Recurrence, SchedulerError> {
    let frequency = object
        .word("frequency", &FREQUENCIES)?
        .ok_or_else(|| object.wrong("frequency", "it is required"))?;
    if frequency == Frequency::Second && !allows_seconds {
        let message = "it must be one of Minute, Hour, Day, Week, Month";
        return Err(object.wrong("frequency", message));
    }
    let most = i64::from(u32::MAX);
    let interval = object.number("interval")?.unwrap_or(1);
    let interval =
        u32::try_from(interval).map_err(|_| object.wrong("interval", "it must be 1 or more"))?;
    let count = object
        .number_in("count", 1..=most)?
        .map(|count| count as u32);
    let end = object.time("endTime")?;
    if let (Some(end), Some(now)) = (end, now)
        && end < now
    {
        return Err(object.wrong("endTime", "it lies in the past"));
    }
    let schedule = object.object("schedule")?;
    Ok(Recurrence {
        frequency,
        interval,
        count,
        end: end.map(|end| end.0),
        schedule: schedule
            .map(|schedule| read_schedule(&schedule))
            .transpose()?,
    })
}

fn read_schedule(object: &JsonObject<'_>) -> Result<Schedule, SchedulerError> {
    Ok(Schedule {
        week_days: read_weekdays(object)?,
        hours: read_numbers(object, "hours")?,
        minutes: read_numbers(object, "minutes")?,
        month_days: read_numbers(object, "monthDays")?,
        monthly_occurrences: read_occurrences(object)?,
    })
}

fn read_numbers(object: &JsonObject<'_>, name: &str) -> Result<Option<Vec<i32>>, SchedulerError> {
    let Some(list) = object.list(name) else {
        return Ok(None);
    };
    let number = |value: &&Value| value.as_i64().and_then(|n| i32::try_from(n).ok());
    let numbers: Option<Vec<_>> = list.iter().map(number).collect();
    match numbers {
        Some(numbers) => Ok(Some(numbers)),
        None => Err(object.wrong(name, "whole numbers are expected")),
    }
}

fn weekday(text: &str) -> Option<Weekday> {
    let found = WEEKDAYS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, day)| *day)
}

fn read_weekdays(object: &JsonObject<'_>) -> Result<Option<Vec<Weekday>>, SchedulerError> {
    let Some(list) = object.list("weekDays") else {
        return Ok(None);
    };
    let days: Option<Vec<_>> = list.iter().map(|day| weekday(day.as_str()?)).collect();
    match days {
        Some(days) => Ok(Some(days)),
        None => Err(object.wrong("weekDays", "days such as Monday are expected")),
    }
}

fn read_occurrences(
    object: &JsonObject<'_>,
) -> Result<Option<Vec<MonthlyOccurrence>>, SchedulerError> {
    let name = "monthlyOccurrences";
    let Some(list) = object.list(name) else {
        return Ok(None);
    };
    let read = |value: &&Value| {
        let item = JsonObject::new(value, object.at(name))?;
        let day = item.required_text("day")?;
        let day =
            weekday(day).ok_or_else(|| item.wrong("day", "a day such as Monday is expected"))?;
        let occurrence = match item.number("Occurrence")? {
            Some(occurrence) => Some(occurrence),
            None => item.number("occurrence")?,
        };
        let occurrence = occurrence.map(i32::try_from).transpose();
        let occurrence = occurrence.map_err(|_| item.wrong("Occurrence", "it is too large"))?;
        Ok(MonthlyOccurrence { day, occurrence })
    };
    list.iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// The JSON of a recurrence.
pub(crate) fn show(recurrence: &Recurrence) -> Value {
    let mut out = Map::new();
    let frequency = spell(&FREQUENCIES, &recurrence.frequency);
    out.insert("frequency".into(), frequency.into());
    out.insert("interval".into(), recurrence.interval.into());
    if let Some(count) = recurrence.count {
        out.insert("count".into(), count.into());
    }
    if let Some(end) = recurrence.end {
        out.insert("endTime".into(), iso::format_time(Timestamp(end)).into());
    }
    if let Some(schedule) = &recurrence.schedule {
        out.insert("schedule".into(), show_schedule(schedule));
    }
    out.into()
}

fn show_schedule(schedule: &Schedule) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(name.into(), value);
        }
    };
    let names = |days: &Vec<Weekday>| days.iter().map(|day| day.name()).collect::<Vec<_>>();
    put(
        "weekDays",
        schedule.week_days.as_ref().map(|days| json!(names(days))),
    );
    put("hours", schedule.hours.as_ref().map(|hours| json!(hours)));
    put(
        "minutes",
        schedule.minutes.as_ref().map(|minutes| json!(minutes)),
    );
    put(
        "monthDays",
        schedule.month_days.as_ref().map(|days| json!(days)),
    );
    let show = |item: &MonthlyOccurrence| match item.occurrence {
        Some(occurrence) => json!({"day": item.day.name(), "Occurrence": occurrence}),
        None => json!({"day": item.day.name()}),
    };
    let list = schedule.monthly_occurrences.as_ref();
    put(
        "monthlyOccurrences",
        list.map(|list| list.iter().map(show).collect()),
    );
    out.into()
}
