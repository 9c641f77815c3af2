//! A parsed request without its body.

use std::net::IpAddr;

use axum::http::Method;
use axum::http::request::Parts;
use steadfast_net::http::ForwardedClient;
use steadfast_wire::blob::path::{BlobPath, parameters};
use steadfast_wire::blob::xml;

use super::error::BlobError;

/// A request without its body.
pub(super) struct BlobRequest {
    pub(super) method: Method,
    /// As received.
    pub(super) path: String,
    pub(super) place: BlobPath,
    pub(super) parameters: Vec<(String, String)>,
    /// Names in lower case; values of one name are joined by commas.
    pub(super) headers: Vec<(String, String)>,
    /// The client's address; `None` if unknown.
    pub(super) address: Option<IpAddr>,
    /// Whether a trusted proxy reports that the client used HTTPS.
    pub(super) is_proxied_encrypted: bool,
}

impl BlobRequest {
    pub(super) fn new(parts: &Parts) -> Result<Self, BlobError> {
        let bad = |_| BlobError::bad("InvalidUri", "the address cannot be understood");
        let place = BlobPath::parse(parts.uri.path()).map_err(bad)?;
        let named = [place.container.as_deref(), place.blob.as_deref()];
        if named.into_iter().flatten().any(|name| !xml::carries(name)) {
            let words = "a name contains a character that XML cannot represent";
            return Err(BlobError::bad("InvalidUri", words));
        }
        let client = parts.extensions.get::<ForwardedClient>();
        let scheme = client.and_then(|client| client.scheme.as_deref());
        Ok(Self {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            place,
            parameters: parameters(parts.uri.query().unwrap_or("")).map_err(bad)?,
            headers: headers(parts)?,
            address: client.map(|client| client.address),
            is_proxied_encrypted: scheme == Some("https"),
        })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.parameters.iter();
        let found = pairs.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The container's name in the store: account and container.
    pub(super) fn container(&self) -> String {
        let container = self.place.container.as_deref().unwrap_or("");
        format!("{}/{container}", self.place.account)
    }

    /// The blob's name.
    pub(super) fn blob(&self) -> &str {
        self.place.blob.as_deref().unwrap_or("")
    }
}

fn headers(parts: &Parts) -> Result<Vec<(String, String)>, BlobError> {
    let mut headers: Vec<(String, String)> = Vec::with_capacity(parts.headers.len());
    for name in parts.headers.keys() {
        let values = parts.headers.get_all(name).iter();
        let values = values.map(|value| std::str::from_utf8(value.as_bytes()));
        let values = values.collect::<Result<Vec<_>, _>>();
        let values = values.map_err(|_| BlobError::header(name.as_str()))?;
        headers.push((name.as_str().to_owned(), values.join(",")));
    }
    Ok(headers)
}
