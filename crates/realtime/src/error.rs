//! Errors of hubs and clients.
//!
//! Every kind has a stable code and a page in `docs/errors/`.

use std::fmt;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of hubs or clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of errors; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
pub enum ErrorKind {
    /// No hub of that name is hosted.
    #[error("STF-5301", "no hub '{_0}' is hosted here; register it")]
    NoHub(String),
    /// No such connection exists.
    #[error("STF-5302", "there is no connection '{_0}'; it may have ended")]
    NoConnection(String),
    /// The client has returned an error.
    #[error("STF-5303", "the client returned an error: {_0}")]
    Client(String),
    /// The client has disconnected before it returned a result.
    #[error(
        "STF-5304",
        "the client disconnected before it returned a result; call another one"
    )]
    Gone,
    /// The client has not returned a result in time.
    #[error("STF-5305", "the client returned no result in time; call it again")]
    Silent,
    /// A value cannot be serialized, or deserialized as the requested type.
    #[error("STF-5306", "the value cannot be converted: {_0}; check its type")]
    Value(String),
    /// A limit is reached; the text names the resource.
    #[error("STF-5307", "there are too many {_0}; try again later")]
    Full(&'static str),
    /// The name of a group, hub or user is empty or too long.
    #[error("STF-5308", "the name of a {_0} is empty or too long; shorten it")]
    Name(&'static str),
    /// The service is unreachable.
    #[error("STF-5309", "the service cannot be reached: {_0}; try again")]
    Lost(String),
    /// No such app server is connected.
    #[error("STF-5310", "no app server '{_0}' is connected; list the app servers")]
    NoServer(String),
    /// The hub is hosted by the service itself, and not by app servers.
    #[error(
        "STF-5311",
        "the hub '{_0}' is hosted by the service itself; drain the node"
    )]
    Hosted(String),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind }
    }

    /// What kind of error it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.kind)
    }
}

impl std::error::Error for Error {}

/// The error of a hub method.
///
/// A text made by [`HubError::new`] is sent to the client. Any other error converts
/// by `?`: the client receives a general message only, unless the hub shows details.
#[derive(Debug)]
pub struct HubError {
    said: String,
    is_for_client: bool,
}

/// The result of a hub's method.
pub type HubResult<T> = std::result::Result<T, HubError>;

impl HubError {
    /// An error whose text is sent to the client.
    pub fn new(said: impl Into<String>) -> Self {
        Self {
            said: said.into(),
            is_for_client: true,
        }
    }

    /// The error text sent to the caller of `method`.
    pub(crate) fn told(&self, method: &str, shows_details: bool) -> String {
        let said = &self.said;
        let general = format!("An unexpected error occurred invoking '{method}' on the server.");
        match (self.is_for_client, shows_details) {
            (true, _) => format!("{general} HubException: {said}"),
            (false, true) => format!("{general} {said}"),
            (false, false) => general,
        }
    }
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl<E: std::error::Error> From<E> for HubError {
    fn from(error: E) -> Self {
        Self {
            said: error.to_string(),
            is_for_client: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_learns_only_what_is_meant_for_it() {
        let general = "An unexpected error occurred invoking 'm' on the server.";
        let meant = HubError::new("no such room");
        assert_eq!(
            meant.told("m", false),
            format!("{general} HubException: no such room")
        );
        let inner: HubError = std::io::Error::other("password").into();
        assert_eq!(inner.told("m", false), general);
        assert_eq!(inner.told("m", true), format!("{general} password"));
    }
}
