//! Requests between nodes, and their answers.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::error::Code;
use steadfast_core::id::{Epoch, Owner, Partition};
use steadfast_core::limits;

use crate::error::{Error, ErrorKind, Result};
use crate::execution::service_error::ServiceError;
use crate::ingress::address::{Envelope, ServiceKind};
use crate::ingress::owner_handler::OwnerRequest;
use crate::ingress::router::Router;
use crate::ingress::transport::{MessageBatch, PartitionLink};
use crate::reads::read_request::{ReadRequest, ReadResponse};

/// A request to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Call(Partition, Envelope),
    Deliver(Partition, MessageBatch),
    Read(Partition, ReadRequest),
    /// Hand a partition over that has this epoch.
    HandOver(Partition, Epoch, Owner),
    /// Call the owner handler of a kind.
    Dispatch(Partition, OwnerRequest),
    /// Commit commands together.
    Commit(Partition, Vec<Envelope>),
    /// Acquire a partition.
    Take(Partition),
    /// Pass a message to the node's handler of a kind.
    NodeMessage(ServiceKind, Bytes),
    /// Answer, to show that the node is reachable.
    Probe,
}

/// The version of the encodings.
const FORMAT: u8 = 1;

impl Request {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::Call(to, envelope) => {
                head(&mut out, 1, *to);
                put_bytes(&mut out, &envelope.encode());
            }
            Self::Deliver(to, parcel) => {
                head(&mut out, 2, *to);
                put_varint(&mut out, u64::from(parcel.link.source.0));
                out.extend_from_slice(&parcel.link.incarnation.to_le_bytes());
                put_varint(&mut out, parcel.first);
                put_varint(&mut out, parcel.messages.len() as u64);
                for message in &parcel.messages {
                    put_bytes(&mut out, message);
                }
            }
            Self::Read(to, question) => {
                head(&mut out, 3, *to);
                question.encode(&mut out);
            }
            Self::HandOver(partition, epoch, to) => {
                head(&mut out, 4, *partition);
                put_varint(&mut out, epoch.0);
                put_varint(&mut out, u64::from(to.node));
                out.extend_from_slice(&to.incarnation.to_le_bytes());
            }
            Self::Dispatch(to, inquiry) => {
                head(&mut out, 5, *to);
                put_varint(&mut out, u64::from(inquiry.kind.0));
                out.push(u8::from(inquiry.is_repeatable));
                put_bytes(&mut out, &inquiry.body);
            }
            Self::Commit(to, commands) => {
                head(&mut out, 8, *to);
                put_varint(&mut out, commands.len() as u64);
                for command in commands {
                    put_bytes(&mut out, &command.encode());
                }
            }
            Self::Take(partition) => head(&mut out, 6, *partition),
            Self::Probe => out.push(9),
            Self::NodeMessage(kind, body) => {
                out.push(7);
                put_varint(&mut out, u64::from(kind.0));
                put_bytes(&mut out, body);
            }
        }
        out.into()
    }

    pub(super) fn decode(bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let reader = &mut reader;
        Ok(match reader.byte()? {
            1 => Self::Call(partition(reader)?, Envelope::decode(reader.bytes()?)?),
            2 => {
                let to = partition(reader)?;
                let link = PartitionLink {
                    source: partition(reader)?,
                    incarnation: reader.u128_le()?,
                };
                let first = reader.varint()?;
                let count = reader.varint()? as usize;
                let mut messages = Vec::with_capacity(count.min(limits::PARCEL_MESSAGES));
                for _ in 0..count {
                    messages.push(reader.bytes()?);
                }
                if !is_numbered(first, messages.len()) {
                    return Err(DecodeError);
                }
                let parcel = MessageBatch {
                    link,
                    first,
                    messages,
                };
                Self::Deliver(to, parcel)
            }
            3 => Self::Read(partition(reader)?, ReadRequest::decode(reader)?),
            4 => {
                let which = partition(reader)?;
                let epoch = Epoch(reader.varint()?);
                let to = Owner {
                    node: reader.varint_u32()?,
                    incarnation: reader.u128_le()?,
                };
                Self::HandOver(which, epoch, to)
            }
            5 => {
                let to = partition(reader)?;
                let inquiry = OwnerRequest {
                    kind: kind(reader)?,
                    is_repeatable: reader.byte()? != 0,
                    body: reader.bytes()?,
                };
                Self::Dispatch(to, inquiry)
            }
            6 => Self::Take(partition(reader)?),
            7 => Self::NodeMessage(kind(reader)?, reader.bytes()?),
            8 => {
                let to = partition(reader)?;
                let count = reader.varint()? as usize;
                let mut commands = Vec::with_capacity(count.min(limits::TURN_COMMANDS));
                for _ in 0..count {
                    commands.push(Envelope::decode(reader.bytes()?)?);
                }
                Self::Commit(to, commands)
            }
            9 => Self::Probe,
            _ => return Err(DecodeError),
        })
    }
}

