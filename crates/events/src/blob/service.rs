//! The service that stores containers and their blobs.
//!
//! A container and all its blobs are one instance. A body is split into pieces, each
//! a row; a body and its metadata are written in one commit. Every write in a
//! container gets the next version, so versions never repeat. What accounts take is
//! counted in the same commit.

use steadfast_core::limits::BLOB_ENTRY_BYTES;
use steadfast_partition::{Address, Service, ServiceKind, Turn, TurnError, TurnOutcome};

use crate::blob::allowance::{self, AllowanceClaim};
use crate::blob::block::{self, forget_blocks, forget_body};
use crate::blob::command::{BlobCommand, BlobResponse};
use crate::blob::key::blob_key;
use crate::blob::lease::{self, LeaseAction};
use crate::blob::record::{
    Blob, BlockChoice, Conditions, Container, PutBlobRequest, UploadHandle, check_block_id,
    check_name, check_pairs,
};
use crate::blob::size::{blob_bytes, name_bytes};
use crate::blob::usage;
use crate::blob::usage_record::UsageChange;
use crate::error::{Error, ErrorKind};
use crate::keys::{self, BLOB, BLOBS, BLOCKS, CONTAINERS};

/// The service that stores containers and blobs.
pub(crate) struct BlobService {
    /// How many bytes every account may take.
    pub(crate) account_limit: u64,
}

/// The key of the partition's counter of versions and containers. No name is empty.
pub(super) const COUNTER: &[u8] = b"";

impl Service for BlobService {
    type Command = BlobCommand;
    type Response = BlobResponse;

    fn kind(&self) -> ServiceKind {
        BLOB
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &BlobCommand,
    ) -> Result<TurnOutcome<BlobResponse>, TurnError> {
        let limit = self.account_limit;
        Ok(TurnOutcome::Now(match command {
            BlobCommand::Create { metadata } => create(turn, to, metadata)?,
            BlobCommand::Find => BlobResponse::Container(container(turn, to)?),
            BlobCommand::Remove => {
                let removed = container(turn, to)?;
                usage::forget_container(turn, to, removed.id)?;
                turn.delete(CONTAINERS, &to.name);
                BlobResponse::Container(removed)
            }
            BlobCommand::Put { put, conditions } => {
                let body = BodySource::Here;
                write(turn, to, put, body, conditions, limit)?
            }
            BlobCommand::PutStaged {
                put,
                staged,
                conditions,
            } => {
                let body = BodySource::Staged(*staged);
                write(turn, to, put, body, conditions, limit)?
            }
            BlobCommand::PutBlocks {
                put,
                choices,
                conditions,
            } => {
                let body = BodySource::Blocks(choices);
                write(turn, to, put, body, conditions, limit)?
            }
            BlobCommand::Describe {
                name,
                metadata,
                conditions,
            } => describe(turn, to, name, metadata, conditions)?,
            BlobCommand::Delete { name, conditions } => delete(turn, to, name, conditions)?,
            BlobCommand::Get { name } => {
                let (_, blob) = existing(turn, to, name)?;
                unchanged(blob)
            }
            BlobCommand::Lease {
                name,
                action,
                conditions,
            } => act(turn, to, name, *action, conditions)?,
            BlobCommand::Blocks { name } => blocks(turn, to, name)?,
            BlobCommand::Limit => BlobResponse::Limit(limit),
            BlobCommand::CheckRoom { .. }
            | BlobCommand::SetCounts { .. }
            | BlobCommand::WithdrawAllowance { .. }
            | BlobCommand::ClaimAllowance { .. }
            | BlobCommand::SetAllowance { .. } => allowances(turn, to, command, limit)?,
            other => uploads(turn, to, other, limit)?,
        }))
    }
}

