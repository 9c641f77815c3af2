//! Blobs in blocks, and uploads of any length.
//!
//! An upload is a sequence of pieces that no blob refers to yet: it becomes a blob's
//! body or one of its blocks, or a timer removes it. Uncommitted blocks are kept in a
//! row of their blob; the body of a blob of blocks is the committed block list.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits::{
    BLOB_BLOCK_TIME, BLOB_BLOCKS, BLOB_BYTES, BLOB_PIECE_BYTES, BLOB_STAGE_TIME,
};
use steadfast_partition::{Address, Turn, TurnError};

use crate::blob::command::BlobCommand;
use crate::blob::key::{blob_key, list_key, piece_key, pieces};
use crate::blob::record::{Blob, Block, BlockChoice, BlockList, UploadHandle};
use crate::blob::usage::{count_upload, uncount};
use crate::blob::usage_record::{UsageChange, blocks_bytes};
use crate::error::{Error, ErrorKind};
use crate::keys::{self, BLOCK_LISTS, BLOCKS, PIECES, UPLOADS};

/// The row of an upload.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(super) struct UploadRecord {
    #[n(0)]
    pub(super) container: u64,
    #[n(1)]
    pub(super) length: u64,
    #[n(2)]
    due: Timestamp,
}

/// Starts an upload.
pub(super) fn stage(
    turn: &mut Turn<'_>,
    to: &Address,
    (container, body): (u64, u64),
    bytes: &Bytes,
) -> Result<UploadHandle, TurnError> {
    let due = Timestamp(turn.time().0 + BLOB_STAGE_TIME.as_millis() as i64);
    turn.schedule(due, body, keys::encode(&BlobCommand::Discard { body }));
    let upload = UploadRecord {
        container,
        length: 0,
        due,
    };
    let staged = UploadHandle { body, length: 0 };
    extend(turn, to, upload, staged, bytes)
}

/// Appends to an upload. A retry with the same bytes changes nothing.
pub(super) fn append(
    turn: &mut Turn<'_>,
    to: &Address,
    staged: UploadHandle,
    bytes: &Bytes,
) -> Result<UploadHandle, TurnError> {
    let upload = upload(turn, staged.body)?.ok_or_else(gone)?;
    let length = staged.length + bytes.len() as u64;
    match upload.length {
        found if found == staged.length => extend(turn, to, upload, staged, bytes),
        found if found == length => Ok(UploadHandle { length, ..staged }),
        _ => Err(gone().into()),
    }
}

fn extend(
    turn: &mut Turn<'_>,
    to: &Address,
    mut upload: UploadRecord,
    staged: UploadHandle,
    bytes: &Bytes,
) -> Result<UploadHandle, TurnError> {
    let length = staged.length + bytes.len() as u64;
    if length > BLOB_BYTES as u64 || !staged.length.is_multiple_of(BLOB_PIECE_BYTES as u64) {
        return Err(too_long().into());
    }
    put_pieces(turn, upload.container, staged, bytes);
    upload.length = length;
    turn.put(UPLOADS, &staged.body.to_be_bytes(), keys::encode(&upload));
    count_upload(turn, to, upload.container, bytes.len() as i64)?;
    Ok(UploadHandle { length, ..staged })
}

/// Appends bytes after the existing ones, which end on a piece boundary.
pub(super) fn put_pieces(turn: &mut Turn<'_>, container: u64, at: UploadHandle, bytes: &Bytes) {
    let first = pieces(at.length);
    for piece in 0..pieces(bytes.len() as u64) {
        let start = piece as usize * BLOB_PIECE_BYTES;
        let end = (start + BLOB_PIECE_BYTES).min(bytes.len());
        let key = piece_key(container, at.body, first + piece);
        turn.put(PIECES, &key, bytes.slice(start..end));
    }
}

/// Ends an upload whose pieces now belong to a blob or a block.
pub(super) fn take(
    turn: &mut Turn<'_>,
    container: u64,
    staged: UploadHandle,
) -> Result<(), TurnError> {
    let found = upload(turn, staged.body)?;
    let found = found.filter(|own| own.container == container && own.length == staged.length);
    let upload = found.ok_or_else(gone)?;
    turn.delete(UPLOADS, &staged.body.to_be_bytes());
    turn.cancel(upload.due, staged.body);
    Ok(())
}

/// Removes an upload, if it exists.
pub(super) fn discard(turn: &mut Turn<'_>, to: &Address, body: u64) -> Result<(), TurnError> {
    if let Some(upload) = upload(turn, body)? {
        turn.delete(UPLOADS, &body.to_be_bytes());
        turn.cancel(upload.due, body);
        forget_pieces(turn, upload.container, body, upload.length);
        count_upload(turn, to, upload.container, -(upload.length as i64))?;
    }
    Ok(())
}

