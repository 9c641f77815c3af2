//! The content of a replica of a partition.
//!
//! Rows and their metadata, as the owner's entries leave them. Two replicas with the
//! same [`ReplicaPosition`] are equal: an epoch has one owner, which begins from one content
//! and numbers its entries.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::DecodeError;
use steadfast_core::id::{EntryNumber, Epoch, Lsn, TableId};

use crate::body::{EntryBody, RedoOperation, operations, split_row_key};
use crate::engine::Entry;
use crate::meta;

/// How far a replica is. The one with the higher position has every entry that was
/// acknowledged at the lower one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReplicaPosition {
    /// The last epoch whose owner has confirmed the content.
    pub epoch: Epoch,
    /// The last entry.
    pub number: EntryNumber,
}

/// All rows of a partition.
pub(crate) type ReplicaRows = BTreeMap<(TableId, Bytes), Bytes>;

/// Metadata of a replica beside its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaMeta {
    lsn: Lsn,
    time: Timestamp,
    tables: BTreeSet<TableId>,
}

impl ReplicaMeta {
    /// Decodes the metadata that a flush has left.
    pub(crate) fn of(meta: Bytes) -> Result<Self, DecodeError> {
        let meta = meta::decode(meta)?;
        Ok(Self {
            lsn: meta.lsn,
            time: meta.time,
            tables: meta.tables.unwrap_or_default(),
        })
    }

    /// Encodes the metadata as a flush would.
    pub(crate) fn meta(&self) -> Bytes {
        let heads = BTreeMap::new();
        meta::encode(self.lsn, self.time, &heads, Some(&self.tables))
    }

    /// Applies an entry. Rows are copied, so that none keeps alive the message that
    /// carried it.
    pub(crate) fn fold(&mut self, rows: &mut ReplicaRows, body: Bytes) -> Result<(), DecodeError> {
        let body = EntryBody::decode(body)?;
        for transaction in &body.transactions {
            for operation in operations(transaction.operations.clone()) {
                self.redo(rows, operation?);
            }
        }
        self.lsn = self.lsn.max(body.last_lsn());
        self.time = self.time.max(body.time);
        Ok(())
    }

    fn redo(&mut self, rows: &mut ReplicaRows, operation: RedoOperation) {
        let owned = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        match operation {
            RedoOperation::Put(row, value) => {
                let (table, key) = split_row_key(&row);
                self.tables.insert(table);
                rows.insert((table, owned(&key)), owned(&value));
            }
            RedoOperation::Delete(row) => {
                rows.remove(&split_row_key(&row));
            }
            RedoOperation::Clear(table) => {
                let mut later = rows.split_off(&(table, Bytes::new()));
                let next = table.0.checked_add(1).map(TableId);
                if let Some(next) = next {
                    rows.append(&mut later.split_off(&(next, Bytes::new())));
                }
            }
            // Replicated partitions have no streams.
            RedoOperation::Trim(..) => {}
        }
    }
}

/// A row as it is sent: table, key, value.
pub type CopiedRow = (TableId, Bytes, Bytes);

/// Where a full copy begins: what is flushed, and the entries since.
pub struct CopyBase {
    /// The last entry that is flushed.
    pub number: EntryNumber,
    /// Of the last entry, if there is none after `number`.
    pub hash: u64,
    /// What the last flush left.
    pub meta: Bytes,
    /// Entries after `number`.
    pub log: Vec<Entry>,
}

/// Why a replica refused a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaError {
    /// A later epoch is known here.
    Deposed(Epoch),
    /// The message does not follow the state of this replica.
    Strange,
}

/// A full copy in transfer, beside the current one.
#[derive(Debug)]
pub(crate) struct StagedCopy {
    pub(crate) epoch: Epoch,
    pub(crate) session: u64,
    /// The number of the next part.
    pub(crate) next: u64,
    pub(crate) rows: ReplicaRows,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Transaction, Writes};

    fn body(lsn: u64, fill: impl FnOnce(&mut Writes)) -> Bytes {
        let mut writes = Writes::new();
        fill(&mut writes);
        let operations = writes.operations.into();
        EntryBody {
            first_lsn: Lsn(lsn),
            time: Timestamp(7),
            transactions: vec![Transaction { id: 0, operations }],
        }
        .encode()
    }

    #[test]
    fn entries_leave_what_a_flush_would_leave() {
        let (mut folded, mut rows) = (ReplicaMeta::default(), ReplicaRows::new());
        let first = body(1, |writes| {
            writes.put(TableId(1), b"a", b"1");
            writes.put(TableId(2), b"a", b"2");
            writes.put(TableId(u32::MAX), b"z", b"3");
        });
        folded.fold(&mut rows, first).unwrap();
        let second = body(2, |writes| {
            writes.clear(TableId(1));
            writes.put(TableId(1), b"b", b"4");
            writes.delete(TableId(2), b"a");
        });
        folded.fold(&mut rows, second).unwrap();
        let keys: Vec<_> = rows
            .keys()
            .map(|(table, key)| (table.0, &key[..]))
            .collect();
        assert_eq!(keys, [(1, &b"b"[..]), (u32::MAX, &b"z"[..])]);
        let third = body(3, |writes| writes.clear(TableId(u32::MAX)));
        folded.fold(&mut rows, third).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(folded.lsn, Lsn(3));
        assert_eq!(ReplicaMeta::of(folded.meta()).unwrap(), folded);
        assert!(folded.fold(&mut rows, Bytes::from_static(b"?")).is_err());
    }

    #[test]
    fn the_later_epoch_is_ahead_whatever_its_number() {
        let at = |epoch, number| ReplicaPosition {
            epoch: Epoch(epoch),
            number: EntryNumber(number),
        };
        assert!(at(2, 1) > at(1, 9) && at(2, 2) > at(2, 1));
    }
}
