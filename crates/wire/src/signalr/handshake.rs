//! The SignalR handshake, which selects the protocol.

use serde::Deserialize;

use super::error::{Result, SignalRDecodeError};
use super::frame::SEPARATOR;

/// The maximum length of a handshake.
pub const HANDSHAKE_BYTES: usize = 4096;

/// The handshake request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HandshakeRequest {
    pub protocol: String,
    pub version: i64,
}

impl HandshakeRequest {
    /// Parses a record, with or without its separator.
    pub fn parse(record: &[u8]) -> Result<Self> {
        let body = record.strip_suffix(&[SEPARATOR]).unwrap_or(record);
        serde_json::from_slice(body).map_err(|_| SignalRDecodeError::new("the handshake"))
    }

    /// The request as a client writes it.
    pub fn write(&self) -> Vec<u8> {
        let name = serde_json::Value::from(self.protocol.as_str());
        let mut out = format!(r#"{{"protocol":{name},"version":{}}}"#, self.version).into_bytes();
        out.push(SEPARATOR);
        out
    }
}

/// The response to an accepted handshake.
pub const ACCEPTED: &[u8] = b"{}\x1e";

/// The response to a refused handshake.
pub fn refused(why: &str) -> Vec<u8> {
    let why = serde_json::Value::from(why);
    let mut out = format!(r#"{{"error":{why}}}"#).into_bytes();
    out.push(SEPARATOR);
    out
}

/// The error of a response, if any.
pub fn answer(record: &[u8]) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct HandshakeResponse {
        error: Option<String>,
    }
    let body = record.strip_suffix(&[SEPARATOR]).unwrap_or(record);
    let answer: HandshakeResponse = serde_json::from_slice(body)
        .map_err(|_| SignalRDecodeError::new("the answer to a handshake"))?;
    Ok(answer.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_read_as_it_is_written() {
        let own = HandshakeRequest {
            protocol: "messagepack".to_owned(),
            version: 1,
        };
        let bytes = own.write();
        assert_eq!(bytes, b"{\"protocol\":\"messagepack\",\"version\":1}\x1e");
        assert_eq!(HandshakeRequest::parse(&bytes), Ok(own));
        assert!(HandshakeRequest::parse(b"{\"protocol\":\"json\"}\x1e").is_err());
        assert!(HandshakeRequest::parse(b"\x1e").is_err());
    }

    #[test]
    fn answers_are_exact() {
        assert_eq!(answer(ACCEPTED), Ok(None));
        let no = refused("The protocol 'x' is not supported.");
        assert_eq!(
            no,
            b"{\"error\":\"The protocol 'x' is not supported.\"}\x1e"
        );
        assert_eq!(
            answer(&no).unwrap().unwrap(),
            "The protocol 'x' is not supported."
        );
    }
}