/// Commands about bytes that belong to no blob yet, or no longer.
fn uploads(
    turn: &mut Turn<'_>,
    to: &Address,
    command: &BlobCommand,
    limit: u64,
) -> Result<BlobResponse, TurnError> {
    match command {
        BlobCommand::Stage(bytes) => {
            let container = container(turn, to)?.id;
            let body = next_version(turn)?;
            let staged = block::stage(turn, to, (container, body), bytes)?;
            return Ok(BlobResponse::Staged(staged));
        }
        BlobCommand::Append { staged, bytes } => {
            let staged = block::append(turn, to, *staged, bytes)?;
            return Ok(BlobResponse::Staged(staged));
        }
        BlobCommand::PutBlock {
            name,
            id,
            staged,
            conditions,
        } => put_block(turn, to, (name, id), *staged, conditions, limit)?,
        BlobCommand::Discard { body } => block::discard(turn, to, *body)?,
        BlobCommand::ExpireBlock {
            container,
            name,
            body,
        } => block::expire(turn, to, *container, name, *body)?,
        BlobCommand::Sweep { container, names } => {
            for name in names {
                sweep(turn, to, *container, name)?;
            }
        }
        // All others are handled above.
        _ => {}
    }
    Ok(BlobResponse::Done)
}

/// Commands about what accounts take, and their allowances of the limit.
fn allowances(
    turn: &mut Turn<'_>,
    to: &Address,
    command: &BlobCommand,
    limit: u64,
) -> Result<BlobResponse, TurnError> {
    match command {
        BlobCommand::CheckRoom {
            name,
            block,
            length,
            uploaded,
        } => {
            check_name(name)?;
            let container = container(turn, to)?.id;
            let before = match block {
                Some(id) => block::block_bytes(turn, container, name, id)?,
                None => {
                    let found = find(turn, container, name)?;
                    name_bytes(turn, container, name, found.as_ref())?
                }
            };
            let after = BLOB_ENTRY_BYTES + length;
            usage::check_room(turn, to, (before, after), *uploaded, limit)?;
        }
        BlobCommand::SetCounts {
            changes,
            containers,
        } => usage::set_counts(turn, *changes, containers)?,
        BlobCommand::WithdrawAllowance { version } => {
            return allowance::withdraw(turn, to, *version, limit);
        }
        BlobCommand::ClaimAllowance {
            partition,
            bytes,
            withdrawn,
            is_complete,
        } => {
            let claim = AllowanceClaim {
                partition: *partition,
                bytes: *bytes,
                withdrawn,
                is_complete: *is_complete,
            };
            return allowance::claim(turn, to, &claim, limit);
        }
        BlobCommand::SetAllowance { allowance } => allowance::set(turn, to, *allowance)?,
        // All others are handled elsewhere.
        _ => {}
    }
    Ok(BlobResponse::Done)
}

/// Removes a blob and its blocks, with no regard to leases and conditions.
fn sweep(turn: &mut Turn<'_>, to: &Address, container: u64, name: &str) -> Result<(), TurnError> {
    let found = find(turn, container, name)?;
    let before = name_bytes(turn, container, name, found.as_ref())?;
    forget_blocks(turn, container, name)?;
    turn.delete(BLOCKS, &blob_key(container, name));
    if let Some(blob) = &found {
        forget_body(turn, container, blob)?;
        turn.delete(BLOBS, &blob_key(container, name));
    }
    let change = UsageChange {
        blobs: -i64::from(found.is_some()),
        ..UsageChange::from(before, 0)
    };
    usage::uncount(turn, to, container, change)
}

/// The source of a blob's body.
#[derive(Clone, Copy)]
enum BodySource<'a> {
    /// It is part of the command.
    Here,
    Staged(UploadHandle),
    Blocks(&'a [BlockChoice]),
}

