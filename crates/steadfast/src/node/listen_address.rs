//! An address that the node listens on.

/// An address that the node listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The name of the protocol.
    pub name: &'static str,
    /// The URL that clients use.
    pub url: String,
}
