//! Parses the connection string of a task hub.

use std::path::PathBuf;

use axum::http::Uri;
use steadfast_durable::{Error, Result};

/// A parsed connection string.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) origin: Uri,
    pub(super) hub: String,
    /// Sent with every request.
    pub(super) key: Option<String>,
    /// The trusted authorities; `None` uses those of the system.
    pub(super) authorities: Option<PathBuf>,
}

/// The port of the Durable Task SDKs.
const PORT: u16 = 4001;

impl Target {
    /// Reads `Endpoint=http://host:port;TaskHub=name;AccessKey=..`, or an endpoint
    /// alone. `Authentication=None`, which the server prints, is ignored.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if !text.contains('=') {
            return Self::new(text, "default");
        }
        let mut target = None;
        let (mut hub, mut key, mut authorities) = ("default", None, None);
        for part in text.split(';').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| bad(part))?;
            let value = value.trim();
            match name.trim().to_ascii_lowercase().as_str() {
                "endpoint" => target = Some(value),
                "taskhub" => hub = value,
                "accesskey" => key = Some(value.to_owned()),
                "certificates" => authorities = Some(PathBuf::from(value)),
                "authentication" if value.eq_ignore_ascii_case("none") => {}
                _ => return Err(bad(name)),
            }
        }
        let endpoint = target.ok_or_else(|| bad("there is no Endpoint"))?;
        let target = Self::new(endpoint, hub)?;
        Ok(Self {
            key,
            authorities,
            ..target
        })
    }

    fn new(endpoint: &str, hub: &str) -> Result<Self> {
        let endpoint = endpoint.trim_end_matches('/');
        let whole = if endpoint.contains("://") {
            endpoint.to_owned()
        } else {
            format!("http://{endpoint}")
        };
        let origin: Uri = whole.parse().map_err(|_| bad(endpoint))?;
        let is_known = matches!(origin.scheme_str(), Some("http" | "https"));
        if !is_known || origin.host().is_none_or(str::is_empty) || origin.path() != "/" {
            return Err(bad(endpoint));
        }
        Ok(Self {
            origin,
            hub: hub.to_owned(),
            key: None,
            authorities: None,
        })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.origin.scheme_str() == Some("https")
    }

    pub(super) fn host(&self) -> &str {
        let host = self.origin.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) fn port(&self) -> u16 {
        self.origin.port_u16().unwrap_or(PORT)
    }
}

fn bad(what: &str) -> Error {
    Error::from_text(&format!(
        "STF-5101: {:?} in a connection string cannot be understood; write \
         Endpoint=http://localhost:4001;TaskHub=default",
        // The part before the equals sign never holds a secret.
        what.split('=').next().unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use steadfast_durable::ErrorKind;

    use super::*;

    #[test]
    fn what_the_server_prints_is_understood() {
        let printed = "Endpoint=http://localhost:4009;TaskHub=blue;Authentication=None";
        let target = Target::parse(printed).unwrap();
        assert_eq!((target.host(), target.port()), ("localhost", 4009));
        assert_eq!((target.hub.as_str(), target.key), ("blue", None));
        let keyed = "Endpoint=https://[::1];AccessKey=a+b==;Certificates=/ca.pem;";
        let target = Target::parse(keyed).unwrap();
        assert_eq!((target.host(), target.port()), ("::1", 4001));
        assert_eq!(target.key.as_deref(), Some("a+b=="));
        assert!(target.is_encrypted() && target.authorities.is_some());
        let alone = Target::parse("localhost:7070").unwrap();
        assert_eq!((alone.port(), alone.hub.as_str()), (7070, "default"));
    }

    #[test]
    fn nonsense_is_refused_without_its_secrets() {
        let bad = [
            "",
            "TaskHub=a",
            "Endpoint=ftp://x",
            "Endpoint=http://x/path",
            "Endpoint=http://x;Key=secret",
            "Endpoint=http://x;Authentication=DefaultAzure",
        ];
        for text in bad {
            let error = Target::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
