//! Kinds, tables, keys and addresses of the services.
//!
//! Stored state depends on all of them, so they never change.

use bytes::Bytes;
use steadfast_collections::schema::{Record, WriteVersion, decode_value, encode_value};
use steadfast_core::codec::DecodeError;
use steadfast_core::id::TableId;
use steadfast_partition::{Address, ServiceKind, service_table};

/// Definitions of event hubs, all in one instance.
pub const CATALOG: ServiceKind = ServiceKind(16);
/// Partitions of event hubs.
pub const HUB_PARTITION: ServiceKind = ServiceKind(17);
/// Ownerships of consumer groups.
pub const CLAIM: ServiceKind = ServiceKind(18);
/// Containers of blobs.
pub const BLOB: ServiceKind = ServiceKind(19);

/// Lower-case name to event hub.
pub(crate) const HUBS: TableId = service_table(CATALOG, 0);
/// One row: all names, and the last assigned id.
pub(crate) const INDEX: TableId = service_table(CATALOG, 1);

/// Event hub to the number of forwarded publications without a key.
pub(crate) const TURNS: TableId = service_table(CATALOG, 2);

/// Hub and partition to the row of the hub partition.
pub(crate) const SLOTS: TableId = service_table(HUB_PARTITION, 0);
/// One row: how many streams the store partition has created for hub partitions.
pub(crate) const STREAMS: TableId = service_table(HUB_PARTITION, 1);
/// Hub, partition and producer to its epoch and last number.
pub(crate) const PRODUCERS: TableId = service_table(HUB_PARTITION, 2);
/// Hub, partition and rank in the order of opening to producer.
pub(crate) const PRODUCER_ORDER: TableId = service_table(HUB_PARTITION, 3);
/// Hub, partition and group to checkpoint.
pub(crate) const CHECKPOINTS: TableId = service_table(HUB_PARTITION, 4);
/// Hub, partition, group and sequence number to dead letter.
pub(crate) const PARKED: TableId = service_table(HUB_PARTITION, 5);
/// Hub, partition and group to the sequence numbers of its dead letters.
pub(crate) const PARKED_LIST: TableId = service_table(HUB_PARTITION, 6);

/// Hub, group and partition to ownership.
pub(crate) const OWNERSHIPS: TableId = service_table(CLAIM, 0);

/// Container to its row.
pub(crate) const CONTAINERS: TableId = service_table(BLOB, 0);
/// Container and name to blob.
pub(crate) const BLOBS: TableId = service_table(BLOB, 1);
/// Body and piece number to the piece.
pub(crate) const PIECES: TableId = service_table(BLOB, 2);
/// Body to an uncommitted upload.
pub(crate) const UPLOADS: TableId = service_table(BLOB, 3);
/// Container and name to the uncommitted blocks.
pub(crate) const BLOCKS: TableId = service_table(BLOB, 4);
/// Container and body to the blocks of a blob.
pub(crate) const BLOCK_LISTS: TableId = service_table(BLOB, 5);
/// Account to what it takes in the partition, and its allowance of the account's limit.
pub(crate) const ACCOUNTS: TableId = service_table(BLOB, 6);
/// Container to what it takes; the empty key says whether the partition is counted.
pub(crate) const CONTAINER_USAGE: TableId = service_table(BLOB, 7);
/// Account to the allowances of all partitions, in the partition of the account's address.
pub(crate) const ALLOWANCES: TableId = service_table(BLOB, 8);

/// The address of the catalog.
pub(crate) fn catalog() -> Address {
    Address::new(CATALOG, "event hubs", "")
}

/// The address of an account of blobs.
pub(crate) fn account_address(account: &str) -> Address {
    Address::new(BLOB, account.to_owned(), "")
}

/// The address of a hub partition, by the hub's lower-case name.
pub(crate) fn hub_partition_address(name: &str, slot: u32) -> Address {
    Address::new(HUB_PARTITION, name.to_owned(), slot.to_be_bytes().to_vec())
}

/// The number of the hub partition at an address.
pub(crate) fn hub_partition_number(address: &Address) -> Option<u32> {
    let bytes = address.key.as_ref().try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// The address of a group's ownerships.
pub(crate) fn ownership_address(hub: u64, group: &str) -> Address {
    Address::new(CLAIM, hub.to_be_bytes().to_vec(), group.to_owned())
}

/// A name in lower case: names are compared case-insensitively.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// Hub and partition, the key prefix of everything of a hub partition.
pub(crate) fn hub_partition_key(hub: u64, slot: u32) -> Vec<u8> {
    let mut key = hub.to_be_bytes().to_vec();
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// Encodes a row or message.
pub(crate) fn encode<R: Record>(record: &R) -> Bytes {
    let bytes = encode_value(record, WriteVersion::LATEST);
    // Rows and commands are bounded far below the limits of a value.
    bytes.expect("within the limits of a value").into()
}

/// Decodes a row or message.
pub(crate) fn decode<R: Record>(bytes: &[u8]) -> Result<R, DecodeError> {
    decode_value(bytes).map_err(|_| DecodeError)
}

/// Implements the partition crate's `Message` for a record.
macro_rules! message {
    ($($name:ty),*) => {$(
        impl steadfast_partition::Message for $name {
            fn encode(&self) -> bytes::Bytes {
                $crate::keys::encode(self)
            }

            fn decode(bytes: &bytes::Bytes) -> ::std::result::Result<Self, steadfast_core::codec::DecodeError> {
                $crate::keys::decode(bytes)
            }
        }
    )*};
}
pub(crate) use message;
