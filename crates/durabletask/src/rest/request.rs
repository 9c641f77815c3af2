//! A parsed REST request.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::http::Uri;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use steadfast_core::iso::parse_time;
use steadfast_core::limits;
use steadfast_durable::{InstanceStatus, Moment, TaskHub};
use steadfast_net::access::{Principal, Proof, ProofWatch, Right, ServiceArea};
use steadfast_net::http::ForwardedClient;

use super::error::DurableHttpError;
use crate::context::{Context, DEFAULT_HUB, allow, permit};

/// The base path.
pub const BASE: &str = "/runtime/webhooks/durabletask";

/// The header with the continuation token.
pub(super) const CONTINUATION: &str = "x-ms-continuation-token";

/// A request: its query, its body and its task hub.
pub(super) struct DurableHttpRequest {
    pub(super) context: Arc<Context>,
    pub(super) hub: TaskHub,
    query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Scheme and host, as the client sees them.
    origin: String,
    /// The verified proof, and the rights of which the route needs one.
    proof: Option<(Principal, &'static [Right])>,
}

impl DurableHttpRequest {
    /// Parses and authorises a request. The caller adds the body.
    pub(super) fn new(
        context: &Arc<Context>,
        scheme: &str,
        rights: &'static [Right],
        uri: &Uri,
        headers: HeaderMap,
        client: Option<&ForwardedClient>,
    ) -> Result<Self, DurableHttpError> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let query = query
            .map_err(|_| DurableHttpError::bad("the query cannot be read"))?
            .0;
        let name = find(&query, "taskHub").unwrap_or(DEFAULT_HUB);
        let pass = admit(context, &headers, find(&query, "code"), rights, name)?;
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let scheme = client
            .and_then(|client| client.scheme.as_deref())
            .unwrap_or(scheme);
        let host = client.and_then(|client| client.host.as_deref());
        let host = host.or_else(|| text(HOST.as_str()));
        let host = host.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
        let origin = format!("{scheme}://{}", host.unwrap_or("localhost"));
        Ok(Self {
            hub: context.hubs.hub(name)?,
            context: Arc::clone(context),
            query,
            headers,
            body: Bytes::new(),
            origin,
            proof: pass.map(|pass| (pass, rights)),
        })
    }

    /// Watches the proof of a waiting client for revocation.
    pub(super) fn follow(&self) -> Option<ProofWatch> {
        let (access, (pass, rights)) = (self.context.access.as_ref()?, self.proof.as_ref()?);
        let hub = Some(self.hub.name());
        Some(access.watch_proof("HTTP wait", pass, rights, ServiceArea::Durable, hub))
    }

    /// A parameter of the query, whatever the case of its name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    /// A Boolean parameter.
    pub(super) fn flag(&self, name: &str, usual: bool) -> Result<bool, DurableHttpError> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("") => Ok(usual),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(DurableHttpError::bad(format!(
                "'{name}' must be true or false"
            ))),
        }
    }

    /// A time parameter.
    pub(super) fn time(&self, name: &str) -> Result<Option<Moment>, DurableHttpError> {
        let bad = || {
            DurableHttpError::bad(format!(
                "'{name}' must be a time such as 2026-01-31T12:00:00Z"
            ))
        };
        let text = self.get(name).filter(|text| !text.is_empty());
        let time = text.map(|text| parse_time(text).ok_or_else(bad));
        Ok(time.transpose()?.map(Into::into))
    }

    /// The page size; 0 if absent.
    pub(super) fn top(&self) -> Result<usize, DurableHttpError> {
        match self.get("top").map(str::parse) {
            None => Ok(0),
            Some(Ok(top)) => Ok(top),
            Some(Err(_)) => Err(DurableHttpError::bad("'top' must be a number")),
        }
    }

    /// The continuation token.
    pub(super) fn cursor(&self) -> Option<String> {
        let value = self.headers.get(CONTINUATION)?.to_str().ok()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// How long the client waits for the end of the instance.
    pub(super) fn patience(&self) -> Result<Option<Duration>, DurableHttpError> {
        let Some(text) = self.get("timeout").filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let seconds: f64 = text.parse().unwrap_or(f64::NAN);
        let time = Duration::try_from_secs_f64(seconds);
        match time.ok().filter(|time| *time <= limits::REST_WAIT) {
            Some(time) => Ok(Some(time)),
            None => {
                let most = limits::REST_WAIT.as_secs();
                Err(DurableHttpError::bad(format!(
                    "'timeout' must be 0 to {most} seconds"
                )))
            }
        }
    }

    /// The status filter. `None` if no instance can match it.
    pub(super) fn statuses(&self) -> Result<Option<Vec<InstanceStatus>>, DurableHttpError> {
        let text = self.get("runtimeStatus").unwrap_or_default();
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        let words: Vec<_> = words.collect();
        let mut known = Vec::new();
        for word in &words {
            let is_it = |status: &InstanceStatus| format!("{status:?}").eq_ignore_ascii_case(word);
            match InstanceStatus::ALL.into_iter().find(is_it) {
                Some(status) => known.push(status),
                None if word.eq_ignore_ascii_case("ContinuedAsNew") => {}
                None => {
                    let word = word.escape_debug();
                    return Err(DurableHttpError::bad(format!("there is no state '{word}'")));
                }
            }
        }
        Ok((words.is_empty() || !known.is_empty()).then_some(known))
    }

    /// The body, which must be JSON; an empty one is none.
    pub(super) fn json(&self) -> Result<Option<String>, DurableHttpError> {
        if self.body.is_empty() {
            return Ok(None);
        }
        let read = serde_json::from_slice::<serde::de::IgnoredAny>(&self.body);
        read.map_err(|error| DurableHttpError::bad(format!("the body is not JSON: {error}")))?;
        let text = str::from_utf8(&self.body)
            .map_err(|_| DurableHttpError::bad("the body is not UTF-8"))?;
        Ok(Some(text.to_owned()))
    }

    /// Whether the content type is JSON.
    pub(super) fn is_json(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    }

    /// A URL below the base path, with the common parameters.
    pub(super) fn link(&self, path: &str, query: &str) -> String {
        let connection = self.get("connection").unwrap_or("Storage");
        let mut link = format!(
            "{}{BASE}{path}?{query}taskHub={}&connection={}",
            self.origin,
            encoded(self.hub.name()),
            encoded(connection)
        );
        if let Some(code) = self.get("code") {
            link.push_str("&code=");
            link.push_str(&encoded(code));
        }
        link
    }
}

/// Percent-encodes a text for a URL.
pub(super) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn find<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = query.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// Authorises a request by its header, or by a key in its query.
fn admit(
    context: &Context,
    headers: &HeaderMap,
    code: Option<&str>,
    rights: &[Right],
    hub: &str,
) -> Result<Option<Principal>, DurableHttpError> {
    let Some(access) = &context.access else {
        steadfast_net::listen::proven();
        return Ok(None);
    };
    let header = headers.get(AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok());
    let pass = match (header, code) {
        (None, Some(code)) => permit(access, Proof::Secret(code), rights, hub),
        (header, _) => allow(access, header, rights, hub),
    };
    let pass = pass.inspect_err(|denied| access.audit().refused(denied))?;
    Ok(Some(pass))
}
