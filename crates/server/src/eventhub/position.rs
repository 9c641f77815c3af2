//! A position in a partition, as written by users.

use std::str::FromStr;

use steadfast::iso::parse_time;

/// The position to start at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PositionArgument {
    Start,
    End,
    Sequence(u64),
    /// As written; the server parses it.
    Time(String),
}

impl FromStr for PositionArgument {
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
