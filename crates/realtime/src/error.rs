//! Errors of hubs and clients.
//!
//! Every kind has a stable code and a page in `docs/errors/`.

use std::fmt;

use steadfast_core::error::Code;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of hubs or clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of errors; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No hub of that name is hosted.
    NoHub(String),
    /// No such connection exists.
    NoConnection(String),
    /// The client has returned an error.
    Client(String),
    /// The client has disconnected before it returned a result.
    Gone,
    /// The client has not returned a result in time.
    Silent,
    /// A value cannot be serialized, or deserialized as the requested type.
    Value(String),
    /// A limit is reached; the text names the resource.
    Full(&'static str),
    /// The name of a group, hub or user is empty or too long.
    Name(&'static str),
    /// The service is unreachable.
    Lost(String),
    /// No such app server is connected.
    NoServer(String),
    /// The hub is hosted by the service itself, and not by app servers.
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
        Code(match self.kind {
            ErrorKind::NoHub(_) => "STF-5301",
            ErrorKind::NoConnection(_) => "STF-5302",
            ErrorKind::Client(_) => "STF-5303",
            ErrorKind::Gone => "STF-5304",
            ErrorKind::Silent => "STF-5305",
            ErrorKind::Value(_) => "STF-5306",
            ErrorKind::Full(_) => "STF-5307",
            ErrorKind::Name(_) => "STF-5308",
            ErrorKind::Lost(_) => "STF-5309",
            ErrorKind::NoServer(_) => "STF-5310",
            ErrorKind::Hosted(_) => "STF-5311",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match &self.kind {
            ErrorKind::NoHub(name) => write!(f, "no hub '{name}' is hosted here; register it"),
            ErrorKind::NoConnection(id) => {
                write!(f, "there is no connection '{id}'; it may have ended")
            }
            ErrorKind::Client(why) => write!(f, "the client returned an error: {why}"),
            ErrorKind::Gone => {
                f.write_str("the client disconnected before it returned a result; call another one")
            }
            ErrorKind::Silent => {
                f.write_str("the client returned no result in time; call it again")
            }
            ErrorKind::Value(why) => {
                write!(f, "the value cannot be converted: {why}; check its type")
            }
            ErrorKind::Full(what) => write!(f, "there are too many {what}; try again later"),
            ErrorKind::Name(what) => {
                write!(f, "the name of a {what} is empty or too long; shorten it")
            }
            ErrorKind::Lost(why) => write!(f, "the service cannot be reached: {why}; try again"),
            ErrorKind::NoServer(name) => write!(
                f,
                "no app server '{name}' is connected; list the app servers"
            ),
            ErrorKind::Hosted(hub) => write!(
                f,
                "the hub '{hub}' is hosted by the service itself; drain the node"
            ),
        }
    }
}

impl std::error::Error for Error {}
