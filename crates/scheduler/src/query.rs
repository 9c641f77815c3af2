//! The query of a request: version, paging, filters.

use axum::extract::Query;
use axum::http::Uri;

use super::error::SchedulerError;

const VERSIONS: [&str; 3] = ["2016-03-01", "2016-01-01", "2014-08-01-preview"];

/// The parameters of a query, with case-insensitive names.
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Parses a query and requires a known API version.
    pub(crate) fn read(uri: &Uri) -> Result<Self, SchedulerError> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let pairs = pairs
            .map_err(|_| SchedulerError::bad("the query cannot be read"))?
            .0;
        let parameters = Self { pairs };
        let version = parameters.get("api-version");
        match version {
            Some(version) if VERSIONS.contains(&version) => Ok(parameters),
            _ => {
                let known = VERSIONS.join(", ");
                Err(SchedulerError::query(
                    "api-version",
                    format!("it must be one of {known}"),
                ))
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The requested API version.
    pub(crate) fn version(&self) -> &str {
        self.get("api-version").unwrap_or(VERSIONS[0])
    }

    /// The requested number of items.
    pub(crate) fn top(&self) -> Result<Option<usize>, SchedulerError> {
        match self.get("$top").map(str::parse) {
            None => Ok(None),
            Some(Ok(top @ 1..=100)) => Ok(Some(top)),
            Some(_) => Err(SchedulerError::query("$top", "it must be 1 to 100")),
        }
    }

    /// The number of items to skip.
    pub(crate) fn skip(&self) -> Result<usize, SchedulerError> {
        match self.get("$skip").map(str::parse) {
            None => Ok(0),
            Some(Ok(skip)) => Ok(skip),
            Some(Err(_)) => Err(SchedulerError::query("$skip", "it must be 0 or more")),
        }
    }

    /// Parses `name eq word`, with or without quotes around the word.
    pub(crate) fn filter<T: Copy>(
        &self,
        names: &[&str],
        words: &[(&'static str, T)],
    ) -> Result<Option<T>, SchedulerError> {
        let Some(text) = self
            .get("$filter")
            .map(str::trim)
            .filter(|text| !text.is_empty())
        else {
            return Ok(None);
        };
        let wrong = || {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let message = format!(
                "only `{} eq` one of {} is understood",
                names[0],
                known.join(", ")
            );
            SchedulerError::query("$filter", message)
        };
        let parts: Vec<_> = text.split_whitespace().collect();
        let [name, operator, value] = parts.as_slice() else {
            return Err(wrong());
        };
        let is_name = names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let value = match value.strip_prefix('\'') {
            Some(rest) => rest.strip_suffix('\'').ok_or_else(wrong)?,
            None => value,
        };
        let found = words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(value));
        match found {
            Some((_, value)) if is_name && operator.eq_ignore_ascii_case("eq") => Ok(Some(*value)),
            _ => Err(wrong()),
        }
    }
}
