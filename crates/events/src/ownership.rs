//! Partition ownership in consumer groups.
//!
//! All ownerships of a group are in one instance, so that they can be listed. Every
//! write names the version that it replaces; times come from the store's clock.

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Service, ServiceKind, Turn, TurnError, TurnOutcome};

use crate::error::{Error, ErrorKind};
use crate::keys::{self, CLAIM, OWNERSHIPS, message};

/// The service that stores ownerships.
pub(crate) struct OwnershipService;

/// The owner of a partition in a group.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Ownership {
    #[n(0)]
    pub partition: u32,
    /// Empty if it was released.
    #[n(1)]
    pub owner: String,
    /// Rises with every write; 0 if there is no record.
    #[n(2)]
    pub version: u64,
    /// When it was last written.
    #[n(3)]
    pub modified: Timestamp,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum OwnershipCommand {
    /// Writes partition, expected version and owner.
    #[n(0)]
    Claim {
        #[n(0)]
        partition: u32,
        #[n(1)]
        version: u64,
        #[n(2)]
        owner: String,
    },
    /// All records of a group with so many partitions.
    #[n(1)]
    List(u32),
    /// Removes all records of a group with so many partitions.
    #[n(2)]
    Clear(u32),
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum OwnershipResponse {
    /// The record as it is now, and the owner before.
    #[n(0)]
    Claimed {
        #[n(0)]
        ownership: Ownership,
        #[n(1)]
        before: String,
    },
    /// Another write came first; the current version of the record.
    #[n(1)]
    Conflict(u64),
    #[n(2)]
    Listed(Vec<Ownership>),
}

message!(OwnershipCommand, OwnershipResponse);

/// Longest name of an owner, in bytes.
const OWNER_BYTES: usize = 256;

impl Service for OwnershipService {
    type Command = OwnershipCommand;
    type Response = OwnershipResponse;

    fn kind(&self) -> ServiceKind {
        CLAIM
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &OwnershipCommand,
    ) -> Result<TurnOutcome<OwnershipResponse>, TurnError> {
        let reply = match command {
            OwnershipCommand::Claim {
                partition,
                version,
                owner,
            } => claim(turn, to, *partition, *version, owner)?,
            OwnershipCommand::List(partitions) => {
                let found = all(turn, to, *partitions)?;
                OwnershipResponse::Listed(found)
            }
            OwnershipCommand::Clear(partitions) => {
                for ownership in all(turn, to, *partitions)? {
                    turn.delete(OWNERSHIPS, &key(to, ownership.partition));
                }
                OwnershipResponse::Listed(Vec::new())
            }
        };
        Ok(TurnOutcome::Now(reply))
    }
}

fn claim(
    turn: &mut Turn<'_>,
    to: &Address,
    partition: u32,
    expected: u64,
    owner: &str,
) -> Result<OwnershipResponse, TurnError> {
    if owner.len() > OWNER_BYTES {
        let words = format!("an owner's name has {OWNER_BYTES} bytes at most; shorten it");
        return Err(Error::new(ErrorKind::BadDefinition, words).into());
    }
    let found = find(turn, to, partition)?;
    let version = found.as_ref().map_or(0, |found| found.version);
    if version != expected {
        return Ok(OwnershipResponse::Conflict(version));
    }
    let ownership = Ownership {
        partition,
        owner: owner.to_owned(),
        version: version + 1,
        modified: turn.time(),
    };
    turn.put(OWNERSHIPS, &key(to, partition), keys::encode(&ownership));
    let before = found.map(|found| found.owner).unwrap_or_default();
    Ok(OwnershipResponse::Claimed { ownership, before })
}

fn all(turn: &mut Turn<'_>, to: &Address, partitions: u32) -> Result<Vec<Ownership>, TurnError> {
    let keys: Vec<_> = (0..partitions)
        .map(|partition| key(to, partition))
        .collect();
    let rows: Vec<_> = keys
        .iter()
        .map(|key| (OWNERSHIPS, key.as_slice()))
        .collect();
    turn.need(&rows)?;
    let mut found = Vec::new();
    for partition in 0..partitions {
        found.extend(find(turn, to, partition)?);
    }
    Ok(found)
}

fn find(turn: &mut Turn<'_>, to: &Address, partition: u32) -> Result<Option<Ownership>, TurnError> {
    match turn.get(OWNERSHIPS, &key(to, partition))? {
        Some(row) => match keys::decode(&row) {
            Ok(ownership) => Ok(Some(ownership)),
            Err(_) => Err(Error::damaged("an ownership").into()),
        },
        None => Ok(None),
    }
}

/// Event hub, group and partition.
fn key(to: &Address, partition: u32) -> Vec<u8> {
    let mut key = to.name.to_vec();
    key.extend_from_slice(&to.key);
    key.push(0);
    key.extend_from_slice(&partition.to_be_bytes());
    key
}
