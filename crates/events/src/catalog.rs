//! The service that stores event hub definitions.
//!
//! All are in one instance, so that they can be listed. Hub partitions learn of a
//! change through messages of the same commit.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::limits;
use steadfast_partition::{
    Address, Envelope, Message, Service, ServiceKind, Turn, TurnError, TurnOutcome,
};

use crate::definition::{
    AccessPolicy, DEFAULT_GROUP, EventHub, EventHubDefinition, EventRetention, check_group_name,
};
use crate::error::{Error, ErrorKind};
use crate::hash::partition_of;
use crate::hub_partition_command::{HubPartitionCommand, PublishCommand};
use crate::keys::{self, CATALOG, HUB_PARTITION, HUBS, INDEX, TURNS, folded, message};
use crate::ownership::OwnershipCommand;
use crate::sealer::{KeyVault, OpenedHub};

/// Stores event hub definitions.
pub(crate) struct Catalog {
    vault: KeyVault,
}

impl Catalog {
    pub(crate) fn new(vault: KeyVault) -> Self {
        Self { vault }
    }
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum CatalogCommand {
    /// Creates an event hub; with `true`, updates an existing one.
    #[n(0)]
    Create {
        #[n(0)]
        definition: EventHubDefinition,
        #[n(1)]
        is_ensured: bool,
    },
    #[n(1)]
    Change {
        #[n(0)]
        name: String,
        #[n(1)]
        what: EventHubChange,
    },
    #[n(2)]
    Delete(String),
    #[n(3)]
    Get(String),
    #[n(4)]
    List,
    /// Forwards a publication of another service to its hub partition.
    #[n(5)]
    Publish(PublishMessage),
}

/// A publication that another service sends in its own commit. The event hub is
/// resolved by name on arrival, so the message holds no id.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct PublishMessage {
    #[n(0)]
    pub(crate) hub: String,
    #[n(1)]
    pub(crate) partition: Option<u32>,
    #[n(2)]
    pub(crate) key: Option<String>,
    #[n(3)]
    pub(crate) count: u32,
    #[n(4)]
    pub(crate) blob: Bytes,
}

/// A change of an event hub.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", name = "Change", closed)]
pub enum EventHubChange {
    #[n(0)]
    Retention(EventRetention),
    #[n(1)]
    AddGroup(String),
    #[n(2)]
    RemoveGroup(String),
    /// Replaces a policy of the same name.
    #[n(3)]
    PutPolicy(AccessPolicy),
    #[n(4)]
    RemovePolicy(String),
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum CatalogResponse {
    #[n(0)]
    Hub(EventHub),
    #[n(1)]
    Hubs(Vec<EventHub>),
    #[n(2)]
    Forwarded,
}

message!(CatalogCommand, CatalogResponse);

/// The one row of the index.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
struct Index {
    #[n(0)]
    last_id: u64,
    /// Lower-case names, sorted.
    #[n(1)]
    names: Vec<String>,
}

impl Service for Catalog {
    type Command = CatalogCommand;
    type Response = CatalogResponse;

