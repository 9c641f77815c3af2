//! Pending effects of one turn, beside its rows.
//!
//! None of them has happened yet: a turn that fails leaves nothing behind.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::ByteReader;
use steadfast_core::id::Partition;

use crate::execution::effect::Effect;
use crate::ingress::address::{Address, Envelope, ServiceKind};
use crate::ingress::message::MessagePayload;

/// A call that is answered by a later turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallId(pub(crate) u64);

/// Messages, timers, effects and answers of one turn.
#[derive(Default)]
pub(crate) struct PendingEffects {
    pub(crate) sends: Vec<(Partition, Envelope)>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) cancels: Vec<Bytes>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) answers: Vec<(CallId, MessagePayload)>,
}

/// A timer as its row holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) key: Bytes,
    pub(crate) body: Bytes,
}

/// The key of a timer's row: ordered by due time.
pub(crate) fn timer_key(due: Timestamp, to: &Address, tag: u64) -> Bytes {
    let mut out = Vec::with_capacity(32 + to.name.len() + to.key.len());
    out.extend_from_slice(&(due.0.max(0) as u64).to_be_bytes());
    to.encode(&mut out);
    out.extend_from_slice(&tag.to_be_bytes());
    out.into()
}

/// The address in the key of a timer's row.
pub(crate) fn timer_address(key: &Bytes) -> Option<Address> {
    if key.len() < 16 {
        return None;
    }
    let mut reader = ByteReader::new(key.slice(8..key.len() - 8));
    Address::decode(&mut reader).ok()
}

/// The kind of the service in the key of a timer's row.
pub(crate) fn timer_kind(key: &Bytes) -> Option<ServiceKind> {
    let mut reader = ByteReader::new(key.get(8..).map(|_| key.slice(8..))?);
    let kind = u16::try_from(reader.varint().ok()?).ok()?;
    Some(ServiceKind(kind))
}

/// The due time in a timer's key.
pub(crate) fn due_of(key: &[u8]) -> Timestamp {
    let due = key.first_chunk::<8>().copied().unwrap_or_default();
    Timestamp(i64::try_from(u64::from_be_bytes(due)).unwrap_or(i64::MAX))
}
