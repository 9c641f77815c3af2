//! Stream heads and cluster records in a backup's files.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::codec::{Malformed, Reader, put_bytes, put_varint};
use steadfast_core::id::{Partition, Stream};

use super::cut::Point;
use super::folder::BackupFolder;
use super::saved::{Content, SavedFile};
use crate::engine::Record;
use crate::error::Result;
use crate::streams::{Head, decode_heads, encode_heads};

const STATE_FILE: &str = "state";
const RECORDS_FILE: &str = "records";

/// Heads of the streams of all partitions.
pub(super) type Heads = BTreeMap<Partition, BTreeMap<Stream, Head>>;

pub(super) fn write_heads(folder: &BackupFolder, points: &[Point]) -> Result<SavedFile> {
    let mut blocks = folder.create(STATE_FILE, Content::State)?;
    for point in points {
        blocks.put(|block| {
            put_varint(block, u64::from(point.partition.0));
            encode_heads(block, &point.heads);
        })?;
    }
    blocks.finish(Content::State, None)
}

pub(super) fn read_heads(folder: &BackupFolder) -> Result<Heads> {
    let read = |reader: &mut Reader| {
        let partition = Partition(reader.varint_u32()?);
        Ok((partition, decode_heads(reader)?))
    };
    let heads = read_items(folder, STATE_FILE, Content::State, read)?;
    Ok(heads.into_iter().collect())
}

pub(super) fn write_records(folder: &BackupFolder, records: &[Record]) -> Result<SavedFile> {
    let mut blocks = folder.create(RECORDS_FILE, Content::Records)?;
    for record in records {
        blocks.put(|block| {
            put_bytes(block, record.key.as_bytes());
            put_varint(block, record.version);
            put_bytes(block, &record.value);
        })?;
    }
    blocks.finish(Content::Records, None)
}

pub(super) fn read_records(folder: &BackupFolder) -> Result<Vec<Record>> {
    let read = |reader: &mut Reader| {
        let key = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed)?;
        let version = reader.varint()?;
        let value: Bytes = reader.bytes()?;
        Ok(Record {
            key,
            version,
            value,
        })
    };
    read_items(folder, RECORDS_FILE, Content::Records, read)
}

fn read_items<T>(
    folder: &BackupFolder,
    name: &str,
    content: Content,
    read: impl Fn(&mut Reader) -> std::result::Result<T, Malformed>,
) -> Result<Vec<T>> {
    let mut blocks = folder.open(name, content)?;
    let mut found = Vec::new();
    while let Some(block) = blocks.next()? {
        let mut reader = Reader::new(block);
        while !reader.is_empty() {
            let item = read(&mut reader);
            found.push(item.map_err(|_| blocks.damaged("an item is malformed"))?);
        }
    }
    Ok(found)
}
