//! Lists of orchestrations, newest first.
//!
//! The interface lists the oldest first, within a range of creation times. So the newest
//! are found in a short range that grows until it holds enough. Times have a resolution of
//! a second: a cursor is a second and the number of rows of it that were shown.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use serde_json::Value;
use steadfast::clock::{Clock as _, SystemClock, Timestamp};
use steadfast::jobs::iso::{format_time, parse_time};

use super::view;
use crate::output::{Page, PageArguments};
use crate::taskhub::TaskHubHttpClient;

/// The first range, in milliseconds.
const RANGE_MS: i64 = 60_000;

/// The growth of the range.
const GROWTH: i64 = 8;

/// A range that holds everything, in milliseconds.
const WHOLE_MS: i64 = 100 * 365 * 86_400_000;

/// Where a page begins.
struct Start {
    /// The second of the last row of the previous page.
    second: Option<Timestamp>,
    /// The rows of that second that were shown.
    shown: usize,
}

impl Start {
    fn parse(cursor: Option<&str>) -> Result<Self> {
        let Some(cursor) = cursor else {
            return Ok(Self {
                second: None,
                shown: 0,
            });
        };
        let parsed = cursor.split_once('/').and_then(|(second, shown)| {
            Some(Self {
                second: Some(parse_time(second)?),
                shown: shown.parse().ok()?,
            })
        });
        parsed.context("the cursor is not from this list")
    }

    /// The end of the range: the last second belongs to it.
    fn end(&self) -> Option<Timestamp> {
        self.second.map(|second| Timestamp(second.0 + 1000))
    }
}

/// A page of orchestrations that match a query.
pub(super) fn list(
    hub: &TaskHubHttpClient,
    query: &[(&str, String)],
    page: &PageArguments,
) -> Result<Page> {
    let start = Start::parse(page.cursor())?;
    let limit = page.limit();
    let wanted = limit.saturating_add(start.shown).saturating_add(1);
    let end = start.end();
    let until = end.unwrap_or_else(|| SystemClock::new().now());
    let mut range = RANGE_MS;
    loop {
        let is_whole = range >= WHOLE_MS || limit == usize::MAX;
        let begin = (!is_whole).then(|| Timestamp(until.0 - range));
        let mut query = query.to_vec();
        query.extend(begin.map(|begin| ("createdTimeFrom", format_time(begin))));
        query.extend(end.map(|end| ("createdTimeTo", format_time(end))));
        let mut last = VecDeque::new();
        hub.each(&["instances"], &query, |row| {
            last.push_back(view::summary(row));
            if last.len() > wanted {
                last.pop_front();
            }
        })?;
        if is_whole || last.len() >= wanted {
            return Ok(cut(last.into_iter().rev().collect(), &start, limit));
        }
        range = range.saturating_mul(GROWTH);
    }
}

/// The page of rows that begin with those of the second of `start`.
fn cut(mut rows: Vec<Value>, start: &Start, limit: usize) -> Page {
    rows.drain(..start.shown.min(rows.len()));
    let is_cut = rows.len() > limit;
    rows.truncate(limit);
    let second = |row: &Value| row["created"].as_str().unwrap_or_default().to_owned();
    let last = rows.last().filter(|_| is_cut).map(second);
    let next = last.map(|last| {
        let own = rows.iter().filter(|row| second(row) == last).count();
        let is_same = start.second.is_some() && parse_time(&last) == start.second;
        let before = if is_same { start.shown } else { 0 };
        format!("{last}/{}", own + before)
    });
    Page { rows, next }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(seconds: &[u32]) -> Vec<Value> {
        let time = |second: &u32| json!({"created": format!("2030-01-01T00:00:{second:02}Z")});
        seconds.iter().map(time).collect()
    }

    #[test]
    fn a_cursor_counts_the_rows_of_its_second() {
        let first = Start::parse(None).unwrap();
        let page = cut(rows(&[9, 9, 9, 8]), &first, 2);
        assert_eq!(page.next.as_deref(), Some("2030-01-01T00:00:09Z/2"));
        let second = Start::parse(page.next.as_deref()).unwrap();
        let page = cut(rows(&[9, 9, 9, 8, 7]), &second, 1);
        assert_eq!(page.rows, rows(&[9]));
        assert_eq!(page.next.as_deref(), Some("2030-01-01T00:00:09Z/3"));
        let third = Start::parse(page.next.as_deref()).unwrap();
        let page = cut(rows(&[9, 9, 9, 8]), &third, 1);
        assert_eq!((page.rows, page.next), (rows(&[8]), None));
        assert!(Start::parse(Some("nonsense")).is_err());
    }
}