/// What the uncommitted block of this id counts; 0 if there is none.
pub(super) fn block_bytes(
    turn: &mut Turn<'_>,
    container: u64,
    name: &str,
    id: &str,
) -> Result<u64, TurnError> {
    let blocks = uncommitted(turn, container, name)?.blocks;
    let found = blocks.iter().find(|block| block.id == id);
    Ok(found.map_or(0, |block| blocks_bytes(std::slice::from_ref(block))))
}

/// Turns an upload into a block, replacing one of the same id. Returns what that one
/// counted.
pub(super) fn put_block(
    turn: &mut Turn<'_>,
    container: u64,
    name: &str,
    id: &str,
    staged: UploadHandle,
) -> Result<u64, TurnError> {
    take(turn, container, staged)?;
    let mut list = uncommitted(turn, container, name)?;
    let replaced = block_bytes(turn, container, name, id)?;
    if let Some(at) = list.blocks.iter().position(|block| block.id == id) {
        let former = list.blocks.remove(at);
        drop_block(turn, container, &former);
    }
    let bytes: u64 = list.blocks.iter().map(|block| block.length).sum();
    if list.blocks.len() >= BLOB_BLOCKS || bytes + staged.length > BLOB_BYTES as u64 {
        return Err(too_long().into());
    }
    let due = Timestamp(turn.time().0 + BLOB_BLOCK_TIME.as_millis() as i64);
    let expire = BlobCommand::ExpireBlock {
        container,
        name: name.to_owned(),
        body: staged.body,
    };
    turn.schedule(due, staged.body, keys::encode(&expire));
    list.blocks.push(Block {
        id: id.to_owned(),
        length: staged.length,
        body: staged.body,
        due: Some(due),
    });
    turn.put(BLOCKS, &blob_key(container, name), keys::encode(&list));
    Ok(replaced)
}

/// A block was not committed in time.
pub(super) fn expire(
    turn: &mut Turn<'_>,
    to: &Address,
    container: u64,
    name: &str,
    body: u64,
) -> Result<(), TurnError> {
    let mut list = uncommitted(turn, container, name)?;
    let Some(at) = list.blocks.iter().position(|block| block.body == body) else {
        return Ok(());
    };
    let block = list.blocks.remove(at);
    drop_block(turn, container, &block);
    let key = blob_key(container, name);
    if list.blocks.is_empty() {
        turn.delete(BLOCKS, &key)
    } else {
        turn.put(BLOCKS, &key, keys::encode(&list))
    }
    let change = UsageChange::from(blocks_bytes(&[block]), 0);
    uncount(turn, to, container, change)
}

/// Makes the chosen blocks the body of a blob, and removes all others. Returns its
/// length.
pub(super) fn commit(
    turn: &mut Turn<'_>,
    container: u64,
    found: Option<&Blob>,
    (name, body): (&str, u64),
    choices: &[BlockChoice],
) -> Result<u64, TurnError> {
    let waiting = uncommitted(turn, container, name)?.blocks;
    let former = match found {
        Some(blob) => committed(turn, container, blob)?,
        None => Vec::new(),
    };
    if choices.len() > BLOB_BLOCKS {
        return Err(too_long().into());
    }
    let (waits, had) = (by_id(&waiting), by_id(&former));
    let mut chosen = Vec::with_capacity(choices.len());
    for choice in choices {
        let block = pick(choice, &waits, &had).ok_or_else(|| unknown(choice))?;
        chosen.push(Block {
            due: None,
            ..block.clone()
        });
    }
    let length = chosen.iter().map(|block| block.length).sum();
    if length > BLOB_BYTES as u64 {
        return Err(too_long().into());
    }
    let bodies: HashSet<u64> = chosen.iter().map(|block| block.body).collect();
    let is_kept = |block: &Block| bodies.contains(&block.body);
    let kept: Vec<_> = waiting.iter().filter(|block| is_kept(block)).collect();
    for block in kept {
        cancel(turn, block);
    }
    for block in waiting.iter().filter(|block| !is_kept(block)) {
        drop_block(turn, container, block);
    }
    for block in former.iter().filter(|block| !is_kept(block)) {
        forget_pieces(turn, container, block.body, block.length);
    }
    turn.delete(BLOCKS, &blob_key(container, name));
    if let Some(blob) = found {
        forget_list(turn, container, blob);
    }
    let list = BlockList { blocks: chosen };
    turn.put(BLOCK_LISTS, &list_key(container, body), keys::encode(&list));
    Ok(length)
}

