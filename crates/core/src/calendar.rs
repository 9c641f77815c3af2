//! Days, weeks and months as plain numbers.
//!
//! Days are counted from 1970-01-01. Everything here is exact for the proleptic
//! Gregorian calendar and never panics within a few million years.

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;
/// Milliseconds of a minute.
pub const MINUTE_MS: i64 = 60_000;

/// A date of the Gregorian calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Date {
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
}

impl Date {
    /// The date of a day, counted from 1970-01-01.
    pub fn of(day: i64) -> Self {
        // Years begin in March, so that the leap day is the last of its year.
        let shifted = day + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march = (5 * of_year + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * march + 2) / 5 + 1,
        }
    }

    /// The day's number.
    pub fn number(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let march = (self.month + 9) % 12;
        let of_year = (153 * march + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// Months since the year 0.
    pub fn month_number(self) -> i64 {
        self.year * 12 + self.month - 1
    }

    /// The day of a month given by its number, or the month's last day.
    pub fn clamped(month_number: i64, day: i64) -> Self {
        let (year, month) = (month_number.div_euclid(12), month_number.rem_euclid(12) + 1);
        let day = day.min(days_in_month(year, month));
        Self { year, month, day }
    }

    /// How many days its month has.
    pub fn month_length(self) -> i64 {
        days_in_month(self.year, self.month)
    }
}

/// How many days a month has.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The weekday of a day: 0 is Monday.
pub fn weekday(day: i64) -> u8 {
    (day + 3).rem_euclid(7) as u8
}

/// The week of a day; weeks begin on Monday.
pub fn week(day: i64) -> i64 {
    (day + 3).div_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree_with_another_calendar() {
        let mut civil = jiff::civil::date(1890, 1, 1);
        let first = Date {
            year: 1890,
            month: 1,
            day: 1,
        };
        for day in first.number()..first.number() + 120_000 {
            let date = Date::of(day);
            let other = (civil.year(), civil.month(), civil.day());
            assert_eq!((date.year as i16, date.month as i8, date.day as i8), other);
            assert_eq!(date.number(), day);
            assert_eq!(date.month_length(), i64::from(civil.days_in_month()));
            let expected = civil.weekday().to_monday_zero_offset();
            assert_eq!(weekday(day) as i8, expected);
            civil = civil.tomorrow().unwrap();
        }
    }

    #[test]
    fn weeks_begin_on_monday() {
        let monday = Date {
            year: 2025,
            month: 6,
            day: 2,
        };
        let monday = monday.number();
        assert_eq!(weekday(monday), 0);
        assert_ne!(week(monday), week(monday - 1));
        assert_eq!(week(monday), week(monday + 6));
    }
}
