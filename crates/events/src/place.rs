//! Kinds, tables and addresses of the event services.
//!
//! Stored state depends on all of them, so they never change.

use bytes::Bytes;
use steadfast_collections::schema::{Record, WriteVersion, decode_value, encode_value};
use steadfast_core::codec::Malformed;
use steadfast_core::id::Table;
use steadfast_partition::{Address, Kind, service_table};

/// Definitions of event hubs, all in one instance.
pub const CATALOG: Kind = Kind(16);
/// Partitions of event hubs: each is a slot.
pub const SLOT: Kind = Kind(17);
/// Who owns which partition of a consumer group.
pub const CLAIM: Kind = Kind(18);
/// Containers of blobs.
pub const BLOB: Kind = Kind(19);

/// Lower-case name to event hub.
pub(crate) const HUBS: Table = service_table(CATALOG, 0);
/// One row: all names, and the last id that was given.
pub(crate) const INDEX: Table = service_table(CATALOG, 1);

/// Event hub to how many publications without a key the catalog has passed on.
pub(crate) const TURNS: Table = service_table(CATALOG, 2);

/// Hub and slot to what the slot knows of itself.
pub(crate) const SLOTS: Table = service_table(SLOT, 0);
/// One row: how many streams the partition has made for slots.
pub(crate) const STREAMS: Table = service_table(SLOT, 1);
/// Hub, slot and producer to its epoch and last number.
pub(crate) const PRODUCERS: Table = service_table(SLOT, 2);
/// Hub, slot and place in the order of opening to producer.
pub(crate) const PRODUCER_ORDER: Table = service_table(SLOT, 3);
/// Hub, slot and group to checkpoint.
pub(crate) const CHECKPOINTS: Table = service_table(SLOT, 4);
/// Hub, slot, group and sequence number to parked event.
pub(crate) const PARKED: Table = service_table(SLOT, 5);
/// Hub, slot and group to the sequence numbers of its parked events.
pub(crate) const PARKED_LIST: Table = service_table(SLOT, 6);

/// Hub, group and partition to ownership.
pub(crate) const OWNERSHIPS: Table = service_table(CLAIM, 0);

/// Container to its row.
pub(crate) const CONTAINERS: Table = service_table(BLOB, 0);
/// Container and name to blob.
pub(crate) const BLOBS: Table = service_table(BLOB, 1);
/// Body and number to a piece of it.
pub(crate) const PIECES: Table = service_table(BLOB, 2);
/// Body to an upload that is not committed.
pub(crate) const UPLOADS: Table = service_table(BLOB, 3);
/// Container and name to the blocks that are not committed.
pub(crate) const BLOCKS: Table = service_table(BLOB, 4);
/// Container and body to the blocks of a blob.
pub(crate) const BLOCK_LISTS: Table = service_table(BLOB, 5);

/// Where the definitions are.
pub(crate) fn catalog() -> Address {
    Address::new(CATALOG, "event hubs", "")
}

/// A slot of an event hub, by its lower-case name.
pub(crate) fn slot(name: &str, slot: u32) -> Address {
    Address::new(SLOT, name.to_owned(), slot.to_be_bytes().to_vec())
}

/// Which slot an address means.
pub(crate) fn slot_of(address: &Address) -> Option<u32> {
    let bytes = address.key.as_ref().try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// The ownerships of a group.
pub(crate) fn claims(hub: u64, group: &str) -> Address {
    Address::new(CLAIM, hub.to_be_bytes().to_vec(), group.to_owned())
}

/// Names are compared without regard to case.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// Hub and slot, in front of everything that belongs to a slot.
pub(crate) fn slot_key(hub: u64, slot: u32) -> Vec<u8> {
    let mut key = hub.to_be_bytes().to_vec();
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// Bytes of a row or message.
pub(crate) fn encode<R: Record>(record: &R) -> Bytes {
    let bytes = encode_value(record, WriteVersion::LATEST);
    // Rows and commands are bounded far below the limits of a value.
    bytes.expect("within the limits of a value").into()
}

/// The row or message in `bytes`.
pub(crate) fn decode<R: Record>(bytes: &[u8]) -> Result<R, Malformed> {
    decode_value(bytes).map_err(|_| Malformed)
}

/// Lets a record travel between nodes.
macro_rules! message {
    ($($name:ty),*) => {$(
        impl steadfast_partition::Message for $name {
            fn encode(&self) -> bytes::Bytes {
                $crate::place::encode(self)
            }

            fn decode(bytes: &bytes::Bytes) -> ::std::result::Result<Self, steadfast_core::codec::Malformed> {
                $crate::place::decode(bytes)
            }
        }
    )*};
}
pub(crate) use message;
