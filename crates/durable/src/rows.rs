//! The rows of instances, and their keys.
//!
//! Every key begins with the task hub, a zero byte, the instance's id and another zero
//! byte; the names contain none. Stored state depends on this format.

use bytes::Bytes;
use steadfast_collections::schema::{Record, WriteVersion, decode_value, encode_value};
use steadfast_core::codec::DecodeError;
use steadfast_core::id::TableId;
use steadfast_partition::{Address, Turn, TurnError, service_table};

use crate::id::KIND;

/// Instance to its record.
pub(crate) const INSTANCES: TableId = service_table(KIND, 0);
/// Instance and side to input or output.
pub(crate) const PAYLOADS: TableId = service_table(KIND, 1);
/// Instance and turn to the events of the turn.
pub(crate) const HISTORY: TableId = service_table(KIND, 2);
/// Instance and number to an event that no turn has taken.
pub(crate) const INBOX: TableId = service_table(KIND, 3);
/// Instance and number to an activity under way.
pub(crate) const TASKS: TableId = service_table(KIND, 4);
/// Task hub, time of creation and instance, without a value.
pub(crate) const BY_CREATED: TableId = service_table(KIND, 5);
/// Task hub, time of its end and instance, without a value.
pub(crate) const BY_ENDED: TableId = service_table(KIND, 6);
/// Entity to its record.
pub(crate) const ENTITIES: TableId = service_table(KIND, 7);
/// Entity to its state.
pub(crate) const STATES: TableId = service_table(KIND, 8);
/// Entity, lane and number to a request.
pub(crate) const QUEUE: TableId = service_table(KIND, 9);
/// Entity and request of a client to its outcome.
pub(crate) const SEEN: TableId = service_table(KIND, 10);

/// Task hub to the time when it was last wiped.
pub(crate) const EMPTIED: TableId = service_table(KIND, 11);

/// The prefix of all keys of an instance.
pub(crate) fn key(hub: &[u8], instance: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(hub.len() + instance.len() + 16);
    key.extend_from_slice(hub);
    key.push(0);
    key.extend_from_slice(instance);
    key.push(0);
    key
}

/// The key of an address.
pub(crate) fn key_of(to: &Address) -> Vec<u8> {
    key(&to.name, &to.key)
}

/// `key` followed by a number.
pub(crate) fn numbered(key: &[u8], number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 8);
    out.extend_from_slice(key);
    out.extend_from_slice(&number.to_be_bytes());
    out
}

/// `key` followed by a byte.
pub(crate) fn marked(key: &[u8], mark: u8) -> Vec<u8> {
    // Some callers append a number.
    let mut out = Vec::with_capacity(key.len() + 9);
    out.extend_from_slice(key);
    out.push(mark);
    out
}

/// The key of an index by time, in milliseconds since 1970.
pub(crate) fn timed(hub: &[u8], time: i64, instance: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(hub.len() + instance.len() + 9);
    out.extend_from_slice(hub);
    out.push(0);
    out.extend_from_slice(&(time.max(0) as u64).to_be_bytes());
    out.extend_from_slice(instance);
    out
}

/// The first key after all that begin with `prefix`.
pub(crate) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    while let Some(last) = out.pop() {
        if last < u8::MAX {
            out.push(last + 1);
            break;
        }
    }
    out
}

/// Encodes a row or message.
pub(crate) fn encode<R: Record>(record: &R) -> Bytes {
    let bytes = encode_value(record, WriteVersion::LATEST);
    // Payloads are bounded far below the limits of a value.
    bytes.expect("within the limits of a value").into()
}

/// Decodes a row or message.
pub(crate) fn decode<R: Record>(bytes: &[u8]) -> Result<R, DecodeError> {
    decode_value(bytes).map_err(|_| DecodeError)
}

/// Reads and decodes a row. One that cannot be decoded counts as absent: see
/// [`Service::handle`](steadfast_partition::Service::handle).
pub(crate) fn read<R: Record>(
    turn: &mut Turn<'_>,
    table: TableId,
    key: &[u8],
) -> Result<Option<R>, TurnError> {
    let row = turn.get(table, key)?;
    Ok(row.and_then(|row| decode(&row).ok()))
}

/// Implements `Message` for records.
macro_rules! message {
    ($($name:ty),*) => {$(
        impl steadfast_partition::Message for $name {
            fn encode(&self) -> bytes::Bytes {
                $crate::rows::encode(self)
            }

            fn decode(bytes: &bytes::Bytes) -> ::std::result::Result<Self, steadfast_core::codec::DecodeError> {
                $crate::rows::decode(bytes)
            }
        }
    )*};
}
pub(crate) use message;
