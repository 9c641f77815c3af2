//! Serves clients whose connection is on another node.
//!
//! A connection that is not open yet moves to the node that receives its client. A
//! polling connection stays on its node: its requests are forwarded there.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use steadfast_core::clock::whole_ms;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_partition::ServiceKind;
use steadfast_realtime::ConnectionTicket;

use super::context::Context;
use super::error::ClientRequestError;
use super::polling;

/// The message kind of requests between nodes about one client.
pub const REQUESTS: ServiceKind = ServiceKind(66);

/// A request about a client that another node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemotePollRequest {
    pub(super) hub: String,
    /// The client's connection token.
    pub(super) token: String,
    pub(super) what: RemotePollAction,
}

/// What to do with the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RemotePollAction {
    /// The ticket, if its connection is not open.
    Ticket,
    Poll(Option<Duration>),
    Post(Bytes),
    End,
}

/// The version of the encoding.
const FORMAT: u8 = 1;

/// The response headers that are forwarded.
const TOLD: [HeaderName; 2] = [CONTENT_TYPE, CACHE_CONTROL];

impl RemotePollRequest {
    fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.hub.as_bytes());
        put_bytes(&mut out, self.token.as_bytes());
        match &self.what {
            RemotePollAction::Ticket => out.push(1),
            RemotePollAction::Poll(wait) => {
                out.push(2);
                put_varint(
                    &mut out,
                    wait.map_or(0, |wait| whole_ms(wait).saturating_add(1)),
                );
            }
            RemotePollAction::Post(body) => {
                out.push(3);
                put_bytes(&mut out, body);
            }
            RemotePollAction::End => out.push(4),
        }
        out.into()
    }

    fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let (hub, token) = (text(&mut reader)?, text(&mut reader)?);
        let what = match reader.byte()? {
            1 => RemotePollAction::Ticket,
            2 => RemotePollAction::Poll(reader.varint()?.checked_sub(1).map(Duration::from_millis)),
            3 => RemotePollAction::Post(reader.bytes()?),
            4 => RemotePollAction::End,
            _ => return Err(DecodeError),
        };
        Ok(Self { hub, token, what })
    }
}

fn text(reader: &mut ByteReader) -> Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.into()).map_err(|_| DecodeError)
}

/// Takes over a connection from another node, if no transport has opened it.
pub(super) async fn claim(
    context: &Context,
    hub: &str,
    token: &str,
) -> Option<Arc<ConnectionTicket>> {
    let request = RemotePollRequest {
        hub: hub.to_owned(),
        token: token.to_owned(),
        what: RemotePollAction::Ticket,
    };
    let given = ask(context, &request).await?;
    context.realtime.take_ticket(hub, token, given).ok()
}

/// Forwards a request to the node that has the connection.
pub(super) async fn forward(
    context: &Context,
    request: RemotePollRequest,
) -> Result<Response, ClientRequestError> {
    let answer = ask(context, &request)
        .await
        .ok_or_else(ClientRequestError::unknown)?;
    read(answer).map_err(|_| ClientRequestError::unknown())
}

/// Queries nodes, the likeliest first. A node without the client responds with nothing.
async fn ask(context: &Context, request: &RemotePollRequest) -> Option<Bytes> {
    let body = request.encode();
    for node in context.realtime.likely(&request.token) {
        let asked = context.realtime.request(&node, REQUESTS, body.clone());
        if let Some(answer) = asked.await.filter(|answer| !answer.is_empty()) {
            return Some(answer);
        }
    }
    None
}

/// Handles a request of another node. The response is empty if this node does not have
/// the client.
pub async fn answer(context: &Context, request: Bytes) -> Bytes {
    let Ok(RemotePollRequest { hub, token, what }) = RemotePollRequest::decode(request) else {
        return Bytes::new();
    };
    if what == RemotePollAction::Ticket {
        let given = context.realtime.give_ticket(&hub, &token);
        return given.unwrap_or_default();
    }
    let ticket = context.realtime.ticket(&token);
    let ticket = ticket.filter(|own| own.hub.name().eq_ignore_ascii_case(&hub));
    let Some(ticket) = ticket else {
        return Bytes::new();
    };
    let done = match what {
        RemotePollAction::Poll(wait) => {
            let wait = wait
                .unwrap_or(limits::FAR_POLL_TIME)
                .min(limits::FAR_POLL_TIME);
            polling::poll(&ticket, Some(wait), None).await
        }
        RemotePollAction::Post(body) => polling::post(&ticket, body, None).await,
        RemotePollAction::End | RemotePollAction::Ticket => polling::end(&ticket),
    };
    write(done.unwrap_or_else(IntoResponse::into_response)).await
}

async fn write(response: Response) -> Bytes {
    let (parts, body) = response.into_parts();
    let mut out = Vec::new();
    put_varint(&mut out, u64::from(parts.status.as_u16()));
    for name in TOLD {
        let value = parts.headers.get(name);
        put_bytes(&mut out, value.map_or(&b""[..], HeaderValue::as_bytes));
    }
    let body = to_bytes(body, limits::NODE_MESSAGE_BYTES).await;
    put_bytes(&mut out, &body.unwrap_or_default());
    out.into()
}

fn read(answer: Bytes) -> Result<Response, DecodeError> {
    let mut reader = ByteReader::new(answer);
    let status = u16::try_from(reader.varint()?).map_err(|_| DecodeError)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| DecodeError)?;
    for name in TOLD {
        let value = reader.bytes()?;
        if !value.is_empty() {
            let value = HeaderValue::from_maybe_shared(value).map_err(|_| DecodeError)?;
            response.headers_mut().insert(name, value);
        }
    }
    *response.body_mut() = Body::from(reader.bytes()?);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_as_written() {
        for what in [
            RemotePollAction::Ticket,
            RemotePollAction::Poll(None),
            RemotePollAction::Poll(Some(Duration::from_millis(300))),
            RemotePollAction::Post("said".into()),
            RemotePollAction::End,
        ] {
            let request = RemotePollRequest {
                hub: "chat".to_owned(),
                token: "t.1".to_owned(),
                what,
            };
            let bytes = request.encode();
            assert_eq!(RemotePollRequest::decode(bytes.clone()), Ok(request));
            for end in 0..bytes.len() {
                assert!(RemotePollRequest::decode(bytes.slice(..end)).is_err());
            }
        }
    }

    #[tokio::test]
    async fn answers_come_back_as_written() {
        let headers = [(CONTENT_TYPE, "text/plain")];
        let whole = (StatusCode::ACCEPTED, headers, "said").into_response();
        let read = read(write(whole).await).unwrap();
        assert_eq!(read.status(), StatusCode::ACCEPTED);
        assert_eq!(read.headers()[CONTENT_TYPE], "text/plain");
        assert!(!read.headers().contains_key(CACHE_CONTROL));
        assert_eq!(to_bytes(read.into_body(), 9).await.unwrap(), "said");
    }
}
