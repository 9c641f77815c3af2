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
use steadfast_core::codec::{Malformed, Reader, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_partition::Kind;
use steadfast_realtime::Ticket;

use super::context::Context;
use super::polling;
use super::refusal::Refusal;

/// The message kind of requests between nodes about one client.
pub const REQUESTS: Kind = Kind(66);

/// A request about a client that another node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FarRequest {
    pub(super) hub: String,
    /// The client's connection token.
    pub(super) token: String,
    pub(super) what: What,
}

/// What to do with the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
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

impl FarRequest {
    fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.hub.as_bytes());
        put_bytes(&mut out, self.token.as_bytes());
        match &self.what {
            What::Ticket => out.push(1),
            What::Poll(wait) => {
                out.push(2);
                put_varint(
                    &mut out,
                    wait.map_or(0, |wait| whole_ms(wait).saturating_add(1)),
                );
            }
            What::Post(body) => {
                out.push(3);
                put_bytes(&mut out, body);
            }
            What::End => out.push(4),
        }
        out.into()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(Malformed);
        }
        let (hub, token) = (text(&mut reader)?, text(&mut reader)?);
        let what = match reader.byte()? {
            1 => What::Ticket,
            2 => What::Poll(reader.varint()?.checked_sub(1).map(Duration::from_millis)),
            3 => What::Post(reader.bytes()?),
            4 => What::End,
            _ => return Err(Malformed),
        };
        Ok(Self { hub, token, what })
    }
}

fn text(reader: &mut Reader) -> Result<String, Malformed> {
    String::from_utf8(reader.bytes()?.into()).map_err(|_| Malformed)
}

/// Takes over a connection from another node, if no transport has opened it.
pub(super) async fn claim(context: &Context, hub: &str, token: &str) -> Option<Arc<Ticket>> {
    let request = FarRequest {
        hub: hub.to_owned(),
        token: token.to_owned(),
        what: What::Ticket,
    };
    let given = ask(context, &request).await?;
    context.realtime.take_ticket(hub, token, given).ok()
}

/// Forwards a request to the node that has the connection.
pub(super) async fn carry(context: &Context, request: FarRequest) -> Result<Response, Refusal> {
    let answer = ask(context, &request).await.ok_or_else(Refusal::unknown)?;
    read(answer).map_err(|_| Refusal::unknown())
}

/// Queries nodes, the likeliest first. A node without the client responds with nothing.
async fn ask(context: &Context, request: &FarRequest) -> Option<Bytes> {
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
    let Ok(FarRequest { hub, token, what }) = FarRequest::decode(request) else {
        return Bytes::new();
    };
    if what == What::Ticket {
        let given = context.realtime.give_ticket(&hub, &token);
        return given.unwrap_or_default();
    }
    let ticket = context.realtime.ticket(&token);
    let ticket = ticket.filter(|own| own.lobby.name().eq_ignore_ascii_case(&hub));
    let Some(ticket) = ticket else {
        return Bytes::new();
    };
    let done = match what {
        What::Poll(wait) => {
            let wait = wait
                .unwrap_or(limits::FAR_POLL_TIME)
                .min(limits::FAR_POLL_TIME);
            polling::poll(&ticket, Some(wait), None).await
        }
        What::Post(body) => polling::post(&ticket, body, None).await,
        What::End | What::Ticket => polling::end(&ticket),
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

fn read(answer: Bytes) -> Result<Response, Malformed> {
    let mut reader = Reader::new(answer);
    let status = u16::try_from(reader.varint()?).map_err(|_| Malformed)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Malformed)?;
    for name in TOLD {
        let value = reader.bytes()?;
        if !value.is_empty() {
            let value = HeaderValue::from_maybe_shared(value).map_err(|_| Malformed)?;
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
            What::Ticket,
            What::Poll(None),
            What::Poll(Some(Duration::from_millis(300))),
            What::Post("said".into()),
            What::End,
        ] {
            let request = FarRequest {
                hub: "chat".to_owned(),
                token: "t.1".to_owned(),
                what,
            };
            let bytes = request.encode();
            assert_eq!(FarRequest::decode(bytes.clone()), Ok(request));
            for end in 0..bytes.len() {
                assert!(FarRequest::decode(bytes.slice(..end)).is_err());
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