    fn kind(&self) -> ServiceKind {
        CATALOG
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        _: &Address,
        command: &CatalogCommand,
    ) -> Result<TurnOutcome<CatalogResponse>, TurnError> {
        let vault = &self.vault;
        let reply = match command {
            CatalogCommand::Create {
                definition,
                is_ensured,
            } => CatalogResponse::Hub(create(vault, turn, definition, *is_ensured)?),
            CatalogCommand::Change { name, what } => {
                CatalogResponse::Hub(change(vault, turn, name, what)?)
            }
            CatalogCommand::Delete(name) => CatalogResponse::Hub(delete(vault, turn, name)?),
            CatalogCommand::Get(name) => CatalogResponse::Hub(get(vault, turn, name)?),
            CatalogCommand::List => CatalogResponse::Hubs(list(vault, turn)?),
            CatalogCommand::Publish(letter) => {
                pass_on(vault, turn, letter)?;
                CatalogResponse::Forwarded
            }
        };
        Ok(TurnOutcome::Now(reply))
    }
}

fn create(
    vault: &KeyVault,
    turn: &mut Turn<'_>,
    definition: &EventHubDefinition,
    is_ensured: bool,
) -> Result<EventHub, TurnError> {
    definition.check()?;
    if let Some(found) = stored(vault, turn, &definition.name)? {
        return if is_ensured {
            bring_in_line(vault, turn, found, definition)
        } else {
            Err(exists(&definition.name).into())
        };
    }
    let mut index = index(turn)?;
    if index.names.len() >= limits::EVENT_HUBS {
        let most = limits::EVENT_HUBS;
        let words = format!("there are {most} event hubs, which is the limit; delete one first");
        return Err(Error::new(ErrorKind::BadDefinition, words).into());
    }
    index.last_id += 1;
    let name = folded(&definition.name);
    let at = index.names.partition_point(|other| *other < name);
    index.names.insert(at, name);
    turn.put(INDEX, b"", keys::encode(&index));
    let hub = EventHub::of(index.last_id, definition, turn.time());
    put(vault, turn, &hub, Vec::new());
    Ok(hub)
}

/// Updates an event hub to match a definition. Groups that the definition does not
/// name stay: they were created at run time.
fn bring_in_line(
    vault: &KeyVault,
    turn: &mut Turn<'_>,
    opened: OpenedHub,
    definition: &EventHubDefinition,
) -> Result<EventHub, TurnError> {
    let OpenedHub {
        hub: found,
        mut locked,
        ..
    } = opened;
    if found.partitions != definition.partitions {
        let words = format!(
            "event hub '{}' has {} partitions, not {}; this never changes, so use another name",
            found.name, found.partitions, definition.partitions
        );
        return Err(Error::new(ErrorKind::Exists, words).into());
    }
    let mut hub = found.clone();
    hub.retention = definition.retention;
    for group in &definition.groups {
        hub.add_group(group, turn.time());
    }
    for policy in &definition.policies {
        put_policy(&mut hub, &mut locked, policy)?;
    }
    if hub == found {
        Ok(found)
    } else {
        Ok(replace(vault, turn, hub, locked, found.retention))
    }
}

fn change(
    vault: &KeyVault,
    turn: &mut Turn<'_>,
    name: &str,
    change: &EventHubChange,
) -> Result<EventHub, TurnError> {
    let found = stored(vault, turn, name)?;
    let OpenedHub {
        mut hub,
        mut locked,
        ..
    } = found.ok_or_else(|| Error::hub(name))?;
    let retention = hub.retention;
    match change {
        EventHubChange::Retention(retention) => {
            retention.check()?;
            hub.retention = *retention;
        }
        EventHubChange::AddGroup(group) => {
            check_group_name(group)?;
            if hub.groups.len() >= limits::CONSUMER_GROUPS {
                let words = "the event hub has too many consumer groups; delete one first";
                return Err(Error::new(ErrorKind::BadDefinition, words).into());
            }
            if !hub.add_group(group, turn.time()) {
                return Err(exists(group).into());
            }
        }
        EventHubChange::RemoveGroup(group) => remove_group(turn, &mut hub, group)?,
        EventHubChange::PutPolicy(policy) => put_policy(&mut hub, &mut locked, policy)?,
        EventHubChange::RemovePolicy(name) => {
            // A policy whose keys cannot be decrypted can only be removed.
            let before = hub.policies.len() + locked.len();
            hub.policies.retain(|policy| policy.name != *name);
            locked.retain(|policy| policy.name != *name);
            if hub.policies.len() + locked.len() == before {
                let words = format!("event hub '{}' has no policy '{name}'", hub.name);
                return Err(Error::new(ErrorKind::PolicyNotFound, words).into());
            }
        }
    }
    Ok(replace(vault, turn, hub, locked, retention))
}

fn remove_group(turn: &mut Turn<'_>, hub: &mut EventHub, group: &str) -> Result<(), TurnError> {
    if folded(group) == folded(DEFAULT_GROUP) {
        let words = "the default consumer group cannot be deleted; leave it unused";
        return Err(Error::new(ErrorKind::BadDefinition, words).into());
    }
    let before = hub.groups.len();
    hub.groups
        .retain(|other| folded(&other.name) != folded(group));
    if hub.groups.len() == before {
        return Err(Error::group(&hub.name, group).into());
    }
    let forget = HubPartitionCommand::Forget {
        hub: hub.id,
        group: folded(group),
    };
    tell_slots(turn, hub, &forget);
    forget_claims(turn, hub, group);
    Ok(())
}

fn put_policy(
    hub: &mut EventHub,
    locked: &mut Vec<AccessPolicy>,
    policy: &AccessPolicy,
) -> Result<(), Error> {
    if policy.name.is_empty() || policy.name.len() > limits::EVENT_HUB_NAME {
        let words = "a policy needs a name of at most 256 bytes; give it one";
        return Err(Error::new(ErrorKind::BadDefinition, words));
    }
    hub.policies.retain(|other| other.name != policy.name);
    locked.retain(|other| other.name != policy.name);
    if hub.policies.len() + locked.len() >= limits::HUB_POLICIES {
        let words = "the event hub has too many policies; delete one first";
        return Err(Error::new(ErrorKind::BadDefinition, words));
    }
    hub.policies.push(policy.clone());
    Ok(())
}

/// Writes a changed event hub, and notifies its hub partitions.
fn replace(
    vault: &KeyVault,
    turn: &mut Turn<'_>,
    mut hub: EventHub,
    locked: Vec<AccessPolicy>,
    retention: EventRetention,
) -> EventHub {
    hub.revision += 1;
    put(vault, turn, &hub, locked);
    if hub.retention != retention {
        let terms = hub.terms();
        tell_slots(turn, &hub, &HubPartitionCommand::Configure(terms));
    }
    hub
}

fn delete(vault: &KeyVault, turn: &mut Turn<'_>, name: &str) -> Result<EventHub, TurnError> {
    let hub = get(vault, turn, name)?;
    let mut index = index(turn)?;
    index.names.retain(|other| *other != folded(name));
    turn.put(INDEX, b"", keys::encode(&index));
    turn.delete(HUBS, folded(name).as_bytes());
    turn.delete(TURNS, &hub.id.to_be_bytes());
    let groups = hub.groups.iter().map(|group| folded(&group.name)).collect();
    tell_slots(
        turn,
        &hub,
        &HubPartitionCommand::Close {
            hub: hub.id,
            groups,
        },
    );
    for group in &hub.groups {
        forget_claims(turn, &hub, &group.name);
    }
    Ok(hub)
}

fn forget_claims(turn: &mut Turn<'_>, hub: &EventHub, group: &str) {
    let to = keys::ownership_address(hub.id, &folded(group));
    let clear = OwnershipCommand::Clear(hub.partitions);
    turn.send(Envelope::new(to, Message::encode(&clear)));
}

fn tell_slots(turn: &mut Turn<'_>, hub: &EventHub, command: &HubPartitionCommand) {
    let (name, body) = (folded(&hub.name), Message::encode(command));
    for slot in 0..hub.partitions {
        let partition = turn.partition_of(HUB_PARTITION, &name, slot);
        turn.send_to(
            partition,
            Envelope::new(keys::hub_partition_address(&name, slot), body.clone()),
        );
    }
}

/// Sends a publication to its hub partition, exactly once: a message of this commit.
fn pass_on(
    vault: &KeyVault,
    turn: &mut Turn<'_>,
    letter: &PublishMessage,
) -> Result<(), TurnError> {
    let hub = get(vault, turn, &letter.hub)?;
    let slot = match (letter.partition, &letter.key) {
        (Some(slot), _) if slot < hub.partitions => slot,
        (Some(_), _) => return Err(Error::partition(&hub.name, hub.partitions).into()),
        (None, Some(key)) => partition_of(key, hub.partitions),
        (None, None) => next_turn(turn, &hub)?,
    };
    let publish = HubPartitionCommand::Publish(PublishCommand {
        terms: hub.terms(),
        count: letter.count,
        blob: letter.blob.clone(),
        stamp: None,
    });
    let name = folded(&hub.name);
    let partition = turn.partition_of(HUB_PARTITION, &name, slot);
    let envelope = Envelope::new(
        keys::hub_partition_address(&name, slot),
        Message::encode(&publish),
    );
    turn.send_to(partition, envelope);
    Ok(())
}

/// The next hub partition, round-robin.
fn next_turn(turn: &mut Turn<'_>, hub: &EventHub) -> Result<u32, TurnError> {
    let key = hub.id.to_be_bytes();
    let former = turn.get(TURNS, &key)?;
    let former = former.and_then(|row| row.as_ref().try_into().ok());
    let next = former.map_or(0, |row| u32::from_be_bytes(row).wrapping_add(1));
    turn.put(TURNS, &key, next.to_be_bytes().to_vec());
    Ok(next % hub.partitions)
}

fn list(vault: &KeyVault, turn: &mut Turn<'_>) -> Result<Vec<EventHub>, TurnError> {
    let index = index(turn)?;
    let rows: Vec<_> = index.names.iter().map(|n| (HUBS, n.as_bytes())).collect();
    turn.need(&rows)?;
    let found = index.names.iter().map(|name| find(vault, turn, name));
    Ok(found
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

fn get(vault: &KeyVault, turn: &mut Turn<'_>, name: &str) -> Result<EventHub, TurnError> {
    find(vault, turn, name)?.ok_or_else(|| Error::hub(name).into())
}

fn find(vault: &KeyVault, turn: &mut Turn<'_>, name: &str) -> Result<Option<EventHub>, TurnError> {
    let Some(opened) = stored(vault, turn, name)? else {
        return Ok(None);
    };
    let OpenedHub { hub, locked, .. } = opened;
    for policy in locked.iter().filter(|policy| vault.tells(&hub, policy)) {
        // It was encrypted with another key, or copied here; it signs nothing.
        tracing::warn!(
            event = "events.policy_locked",
            hub = hub.name,
            policy = policy.name
        );
    }
    Ok(Some(hub))
}

/// An event hub, and its policies whose keys cannot be decrypted. Keys stored in plain
/// text are encrypted now.
fn stored(
    vault: &KeyVault,
    turn: &mut Turn<'_>,
    name: &str,
) -> Result<Option<OpenedHub>, TurnError> {
    let Some(row) = turn.get(HUBS, folded(name).as_bytes())? else {
        return Ok(None);
    };
    let Ok(hub) = keys::decode(&row) else {
        return Err(Error::damaged("the definition of an event hub").into());
    };
    let opened = vault.opened(hub);
    if opened.is_plain {
        put(vault, turn, &opened.hub, opened.locked.clone());
    }
    Ok(Some(opened))
}

fn index(turn: &mut Turn<'_>) -> Result<Index, TurnError> {
    match turn.get(INDEX, b"")? {
        Some(row) => match keys::decode(&row) {
            Ok(index) => Ok(index),
            Err(_) => Err(Error::damaged("the list of event hubs").into()),
        },
        None => Ok(Index::default()),
    }
}

/// Writes an event hub; policies whose keys cannot be decrypted stay as stored.
fn put(vault: &KeyVault, turn: &mut Turn<'_>, hub: &EventHub, locked: Vec<AccessPolicy>) {
    let mut sealed = vault.sealed(hub);
    sealed.policies.extend(locked);
    turn.put(HUBS, folded(&hub.name).as_bytes(), keys::encode(&sealed));
}

fn exists(name: &str) -> Error {
    let words = format!("'{name}' exists already; use it, or another name");
    Error::new(ErrorKind::Exists, words)
}
