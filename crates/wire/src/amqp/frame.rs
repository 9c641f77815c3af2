//! Protocol headers and frames.

use bytes::{Bytes, BytesMut};
use steadfast_core::limits;

use super::error::{AmqpDecodeError, Result};

/// The size of a protocol header, and of a frame's header without extension.
pub const HEADER_BYTES: usize = 8;

/// The protocol that a peer starts with its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolHeader {
    Amqp,
    Sasl,
}

impl ProtocolHeader {
    /// The eight bytes of its header.
    pub const fn header(self) -> [u8; HEADER_BYTES] {
        match self {
            Self::Amqp => *b"AMQP\x00\x01\x00\x00",
            Self::Sasl => *b"AMQP\x03\x01\x00\x00",
        }
    }
}

/// Takes a protocol header from the front, once it is complete. Invalid bytes are
/// refused at the first wrong byte.
pub fn take_protocol(buffer: &mut BytesMut) -> Result<Option<ProtocolHeader>> {
    let seen = buffer.len().min(HEADER_BYTES);
    for protocol in [ProtocolHeader::Amqp, ProtocolHeader::Sasl] {
        if buffer[..seen] == protocol.header()[..seen] {
            if seen < HEADER_BYTES {
                return Ok(None);
            }
            let _ = buffer.split_to(HEADER_BYTES);
            return Ok(Some(protocol));
        }
    }
    Err(AmqpDecodeError::new(
        "a protocol header of another protocol or version",
    ))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Amqp,
    Sasl,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Amqp => 0,
            Self::Sasl => 1,
        }
    }
}

/// One frame with an undecoded body. An empty body is a heartbeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub kind: Kind,
    pub channel: u16,
    pub body: Bytes,
}

/// Takes a frame from the front, once it is complete. A frame that is too large is
/// refused when its size is read, before its bytes are buffered.
pub fn take(buffer: &mut BytesMut) -> Result<Option<Frame>> {
    let Some(size) = size(buffer) else {
        return Ok(None);
    };
    if size > limits::AMQP_FRAME_BYTES as usize {
        return Err(AmqpDecodeError::new(
            "a frame over the size that was announced",
        ));
    }
    let Some(head) = buffer.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let data = usize::from(head[4]) * 4;
    let kind = match head[5] {
        0 => Kind::Amqp,
        1 => Kind::Sasl,
        _ => return Err(AmqpDecodeError::new("a frame of an unknown type")),
    };
    let channel = u16::from_be_bytes([head[6], head[7]]);
    if data < HEADER_BYTES || size < data {
        return Err(AmqpDecodeError::new("a frame's size"));
    }
    if buffer.len() < size {
        return Ok(None);
    }
    let mut whole = buffer.split_to(size).freeze();
    Ok(Some(Frame {
        kind,
        channel,
        body: whole.split_off(data),
    }))
}

/// The number of bytes missing until the next frame is complete, as far as known:
/// never more than the maximum frame size, whatever the peer claims.
pub fn missing(buffer: &[u8]) -> usize {
    let size = size(buffer).unwrap_or(HEADER_BYTES);
    let size = size.min(limits::AMQP_FRAME_BYTES as usize);
    size.saturating_sub(buffer.len())
}

/// The size of the frame at the front, once its bytes have arrived.
fn size(buffer: &[u8]) -> Option<usize> {
    let size = buffer.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*size) as usize)
}

/// Appends a frame whose body `write` writes.
pub fn put(out: &mut Vec<u8>, kind: Kind, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out, kind, channel);
    write(out);
    finish(out, start);
}

/// Begins a frame; what is appended until [`finish`] is its body.
pub fn begin(out: &mut Vec<u8>, kind: Kind, channel: u16) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind.byte()]);
    out.extend_from_slice(&channel.to_be_bytes());
    start
}

/// Ends the frame that was begun at `start`.
pub fn finish(out: &mut [u8], start: usize) {
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}
