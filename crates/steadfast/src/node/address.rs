//! A place where the node listens.

/// A place where the node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What is spoken there.
    pub name: &'static str,
    /// Where it is.
    pub url: String,
}
