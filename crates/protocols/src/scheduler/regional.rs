//! Jobs of a pair of regions: who answers for them.
//!
//! A request to the region that does not own the jobs goes to the one that does, and
//! its answer comes back; clients are never sent elsewhere. If the owner is not
//! reached, what was copied is shown, and marked as stale; nothing is changed.

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, Response as HttpResponse, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::codec::{Malformed, Reader, put_bytes, put_varint};
use steadfast_jobs::Jobs;
use steadfast_jobs::region::Atlas;

use super::fault::Fault;

/// How the jobs of a pair are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// The region that owns them.
    pub owner: String,
    pub epoch: u64,
    /// How old the oldest change is that only the owner has.
    pub lag_ms: u64,
    /// `synced` or `degraded`.
    pub mode: String,
}

/// A server of one of two regions.
#[async_trait]
pub trait Regional: Send + Sync + 'static {
    /// Whether it owns the jobs right now.
    fn is_owner(&self) -> bool;

    /// How they are kept.
    fn replication(&self) -> Replication;

    /// Both regions, by name.
    fn regions(&self) -> [String; 2];

    /// Whether nothing is changed while the other region does not have everything.
    fn requires_sync(&self) -> bool;

    /// Has the owner answer; `None` if it is not certain that it has.
    async fn forward(&self, request: Bytes, is_read: bool) -> Option<Bytes>;

    /// The jobs as they were copied here, if they were.
    fn copies(&self) -> Option<Jobs>;
}

/// The name of a place as it is shown.
pub(crate) fn place(
    atlas: &Atlas,
    regional: Option<&dyn Regional>,
    text: &str,
) -> Result<String, Fault> {
    let Some(region) = atlas.find(text) else {
        let message = format!("there is no region '{text}'");
        return Err(Fault::member("location", message));
    };
    let own = regional.map(Regional::regions);
    if own.as_ref().is_some_and(|own| !own.contains(&region.name)) {
        let own = own.unwrap_or_default().join(" and ");
        let message = format!("{} is not kept here: this server keeps {own}", region.name);
        return Err(Fault::member("location", message));
    }
    Ok(region.name.clone())
}

/// Shows how a collection is kept.
pub(crate) fn show(regional: Option<&dyn Regional>, shown: &mut Value) {
    let Some(regional) = regional else {
        return;
    };
    let Replication {
        owner,
        epoch,
        lag_ms,
        mode,
    } = regional.replication();
    let replication = json!({"owner": owner, "epoch": epoch, "lagMs": lag_ms, "mode": mode});
    shown["properties"]["steadfast"]["replication"] = replication;
}

/// Refuses a change that would not be in both regions, where that is wanted.
pub(crate) fn check(regional: &dyn Regional, method: &Method) -> Result<(), Fault> {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    if is_read || !regional.requires_sync() || regional.replication().mode == "synced" {
        return Ok(());
    }
    Err(Fault::unavailable(
        "STF-7035: the other region does not have everything, and require_sync is set for the region",
    ))
}

/// Looks again after a change: it may be that only this region has it.
pub(crate) fn confirm(regional: &dyn Regional, method: &Method) -> Result<(), Fault> {
    check(regional, method).map_err(|_| {
        Fault::unavailable(
            "STF-7036: the change was made here, but it is not certain that the other region \
             has it, and require_sync is set for the region; look before you repeat it",
        )
    })
}

/// A request on its way to the owner.
pub(crate) struct Forwarded {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Scheme and host that the client knows.
    pub(crate) base: String,
    pub(crate) body: Bytes,
}

/// Headers that an operation looks at.
const KEPT: [&str; 3] = [
    "if-match",
    "x-ms-client-request-id",
    "x-ms-correlation-request-id",
];

/// The version of the encodings.
const FORMAT: u8 = 1;

impl Forwarded {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.method.as_str().as_bytes());
        put_bytes(&mut out, self.uri.to_string().as_bytes());
        put_bytes(&mut out, self.base.as_bytes());
        let kept = KEPT.iter();
        let kept = kept.filter_map(|name| Some((name, self.headers.get(*name)?)));
        put_headers(&mut out, kept.map(|(name, value)| (*name, value)));
        put_bytes(&mut out, &self.body);
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(Malformed);
        }
        let method = Method::from_bytes(&reader.bytes()?).map_err(|_| Malformed)?;
        let uri = Uri::try_from(&reader.bytes()?[..]).map_err(|_| Malformed)?;
        let base = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed)?;
        Ok(Self {
            method,
            uri,
            base,
            headers: take_headers(&mut reader)?,
            body: reader.bytes()?,
        })
    }
}