fn create(
    turn: &mut Turn<'_>,
    to: &Address,
    metadata: &[(String, String)],
) -> Result<BlobResponse, TurnError> {
    check_pairs(metadata)?;
    if turn.get(CONTAINERS, &to.name)?.is_some() {
        let words = "the container is there already; use it";
        return Err(Error::new(ErrorKind::ContainerExists, words).into());
    }
    if turn.get(CONTAINERS, COUNTER)?.is_none() {
        usage::start_counting(turn);
    }
    let version = next_version(turn)?;
    let made = Container {
        id: version,
        version,
        modified: turn.time(),
        metadata: metadata.to_vec(),
    };
    turn.put(CONTAINERS, &to.name, keys::encode(&made));
    Ok(BlobResponse::Container(made))
}

fn write(
    turn: &mut Turn<'_>,
    to: &Address,
    put: &PutBlobRequest,
    body: BodySource<'_>,
    conditions: &Conditions,
    limit: u64,
) -> Result<BlobResponse, TurnError> {
    put.check()?;
    let container = container(turn, to)?.id;
    let found = find(turn, container, &put.name)?;
    conditions.check(found.as_ref())?;
    let held = found.as_ref().and_then(|found| found.lease);
    let lease = lease::check_write(held, conditions.lease, turn.time())?;
    let before = name_bytes(turn, container, &put.name, found.as_ref())?;
    let version = next_version(turn)?;
    let mut blob = Blob {
        name: put.name.clone(),
        version,
        created: found.as_ref().map_or(turn.time(), |found| found.created),
        modified: turn.time(),
        length: put.body.len() as u64,
        content_type: put.content_type.clone(),
        metadata: put.metadata.clone(),
        properties: put.properties.clone(),
        body: version,
        blocks: None,
        lease,
    };
    if let BodySource::Blocks(choices) = body {
        let place = (put.name.as_str(), version);
        blob.length = block::commit(turn, container, found.as_ref(), place, choices)?;
        blob.blocks = Some(choices.len() as u32);
    } else {
        if let Some(found) = &found {
            forget_body(turn, container, found)?;
        }
        forget_blocks(turn, container, &put.name)?;
    }
    match body {
        BodySource::Here => {
            let at = UploadHandle {
                body: version,
                length: 0,
            };
            block::put_pieces(turn, container, at, &put.body);
        }
        BodySource::Staged(staged) => {
            block::take(turn, container, staged)?;
            (blob.body, blob.length) = (staged.body, staged.length);
        }
        BodySource::Blocks(_) => {}
    }
    store(turn, container, &blob);
    let uploads = match body {
        BodySource::Staged(staged) => -(staged.length as i64),
        BodySource::Here | BodySource::Blocks(_) => 0,
    };
    let change = UsageChange {
        uploads,
        blobs: i64::from(found.is_none()),
        ..UsageChange::from(before, blob_bytes(turn, container, &blob)?)
    };
    usage::count(turn, to, container, change, limit)?;
    let before = found.map(|found| found.metadata).unwrap_or_default();
    Ok(BlobResponse::Blob { blob, before })
}

fn put_block(
    turn: &mut Turn<'_>,
    to: &Address,
    (name, id): (&str, &str),
    staged: UploadHandle,
    conditions: &Conditions,
    limit: u64,
) -> Result<(), TurnError> {
    check_name(name)?;
    check_block_id(id)?;
    let container = container(turn, to)?.id;
    let held = find(turn, container, name)?.and_then(|found| found.lease);
    lease::check_write(held, conditions.lease, turn.time())?;
    let former = block::put_block(turn, container, name, id, staged)?;
    let change = UsageChange {
        uploads: -(staged.length as i64),
        ..UsageChange::from(former, BLOB_ENTRY_BYTES + staged.length)
    };
    usage::count(turn, to, container, change, limit)
}

fn blocks(turn: &mut Turn<'_>, to: &Address, name: &str) -> Result<BlobResponse, TurnError> {
    check_name(name)?;
    let container = container(turn, to)?.id;
    let blob = find(turn, container, name)?;
    let uncommitted = block::uncommitted(turn, container, name)?.blocks;
    let committed = match &blob {
        Some(blob) => block::committed(turn, container, blob)?,
        None if uncommitted.is_empty() => return Err(missing().into()),
        None => Vec::new(),
    };
    Ok(BlobResponse::Blocks {
        blob,
        committed,
        uncommitted,
    })
}

