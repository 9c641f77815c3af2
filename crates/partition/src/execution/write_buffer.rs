//! The write buffer of one turn, for its own reads.
//!
//! Most turns write a row or two: a list is searched from its end. A turn that
//! writes many gets an index over it.

use std::collections::HashMap;

use bytes::Bytes;
use steadfast_core::id::TableId;

use crate::execution::pinned_rows::RowAddress;

#[derive(Default)]
pub(crate) struct WriteBuffer {
    rows: Vec<(RowAddress, Option<Bytes>)>,
    /// The position of the newest write of a row; empty while there are few.
    index: HashMap<RowAddress, usize>,
}

/// The number of rows from which on there is an index.
const MANY: usize = 16;

impl WriteBuffer {
    /// Adds a write; it hides earlier ones of the same row.
    pub(crate) fn set(&mut self, table: TableId, key: &[u8], value: Option<Bytes>) {
        let row = (table, Bytes::copy_from_slice(key));
        self.rows.push((row, value));
        let count = self.rows.len();
        if count >= MANY {
            let behind = count - 1;
            let first = if count == MANY { 0 } else { behind };
            for (at, (row, _)) in self.rows.iter().enumerate().skip(first) {
                self.index.insert(row.clone(), at);
            }
        }
    }

    /// The row as it was last written; `None` if it was not.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<&Option<Bytes>> {
        if self.rows.len() < MANY {
            let newest_first = self.rows.iter().rev();
            let mut found = newest_first.filter(|((t, k), _)| *t == table && k == key);
            return found.next().map(|(_, value)| value);
        }
        let row = (table, Bytes::copy_from_slice(key));
        let at = self.index.get(&row)?;
        self.rows.get(*at).map(|(_, value)| value)
    }

    /// All writes, in order.
    pub(crate) fn rows(&self) -> &[(RowAddress, Option<Bytes>)] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A turn reads what it has written last, however much that is.
        #[test]
        fn the_last_write_of_a_row_is_found(
            writes in proptest::collection::vec((0u32..2, 0u8..12, any::<Option<u8>>()), 0..60),
        ) {
            let mut written = WriteBuffer::default();
            let mut model = HashMap::new();
            for (table, key, value) in writes {
                let value = value.map(|value| Bytes::from(vec![value]));
                written.set(TableId(table), &[key], value.clone());
                model.insert((table, key), value);
                for table in 0..2 {
                    for key in 0..12 {
                        let found = written.get(TableId(table), &[key]);
                        prop_assert_eq!(found, model.get(&(table, key)));
                    }
                }
            }
        }
    }
}
