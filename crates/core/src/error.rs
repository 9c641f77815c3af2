//! Stable error codes.
//!
//! A code names one cause permanently: it is never reused, not even after its cause
//! has been removed. Each has a page in `docs/errors/` that says what happened and
//! what to do. The codes of a crate stand beside its errors.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::limits;

/// A stable error code such as `STF-2003`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(pub &'static str);

/// Codes that came from other nodes; never freed, so their number is bounded.
static FOREIGN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl Code {
    /// A code that another node sent. `None` if it is malformed, or one too many.
    pub fn foreign(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if text.is_empty() || text.len() > 32 || !text.chars().all(is_plain) {
            return None;
        }
        let mut known = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = known.get(text) {
            return Some(Self(code));
        }
        if known.len() >= limits::FOREIGN_CODES {
            return None;
        }
        let code: &'static str = Box::leak(text.into());
        known.insert(code);
        Some(Self(code))
    }
}

impl Code {
    /// A message without this code before it: a message that is passed on may have it already.
    pub fn strip(self, message: &str) -> &str {
        let mut rest = message;
        while let Some(shorter) = rest.strip_prefix(self.0)
            && let Some(shorter) = shorter.strip_prefix(": ")
        {
            rest = shorter;
        }
        rest
    }

    /// The code that a message begins with, and the rest of the message.
    pub fn leading(message: &str) -> Option<(Self, &str)> {
        let (code, _) = message.split_once(": ")?;
        let digits = code.strip_prefix("STF-")?;
        let is_number = digits.len() == 4 && digits.chars().all(|own| own.is_ascii_digit());
        if !is_number {
            return None;
        }
        let code = Self::foreign(code)?;
        Some((code, code.strip(message)))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_taken_off_a_message_once_or_repeated() {
        let code = Code("STF-2003");
        for message in [
            "it is damaged",
            "STF-2003: it is damaged",
            "STF-2003: STF-2003: it is damaged",
        ] {
            assert_eq!(code.strip(message), "it is damaged");
        }
        let other = "STF-2004: no room";
        assert_eq!(code.strip(other), other);
        assert_eq!(Code::leading(other), Some((Code("STF-2004"), "no room")));
        for message in [
            "no room",
            "STF-200: no room",
            "STF-x004: no room",
            "note: STF-2004: x",
        ] {
            assert_eq!(Code::leading(message), None, "{message}");
        }
    }

    #[test]
    fn a_foreign_code_is_the_same_as_ours() {
        assert_eq!(Code::foreign("STF-2003"), Some(Code("STF-2003")));
        assert_eq!(Code::foreign("STF-2003"), Code::foreign("STF-2003"));
        for bad in ["", "a b", "\n", &"x".repeat(33)] {
            assert_eq!(Code::foreign(bad), None);
        }
    }
}
