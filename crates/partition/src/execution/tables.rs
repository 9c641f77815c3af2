//! The runtime's own tables, and those of the services.
//!
//! Tables below 65,536 belong to the system; users' transactions cannot open them. The
//! numbers are part of stored state, so a number is never reused.

use steadfast_core::id::{StreamId, TableId};

use crate::ingress::address::ServiceKind;

/// Due time, address and tag to body.
pub(crate) const TIMERS: TableId = TableId(1);
/// Destination and number to envelope: sent, but not known to have arrived.
pub(crate) const OUTBOX: TableId = TableId(2);
/// Destination to the last number assigned to it.
pub(crate) const SENT: TableId = TableId(3);
/// Source and its incarnation to the last number that was handled.
pub(crate) const RECEIVED: TableId = TableId(4);
/// Service and id to open work.
pub(crate) const WORK: TableId = TableId(5);
/// Dead letters: messages that a service refused, with the reason.
pub(crate) const POISON: TableId = TableId(6);

// Table 1000 belongs to the mirror of `storage`.

/// Tables that each service has.
const TABLES_PER_SERVICE: u32 = 64;
const FIRST_OF_SERVICES: u32 = 1024;

/// Table `index` of a service.
pub const fn service_table(kind: ServiceKind, index: u32) -> TableId {
    assert!(index < TABLES_PER_SERVICE && kind.0 < 1000);
    TableId(FIRST_OF_SERVICES + kind.0 as u32 * TABLES_PER_SERVICE + index)
}

/// Streams below belong to the logs of collections.
const FIRST_STREAM: u32 = 1 << 31;
/// Streams that each service may ever create in a partition.
pub const STREAMS_PER_SERVICE: u32 = 1 << 21;

/// Stream `index` of a service; `None` if the service has used up its numbers.
pub const fn service_stream(kind: ServiceKind, index: u32) -> Option<StreamId> {
    if index >= STREAMS_PER_SERVICE || kind.0 >= 1000 {
        return None;
    }
    let first = FIRST_STREAM + kind.0 as u32 * STREAMS_PER_SERVICE;
    Some(StreamId(first + index))
}
