//! Stream heads and cluster records in a backup's files.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{Partition, StreamId};
use steadfast_storage::engine::Record;
use steadfast_storage::export::CutPoint;
use steadfast_storage::{Result, StreamHead, decode_heads, encode_heads};

use crate::folder::BackupFolder;
use crate::manifest_file::{FileContent, ManifestFile};

const STATE_FILE: &str = "state";
const RECORDS_FILE: &str = "records";

/// Heads of the streams of all partitions.
pub(crate) type PartitionHeads = BTreeMap<Partition, BTreeMap<StreamId, StreamHead>>;

pub(crate) fn write_heads(folder: &BackupFolder, points: &[CutPoint]) -> Result<ManifestFile> {
    let mut blocks = folder.create(STATE_FILE, FileContent::State)?;
    for point in points {
        blocks.put(|block| {
            put_varint(block, u64::from(point.partition.0));
            encode_heads(block, &point.heads);
        })?;
    }
    blocks.finish(FileContent::State, None)
}

pub(crate) fn read_heads(folder: &BackupFolder) -> Result<PartitionHeads> {
    let read = |reader: &mut ByteReader| {
        let partition = Partition(reader.varint_u32()?);
        Ok((partition, decode_heads(reader)?))
    };
    let heads = read_items(folder, STATE_FILE, FileContent::State, read)?;
    Ok(heads.into_iter().collect())
}

pub(crate) fn write_records(folder: &BackupFolder, records: &[Record]) -> Result<ManifestFile> {
    let mut blocks = folder.create(RECORDS_FILE, FileContent::Records)?;
    for record in records {
        blocks.put(|block| {
            put_bytes(block, record.key.as_bytes());
            put_varint(block, record.version);
            put_bytes(block, &record.value);
        })?;
    }
    blocks.finish(FileContent::Records, None)
}

pub(crate) fn read_records(folder: &BackupFolder) -> Result<Vec<Record>> {
    let read = |reader: &mut ByteReader| {
        let key = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)?;
        let version = reader.varint()?;
        let value: Bytes = reader.bytes()?;
        Ok(Record {
            key,
            version,
            value,
        })
    };
    read_items(folder, RECORDS_FILE, FileContent::Records, read)
}

fn read_items<T>(
    folder: &BackupFolder,
    name: &str,
    content: FileContent,
    read: impl Fn(&mut ByteReader) -> std::result::Result<T, DecodeError>,
) -> Result<Vec<T>> {
    let mut blocks = folder.open(name, content)?;
    let mut found = Vec::new();
    while let Some(block) = blocks.next()? {
        let mut reader = ByteReader::new(block);
        while !reader.is_empty() {
            let item = read(&mut reader);
            found.push(item.map_err(|_| blocks.damaged("an item is malformed"))?);
        }
    }
    Ok(found)
}
