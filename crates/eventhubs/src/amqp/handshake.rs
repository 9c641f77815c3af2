//! The connection handshake: headers, SASL, open.

use std::time::Duration;

use bytes::BytesMut;
use steadfast_core::limits;
use steadfast_net::access::Proof;
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::connection::{Close, Open};
use steadfast_wire::amqp::frame::{self, Frame, Kind, ProtocolHeader};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::write;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::condition::Condition;
use super::context::Context;
use super::permit::{AmqpTokens, SOME, TokenPermit};

/// The smallest max-frame-size that AMQP permits.
const LEAST_FRAME: u32 = 512;

/// The longest name of a host.
const HOST_BYTES: usize = 255;

/// A client that requires heartbeats more often than this is refused.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// The client's parameters from the handshake.
pub(super) struct Greeting {
    pub(super) tokens: AmqpTokens,
    /// The host name from its open; empty if absent.
    pub(super) host: Box<str>,
    pub(super) frame_bytes: usize,
    /// The client's idle time-out.
    pub(super) idle: Option<Duration>,
}

/// Runs the handshake up to the open and answers it. `None` if the client was refused
/// or has disconnected.
pub(super) async fn greet<S>(
    stream: &mut S,
    buffer: &mut BytesMut,
    context: &Context,
) -> std::io::Result<Option<Greeting>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut tokens = AmqpTokens::default();
    if context.access.is_none() {
        steadfast_net::listen::proven();
        tokens.put("", TokenPermit::Open);
    }
    let Some(mut protocol) = header(stream, buffer).await? else {
        return Ok(None);
    };
    if protocol == ProtocolHeader::Sasl {
        if !authenticate(stream, buffer, context, &mut tokens).await? {
            return Ok(None);
        }
        match header(stream, buffer).await? {
            Some(next) => protocol = next,
            None => return Ok(None),
        }
    }
    if protocol != ProtocolHeader::Amqp {
        return Ok(None);
    }
    stream.write_all(&ProtocolHeader::Amqp.header()).await?;
    let Some(frame) = next_frame(stream, buffer).await? else {
        return Ok(None);
    };
    match opened(&frame) {
        Ok((host, frame_bytes, idle)) => {
            stream.write_all(&answer(context)).await?;
            Ok(Some(Greeting {
                tokens,
                host,
                frame_bytes,
                idle,
            }))
        }
        Err(fault) => {
            let mut out = answer(context);
            let problem = Some(fault.problem());
            frame::put(&mut out, Kind::Amqp, 0, |out| {
                Close { error: problem }.write(out)
            });
            stream.write_all(&out).await?;
            Ok(None)
        }
    }
}

/// The next protocol header. Another protocol is answered with the header we support.
async fn header<S>(stream: &mut S, buffer: &mut BytesMut) -> std::io::Result<Option<ProtocolHeader>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match frame::take_protocol(buffer) {
            Ok(Some(protocol)) => return Ok(Some(protocol)),
            Ok(None) => {}
            Err(_) => {
                stream.write_all(&ProtocolHeader::Sasl.header()).await?;
                return Ok(None);
            }
        }
        if !fill(stream, buffer).await? {
            return Ok(None);
        }
    }
}

