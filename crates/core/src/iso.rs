//! Times and durations as text.
//!
//! Times are read with any number of fraction digits and any offset, and written
//! in UTC. Durations are read in two forms, ISO 8601 and `[d.]hh:mm:ss`, and
//! written in the first. Bad text is `None`, never a panic.

use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::{Timestamp, whole_ms};

use crate::calendar::{DAY_MS, Date, days_in_month};

/// Reads a time. Without an offset it is UTC; a bare date is its midnight.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if !text.is_ascii() || text.len() < 10 {
        return None;
    }
    let (date, rest) = text.split_at(10);
    let day = parse_date(date)?;
    if rest.is_empty() {
        return Some(Timestamp(day * DAY_MS));
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset_ms) = split_offset(rest)?;
    let of_day = parse_clock(clock)?;
    Some(Timestamp(day * DAY_MS + of_day - offset_ms))
}

/// Writes a time in UTC, with as many digits after the second as it needs.
pub fn format_time(time: Timestamp) -> String {
    let mut text = format_seconds(time);
    match time.0.rem_euclid(1000) {
        0 => text.push('Z'),
        ms => {
            let fraction = format!("{ms:03}");
            let _ = write!(text, ".{}Z", fraction.trim_end_matches('0'));
        }
    }
    text
}

/// Writes a time in UTC to the second, without the `Z`.
pub fn format_seconds(time: Timestamp) -> String {
    let date = Date::of(time.0.div_euclid(DAY_MS));
    let second = time.0.rem_euclid(DAY_MS) / 1000;
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        date.year,
        date.month,
        date.day,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let is_real = year > 0 && (1..=12).contains(&month);
    if !is_real || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    Some(Date { year, month, day }.number())
}

/// Splits `12:00:00+02:00` into the clock and the offset.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, offset) = text.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let offset = &offset[1..];
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None if offset.len() == 4 => offset.split_at(2),
        None => (offset, "00"),
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 15 || minutes > 59 {
        return None;
    }
    Some((clock, sign * (hours * 60 + minutes) * 60_000))
}

