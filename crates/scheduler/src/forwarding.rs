//! Scheduler requests that are forwarded to another region.

use axum::body::{Body, to_bytes};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, Response as HttpResponse, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_jobs::{CollectionId, NameRequest};
use steadfast_net::access::Grant;
use steadfast_partition::Message;

use super::authorization::CallerGrants;

/// A client's request.
#[derive(Clone)]
pub(crate) struct ForwardedRequest {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Scheme and host that the client knows.
    pub(crate) base: String,
    pub(crate) body: Bytes,
    /// The grants of its key; `None` without authentication.
    pub(crate) grants: CallerGrants,
}

/// Whether a collection may be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Existing collections only.
    Find,
    /// Create it with this ticket: neither home has it.
    Make(u64),
}

/// A request to the region that owns a home's jobs.
pub(crate) enum HomeRequest {
    Request(Box<ForwardedRequest>, Purpose),
    Name(CollectionId, NameRequest),
}

/// The response of the owner.
pub(crate) enum HomeResponse {
    /// The home does not have the collection.
    NotHere,
    /// It is unknown now whether the home has it.
    Unsure,
    Response(Response),
    Ticket(u64),
    /// The name is in use or the ticket is void: look the collection up again.
    NameConflict,
}

/// Headers that operations read.
const KEPT: [&str; 3] = [
    "if-match",
    "x-ms-client-request-id",
    "x-ms-correlation-request-id",
];

/// Carries the grants of the client's key. A client cannot set it: headers that operations
/// do not read are not forwarded.
const GRANTS: &str = "x-steadfast-grants";

/// The version of the encodings.
const FORMAT: u8 = 2;

impl ForwardedRequest {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.method.as_str().as_bytes());
        put_bytes(out, self.uri.to_string().as_bytes());
        put_bytes(out, self.base.as_bytes());
        let kept = KEPT.iter();
        let kept = kept.filter_map(|name| Some((name, self.headers.get(*name)?)));
        let kept = kept.map(|(name, value)| (*name, value));
        let grants = self.grants.as_deref().map(written);
        let grants = grants.iter().map(|grants| (GRANTS, grants));
        put_headers(out, kept.chain(grants));
        put_bytes(out, &self.body);
    }

    fn take(reader: &mut ByteReader) -> Result<Self, DecodeError> {
        let method = Method::from_bytes(&reader.bytes()?).map_err(|_| DecodeError)?;
        let uri = Uri::try_from(&reader.bytes()?[..]).map_err(|_| DecodeError)?;
        let base = text(reader)?;
        let mut headers = take_headers(reader)?;
        let grants = headers.remove(GRANTS);
        let grants = grants.map(|grants| read(&grants).ok_or(DecodeError));
        Ok(Self {
            method,
            uri,
            base,
            headers,
            body: reader.bytes()?,
            grants: grants.transpose()?,
        })
    }
}

impl HomeRequest {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::Request(wanted, purpose) => {
                match purpose {
                    Purpose::Find => out.push(1),
                    Purpose::Make(ticket) => {
                        out.push(2);
                        put_varint(&mut out, *ticket);
                    }
                }
                wanted.put(&mut out);
            }
            Self::Name(id, naming) => {
                out.push(3);
                for part in [&id.subscription, &id.group, &id.name] {
                    put_bytes(&mut out, part.as_bytes());
                }
                put_bytes(&mut out, &naming.encode());
            }
        }
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let purpose = match reader.byte()? {
            1 => Purpose::Find,
            2 => Purpose::Make(reader.varint()?),
            3 => {
                let parts = [text(&mut reader)?, text(&mut reader)?, text(&mut reader)?];
                let [subscription, group, name] = parts;
                let id = CollectionId::new(&subscription, &group, &name).ok_or(DecodeError)?;
                return Ok(Self::Name(id, NameRequest::decode(&reader.bytes()?)?));
            }
            _ => return Err(DecodeError),
        };
        Ok(Self::Request(
            Box::new(ForwardedRequest::take(&mut reader)?),
            purpose,
        ))
    }
}

impl HomeResponse {
    /// Encodes the response for the requesting region.
    pub(crate) async fn encode(self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::NotHere => out.push(1),
            Self::Response(response) => {
                out.push(2);
                put_response(&mut out, response).await;
            }
            Self::Unsure => out.push(3),
            Self::Ticket(ticket) => {
                out.push(4);
                put_varint(&mut out, ticket);
            }
            Self::NameConflict => out.push(5),
        }
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        Ok(match reader.byte()? {
            1 => Self::NotHere,
            2 => Self::Response(take_response(&mut reader)?),
            3 => Self::Unsure,
            4 => Self::Ticket(reader.varint()?),
            5 => Self::NameConflict,
            _ => return Err(DecodeError),
        })
    }
}

fn text(reader: &mut ByteReader) -> Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)
}

fn written(grants: &[Grant]) -> HeaderValue {
    let grants: Vec<_> = grants.iter().map(ToString::to_string).collect();
    list(&grants)
}

/// A list that cannot be encoded becomes an empty one: a missing list would disable the
/// check.
fn list(grants: &[String]) -> HeaderValue {
    let text = serde_json::to_vec(&grants).unwrap_or_default();
    match HeaderValue::from_bytes(&text) {
        Ok(list) if !list.is_empty() => list,
        _ => HeaderValue::from_static("[]"),
    }
}

fn read(grants: &HeaderValue) -> Option<Vec<Grant>> {
    let grants: Vec<String> = serde_json::from_slice(grants.as_bytes()).ok()?;
    let grants = grants.iter().map(|grant| grant.parse().ok());
    grants.collect()
}

