//! The service that keeps containers and their blobs.
//!
//! A container and all its blobs are one instance. A body is cut into pieces, each
//! a row; a write of a body and of its description are one commit. Every write in a
//! container gets the next version, so none comes twice.

use steadfast_core::limits::BLOB_PIECE_BYTES;
use steadfast_partition::{Address, Answer, Halt, Kind as ServiceKind, Service, Turn};

use crate::blob::record::{
    Blob, BlobCommand, BlobReply, Conditions, Container, Put, check_name, check_pairs,
};
use crate::error::{Error, Kind};
use crate::place::{self, BLOB, BLOBS, CONTAINERS, PIECES};

/// Keeps containers and blobs.
pub(crate) struct Containers;

/// Where the partition's counter of versions and containers is. No name is empty.
const COUNTER: &[u8] = b"";

impl Service for Containers {
    type Command = BlobCommand;
    type Reply = BlobReply;

    fn kind(&self) -> ServiceKind {
        BLOB
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &BlobCommand,
    ) -> Result<Answer<BlobReply>, Halt> {
        let reply = match command {
            BlobCommand::Create { metadata } => create(turn, to, metadata)?,
            BlobCommand::Find => BlobReply::Container(container(turn, to)?),
            BlobCommand::Remove => {
                let removed = container(turn, to)?;
                turn.delete(CONTAINERS, &to.name);
                BlobReply::Container(removed)
            }
            BlobCommand::Put { put, conditions } => write(turn, to, put, conditions)?,
            BlobCommand::Describe {
                name,
                metadata,
                conditions,
            } => describe(turn, to, name, metadata, conditions)?,
            BlobCommand::Delete { name, conditions } => delete(turn, to, name, conditions)?,
            BlobCommand::Get { name } => {
                let (_, blob) = existing(turn, to, name)?;
                let before = blob.metadata.clone();
                BlobReply::Blob { blob, before }
            }
            BlobCommand::Sweep { container, names } => {
                for name in names {
                    if let Some(blob) = find(turn, *container, name)? {
                        forget_body(turn, *container, &blob);
                    }
                    turn.delete(BLOBS, &blob_key(*container, name));
                }
                BlobReply::Done
            }
        };
        Ok(Answer::Now(reply))
    }
}

fn create(
    turn: &mut Turn<'_>,
    to: &Address,
    metadata: &[(String, String)],
) -> Result<BlobReply, Halt> {
    check_pairs(metadata)?;
    if turn.get(CONTAINERS, &to.name)?.is_some() {
        let words = "the container is there already; use it";
        return Err(Error::new(Kind::ContainerExists, words).into());
    }
    let version = next_version(turn)?;
    let made = Container {
        id: version,
        version,
        modified: turn.time(),
        metadata: metadata.to_vec(),
    };
    turn.put(CONTAINERS, &to.name, place::encode(&made));
    Ok(BlobReply::Container(made))
}

fn write(
    turn: &mut Turn<'_>,
    to: &Address,
    put: &Put,
    conditions: &Conditions,
) -> Result<BlobReply, Halt> {
    put.check()?;
    let container = container(turn, to)?.id;
    let found = find(turn, container, &put.name)?;
    conditions.check(found.as_ref())?;
    if let Some(found) = &found {
        forget_body(turn, container, found);
    }
    let version = next_version(turn)?;
    let blob = Blob {
        name: put.name.clone(),
        version,
        created: found.as_ref().map_or(turn.time(), |found| found.created),
        modified: turn.time(),
        length: put.body.len() as u64,
        content_type: put.content_type.clone(),
        metadata: put.metadata.clone(),
        properties: put.properties.clone(),
        body: version,
    };
    for piece in 0..pieces(blob.length) {
        let start = piece as usize * BLOB_PIECE_BYTES;
        let end = (start + BLOB_PIECE_BYTES).min(put.body.len());
        let key = piece_key(container, blob.body, piece);
        turn.put(PIECES, &key, put.body.slice(start..end));
    }
    turn.put(
        BLOBS,
        &blob_key(container, &blob.name),
        place::encode(&blob),
    );
    let before = found.map(|found| found.metadata).unwrap_or_default();
    Ok(BlobReply::Blob { blob, before })
}

fn describe(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    metadata: &[(String, String)],
    conditions: &Conditions,
) -> Result<BlobReply, Halt> {
    check_pairs(metadata)?;
    // Whatever the conditions are: clients fall back to a write on just this error.
    let (container, mut blob) = existing(turn, to, name)?;
    conditions.check(Some(&blob))?;
    let before = std::mem::replace(&mut blob.metadata, metadata.to_vec());
    blob.version = next_version(turn)?;
    blob.modified = turn.time();
    turn.put(BLOBS, &blob_key(container, name), place::encode(&blob));
    Ok(BlobReply::Blob { blob, before })
}

fn delete(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    conditions: &Conditions,
) -> Result<BlobReply, Halt> {
    let (container, blob) = existing(turn, to, name)?;
    conditions.check(Some(&blob))?;
    forget_body(turn, container, &blob);
    turn.delete(BLOBS, &blob_key(container, name));
    let before = blob.metadata.clone();
    Ok(BlobReply::Blob { blob, before })
}

fn existing(turn: &mut Turn<'_>, to: &Address, name: &str) -> Result<(u64, Blob), Halt> {
    check_name(name)?;
    let container = container(turn, to)?.id;
    match find(turn, container, name)? {
        Some(blob) => Ok((container, blob)),
        None => {
            let words = "the blob is not there; write it first";
            Err(Error::new(Kind::BlobNotFound, words).into())
        }
    }
}

fn container(turn: &mut Turn<'_>, to: &Address) -> Result<Container, Halt> {
    let Some(row) = turn.get(CONTAINERS, &to.name)? else {
        let words = "the container is not there; create it first";
        return Err(Error::new(Kind::ContainerNotFound, words).into());
    };
    place::decode(&row).map_err(|_| Error::damaged("a container").into())
}

fn find(turn: &mut Turn<'_>, container: u64, name: &str) -> Result<Option<Blob>, Halt> {
    match turn.get(BLOBS, &blob_key(container, name))? {
        Some(row) => match place::decode(&row) {
            Ok(blob) => Ok(Some(blob)),
            Err(_) => Err(Error::damaged("a blob").into()),
        },
        None => Ok(None),
    }
}

fn forget_body(turn: &mut Turn<'_>, container: u64, blob: &Blob) {
    for piece in 0..pieces(blob.length) {
        turn.delete(PIECES, &piece_key(container, blob.body, piece));
    }
}

/// Versions of all containers of a partition, and the ids of the containers, come
/// from one counter.
fn next_version(turn: &mut Turn<'_>) -> Result<u64, Halt> {
    let last = turn.get(CONTAINERS, COUNTER)?;
    let last = last.and_then(|last| last.as_ref().try_into().ok());
    let next = last.map_or(1, |last| u64::from_be_bytes(last) + 1);
    turn.put(CONTAINERS, COUNTER, next.to_be_bytes().to_vec());
    Ok(next)
}

/// How many pieces a body has.
pub(crate) fn pieces(length: u64) -> u32 {
    length.div_ceil(BLOB_PIECE_BYTES as u64) as u32
}

pub(crate) fn blob_key(container: u64, name: &str) -> Vec<u8> {
    [&container.to_be_bytes(), name.as_bytes()].concat()
}

pub(crate) fn piece_key(container: u64, body: u64, piece: u32) -> Vec<u8> {
    let (container, body) = (container.to_be_bytes(), body.to_be_bytes());
    [&container[..], &body[..], &piece.to_be_bytes()[..]].concat()
}
