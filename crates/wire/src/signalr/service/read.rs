//! Reads messages of the service protocol.

use bytes::Bytes;

use super::super::error::{Result, SignalRDecodeError};
use super::super::pack::PackReader;
use super::message::{
    Ack, ClientCompletion, ClientInvocation, CloseConnection, CloseConnections, ConnectionData,
    ExistenceCheck, FlowControl, FlowControlKind, GroupBroadcast, Message, OpenConnection,
    Payloads, ServerHandshake, Target,
};

/// The maximum number of names and values in one message.
const SEVERAL: usize = 100_000;

/// Reads a message without its length prefix.
pub fn read(body: &Bytes) -> Result<Message> {
    let mut reader = PackReader::new(body);
    let count = reader.array()?;
    if count == 0 {
        return Err(SignalRDecodeError::new("an empty message"));
    }
    let kind = reader.int()?;
    let mut fields = ArrayFields {
        body,
        reader,
        left: count - 1,
    };
    fields.message(kind, count)
}

/// The elements of an array, some of which may be missing.
struct ArrayFields<'a> {
    body: &'a Bytes,
    reader: PackReader<'a>,
    left: usize,
}

/// Optional fields beside the message.
#[derive(Default)]
struct MessageExtension {
    ttl_s: Option<i64>,
    protocol: Option<String>,
    kind: Option<i64>,
    is_partial: bool,
}

