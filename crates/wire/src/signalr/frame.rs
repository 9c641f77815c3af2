//! Framing of hub messages.
//!
//! JSON messages end with a record separator, the others begin with their length. A
//! chunk of a transport may hold many messages, or a part of one.

use bytes::{Bytes, BytesMut};

use super::error::{Result, SignalRDecodeError};
use super::protocol::Protocol;

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
    fn a_body_has_the_length_that_it_says() {
        let body = |bytes: &'static [u8]| body(Protocol::MessagePack, &Bytes::from_static(bytes));
        assert_eq!(body(&[2, 0x91, 6]), Ok(Bytes::from_static(&[0x91, 6])));
        for wrong in [&[2, 0x91][..], &[2, 0x91, 6, 0], &[0x80], &[]] {
            assert!(body(wrong).is_err(), "{wrong:02x?}");
        }
    }
}
