//! Cuts and reads framed hub messages.
//!
//! JSON messages end with a record separator, the others begin with their length. A
//! chunk of a transport may hold many messages, or a part of one. A whole message is read
//! in its protocol, or only looked at.

use bytes::{Bytes, BytesMut};

use super::error::{Result, SignalRDecodeError};
use super::message::Message;
use super::protocol::Protocol;
use super::{json, msgpack};

/// Ends a JSON message, and every handshake.
pub const SEPARATOR: u8 = 0x1e;

/// The maximum size of a length prefix in bytes.
const LENGTH_BYTES: usize = 5;

/// Splits received bytes into whole messages, with their framing. A message that
/// arrives in one piece is not copied.
#[derive(Debug, Default)]
pub struct Splitter {
    /// Received bytes that are not split yet.
    current: Bytes,
    /// The beginning of an incomplete message.
    partial: BytesMut,
    /// The length of its prefix without a separator.
    scanned: usize,
}

impl Splitter {
    /// Adds a received chunk. All earlier messages must have been taken with
    /// [`Splitter::next`].
    pub fn push(&mut self, chunk: Bytes) {
        if self.partial.is_empty() && self.current.is_empty() {
            self.current = chunk;
            return;
        }
        if !self.current.is_empty() {
            let current = std::mem::take(&mut self.current);
            self.partial.extend_from_slice(&current);
        }
        self.partial.extend_from_slice(&chunk);
    }

    /// The next whole message, if it is complete. One that is longer than `limit` is
    /// an error, as soon as that is known.
    pub fn next(&mut self, protocol: Protocol, limit: usize) -> Result<Option<Bytes>> {
        match protocol {
            Protocol::Json => self.next_record(limit),
            Protocol::MessagePack | Protocol::Blazor => self.next_counted(limit),
        }
    }

    /// The next message that ends with a separator, including it.
    pub fn next_record(&mut self, limit: usize) -> Result<Option<Bytes>> {
        let bytes = self.unread();
        let found = bytes[self.scanned.min(bytes.len())..]
            .iter()
            .position(|byte| *byte == SEPARATOR);
        let Some(place) = found else {
            let have = bytes.len();
            self.wait(limit)?;
            self.scanned = have;
            return Ok(None);
        };
        let length = self.scanned + place + 1;
        if length > limit {
            return Err(TOO_LONG);
        }
        Ok(Some(self.take(length)))
    }

    fn next_counted(&mut self, limit: usize) -> Result<Option<Bytes>> {
        let Some((head, body)) = length(self.unread())? else {
            return self.wait(limit).map(|()| None);
        };
        let whole = head + body;
        if whole > limit {
            return Err(TOO_LONG);
        }
        if self.unread().len() < whole {
            return self.wait(limit).map(|()| None);
        }
        Ok(Some(self.take(whole)))
    }

    /// Whether there is an incomplete message.
    pub fn is_partial(&self) -> bool {
        !self.unread().is_empty()
    }

    fn unread(&self) -> &[u8] {
        if self.partial.is_empty() {
            &self.current
        } else {
            &self.partial
        }
    }

    fn take(&mut self, length: usize) -> Bytes {
        self.scanned = 0;
        if self.partial.is_empty() {
            return self.current.split_to(length);
        }
        let message = self.partial.split_to(length).freeze();
        self.current = std::mem::take(&mut self.partial).freeze();
        message
    }

    /// Keeps an incomplete message until the next chunk.
    fn wait(&mut self, limit: usize) -> Result<()> {
        if self.unread().len() > limit {
            return Err(TOO_LONG);
        }
        if self.partial.is_empty() && !self.current.is_empty() {
            let current = std::mem::take(&mut self.current);
            self.partial.extend_from_slice(&current);
        }
        Ok(())
    }
}

/// Splits off the first message; everything if no message ends there.
pub fn cut_first(protocol: Protocol, bytes: &mut Bytes) -> Bytes {
    let end = match protocol {
        Protocol::Json => {
            let end = bytes.iter().position(|byte| *byte == SEPARATOR);
            end.map(|end| end + 1)
        }
        Protocol::MessagePack | Protocol::Blazor => match length(bytes) {
            Ok(Some((head, body))) => Some(head + body),
            _ => None,
        },
    };
    match end {
        Some(end) if end <= bytes.len() => bytes.split_to(end),
        _ => std::mem::take(bytes),
    }
}

/// A message over the size limit.
pub const TOO_LONG: SignalRDecodeError =
    SignalRDecodeError::new("the message is longer than allowed");

