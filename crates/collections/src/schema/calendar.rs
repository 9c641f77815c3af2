//! Moments as text and back.
//!
//! The one form `2024-02-29T12:30:00.250Z`, for the years 0000 to 9999. A moment
//! outside of them has no text and is shown as a number.

const DAY: i64 = 86_400_000;
/// Days in 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const TO_1970: i64 = 719_468;

/// The text of a moment in milliseconds since 1970.
pub(crate) fn to_text(millis: i64) -> Option<String> {
    let (year, month, day) = date(millis.div_euclid(DAY));
    if !(0..=9999).contains(&year) {
        return None;
    }
    let time = millis.rem_euclid(DAY);
    let (hour, minute) = (time / 3_600_000, time / 60_000 % 60);
    let (second, milli) = (time / 1000 % 60, time % 1000);
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
    ))
}

/// The moment of a text that [`to_text`] wrote.
pub(crate) fn from_text(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse().ok()).flatten()
    };
    let day = days(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let minutes = number(11, 13)? * 60 + number(14, 16)?;
    let millis = number(17, 19)? * 1000 + number(20, 23)?;
    let moment = day * DAY + minutes * 60_000 + millis;
    // Writing it again finds every other form and every date that does not exist.
    (to_text(moment).as_deref() == Some(text)).then_some(moment)
}

/// Year, month and day of a day since 1970, in a year that starts in March so that
/// the leap day comes last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + TO_1970;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + later, month, day)
}

/// The day since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * month + 2) / 5 + day - 1;
    era * ERA + year * 365 + year / 4 - year / 100 + day - TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(to_text(0).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(to_text(-1).unwrap(), "1969-12-31T23:59:59.999Z");
        assert_eq!(
            to_text(1_709_210_096_789).unwrap(),
            "2024-02-29T12:34:56.789Z"
        );
        assert_eq!(
            to_text(253_402_300_799_999).unwrap(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(to_text(253_402_300_800_000), None);
        assert_eq!(to_text(i64::MIN), None);
    }

    #[test]
    fn every_day_comes_back() {
        let (first, last) = (days(0, 1, 1), days(9999, 12, 31));
        for day in (first..=last).step_by(7) {
            let moment = day * DAY + 45_296_789;
            assert_eq!(from_text(&to_text(moment).unwrap()), Some(moment));
        }
    }

    #[test]
    fn other_forms_and_dates_that_do_not_exist_are_refused() {
        for text in [
            "",
            "2024-02-30T00:00:00.000Z",
            "2023-02-29T00:00:00.000Z",
            "2024-13-01T00:00:00.000Z",
            "2024-01-01T24:00:00.000Z",
            "2024-01-01T00:00:00Z",
            "2024-01-01 00:00:00.000Z",
            "2024-01-01T00:00:00.000+1",
            "+024-01-01T00:00:00.000Z",
            "2024-01-01T00:00:00.000ß",
        ] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }
}