async fn next_frame<S>(stream: &mut S, buffer: &mut BytesMut) -> std::io::Result<Option<Frame>>
where
    S: AsyncRead + Unpin,
{
    loop {
        match frame::take(buffer) {
            Ok(Some(frame)) => return Ok(Some(frame)),
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        if !fill(stream, buffer).await? {
            return Ok(None);
        }
    }
}

/// Reads some more. False at the end.
async fn fill<S>(stream: &mut S, buffer: &mut BytesMut) -> std::io::Result<bool>
where
    S: AsyncRead + Unpin,
{
    buffer.reserve(limits::AMQP_UNPROVEN_READ_BYTES);
    Ok(stream.read_buf(buffer).await? > 0)
}

/// The SASL layer. A client that authenticates with a key gets its rights; any other
/// client is admitted without rights until it puts a token.
async fn authenticate<S>(
    stream: &mut S,
    buffer: &mut BytesMut,
    context: &Context,
    tokens: &mut AmqpTokens,
) -> std::io::Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut out = ProtocolHeader::Sasl.header().to_vec();
    frame::put(&mut out, Kind::Sasl, 0, sasl::write_mechanisms);
    stream.write_all(&out).await?;
    let Some(frame) = next_frame(stream, buffer).await? else {
        return Ok(false);
    };
    let code = match sasl::read_init(&frame.body) {
        Ok(init) if frame.kind == Kind::Sasl => judge(&init, context, tokens),
        _ => sasl::REFUSED,
    };
    out.clear();
    frame::put(&mut out, Kind::Sasl, 0, |out| {
        sasl::write_outcome(out, code)
    });
    stream.write_all(&out).await?;
    Ok(code == sasl::OK)
}

fn judge(init: &sasl::SaslInit<'_>, context: &Context, tokens: &mut AmqpTokens) -> u8 {
    match init.mechanism {
        "MSSBCBS" | "ANONYMOUS" | "EXTERNAL" => sasl::OK,
        "PLAIN" => {
            let Some(access) = &context.access else {
                return sasl::OK;
            };
            let pass = sasl::plain(init.response).and_then(|(name, secret)| {
                let proof = Proof::Plain { name, secret };
                let pass = access.authorize(proof, &SOME);
                pass.inspect_err(|why| context.refused(why)).ok()
            });
            match pass {
                Some(pass) => {
                    tokens.put("", TokenPermit::Key(pass));
                    sasl::OK
                }
                None => sasl::REFUSED,
            }
        }
        _ => sasl::REFUSED,
    }
}

/// The host name, max-frame-size and idle time-out of the client's open.
fn opened(frame: &Frame) -> Result<(Box<str>, usize, Option<Duration>), Condition> {
    let Performative::Open(open) = performative::read(&frame.body)?.0 else {
        return Err(Condition::new(
            condition::NOT_ALLOWED,
            "a connection begins with an open",
        ));
    };
    let largest = open.max_frame.unwrap_or(u32::MAX);
    if largest < LEAST_FRAME {
        return Err(Condition::new(
            condition::INVALID_FIELD,
            "max-frame-size is below 512",
        ));
    }
    let idle = open.idle_ms.filter(|ms| *ms > 0);
    let idle = idle.map(|ms| Duration::from_millis(ms.into()));
    if idle.is_some_and(|idle| idle < LEAST_IDLE) {
        return Err(Condition::new(
            condition::NOT_ALLOWED,
            "idle-time-out is below a second",
        ));
    }
    // It becomes part of an address, so it must not be a path.
    let is_host = |host: &&str| host.len() <= HOST_BYTES && !host.contains('/');
    let host = open.host.filter(is_host);
    let frame_bytes = largest.min(limits::AMQP_FRAME_BYTES) as usize;
    Ok((host.unwrap_or_default().into(), frame_bytes, idle))
}

fn answer(context: &Context) -> Vec<u8> {
    let mut properties = Vec::new();
    write::map(&mut properties, 2, |out| {
        write::symbol(out, "product");
        write::string(out, "steadfast");
        write::symbol(out, "version");
        write::string(out, env!("CARGO_PKG_VERSION"));
    });
    let open = Open {
        container: &context.container,
        host: None,
        max_frame: Some(limits::AMQP_FRAME_BYTES),
        channel_max: Some(limits::AMQP_CHANNEL_MAX),
        idle_ms: Some(context.idle.as_millis() as u32),
        properties: EncodedValue::new(&properties).unwrap_or(EncodedValue::NULL),
    };
    let mut out = Vec::new();
    frame::put(&mut out, Kind::Amqp, 0, |out| open.write(out));
    out
}