/// The message without its framing.
pub fn body(protocol: Protocol, message: &Bytes) -> Result<Bytes> {
    match protocol {
        Protocol::Json => match message.split_last() {
            Some((&SEPARATOR, body)) => Ok(message.slice_ref(body)),
            _ => Err(SignalRDecodeError::new("a record without its end")),
        },
        Protocol::MessagePack | Protocol::Blazor => match length(message)? {
            Some((head, body)) if head + body == message.len() => Ok(message.slice(head..)),
            _ => Err(SignalRDecodeError::new("a message of another length")),
        },
    }
}

/// A whole message with its framing, and what was read of it. So a message that several
/// places ask about is parsed once.
#[derive(Clone, Debug)]
pub struct FramedMessage {
    bytes: Bytes,
    known: MessageContent,
}

/// What is known of a message.
#[derive(Clone, Debug)]
enum MessageContent {
    Unread,
    Head(i64, Option<Box<str>>),
    Whole(Box<Message>),
}

impl FramedMessage {
    /// A message that is not read yet.
    pub fn unread(bytes: Bytes) -> Self {
        let known = MessageContent::Unread;
        Self { bytes, known }
    }

    /// Looks at the type of a message and the id of its call.
    pub fn look(protocol: Protocol, bytes: Bytes) -> Result<Self> {
        let (kind, id) = look(protocol, &bytes)?;
        let known = MessageContent::Head(kind, id.map(String::into_boxed_str));
        Ok(Self { bytes, known })
    }

    /// Reads a whole message. One that has a type, but cannot be read, is only looked at:
    /// [`FramedMessage::content`] then gives the error.
    pub fn read(protocol: Protocol, bytes: Bytes) -> Result<Self> {
        match read(protocol, &bytes) {
            Ok(message) => {
                let known = MessageContent::Whole(Box::new(message));
                Ok(Self { bytes, known })
            }
            Err(_) => Self::look(protocol, bytes),
        }
    }

    /// The message as received.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its type and the id of its call; `None` if it is not read.
    pub fn head(&self) -> Option<(i64, Option<&str>)> {
        match &self.known {
            MessageContent::Unread => None,
            MessageContent::Head(kind, id) => Some((*kind, id.as_deref())),
            MessageContent::Whole(message) => Some(message.head()),
        }
    }

    /// The bytes and the content, which is parsed now unless it is known.
    pub fn content(self, protocol: Protocol) -> (Bytes, Result<Message>) {
        let content = match self.known {
            MessageContent::Whole(message) => Ok(*message),
            MessageContent::Unread | MessageContent::Head(..) => read(protocol, &self.bytes),
        };
        (self.bytes, content)
    }

    /// The id of the call that it completes, if it was read and is a completion.
    pub fn completed(&self) -> Option<&str> {
        match &self.known {
            MessageContent::Whole(message) => match &**message {
                Message::Completion { id, .. } => Some(id),
                _ => None,
            },
            MessageContent::Unread | MessageContent::Head(..) => None,
        }
    }

    /// The streams that a call brings along.
    pub fn streams(&self, protocol: Protocol) -> Vec<String> {
        let call = |message: Message| match message {
            Message::Invocation(call) => call.streams,
            _ => Vec::new(),
        };
        match &self.known {
            MessageContent::Whole(message) => match &**message {
                Message::Invocation(call) => call.streams.clone(),
                _ => Vec::new(),
            },
            _ => read(protocol, &self.bytes).map_or_else(|_| Vec::new(), call),
        }
    }
}

/// Reads a whole message, with its framing.
pub fn read(protocol: Protocol, message: &Bytes) -> Result<Message> {
    let body = body(protocol, message)?;
    match protocol {
        Protocol::Json => json::read(&body),
        Protocol::MessagePack => msgpack::read(&body),
        Protocol::Blazor => Err(SignalRDecodeError::new("blazorpack is only passed on")),
    }
}

/// The type of a message, and the id of its call.
pub fn look(protocol: Protocol, message: &Bytes) -> Result<(i64, Option<String>)> {
    let body = body(protocol, message)?;
    match protocol {
        Protocol::Json => json::look(&body),
        Protocol::MessagePack | Protocol::Blazor => msgpack::look(&body),
    }
}

/// Reads a length prefix: its own size, and its value.
pub fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let mut value: u64 = 0;
    for (place, byte) in bytes.iter().take(LENGTH_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            if value > 0x7fff_ffff {
                return Err(SignalRDecodeError::new("a length beyond 2 GiB"));
            }
            return Ok(Some((place + 1, value as usize)));
        }
    }
    if bytes.len() < LENGTH_BYTES {
        Ok(None)
    } else {
        Err(SignalRDecodeError::new("a length of more than five bytes"))
    }
}

