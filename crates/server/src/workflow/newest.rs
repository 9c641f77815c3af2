//! Lists of orchestrations, newest first.
//!
//! The interface lists the oldest first, within a range of creation times. So the newest
//! are found in a short range that grows until it holds enough. Times have a resolution of
//! a second: a cursor is the second and the id of the last row that was shown.

use anyhow::Result;
use serde_json::Value;
use steadfast::clock::{Clock as _, SystemClock, Timestamp};
use steadfast::iso::{format_time, parse_time};

use super::view;
use crate::exit::CommandError;
use crate::output::{Page, PageArguments};
use crate::taskhub::TaskHubHttpClient;

/// The first range, in milliseconds.
const RANGE_MS: i64 = 60_000;

/// The growth of the range.
const GROWTH: i64 = 8;

/// A range that holds everything, in milliseconds.
const WHOLE_MS: i64 = 100 * 365 * 86_400_000;

/// The last row of the previous page.
struct Last {
    second: Timestamp,
    id: String,
}

impl Last {
    fn parse(cursor: &str) -> Result<Self> {
        let parsed = cursor.split_once('/').and_then(|(second, id)| {
            Some(Self {
                second: parse_time(second)?,
                id: id.to_owned(),
            })
        });
        let words = || CommandError::Usage("the cursor is not from this list".to_owned());
        Ok(parsed.ok_or_else(words)?)
    }

    /// The end of the range: the last second belongs to it.
    fn end(&self) -> Timestamp {
        Timestamp(self.second.0.saturating_add(1000))
    }
}

/// A page of orchestrations that match a query.
pub(super) fn list(
    hub: &TaskHubHttpClient,
    query: &[(&str, String)],
    page: &PageArguments,
) -> Result<Page> {
    let last = page.cursor().map(Last::parse).transpose()?;
    let limit = page.limit();
    let end = last.as_ref().map(Last::end);
    let until = end.unwrap_or_else(|| SystemClock::new().now());
    let mut range = RANGE_MS;
    loop {
        let is_whole = range >= WHOLE_MS || limit == usize::MAX;
        let begin = (!is_whole).then(|| Timestamp(until.0 - range));
        let mut query = query.to_vec();
        query.extend(begin.map(|begin| ("createdTimeFrom", format_time(begin))));
        query.extend(end.map(|end| ("createdTimeTo", format_time(end))));
        let mut rows = Vec::new();
        hub.each(&["instances"], &query, |row| rows.push(view::summary(row)))?;
        rows.reverse();
        let rows = behind(rows, last.as_ref());
        if is_whole || rows.len() > limit {
            return Ok(cut(rows, limit));
        }
        range = range.saturating_mul(GROWTH);
    }
}

/// The rows behind the last one of the previous page. If that one has gone, rows of its
/// second may come again, which is better than to lose one.
fn behind(mut rows: Vec<Value>, last: Option<&Last>) -> Vec<Value> {
    let Some(last) = last else {
        return rows;
    };
    let shown = rows.iter().position(|row| row["id"] == last.id.as_str());
    rows.drain(..shown.map_or(0, |shown| shown + 1));
    rows
}

/// The first rows, and the cursor of the next ones.
fn cut(mut rows: Vec<Value>, limit: usize) -> Page {
    let is_cut = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| is_cut);
    let next = last.map(|row| {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        format!("{}/{}", text("created"), text("id"))
    });
    Page { rows, next }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(ids: &[&str]) -> Vec<Value> {
        let row = |id: &&str| json!({"id": id, "created": "2030-01-01T00:00:09Z"});
        ids.iter().map(row).collect()
    }

    #[test]
    fn a_cursor_is_the_last_row_that_was_shown() {
        let page = cut(rows(&["e", "d", "c"]), 2);
        assert_eq!(page.next.as_deref(), Some("2030-01-01T00:00:09Z/d"));
        let last = Last::parse(&page.next.unwrap()).unwrap();
        assert_eq!(behind(rows(&["e", "d", "c"]), Some(&last)), rows(&["c"]));
        // Rows that have gone in between hide no other.
        assert_eq!(behind(rows(&["c"]), Some(&last)), rows(&["c"]));
        assert_eq!(cut(rows(&["c"]), 2).next, None);
        assert!(Last::parse("nonsense").is_err());
    }
}
