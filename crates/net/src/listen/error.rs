//! Errors of listeners.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;

use super::port_holder::PortHolder;

/// The failure, its subject, and the underlying cause.
#[derive(Debug)]
pub struct Error {
    pub kind: ErrorKind,
    source: Option<io::Error>,
}

/// The kinds of failure; each has its own code.
#[derive(Debug, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process listens on the port.
    #[error("STF-6010")]
    PortInUse {
        address: SocketAddr,
        holder: Option<PortHolder>,
    },
    /// The address cannot be listened on.
    #[error("STF-6011")]
    Address { address: SocketAddr },
    /// The certificate or its key cannot be used.
    #[error("STF-6012")]
    Certificate { file: PathBuf, why: String },
}

impl Error {
    pub(super) fn new(kind: ErrorKind, source: Option<io::Error>) -> Self {
        Self { kind, source }
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match &self.kind {
            ErrorKind::PortInUse { address, holder } => {
                let port = address.port();
                match holder {
                    Some(holder) => write!(
                        f,
                        "port {port} is taken by {holder}: stop it, or choose another port"
                    ),
                    None => write!(
                        f,
                        "port {port} is taken, and no process can be seen that listens on it: one \
                         that is ending may still hold it; try again, or choose another port"
                    ),
                }
            }
            ErrorKind::Address { address } => {
                let cause = self.source.as_ref().map(ToString::to_string);
                let cause = cause.unwrap_or_default();
                write!(f, "cannot listen on {address}: {cause}")
            }
            ErrorKind::Certificate { file, why } => {
                write!(f, "the TLS file {} cannot be used: {why}", file.display())
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