/// The list row of a blob, or its body if it has no blocks.
fn forget_list(turn: &mut Turn<'_>, container: u64, blob: &Blob) {
    match blob.blocks {
        Some(_) => turn.delete(BLOCK_LISTS, &list_key(container, blob.body)),
        None => forget_pieces(turn, container, blob.body, blob.length),
    }
}

/// Blocks by their id. A list may name one of them several times.
type BlocksById<'a> = HashMap<&'a str, &'a Block>;

fn by_id(blocks: &[Block]) -> BlocksById<'_> {
    blocks
        .iter()
        .map(|block| (block.id.as_str(), block))
        .collect()
}

fn pick<'a>(
    choice: &BlockChoice,
    waiting: &BlocksById<'a>,
    former: &BlocksById<'a>,
) -> Option<&'a Block> {
    let find = |blocks: &BlocksById<'a>, id: &str| blocks.get(id).copied();
    match choice {
        BlockChoice::Latest(id) => find(waiting, id).or_else(|| find(former, id)),
        BlockChoice::Committed(id) => find(former, id),
        BlockChoice::Uncommitted(id) => find(waiting, id),
    }
}

/// Removes the body of a blob.
pub(super) fn forget_body(
    turn: &mut Turn<'_>,
    container: u64,
    blob: &Blob,
) -> Result<(), TurnError> {
    for block in committed(turn, container, blob)? {
        forget_pieces(turn, container, block.body, block.length);
    }
    forget_list(turn, container, blob);
    Ok(())
}

/// Removes the uncommitted blocks of a blob.
pub(super) fn forget_blocks(
    turn: &mut Turn<'_>,
    container: u64,
    name: &str,
) -> Result<(), TurnError> {
    let list = uncommitted(turn, container, name)?;
    if list.blocks.is_empty() {
        return Ok(());
    }
    for block in &list.blocks {
        drop_block(turn, container, block);
    }
    turn.delete(BLOCKS, &blob_key(container, name));
    Ok(())
}

/// The uncommitted blocks of a blob.
pub(super) fn uncommitted(
    turn: &mut Turn<'_>,
    container: u64,
    name: &str,
) -> Result<BlockList, TurnError> {
    let row = turn.get(BLOCKS, &blob_key(container, name))?;
    read(row.as_ref())
}

/// The committed blocks of a blob; none if it was written as a whole.
pub(super) fn committed(
    turn: &mut Turn<'_>,
    container: u64,
    blob: &Blob,
) -> Result<Vec<Block>, TurnError> {
    match blob.blocks {
        Some(_) => {
            let row = turn.get(BLOCK_LISTS, &list_key(container, blob.body))?;
            Ok(read::<BlockList>(row.as_ref())?.blocks)
        }
        None => Ok(Vec::new()),
    }
}

fn read<R: Record + Default>(row: Option<&Bytes>) -> Result<R, TurnError> {
    let Some(row) = row else {
        return Ok(R::default());
    };
    keys::decode(row).map_err(|_| Error::damaged("a list of blocks").into())
}

fn upload(turn: &mut Turn<'_>, body: u64) -> Result<Option<UploadRecord>, TurnError> {
    let Some(row) = turn.get(UPLOADS, &body.to_be_bytes())? else {
        return Ok(None);
    };
    let upload = keys::decode(&row).map_err(|_| Error::damaged("an upload"))?;
    Ok(Some(upload))
}

fn drop_block(turn: &mut Turn<'_>, container: u64, block: &Block) {
    cancel(turn, block);
    forget_pieces(turn, container, block.body, block.length);
}

fn cancel(turn: &mut Turn<'_>, block: &Block) {
    if let Some(due) = block.due {
        turn.cancel(due, block.body);
    }
}

fn forget_pieces(turn: &mut Turn<'_>, container: u64, body: u64, length: u64) {
    for piece in 0..pieces(length) {
        turn.delete(PIECES, &piece_key(container, body, piece));
    }
}

fn gone() -> Error {
    let words = "the upload was given up or does not fit; send it again";
    Error::new(ErrorKind::BadBlob, words)
}

fn too_long() -> Error {
    let words = format!(
        "a blob has {BLOB_BYTES} bytes and {BLOB_BLOCKS} blocks at most; send fewer or larger blocks"
    );
    Error::new(ErrorKind::BadBlob, words)
}

fn unknown(choice: &BlockChoice) -> Error {
    let (BlockChoice::Latest(id) | BlockChoice::Committed(id) | BlockChoice::Uncommitted(id)) =
        choice;
    let words = format!("the blob has no block '{id}'; send the block first");
    Error::new(ErrorKind::BadBlockList, words)
}
