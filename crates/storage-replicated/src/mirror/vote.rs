//! Who owns a pair's space, as one voter knows it.
//!
//! Pure: requests and the voter's own clock in, a decision out. What a decision changes
//! must be durable before the response is sent. A restarted voter does not know what it
//! has promised, so it assumes a promise to the last owner until its time has passed.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};

/// The durable state of a voter: lease keys and epochs, nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ballot {
    /// How often the space has changed hands; 0 if it never had an owner.
    pub epoch: u64,
    /// The region that owns it.
    pub owner: String,
    /// Whether the other region has everything that was acknowledged.
    pub in_sync: bool,
    /// The owner's count of its requests: late ones change nothing.
    pub serial: u64,
}

/// A region's request to a voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteRequest {
    /// The owner renews its lease.
    Renew {
        ballot: Ballot,
        /// The other region agrees: a voter that has lost its state may accept it.
        is_agreed: bool,
    },
    /// A region claims ownership.
    Claim {
        epoch: u64,
        owner: String,
        /// The space never had an owner, and the other region confirms it.
        is_first: bool,
        /// An operator accepts the loss of writes that only the last owner has.
        accepts_loss: bool,
    },
    /// The owner releases the space.
    Release { epoch: u64, owner: String },
}

/// A voter's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteResponse {
    Granted,
    /// Refused; the voter's current state.
    Refused {
        ballot: Ballot,
        /// How long the lease of the owner still lasts.
        left: Duration,
    },
}

/// A response, and the state that must be durable before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteDecision {
    pub response: VoteResponse,
    pub next: Option<Ballot>,
    until: Duration,
}

/// One of three voters.
#[derive(Clone, Debug)]
pub struct Voter {
    ballot: Ballot,
    /// When the owner's lease ends, by this voter's clock.
    until: Duration,
    ttl: Duration,
}

impl Voter {
    /// A voter that has started at `now` with its durable state.
    pub fn new(ballot: Ballot, now: Duration, ttl: Duration) -> Self {
        let until = match ballot.epoch {
            0 => Duration::ZERO,
            _ => now + ttl,
        };
        Self { ballot, until, ttl }
    }

    /// The voter's current state.
    pub fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// How long the lease of the owner still lasts.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }

    /// Decides on a request. Nothing changes before [`Voter::adopt`].
    pub fn decide(&self, ask: &VoteRequest, now: Duration) -> VoteDecision {
        match ask {
            VoteRequest::Renew { ballot, is_agreed } => self.renew(ballot, *is_agreed, now),
            VoteRequest::Claim {
                epoch,
                owner,
                is_first,
                accepts_loss,
            } => {
                let own = &self.ballot;
                let is_owner = own.owner == *owner;
                let is_blank = own.epoch == 0;
                let is_free = is_owner || now >= self.until;
                let is_whole = own.in_sync || is_owner || *accepts_loss;
                let fits = if is_blank {
                    // A voter without state does not know which owner worked alone.
                    *is_first || *accepts_loss
                } else {
                    is_free && is_whole
                };
                if *epoch <= own.epoch || !fits {
                    return self.refuse(now);
                }
                let next = Ballot {
                    epoch: *epoch,
                    owner: owner.clone(),
                    ..Ballot::default()
                };
                self.grant(Some(next), now + self.ttl)
            }
            VoteRequest::Release { epoch, owner } => {
                if *epoch == self.ballot.epoch && *owner == self.ballot.owner {
                    self.grant(None, now)
                } else {
                    self.refuse(now)
                }
            }
        }
    }

    fn renew(&self, asked: &Ballot, is_agreed: bool, now: Duration) -> VoteDecision {
        let own = &self.ballot;
        let is_known = asked.epoch == own.epoch && asked.owner == own.owner;
        let is_next = asked.epoch > own.epoch && (own.epoch > 0 || is_agreed);
        let is_late = is_known && asked.serial <= own.serial;
        if !is_known && !is_next || is_late {
            return self.refuse(now);
        }
        // Serials that change nothing else need not be kept: a change has a higher one.
        let is_same = is_known && asked.in_sync == own.in_sync;
        let next = Ballot {
            serial: if is_same { own.serial } else { asked.serial },
            ..asked.clone()
        };
        let next = (next != *own).then_some(next);
        self.grant(next, now + self.ttl)
    }