fn put_headers<'a>(out: &mut Vec<u8>, headers: impl Iterator<Item = (&'a str, &'a HeaderValue)>) {
    let headers: Vec<_> = headers.collect();
    put_varint(out, headers.len() as u64);
    for (name, value) in headers {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn take_headers(reader: &mut Reader) -> Result<HeaderMap, Malformed> {
    let count = reader.varint()?;
    if count > 64 {
        return Err(Malformed);
    }
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let name = HeaderName::from_bytes(&reader.bytes()?).map_err(|_| Malformed)?;
        let value = HeaderValue::from_bytes(&reader.bytes()?).map_err(|_| Malformed)?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// An answer, for the region that was asked.
pub(crate) async fn pack(response: Response) -> Bytes {
    let (parts, body) = response.into_parts();
    let mut out = vec![FORMAT];
    put_varint(&mut out, u64::from(parts.status.as_u16()));
    let headers = parts.headers.iter();
    put_headers(
        &mut out,
        headers.map(|(name, value)| (name.as_str(), value)),
    );
    // It was made in memory.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    put_bytes(&mut out, &body);
    out.into()
}

/// Reads what [`pack`] wrote.
pub(crate) fn unpack(bytes: Bytes) -> Result<Response, Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? != FORMAT {
        return Err(Malformed);
    }
    let status = u16::try_from(reader.varint()?).map_err(|_| Malformed)?;
    let status = StatusCode::from_u16(status).map_err(|_| Malformed)?;
    let headers = take_headers(&mut reader)?;
    let mut response = HttpResponse::new(Body::from(reader.bytes()?));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_sent() {
        let mut headers = HeaderMap::new();
        headers.insert("if-match", HeaderValue::from_static("\"7\""));
        headers.insert("authorization", HeaderValue::from_static("secret"));
        let sent = Forwarded {
            method: Method::PUT,
            uri: Uri::from_static("/subscriptions/s?api-version=2016-03-01"),
            headers,
            base: "http://b".to_owned(),
            body: "{}".into(),
        };
        let bytes = sent.encode();
        let got = Forwarded::decode(bytes.clone()).unwrap();
        assert_eq!((got.method, got.uri), (sent.method, sent.uri));
        assert_eq!((got.base, got.body), (sent.base, sent.body));
        // What a client has shown is checked where it came, and goes no further.
        assert_eq!(got.headers.len(), 1);
        for end in 0..bytes.len() {
            assert!(Forwarded::decode(bytes.slice(..end)).is_err());
        }
    }

    #[test]
    fn places_are_shown_in_one_spelling() {
        let atlas = Atlas::default();
        assert_eq!(place(&atlas, None, "westus").unwrap(), "West US");
        assert_eq!(place(&atlas, None, "Atlantis").unwrap_err().status, 400);
    }

    struct Pair {
        mode: &'static str,
        requires_sync: bool,
    }

    #[async_trait]
    impl Regional for Pair {
        fn is_owner(&self) -> bool {
            true
        }

        fn replication(&self) -> Replication {
            Replication {
                owner: "a".to_owned(),
                epoch: 1,
                lag_ms: 0,
                mode: self.mode.to_owned(),
            }
        }

        fn regions(&self) -> [String; 2] {
            ["a".to_owned(), "b".to_owned()]
        }

        fn requires_sync(&self) -> bool {
            self.requires_sync
        }

        async fn forward(&self, _: Bytes, _: bool) -> Option<Bytes> {
            None
        }

        fn copies(&self) -> Option<Jobs> {
            None
        }
    }

    #[test]
    fn a_change_that_one_region_has_is_not_confirmed() {
        let pair = |mode, requires_sync| Pair {
            mode,
            requires_sync,
        };
        let alone = pair("degraded", true);
        let refused = confirm(&alone, &Method::PUT).unwrap_err();
        assert_eq!(refused.status, 503);
        assert!(refused.message.starts_with("STF-7036"));
        assert!(confirm(&alone, &Method::GET).is_ok());
        assert!(confirm(&pair("synced", true), &Method::PUT).is_ok());
        assert!(confirm(&pair("degraded", false), &Method::PUT).is_ok());
    }
}
