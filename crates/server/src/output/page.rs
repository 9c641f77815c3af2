//! Pages of long lists.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::exit::CommandError;

/// Rows per request when all rows are requested.
const BATCH: usize = 1000;

/// Which part of a list to show.
#[derive(Args, Clone)]
pub(crate) struct PageArguments {
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 100, alias = "top")]
    limit: usize,
    /// Show all rows
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue a list that was cut, from the cursor that it printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Rows of a list, and the cursor of the next row if it was cut.
pub(crate) struct Page {
    pub(crate) rows: Vec<Value>,
    pub(crate) next: Option<String>,
}

/// The error of a cursor whose row is not in the list.
fn unknown_cursor(cursor: &str) -> CommandError {
    let message = format!("the list has no row '{cursor}': start again without --cursor");
    CommandError::Usage(message)
}

impl PageArguments {
    /// All rows.
    pub(crate) fn all() -> Self {
        Self {
            limit: 0,
            all: true,
            cursor: None,
        }
    }

    /// The maximum number of rows.
    pub(crate) fn limit(&self) -> usize {
        if self.all { usize::MAX } else { self.limit }
    }

    /// The cursor of the previous page.
    pub(crate) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Fetches rows until the limit or the end is reached. `fetch` gets a cursor and a
    /// number of rows, and returns rows and the next cursor.
    pub(crate) fn fetch(
        &self,
        mut fetch: impl FnMut(Option<&str>, usize) -> Result<Page>,
    ) -> Result<Page> {
        let mut left = self.limit();
        let mut rows = Vec::new();
        let mut next = self.cursor.clone();
        while left > 0 {
            let page = fetch(next.as_deref(), left.min(BATCH))?;
            left = left.saturating_sub(page.rows.len());
            rows.extend(page.rows);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        Ok(Page { rows, next })
    }

    /// The part of a list that the server returned whole. The cursor is the value of
    /// `key` in the last row shown.
    pub(crate) fn cut(&self, rows: Vec<Value>, key: &str) -> Result<Page> {
        let mut rows = rows;
        if let Some(cursor) = &self.cursor {
            let last = rows.iter().position(|row| row[key] == cursor.as_str());
            let last = last.ok_or_else(|| unknown_cursor(cursor))?;
            rows.drain(..=last);
        }
        let is_cut = !self.all && rows.len() > self.limit;
        if is_cut {
            rows.truncate(self.limit);
        }
        let last = rows.last().filter(|_| is_cut);
        let next = last.and_then(|row| row[key].as_str()).map(str::to_owned);
        Ok(Page { rows, next })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(limit: usize, all: bool, cursor: Option<&str>) -> PageArguments {
        PageArguments {
            limit,
            all,
            cursor: cursor.map(str::to_owned),
        }
    }

    fn names(page: &Page) -> Vec<&str> {
        let names = page.rows.iter();
        names.map(|row| row["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_list_is_cut_and_continued() {
        let rows = || ["a", "b", "c"].map(|name| json!({"name": name})).to_vec();
        let page = arguments(2, false, None).cut(rows(), "name").unwrap();
        assert_eq!(names(&page), ["a", "b"]);
        assert_eq!(page.next.as_deref(), Some("b"));
        let page = arguments(2, false, Some("b")).cut(rows(), "name").unwrap();
        assert_eq!((names(&page), page.next.as_deref()), (vec!["c"], None));
        let page = arguments(1, true, None).cut(rows(), "name").unwrap();
        assert_eq!(names(&page), ["a", "b", "c"]);
        let gone = arguments(1, false, Some("gone"));
        assert!(gone.cut(rows(), "name").is_err());
    }

    #[test]
    fn pages_are_fetched_up_to_the_limit() {
        let fetch = |cursor: Option<&str>, count: usize| {
            let from: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let to = (from + count.min(2)).min(5);
            let rows = (from..to).map(|n| json!({"name": n.to_string()})).collect();
            let next = (to < 5).then(|| to.to_string());
            Ok(Page { rows, next })
        };
        let page = arguments(3, false, None).fetch(fetch).unwrap();
        assert_eq!(
            (names(&page), page.next.as_deref()),
            (vec!["0", "1", "2"], Some("3"))
        );
        let page = arguments(3, false, Some("3")).fetch(fetch).unwrap();
        assert_eq!((names(&page), page.next.as_deref()), (vec!["3", "4"], None));
        let page = arguments(1, true, None).fetch(fetch).unwrap();
        assert_eq!(page.rows.len(), 5);
    }
}
