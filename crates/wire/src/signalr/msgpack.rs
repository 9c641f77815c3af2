//! Reads hub messages in MessagePack.

use bytes::Bytes;

use super::error::{Result, SignalRDecodeError};
use super::message::{ARGUMENTS, Invocation, Message, Outcome, kind};
use super::pack::PackReader;

pub(super) fn read(body: &Bytes) -> Result<Message> {
    let mut reader = PackReader::new(body);
    let count = reader.array()?;
    let own = reader.int()?;
    if matches!(own, kind::PING | kind::CLOSE | kind::ACK | kind::SEQUENCE) {
        return read_bare(own, count, &mut reader);
    }
    if !kind::is_counted(own) {
        return Ok(Message::Unknown(own));
    }
    skip_headers(&mut reader)?;
    let id = reader.text()?;
    let known = || {
        let id = id.map(str::to_owned);
        id.ok_or(SignalRDecodeError::new("a message without invocation id"))
    };
    let raw = |range| body.slice(range);
    Ok(match own {
        kind::ITEM => Message::Item {
            id: known()?,
            item: raw(reader.skip()?),
        },
        kind::COMPLETION => Message::Completion {
            id: known()?,
            outcome: match reader.int()? {
                1 => Outcome::Error(reader.text()?.unwrap_or_default().to_owned()),
                2 => Outcome::Void,
                3 => Outcome::Value(raw(reader.skip()?)),
                _ => return Err(SignalRDecodeError::new("an unknown kind of completion")),
            },
        },
        kind::CANCEL => Message::Cancel { id: known()? },
        _ => Message::Invocation(Invocation {
            id: id.map(str::to_owned),
            is_stream: own == kind::STREAM_INVOCATION,
            target: reader
                .text()?
                .ok_or(SignalRDecodeError::new("a call without target"))?
                .to_owned(),
            arguments: several(&mut reader, |reader| reader.skip().map(raw))?,
            // The JavaScript client leaves them out.
            streams: if count > 5 {
                several(&mut reader, |reader| {
                    Ok(reader.text()?.unwrap_or_default().to_owned())
                })?
            } else {
                Vec::new()
            },
        }),
    })
}

/// Messages without headers.
fn read_bare(own: i64, count: usize, reader: &mut PackReader<'_>) -> Result<Message> {
    Ok(match own {
        kind::PING => Message::Ping,
        kind::CLOSE => Message::Close {
            error: if count > 1 {
                reader.text()?.map(str::to_owned)
            } else {
                None
            },
            allow_reconnect: count > 2 && reader.bool()?,
        },
        kind::ACK => Message::Ack(reader.uint()?),
        _ => Message::Sequence(reader.uint()?),
    })
}

pub(super) fn look(body: &Bytes) -> Result<(i64, Option<String>)> {
    let mut reader = PackReader::new(body);
    reader.array()?;
    let own = reader.int()?;
    if !kind::is_counted(own) {
        return Ok((own, None));
    }
    skip_headers(&mut reader)?;
    Ok((own, reader.text()?.map(str::to_owned)))
}

fn skip_headers(reader: &mut PackReader<'_>) -> Result<()> {
    reader.skip().map(drop)
}

fn several<T>(
    reader: &mut PackReader<'_>,
    mut read: impl FnMut(&mut PackReader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = reader.array_or_nil()?;
    if count > ARGUMENTS {
        return Err(SignalRDecodeError::new("too many values"));
    }
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(read(reader)?);
    }
    Ok(all)
}
