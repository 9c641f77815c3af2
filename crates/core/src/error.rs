//! Stable error codes.
//!
//! A code names one cause for ever: it is never given to another cause, not even
//! after its own is gone. Each has a page in `docs/errors/` that says what
//! happened and what to do. The codes of a crate stand beside its errors.

use std::fmt;

/// A stable error code such as `STF-2003`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(pub &'static str);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