fn act(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    action: LeaseAction,
    conditions: &Conditions,
) -> Result<BlobResponse, TurnError> {
    let (container, mut blob) = existing(turn, to, name)?;
    conditions.check(Some(&blob))?;
    blob.lease = lease::act(blob.lease, action, turn.time())?;
    store(turn, container, &blob);
    Ok(unchanged(blob))
}

fn describe(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    metadata: &[(String, String)],
    conditions: &Conditions,
) -> Result<BlobResponse, TurnError> {
    check_pairs(metadata)?;
    // Before the conditions: clients fall back to a write on this error.
    let (container, mut blob) = existing(turn, to, name)?;
    conditions.check(Some(&blob))?;
    blob.lease = lease::check_write(blob.lease, conditions.lease, turn.time())?;
    let before = std::mem::replace(&mut blob.metadata, metadata.to_vec());
    blob.version = next_version(turn)?;
    blob.modified = turn.time();
    store(turn, container, &blob);
    Ok(BlobResponse::Blob { blob, before })
}

fn delete(
    turn: &mut Turn<'_>,
    to: &Address,
    name: &str,
    conditions: &Conditions,
) -> Result<BlobResponse, TurnError> {
    let (container, blob) = existing(turn, to, name)?;
    conditions.check(Some(&blob))?;
    lease::check_write(blob.lease, conditions.lease, turn.time())?;
    let before = name_bytes(turn, container, name, Some(&blob))?;
    forget_body(turn, container, &blob)?;
    forget_blocks(turn, container, name)?;
    turn.delete(BLOBS, &blob_key(container, name));
    let change = UsageChange {
        blobs: -1,
        ..UsageChange::from(before, 0)
    };
    usage::uncount(turn, to, container, change)?;
    Ok(unchanged(blob))
}

fn unchanged(blob: Blob) -> BlobResponse {
    let before = blob.metadata.clone();
    BlobResponse::Blob { blob, before }
}

fn store(turn: &mut Turn<'_>, container: u64, blob: &Blob) {
    let key = blob_key(container, &blob.name);
    turn.put(BLOBS, &key, keys::encode(blob));
}

fn existing(turn: &mut Turn<'_>, to: &Address, name: &str) -> Result<(u64, Blob), TurnError> {
    check_name(name)?;
    let container = container(turn, to)?.id;
    match find(turn, container, name)? {
        Some(blob) => Ok((container, blob)),
        None => Err(missing().into()),
    }
}

fn missing() -> Error {
    let words = "the blob is not there; write it first";
    Error::new(ErrorKind::BlobNotFound, words)
}

fn container(turn: &mut Turn<'_>, to: &Address) -> Result<Container, TurnError> {
    let Some(row) = turn.get(CONTAINERS, &to.name)? else {
        let words = "the container is not there; create it first";
        return Err(Error::new(ErrorKind::ContainerNotFound, words).into());
    };
    keys::decode(&row).map_err(|_| Error::damaged("a container").into())
}

fn find(turn: &mut Turn<'_>, container: u64, name: &str) -> Result<Option<Blob>, TurnError> {
    match turn.get(BLOBS, &blob_key(container, name))? {
        Some(row) => match keys::decode(&row) {
            Ok(blob) => Ok(Some(blob)),
            Err(_) => Err(Error::damaged("a blob").into()),
        },
        None => Ok(None),
    }
}

/// Versions of all containers of a partition, and the ids of the containers, come
/// from one counter.
fn next_version(turn: &mut Turn<'_>) -> Result<u64, TurnError> {
    let last = turn.get(CONTAINERS, COUNTER)?;
    let last = last.and_then(|last| last.as_ref().try_into().ok());
    let next = last.map_or(1, |last| u64::from_be_bytes(last) + 1);
    turn.put(CONTAINERS, COUNTER, next.to_be_bytes().to_vec());
    Ok(next)
}
