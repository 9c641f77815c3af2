//! Metadata that a flush leaves for the next owner.
//!
//! Every flush stores it in the engine, which does not read it. The list of tables at
//! its end came later: where an older version has flushed last, it is missing, and it is
//! then unknown which tables the partition has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_varint};
use steadfast_core::id::{Lsn, StreamId, TableId};

use crate::streams::{StreamHead, decode_heads, encode_heads};

/// The version of [`encode`].
const FORMAT: u8 = 1;

/// What the last flush left.
pub struct Meta {
    /// Of its last transaction.
    pub lsn: Lsn,
    /// When that was staged.
    pub time: Timestamp,
    /// Of its event streams.
    pub heads: BTreeMap<StreamId, StreamHead>,
    /// Tables that may have rows; `None` if no list was kept.
    pub tables: Option<BTreeSet<TableId>>,
}

/// Writes last LSN, last time, heads and tables.
pub fn encode(
    lsn: Lsn,
    time: Timestamp,
    heads: &BTreeMap<StreamId, StreamHead>,
    tables: Option<&BTreeSet<TableId>>,
) -> Bytes {
    let mut out = vec![FORMAT];
    put_varint(&mut out, lsn.0);
    put_varint(&mut out, time.0.max(0) as u64);
    encode_heads(&mut out, heads);
    if let Some(tables) = tables {
        put_varint(&mut out, tables.len() as u64);
        for table in tables {
            put_varint(&mut out, u64::from(table.0));
        }
    }
    out.into()
}

/// Reads what [`encode`] wrote; nothing at all is a partition without a flush.
pub fn decode(bytes: Bytes) -> Result<Meta, DecodeError> {
    if bytes.is_empty() {
        return Ok(Meta {
            lsn: Lsn::default(),
            time: Timestamp::default(),
            heads: BTreeMap::new(),
            tables: Some(BTreeSet::new()),
        });
    }
    let mut reader = ByteReader::new(bytes);
    if reader.byte()? != FORMAT {
        return Err(DecodeError);
    }
    Ok(Meta {
        lsn: Lsn(reader.varint()?),
        time: Timestamp(i64::try_from(reader.varint()?).map_err(|_| DecodeError)?),
        heads: decode_heads(&mut reader)?,
        tables: decode_tables(&mut reader)?,
    })
}

fn decode_tables(reader: &mut ByteReader) -> Result<Option<BTreeSet<TableId>>, DecodeError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let count = reader.varint()?;
    let tables = (0..count).map(|_| Ok(TableId(reader.varint_u32()?)));
    tables.collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_unknown_only_where_nobody_listed_them() {
        let heads = BTreeMap::new();
        let tables = BTreeSet::from([TableId(3), TableId(u32::MAX)]);
        for tables in [None, Some(BTreeSet::new()), Some(tables)] {
            let bytes = encode(Lsn(7), Timestamp(9), &heads, tables.as_ref());
            let meta = decode(bytes).unwrap();
            assert_eq!((meta.lsn, meta.time), (Lsn(7), Timestamp(9)));
            assert_eq!(meta.tables, tables);
        }
        assert!(decode(Bytes::new()).unwrap().tables.is_some());
    }
}
