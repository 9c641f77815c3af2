//! Formats and parses dates and ETags in headers.

use std::time::{Duration, UNIX_EPOCH};

use steadfast_core::clock::Timestamp;
use steadfast_events::VersionMatch;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn date(time: Timestamp) -> String {
    let since = Duration::from_millis(u64::try_from(time.0).unwrap_or(0));
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// The time in a header.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp(since.as_millis() as i64))
}

/// A version as an ETag without quotes, as in lists.
pub(super) fn tag(version: u64) -> String {
    format!("0x{version:016X}")
}

/// The version in a header. An unknown ETag matches nothing.
pub(super) fn version(text: &str) -> VersionMatch {
    let text = text.trim();
    if text == "*" {
        return VersionMatch::Any;
    }
    let bare = text.trim_matches('"').strip_prefix("0x");
    let version = bare.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    VersionMatch::Version(version.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_understood_again() {
        assert_eq!(version(&tag(77)), VersionMatch::Version(77));
        assert_eq!(
            version(&format!("\"{}\"", tag(77))),
            VersionMatch::Version(77)
        );
        assert_eq!(version("*"), VersionMatch::Any);
        assert_eq!(version("\"another server's\""), VersionMatch::Version(0));
        let time = Timestamp(1_800_000_000_000);
        assert_eq!(parse(&date(time)), Some(time));
        assert_eq!(parse("tomorrow"), None);
    }
}