fn put_headers<'a>(out: &mut Vec<u8>, headers: impl Iterator<Item = (&'a str, &'a HeaderValue)>) {
    let headers: Vec<_> = headers.collect();
    put_varint(out, headers.len() as u64);
    for (name, value) in headers {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn take_headers(reader: &mut ByteReader) -> Result<HeaderMap, DecodeError> {
    let count = reader.varint()?;
    if count > 64 {
        return Err(DecodeError);
    }
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let name = HeaderName::from_bytes(&reader.bytes()?).map_err(|_| DecodeError)?;
        let value = HeaderValue::from_bytes(&reader.bytes()?).map_err(|_| DecodeError)?;
        headers.append(name, value);
    }
    Ok(headers)
}

async fn put_response(out: &mut Vec<u8>, response: Response) {
    let (parts, body) = response.into_parts();
    put_varint(out, u64::from(parts.status.as_u16()));
    let headers = parts.headers.iter();
    put_headers(out, headers.map(|(name, value)| (name.as_str(), value)));
    // The body is in memory already.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    put_bytes(out, &body);
}

fn take_response(reader: &mut ByteReader) -> Result<Response, DecodeError> {
    let status = u16::try_from(reader.varint()?).map_err(|_| DecodeError)?;
    let status = StatusCode::from_u16(status).map_err(|_| DecodeError)?;
    let headers = take_headers(reader)?;
    let mut response = HttpResponse::new(Body::from(reader.bytes()?));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: HeaderMap) -> ForwardedRequest {
        ForwardedRequest {
            method: Method::PUT,
            uri: Uri::from_static("/subscriptions/s?api-version=2016-03-01"),
            headers,
            base: "http://b".to_owned(),
            body: "{}".into(),
            grants: Some(vec!["send events/ä".parse().unwrap()]),
        }
    }

    #[test]
    fn a_request_comes_back_as_sent() {
        let mut headers = HeaderMap::new();
        headers.insert("if-match", HeaderValue::from_static("\"7\""));
        headers.insert("authorization", HeaderValue::from_static("secret"));
        let sent = request(headers);
        for purpose in [Purpose::Find, Purpose::Make(7)] {
            let bytes = HomeRequest::Request(Box::new(sent.clone()), purpose).encode();
            let Ok(HomeRequest::Request(got, read)) = HomeRequest::decode(bytes.clone()) else {
                panic!("it is a request");
            };
            assert_eq!(read, purpose);
            assert_eq!((&got.method, &got.uri), (&sent.method, &sent.uri));
            assert_eq!((&got.base, &got.body), (&sent.base, &sent.body));
            assert_eq!(got.grants, sent.grants);
            // Credentials are verified where they arrive, and not forwarded.
            assert_eq!(got.headers.len(), 1);
            for end in 0..bytes.len() {
                assert!(HomeRequest::decode(bytes.slice(..end)).is_err());
            }
        }
    }

    #[test]
    fn grants_arrive_as_a_list_or_as_none_at_all_but_are_never_left_out() {
        let got = |grants| {
            let sent = ForwardedRequest {
                grants,
                ..request(HeaderMap::new())
            };
            let errand = HomeRequest::Request(Box::new(sent), Purpose::Find);
            match HomeRequest::decode(errand.encode()) {
                Ok(HomeRequest::Request(got, _)) => got.grants,
                _ => panic!("it is a request"),
            }
        };
        assert_eq!(got(None), None);
        assert_eq!(got(Some(Vec::new())), Some(Vec::new()));
        // A header holds no control character, so no grant does.
        assert!("send jobs/a\u{7f}".parse::<Grant>().is_err());
        assert_eq!(list(&["send jobs/a\u{7f}".to_owned()]), "[]");
    }

    #[test]
    fn questions_about_names_come_back_as_sent() {
        let id = CollectionId::new("s", "g", "n").unwrap();
        let naming = NameRequest::Void { up_to: 9 };
        let bytes = HomeRequest::Name(id.clone(), naming).encode();
        for end in 0..bytes.len() {
            assert!(HomeRequest::decode(bytes.slice(..end)).is_err());
        }
        let Ok(HomeRequest::Name(found, read)) = HomeRequest::decode(bytes) else {
            panic!("it is a question about a name");
        };
        assert_eq!((found, read), (id, naming));
    }

    #[tokio::test]
    async fn replies_come_back_as_sent() {
        let response = HttpResponse::builder().status(409).header("etag", "\"3\"");
        let response = response.body(Body::from("no")).unwrap();
        let bytes = HomeResponse::Response(response).encode().await;
        for end in 0..bytes.len() {
            assert!(HomeResponse::decode(bytes.slice(..end)).is_err());
        }
        let Ok(HomeResponse::Response(response)) = HomeResponse::decode(bytes) else {
            panic!("it is a response");
        };
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(response.headers()["etag"], "\"3\"");
        let body = to_bytes(response.into_body(), 10).await.unwrap();
        assert_eq!(&body[..], b"no");
        let bytes = HomeResponse::Ticket(4).encode().await;
        assert!(matches!(
            HomeResponse::decode(bytes),
            Ok(HomeResponse::Ticket(4))
        ));
        let bytes = HomeResponse::NotHere.encode().await;
        assert!(matches!(
            HomeResponse::decode(bytes),
            Ok(HomeResponse::NotHere)
        ));
        let bytes = HomeResponse::Unsure.encode().await;
        assert!(matches!(
            HomeResponse::decode(bytes),
            Ok(HomeResponse::Unsure)
        ));
        let bytes = HomeResponse::NameConflict.encode().await;
        assert!(matches!(
            HomeResponse::decode(bytes),
            Ok(HomeResponse::NameConflict)
        ));
    }
}
