//! Numbers of tables and streams.
//!
//! Tables below 65,536 belong to services and to this crate; no transaction over
//! collections can open them. A collection's table, and the stream of a log, have
//! the collection's number, from 65,536 on. Numbers are never used again.

use steadfast_core::id::TableId;

/// Names of collections.
pub(crate) const REGISTRY: TableId = TableId(0xff00);
/// The approximate number of rows of each collection.
pub(crate) const COUNTS: TableId = TableId(0xff01);
/// One row that every commit changes, so that a reader elsewhere sees a flush.
pub(crate) const STAMP: TableId = TableId(0xff02);
/// Definitions of services.
pub(crate) const SERVICES: TableId = TableId(0xff03);
/// The incarnation of a volatile service's state in this partition.
pub(crate) const INCARNATIONS: TableId = TableId(0xff04);

/// The first collection.
pub(crate) const FIRST_COLLECTION: u32 = 1 << 16;