/// Whether messages can have these numbers: a link counts from one, sends no empty
/// batch, and never reaches the last number.
fn is_numbered(first: u64, count: usize) -> bool {
    first > 0 && count > 0 && first.checked_add(count as u64).is_some()
}

fn head(out: &mut Vec<u8>, tag: u8, to: Partition) {
    out.push(tag);
    put_varint(out, u64::from(to.0));
}

fn partition(reader: &mut ByteReader) -> std::result::Result<Partition, DecodeError> {
    reader.varint_u32().map(Partition)
}

fn kind(reader: &mut ByteReader) -> std::result::Result<ServiceKind, DecodeError> {
    let kind = u16::try_from(reader.varint()?).map_err(|_| DecodeError)?;
    Ok(ServiceKind(kind))
}

/// Answers a request for a partition that this node serves.
pub(super) async fn serve(router: &Arc<Router>, request: Request) -> Result<Bytes> {
    match request {
        Request::Call(to, envelope) => router.serve(to, envelope).await,
        Request::Deliver(to, parcel) => {
            let handled = router.receive(to, parcel).await?;
            Ok(Bytes::copy_from_slice(&handled.to_le_bytes()))
        }
        Request::Read(to, question) => {
            let mut out = Vec::new();
            router.serve_read(to, question).await?.encode(&mut out);
            Ok(out.into())
        }
        Request::Commit(to, commands) => {
            router.commit_here(to, commands).await?;
            Ok(Bytes::new())
        }
        Request::Dispatch(to, inquiry) => router.dispatch(to, inquiry).await,
        Request::HandOver(..) | Request::Take(_) | Request::NodeMessage(..) | Request::Probe => {
            Err(malformed())
        }
    }
}

pub(super) fn decode_handled(reply: Bytes) -> Result<u64> {
    ByteReader::new(reply).u64_le().map_err(|_| malformed())
}

pub(super) fn decode_read(reply: Bytes) -> Result<ReadResponse> {
    ReadResponse::decode(&mut ByteReader::new(reply)).map_err(|_| malformed())
}

pub(super) fn malformed() -> Error {
    Error::new(ErrorKind::Malformed {
        what: "a message of another node",
    })
}

/// Encodes an answer or its error.
pub(super) fn encode_answer(answer: Result<Bytes>) -> Bytes {
    let mut out = vec![FORMAT];
    match answer {
        Ok(body) => {
            out.push(0);
            out.extend_from_slice(&body);
        }
        Err(error) => put_error(&mut out, &error),
    }
    out.into()
}

/// Decodes the answer of another node.
pub(super) fn decode_answer(bytes: Bytes) -> Result<Bytes> {
    let mut reader = ByteReader::new(bytes);
    let tag = reader.byte().and_then(|format| match format {
        FORMAT => reader.byte(),
        _ => Err(DecodeError),
    });
    match tag {
        Ok(0) => {
            let rest = reader.remaining();
            reader.take(rest).map_err(|_| malformed())
        }
        Ok(tag) => Err(error(tag, &mut reader).unwrap_or_else(|_| malformed())),
        Err(_) => Err(malformed()),
    }
}

fn put_error(out: &mut Vec<u8>, error: &Error) {
    let (tag, partition) = match error.kind() {
        ErrorKind::NotOwner { partition } => (1, *partition),
        ErrorKind::Draining { partition } => (2, *partition),
        ErrorKind::Busy { partition } => (3, *partition),
        ErrorKind::OutcomeUnknown { partition } => (4, *partition),
        ErrorKind::Unreachable { partition } => (5, *partition),
        ErrorKind::NoService { kind } => (6, Partition(u32::from(kind.0))),
        _ => {
            out.push(7);
            let code = error.code().0;
            let words = error.to_string();
            // The text of a refusal excludes its code; other texts include theirs.
            let bare = words
                .strip_prefix(code)
                .map_or(&words[..], |rest| rest.strip_prefix(": ").unwrap_or(rest));
            put_bytes(out, code.as_bytes());
            put_bytes(out, bare.as_bytes());
            return;
        }
    };
    out.push(tag);
    put_varint(out, u64::from(partition.0));
}

