//! A place where the node listens.

/// A place where the node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What is spoken there.
    pub name: &'static str,
    /// Where it is.
    pub url: String,
}

impl Address {
    /// How the port is spoken to, and its number.
    pub(super) fn scheme_and_port(&self) -> Option<(&str, &str)> {
        let (scheme, place) = self.url.split_once("://")?;
        Some((scheme, place.rsplit(':').next()?))
    }
}