    fn grant(&self, next: Option<Ballot>, until: Duration) -> VoteDecision {
        VoteDecision {
            response: VoteResponse::Granted,
            next,
            until,
        }
    }

    fn refuse(&self, now: Duration) -> VoteDecision {
        VoteDecision {
            response: VoteResponse::Refused {
                ballot: self.ballot.clone(),
                left: self.remaining(now),
            },
            next: None,
            until: self.until,
        }
    }

    /// Adopts a decision, once what it changes is durable.
    pub fn adopt(&mut self, verdict: &VoteDecision) {
        if let Some(next) = &verdict.next {
            self.ballot = next.clone();
        }
        self.until = verdict.until;
    }
}

/// The version of the encodings.
const FORMAT: u8 = 1;

impl Ballot {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch);
        put_bytes(out, self.owner.as_bytes());
        out.push(u8::from(self.in_sync));
        put_varint(out, self.serial);
    }

    fn take(reader: &mut ByteReader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: reader.varint()?,
            owner: text(reader)?,
            in_sync: reader.byte()? != 0,
            serial: reader.varint()?,
        })
    }

    /// Encodes the record.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        self.put(&mut out);
        out.into()
    }

    /// Reads what [`Ballot::encode`] wrote.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = opened(bytes)?;
        Self::take(&mut reader)
    }
}

fn opened(bytes: Bytes) -> Result<ByteReader, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    match reader.byte()? {
        FORMAT => Ok(reader),
        _ => Err(DecodeError),
    }
}

fn text(reader: &mut ByteReader) -> Result<String, DecodeError> {
    let bytes = reader.bytes()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError)
}

impl VoteRequest {
    /// The region that sends the request.
    pub fn owner(&self) -> &str {
        match self {
            Self::Renew { ballot, .. } => &ballot.owner,
            Self::Claim { owner, .. } | Self::Release { owner, .. } => owner,
        }
    }

    /// Encodes the message.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::Renew { ballot, is_agreed } => {
                out.extend([1, u8::from(*is_agreed)]);
                ballot.put(&mut out);
            }
            Self::Claim {
                epoch,
                owner,
                is_first,
                accepts_loss,
            } => {
                out.extend([2, u8::from(*is_first), u8::from(*accepts_loss)]);
                put_varint(&mut out, *epoch);
                put_bytes(&mut out, owner.as_bytes());
            }
            Self::Release { epoch, owner } => {
                out.push(3);
                put_varint(&mut out, *epoch);
                put_bytes(&mut out, owner.as_bytes());
            }
        }
        out.into()
    }

    /// Reads what [`VoteRequest::encode`] wrote.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = opened(bytes)?;
        let reader = &mut reader;
        Ok(match reader.byte()? {
            1 => Self::Renew {
                is_agreed: reader.byte()? != 0,
                ballot: Ballot::take(reader)?,
            },
            2 => {
                let (is_first, accepts_loss) = (reader.byte()? != 0, reader.byte()? != 0);
                Self::Claim {
                    epoch: reader.varint()?,
                    owner: text(reader)?,
                    is_first,
                    accepts_loss,
                }
            }
            3 => Self::Release {
                epoch: reader.varint()?,
                owner: text(reader)?,
            },
            _ => return Err(DecodeError),
        })
    }
}

impl VoteResponse {
    /// Encodes the message.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::Granted => out.push(1),
            Self::Refused { ballot, left } => {
                out.push(2);
                ballot.put(&mut out);
                put_varint(&mut out, left.as_millis() as u64);
            }
        }
        out.into()
    }

    /// Reads what [`VoteResponse::encode`] wrote.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = opened(bytes)?;
        Ok(match reader.byte()? {
            1 => Self::Granted,
            2 => Self::Refused {
                ballot: Ballot::take(&mut reader)?,
                left: Duration::from_millis(reader.varint()?),
            },
            _ => return Err(DecodeError),
        })
    }
}