/// Milliseconds of `hh:mm[:ss[.fff]]`; further digits are cut off.
fn parse_clock(text: &str) -> Option<i64> {
    let (whole, fraction) = match text.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let mut parts = whole.split(':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let second = parts.next().unwrap_or("00");
    let is_short = [hour, minute, second].iter().all(|part| part.len() == 2);
    if !is_short || parts.next().is_some() {
        return None;
    }
    let (hour, minute, second) = (digits(hour)?, digits(minute)?, digits(second)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(((hour * 60 + minute) * 60 + second) * 1000 + parse_fraction(fraction)?)
}

fn parse_fraction(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut ms = 0;
    for index in 0..3 {
        ms = ms * 10
            + text
                .as_bytes()
                .get(index)
                .map_or(0, |d| i64::from(d - b'0'));
    }
    Some(ms)
}

fn digits(text: &str) -> Option<i64> {
    let is_plain = !text.is_empty() && text.len() <= 9;
    if !is_plain || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Reads `PT30S`, `P1DT30S`, the malformed `PT1D`, or `[d.]hh:mm:ss[.fff]`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let ms = match text.strip_prefix(['P', 'p']) {
        Some(rest) => parse_iso_duration(rest)?,
        None => parse_span(text)?,
    };
    Some(Duration::from_millis(ms))
}

fn parse_iso_duration(text: &str) -> Option<u64> {
    let (mut total, mut number, mut is_time) = (0u64, String::new(), false);
    let mut has_part = false;
    for c in text.chars() {
        match c {
            '0'..='9' | '.' => number.push(c),
            'T' | 't' if number.is_empty() && !is_time => is_time = true,
            unit => {
                let unit_ms = match (unit.to_ascii_uppercase(), is_time) {
                    ('Y', false) => 365 * DAY_MS,
                    ('M', false) => 30 * DAY_MS,
                    ('W', false) => 7 * DAY_MS,
                    // The documentation prints `PT1D`.
                    ('D', _) => DAY_MS,
                    ('H', true) => 3_600_000,
                    ('M', true) => 60_000,
                    ('S', true) => 1000,
                    _ => return None,
                };
                total = total.checked_add(scaled(&number, unit_ms as u64)?)?;
                number.clear();
                has_part = true;
            }
        }
    }
    (number.is_empty() && has_part).then_some(total)
}

/// `number` times `unit_ms`; a fraction counts to the millisecond.
fn scaled(number: &str, unit_ms: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = u64::try_from(digits(whole)?).ok()?;
    let mut total = whole.checked_mul(unit_ms)?;
    if !fraction.is_empty() {
        let shown: String = fraction.chars().take(6).collect();
        let parts = u64::try_from(digits(&shown)?).ok()?;
        total = total.checked_add(parts * unit_ms / 10u64.pow(shown.len() as u32))?;
    }
    Some(total)
}

fn parse_span(text: &str) -> Option<u64> {
    let (clock, fraction) = match text.rfind(':') {
        Some(colon) => match text[colon..].find('.') {
            Some(dot) => (&text[..colon + dot], &text[colon + dot + 1..]),
            None => (text, ""),
        },
        None => return None,
    };
    let (days, clock) = match clock.split_once('.') {
        Some((days, clock)) => (digits(days)?, clock),
        None => (0, clock),
    };
    let mut parts = clock.split(':');
    let (hours, minutes) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let seconds = digits(parts.next()?)?;
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    u64::try_from(seconds * 1000 + parse_fraction(fraction)?).ok()
}

/// Writes `PT30S`, `P1DT30S`, `PT1H`.
pub fn format_duration(duration: Duration) -> String {
    let ms = whole_ms(duration);
    let (days, rest) = (ms / DAY_MS as u64, ms % DAY_MS as u64);
    let mut text = String::from("P");
    if days > 0 {
        let _ = write!(text, "{days}D");
    }
    if rest == 0 && days > 0 {
        return text;
    }
    text.push('T');
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, fraction) = (rest / 1000 % 60, rest % 1000);
    if hours > 0 {
        let _ = write!(text, "{hours}H");
    }
    if minutes > 0 {
        let _ = write!(text, "{minutes}M");
    }
    if fraction > 0 {
        let fraction = format!("{fraction:03}");
        let _ = write!(text, "{seconds}.{}S", fraction.trim_end_matches('0'));
    } else if seconds > 0 || rest == 0 {
        let _ = write!(text, "{seconds}S");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_every_form_and_written_in_one() {
        let cases = [
            ("2025-06-01", "2025-06-01T00:00:00Z"),
            ("2025-06-01T10:00", "2025-06-01T10:00:00Z"),
            ("2025-06-01T10:00:07", "2025-06-01T10:00:07Z"),
            ("2025-06-01T10:00:07.5Z", "2025-06-01T10:00:07.5Z"),
            (
                "2025-06-01T10:00:07.1234567890123456Z",
                "2025-06-01T10:00:07.123Z",
            ),
            ("2025-06-01T00:30:00+02:00", "2025-05-31T22:30:00Z"),
            ("2025-06-01T00:30:00-0330", "2025-06-01T04:00:00Z"),
            ("2024-02-29T00:00:00z", "2024-02-29T00:00:00Z"),
        ];
        for (text, expected) in cases {
            let time = parse_time(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(format_time(time), expected);
        }
        for bad in [
            "",
            "2025",
            "2025-13-01",
            "2025-02-29",
            "2025-06-01X10:00",
            "2025-06-01T24:00",
            "2025-06-01T1:00",
            "2025-06-01T10:00:00+25:00",
            "2025-06-01T10:00:00.x",
            "ü025-06-01",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_are_read_in_both_forms_and_written_in_one() {
        let cases = [
            ("PT30S", "PT30S"),
            ("00:00:30", "PT30S"),
            ("1.00:00:30", "P1DT30S"),
            ("P1DT30S", "P1DT30S"),
            ("PT1D", "P1D"),
            ("P1W", "P7D"),
            ("PT90M", "PT1H30M"),
            ("PT0S", "PT0S"),
            ("PT1.5S", "PT1.5S"),
            ("00:00:01.5000000", "PT1.5S"),
        ];
        for (text, expected) in cases {
            let duration = parse_duration(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(format_duration(duration), expected, "{text}");
        }
        for bad in [
            "", "P", "PT", "30", "30S", "PT30", "PTS", "1:2", "25:00:00", "P1H", "PT-1S",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn times_and_durations_come_back_as_written(ms in 0i64..4_000_000_000_000) {
            let time = Timestamp(ms);
            prop_assert_eq!(parse_time(&format_time(time)), Some(time));
            let duration = Duration::from_millis(ms as u64);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }

        #[test]
        fn no_text_is_too_bad_to_read(text in ".{0,40}") {
            let _ = parse_time(&text);
            let _ = parse_duration(&text);
        }
    }
}