impl ArrayFields<'_> {
    fn message(&mut self, kind: i64, count: usize) -> Result<Message> {
        Ok(match kind {
            1 => self.handshake(count)?,
            2 => {
                let error = self.text()?;
                self.extension()?;
                let id = self.optional()?;
                Message::Welcome { error, id }
            }
            3 => {
                let mut texts = Vec::new();
                while self.left > 0 {
                    texts.push(self.text()?);
                }
                Message::Ping(texts)
            }
            4 => {
                let (connection, claims) = (self.text()?, self.pairs()?);
                let (headers, query) = (self.headers()?, self.text()?);
                let protocol = self.extension()?.protocol;
                Message::Open(OpenConnection {
                    connection,
                    claims,
                    headers,
                    query,
                    protocol,
                })
            }
            5 => Message::Close(CloseConnection {
                connection: self.text()?,
                error: self.text()?,
                headers: self.headers()?,
            }),
            6 => {
                let (connection, payload) = (self.text()?, self.bin()?);
                let extension = self.extension()?;
                Message::Data(ConnectionData {
                    connection,
                    payload,
                    kind: extension.kind,
                    is_partial: extension.is_partial,
                })
            }
            7..=10 | 14 => self.send(kind)?,
            11 | 12 | 16..=19 | 26 | 27 => self.membership(kind)?,
            13 => {
                let (group, except, payloads) = (self.text()?, self.texts()?, self.payloads()?);
                self.extension()?;
                Message::Group(GroupBroadcast {
                    group,
                    except,
                    payloads,
                    except_users: self.texts()?,
                    caller: self.optional()?,
                })
            }
            15 => Message::Fault(self.text()?),
            20 => {
                let (id, status, text) = (self.int()?, self.int()?, self.text()?);
                self.extension()?;
                let payload = match self.left {
                    0 => None,
                    _ => Some(self.bin()?),
                };
                Message::Ack(Ack {
                    id,
                    status,
                    text,
                    payload,
                })
            }
            21 | 23..=25 => self.check(kind)?,
            22 => Message::Event {
                object: self.int()?,
                id: self.text()?,
                kind: self.int()?,
                text: self.text()?,
            },
            28 => {
                self.skip()?;
                Message::KeyRequest { kid: self.text()? }
            }
            29 => Message::KeyResponse {
                kid: self.text()?,
                key: self.text()?,
                error: self.text()?,
                text: self.text()?,
            },
            30..=33 => self.close_many(kind)?,
            34 => Message::Ask(ClientInvocation {
                id: self.text()?,
                connection: self.text()?,
                caller: self.text()?,
                payloads: self.payloads()?,
            }),
            35 | 36 => self.answer(kind)?,
            37 => Message::Mapping {
                id: self.text()?,
                connection: self.text()?,
                instance: self.text()?,
            },
            38 => Message::Reconnect {
                connection: self.text()?,
            },
            39 => Message::Flow(FlowControl {
                id: self.text()?,
                is_server: self.int()? == 2,
                kind: match self.int()? {
                    1 => FlowControlKind::Pause,
                    2 => FlowControlKind::Paused,
                    3 => FlowControlKind::Resume,
                    4 => FlowControlKind::Offline,
                    other => FlowControlKind::Other(other),
                },
            }),
            40 => {
                self.extension()?;
                Message::Members {
                    group: self.text()?,
                    ack: self.int()?,
                    most: self.optional_int()?,
                    token: self.optional()?,
                }
            }
            other => Message::Unknown(other),
        })
    }

    fn handshake(&mut self, count: usize) -> Result<Message> {
        let (version, kind) = (self.int()?, self.int()?);
        let (target, migration) = (self.text()?, self.int()?);
        self.extension()?;
        let is_stateful = match self.left {
            0 => false,
            _ => self.take(|reader| reader.bool())?,
        };
        Ok(Message::Handshake(ServerHandshake {
            version,
            kind,
            target,
            migration,
            is_stateful,
            elements: count,
        }))
    }

    fn send(&mut self, kind: i64) -> Result<Message> {
        let to = match kind {
            7 => Target::Connections(self.texts()?),
            8 => Target::User(self.text()?),
            9 => Target::Users(self.texts()?),
            10 => Target::All {
                except: self.texts()?,
            },
            _ => Target::Groups(self.texts()?),
        };
        let payloads = self.payloads()?;
        Ok(Message::Send { to, payloads })
    }

    fn membership(&mut self, kind: i64) -> Result<Message> {
        let (who, group) = (self.text()?, self.optional()?);
        let ack = if matches!(kind, 18 | 19 | 26 | 27) {
            Some(self.int()?)
        } else {
            None
        };
        let ttl_s = self.extension()?.ttl_s;
        let named = group.clone().unwrap_or_default();
        Ok(match kind {
            11 | 18 => Message::Join {
                connection: who,
                group: named,
                ack,
            },
            12 | 19 => Message::Leave {
                connection: who,
                group,
                ack,
            },
            16 | 26 => Message::UserJoin {
                user: who,
                group: named,
                ttl_s,
                ack,
            },
            _ => Message::UserLeave {
                user: who,
                group,
                ack,
            },
        })
    }

    fn check(&mut self, kind: i64) -> Result<Message> {
        let first = self.text()?;
        let of = match kind {
            21 => ExistenceCheck::UserInGroup {
                user: first,
                group: self.text()?,
            },
            23 => ExistenceCheck::Group(first),
            24 => ExistenceCheck::Connection(first),
            _ => ExistenceCheck::User(first),
        };
        Ok(Message::Check {
            of,
            ack: self.int()?,
        })
    }

    fn close_many(&mut self, kind: i64) -> Result<Message> {
        let mut close = CloseConnections::default();
        match kind {
            30 => close.connection = Some(self.text()?),
            32 => close.user = Some(self.text()?),
            33 => close.group = Some(self.text()?),
            _ => {}
        }
        close.reason = self.text()?;
        close.ack = self.int()?;
        if kind != 30 {
            close.except = self.texts()?;
        }
        Ok(Message::CloseMany(close))
    }

    fn answer(&mut self, kind: i64) -> Result<Message> {
        let (id, connection, caller) = (self.text()?, self.text()?, self.text()?);
        let outcome = match kind {
            35 => Ok((self.text()?, self.bin()?)),
            _ => Err(self.text()?),
        };
        Ok(Message::Answer(ClientCompletion {
            id,
            connection,
            caller,
            outcome,
        }))
    }

    /// Reads one element, if present.
    fn take<T: Default>(
        &mut self,
        read: impl FnOnce(&mut PackReader<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.left == 0 {
            return Ok(T::default());
        }
        self.left -= 1;
        read(&mut self.reader)
    }

    fn text(&mut self) -> Result<String> {
        Ok(self.optional()?.unwrap_or_default())
    }

    fn optional(&mut self) -> Result<Option<String>> {
        self.take(|reader| Ok(reader.text()?.map(str::to_owned)))
    }

    fn int(&mut self) -> Result<i64> {
        self.take(|reader| reader.int())
    }

    fn optional_int(&mut self) -> Result<Option<i64>> {
        self.take(|reader| {
            if reader.nil()? {
                Ok(None)
            } else {
                reader.int().map(Some)
            }
        })
    }

    fn skip(&mut self) -> Result<()> {
        self.take(|reader| reader.skip().map(drop))
    }

    fn bin(&mut self) -> Result<Bytes> {
        let body = self.body;
        self.take(|reader| {
            let bytes = reader.bin()?;
            Ok(piece(body, bytes))
        })
    }

    fn texts(&mut self) -> Result<Vec<String>> {
        self.take(|reader| {
            let count = bounded(reader.array_or_nil()?)?;
            let mut texts = Vec::new();
            for _ in 0..count {
                texts.push(reader.text()?.unwrap_or_default().to_owned());
            }
            Ok(texts)
        })
    }

    fn pairs(&mut self) -> Result<Vec<(String, String)>> {
        self.take(|reader| {
            let count = bounded(reader.map()?)?;
            let mut pairs = Vec::new();
            for _ in 0..count {
                let name = reader.text()?.unwrap_or_default().to_owned();
                pairs.push((name, reader.text()?.unwrap_or_default().to_owned()));
            }
            Ok(pairs)
        })
    }

    fn headers(&mut self) -> Result<Vec<(String, Vec<String>)>> {
        self.take(|reader| {
            let count = bounded(reader.map()?)?;
            let mut headers = Vec::new();
            for _ in 0..count {
                let name = reader.text()?.unwrap_or_default().to_owned();
                let values = bounded(reader.array_or_nil()?)?;
                let mut own = Vec::new();
                for _ in 0..values {
                    own.push(reader.text()?.unwrap_or_default().to_owned());
                }
                headers.push((name, own));
            }
            Ok(headers)
        })
    }

    fn payloads(&mut self) -> Result<Payloads> {
        let body = self.body;
        self.take(|reader| {
            let count = bounded(reader.map()?)?;
            let mut payloads = Vec::new();
            for _ in 0..count {
                let name = reader.text()?.unwrap_or_default().to_owned();
                let bytes = reader.bin()?;
                payloads.push((name, piece(body, bytes)));
            }
            Ok(payloads)
        })
    }

    fn extension(&mut self) -> Result<MessageExtension> {
        self.take(|reader| {
            let count = bounded(reader.map()?)?;
            let mut extension = MessageExtension::default();
            for _ in 0..count {
                match reader.int()? {
                    2 => extension.ttl_s = Some(reader.int()?),
                    3 => extension.protocol = reader.text()?.map(str::to_owned),
                    5 => extension.kind = Some(reader.int()?),
                    6 => extension.is_partial = reader.bool()?,
                    _ => {
                        reader.skip()?;
                    }
                }
            }
            Ok(extension)
        })
    }
}

/// Bytes of the message, without a copy.
fn piece(body: &Bytes, bytes: &[u8]) -> Bytes {
    if bytes.is_empty() {
        Bytes::new()
    } else {
        body.slice_ref(bytes)
    }
}

fn bounded(count: usize) -> Result<usize> {
    if count > SEVERAL {
        Err(SignalRDecodeError::new("too many values"))
    } else {
        Ok(count)
    }
}