/// Writes a length prefix.
pub fn write_length(out: &mut Vec<u8>, length: usize) {
    let mut left = length;
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// A body with a length prefix.
pub fn counted(body: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + LENGTH_BYTES);
    write_length(&mut out, body.len());
    out.extend_from_slice(body);
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_the_specification_shows() {
        let mut out = Vec::new();
        write_length(&mut out, 0x1480);
        assert_eq!(out, [0x80, 0x29]);
        assert_eq!(length(&out), Ok(Some((2, 0x1480))));
        assert_eq!(length(&[0xff; 4]), Ok(None));
        assert!(length(&[0xff; 5]).is_err());
        assert!(length(&[0xff, 0xff, 0xff, 0xff, 0x08]).is_err());
        let most = [0xff, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(length(&most), Ok(Some((5, 0x7fff_ffff))));
    }

    fn split(protocol: Protocol, bytes: &[u8], chunk: usize) -> Vec<Vec<u8>> {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(chunk) {
            splitter.push(Bytes::copy_from_slice(piece));
            while let Some(message) = splitter.next(protocol, 1000).unwrap() {
                found.push(message.to_vec());
            }
        }
        assert!(!splitter.is_partial());
        found
    }

    #[test]
    fn messages_are_the_same_however_they_are_cut() {
        let records = b"{\"type\":6}\x1e{}\x1e\x1e{\"a\":1}\x1e";
        let counted = [&[2, 0x91, 6][..], &[0x81, 1], &[7; 129], &[0]].concat();
        for chunk in 1..40 {
            let found = split(Protocol::Json, records, chunk);
            assert_eq!(found.len(), 4, "{chunk}");
            assert_eq!(found.concat(), records);
            let found = split(Protocol::MessagePack, &counted, chunk);
            assert_eq!(found.len(), 3, "{chunk}");
            assert_eq!(found.concat(), counted);
        }
    }

    #[test]
    fn messages_are_cut_off_one_by_one_and_what_is_none_stays_whole() {
        let cut = |protocol, bytes: &'static [u8]| {
            let mut left = Bytes::from_static(bytes);
            let mut found = Vec::new();
            while !left.is_empty() {
                found.push(cut_first(protocol, &mut left).to_vec());
            }
            found
        };
        assert_eq!(
            cut(Protocol::Json, b"{}\x1e{1}\x1ex"),
            [&b"{}\x1e"[..], b"{1}\x1e", b"x"]
        );
        let counted = cut(Protocol::MessagePack, &[1, 7, 2, 8, 9, 5, 1]);
        assert_eq!(counted, [&[1, 7][..], &[2, 8, 9], &[5, 1]]);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_it_has_come() {
        let mut splitter = Splitter::default();
        splitter.push(Bytes::from_static(&[0x80, 0x29, 1]));
        assert_eq!(splitter.next(Protocol::MessagePack, 100), Err(TOO_LONG));
        let mut splitter = Splitter::default();
        splitter.push(Bytes::from(vec![b'x'; 101]));
        assert_eq!(splitter.next(Protocol::Json, 100), Err(TOO_LONG));
    }

    #[test]
    fn a_message_that_came_whole_is_refused_when_it_is_too_long() {
        for (length, is_taken) in [(99, true), (100, false)] {
            let mut record = vec![b'x'; length];
            record.push(SEPARATOR);
            let mut splitter = Splitter::default();
            splitter.push(Bytes::from(record));
            let taken = splitter.next(Protocol::Json, 100);
            assert_eq!(taken.is_ok(), is_taken, "{length}");
        }
    }

    #[test]
    fn a_message_is_read_once_and_one_that_cannot_be_read_is_looked_at() {
        let record = |text: &str| Bytes::from(format!("{text}\u{1e}"));
        let json = Protocol::Json;
        let call = record(r#"{"type":1,"invocationId":"7","target":"a","arguments":[]}"#);
        let read = FramedMessage::read(json, call.clone()).unwrap();
        let looked = FramedMessage::look(json, call.clone()).unwrap();
        assert!(matches!(&read.known, MessageContent::Whole(_)));
        assert_eq!(read.head(), Some((1, Some("7"))));
        assert_eq!(read.head(), looked.head());
        assert_eq!(read.content(json), looked.content(json));
        assert_eq!(FramedMessage::unread(call).head(), None);
        // It has a type and an id, but no target.
        let bare = FramedMessage::read(json, record(r#"{"type":1,"invocationId":"7"}"#)).unwrap();
        assert_eq!(bare.head(), Some((1, Some("7"))));
        assert!(bare.content(json).1.is_err());
        assert!(FramedMessage::read(json, record("{}")).is_err());
    }

    #[test]
    fn a_body_has_the_length_that_it_says() {
        let body = |bytes: &'static [u8]| body(Protocol::MessagePack, &Bytes::from_static(bytes));
        assert_eq!(body(&[2, 0x91, 6]), Ok(Bytes::from_static(&[0x91, 6])));
        for wrong in [&[2, 0x91][..], &[2, 0x91, 6, 0], &[0x80], &[]] {
            assert!(body(wrong).is_err(), "{wrong:02x?}");
        }
    }
}
