//! A place in a partition, as people write it.

use std::str::FromStr;

use steadfast::jobs::iso::parse_time;

/// Where to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Start,
    End,
    Sequence(u64),
    /// As it was written; the server reads it.
    Time(String),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("start", _) => Ok(Self::Start),
            ("end", _) => Ok(Self::End),
            (_, Ok(sequence)) => Ok(Self::Sequence(sequence)),
            _ if parse_time(text).is_some() => Ok(Self::Time(text.to_owned())),
            _ => Err(
                "write start, end, a sequence number, or a time such as 2026-01-31T12:00:00Z"
                    .to_owned(),
            ),
        }
    }
}