fn error(tag: u8, reader: &mut ByteReader) -> std::result::Result<Error, DecodeError> {
    let kind = match tag {
        1 => ErrorKind::NotOwner {
            partition: partition(reader)?,
        },
        2 => ErrorKind::Draining {
            partition: partition(reader)?,
        },
        3 => ErrorKind::Busy {
            partition: partition(reader)?,
        },
        4 => ErrorKind::OutcomeUnknown {
            partition: partition(reader)?,
        },
        5 => ErrorKind::Unreachable {
            partition: partition(reader)?,
        },
        6 => ErrorKind::NoService {
            kind: kind(reader)?,
        },
        7 => {
            let text = |reader: &mut ByteReader| {
                let bytes = reader.bytes()?;
                String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError)
            };
            let code = Code::foreign(&text(reader)?).ok_or(DecodeError)?;
            ErrorKind::Refused(ServiceError::new(code, text(reader)?))
        }
        _ => return Err(DecodeError),
    };
    Ok(Error::new(kind))
}

#[cfg(test)]
mod tests {
    use steadfast_core::id::TableId;

    use super::*;
    use crate::ingress::address::Address;

    /// Such numbers would overflow the counters of the owner.
    #[test]
    fn a_parcel_with_impossible_numbers_is_malformed() {
        let parcel = |first: u64, messages: &[&'static str]| {
            let parcel = MessageBatch {
                link: PartitionLink {
                    source: Partition(9),
                    incarnation: 1,
                },
                first,
                messages: messages.iter().copied().map(Bytes::from).collect(),
            };
            Request::decode(Request::Deliver(Partition(7), parcel).encode())
        };
        assert!(parcel(1, &["one"]).is_ok());
        assert!(parcel(u64::MAX - 1, &["one"]).is_ok());
        let impossible: [(u64, &[&'static str]); 5] = [
            (0, &[]),
            (0, &["one"]),
            (1, &[]),
            (u64::MAX, &["one"]),
            (u64::MAX - 1, &["one", "two"]),
        ];
        for (first, messages) in impossible {
            assert_eq!(parcel(first, messages), Err(DecodeError), "{first}");
        }
    }

    #[test]
    fn requests_come_back_as_written() {
        let envelope = Envelope::new(Address::new(ServiceKind(3), "a", "b"), "body");
        let parcel = MessageBatch {
            link: PartitionLink {
                source: Partition(9),
                incarnation: 1 << 100,
            },
            first: 12,
            messages: vec!["one".into(), "two".into()],
        };
        let owner = Owner {
            node: 2,
            incarnation: 5,
        };
        for request in [
            Request::Call(Partition(7), envelope.clone()),
            Request::Commit(Partition(7), vec![envelope.clone(), envelope]),
            Request::Deliver(Partition(7), parcel),
            Request::Read(Partition(7), ReadRequest::Row(TableId(1), "key".into())),
            Request::HandOver(Partition(7), Epoch(8), owner),
            Request::Dispatch(
                Partition(7),
                OwnerRequest {
                    kind: ServiceKind(32),
                    body: "wait".into(),
                    is_repeatable: true,
                },
            ),
            Request::Take(Partition(7)),
            Request::NodeMessage(ServiceKind(64), "push".into()),
            Request::Probe,
        ] {
            let bytes = request.encode();
            assert_eq!(Request::decode(bytes.clone()), Ok(request));
            for end in 0..bytes.len() {
                assert!(Request::decode(bytes.slice(..end)).is_err());
            }
        }
    }

    #[test]
    fn errors_keep_their_code_and_their_words() {
        let partition = Partition(7);
        let refusal = ServiceError::new(Code("STF-5001"), "the event hub is not there");
        for error in [
            Error::new(ErrorKind::NotOwner { partition }),
            Error::new(ErrorKind::Draining { partition }),
            Error::new(ErrorKind::OutcomeUnknown { partition }),
            Error::new(ErrorKind::Refused(refusal)),
            Error::from(steadfast_storage::Error::new(
                steadfast_storage::ErrorKind::LeaseEnded { partition },
            )),
        ] {
            let back = decode_answer(encode_answer(Err(error.clone()))).unwrap_err();
            assert_eq!(back.code(), error.code());
            let words = |error: &Error| {
                let text = error.to_string();
                let code = format!("{}: ", error.code());
                text.strip_prefix(&code).unwrap_or(&text).to_owned()
            };
            assert_eq!(words(&back), words(&error));
        }
        assert_eq!(
            decode_answer(encode_answer(Ok("yes".into()))).unwrap(),
            "yes"
        );
        assert!(decode_answer(Bytes::from_static(b"\x01\x63")).is_err());
        assert!(decode_answer(Bytes::new()).is_err());
    }
}
