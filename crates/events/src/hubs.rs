//! The event hubs API for the rest of the node.
//!
//! Cheap to clone; all clones share a cache of definitions and the readers. A cached
//! definition is dropped when a hub partition reports that it is out of date.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock};
use steadfast_core::id::{Partition, StreamId};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{Handle, RemoteReader, Router, Runtime, Services, Space};
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use crate::blob::service::BlobService;
use crate::catalog::{Catalog, CatalogCommand, CatalogResponse, EventHubChange};
use crate::definition::{EventHub, EventHubDefinition, EventHubTerms};
use crate::error::{Error, ErrorKind, Result};
use crate::hub_partition::{HubPartitions, stream_of};
use crate::hub_partition_command::{HubPartitionCommand, HubPartitionResponse};
use crate::keys::{self, HUB_PARTITION, folded};
use crate::local_processors::LocalProcessors;
use crate::ownership::OwnershipService;
use crate::position::{self, EventPosition};
use crate::reader::{PartitionProperties, PartitionReader, ReaderAttachment};
use crate::reader_lease::{ReaderLeaseClient, ReaderLeases};
use crate::reader_options::ReaderOptions;
use crate::reader_registry::{ReaderCounts, ReaderKey, ReaderRegistry};
use crate::sealer::{KeyVault, Sealer};
use crate::traffic::{Counter, Traffic};

/// Adds the services of this crate to those of a node. Policy keys are stored in plain
/// text.
pub fn register(services: Services) -> Services {
    all(services, KeyVault::default())
}

/// Adds the services of this crate to those of a node. Policy keys are encrypted; all
/// nodes of a cluster must be able to decrypt each other's.
pub fn register_sealed(services: Services, sealer: Arc<dyn Sealer>) -> Services {
    all(services, KeyVault::new(sealer))
}

/// Replaces the limit of what all blobs of an account take together, which is
/// `limits::BLOB_ACCOUNT_BYTES` otherwise. All nodes of a cluster have the same limit.
pub fn limit_blob_accounts(services: Services, bytes: u64) -> Services {
    services.with(BlobService {
        account_limit: bytes,
    })
}

fn all(services: Services, vault: KeyVault) -> Services {
    services
        .with(Catalog::new(vault))
        .with(HubPartitions)
        .with(OwnershipService)
        .with(BlobService {
            account_limit: limits::BLOB_ACCOUNT_BYTES,
        })
}

/// All event hubs of a space.
#[derive(Clone)]
pub struct EventHubs {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) space: Space,
    pub(crate) router: Arc<Router>,
    catalog: Handle<Catalog>,
    pub(crate) slots: Handle<HubPartitions>,
    pub(crate) claims: Handle<OwnershipService>,
    known: RwLock<HashMap<String, Arc<CachedHub>>>,
    /// Counts definition changes observed by this node.
    revisions: watch::Sender<u64>,
    pub(crate) live: Arc<ReaderRegistry>,
    /// Changes when this node gains or loses ownership of a partition.
    pub(crate) changes: watch::Receiver<u64>,
    /// Processors of this node that handle partitions the node owns.
    pub(crate) followers: Arc<LocalProcessors>,
    pub(crate) traffic: Arc<Counter>,
}

/// A cached event hub definition.
pub(crate) struct CachedHub {
    pub(crate) hub: Arc<EventHub>,
    pub(crate) terms: EventHubTerms,
    /// Its name in lower case.
    pub(crate) name: Arc<str>,
    /// Round-robin counter for publications without a key, shared by all versions.
    turns: Arc<AtomicU32>,
    streams: Arc<[OnceCell<StreamId>]>,
    /// When the catalog was last read, shared by all versions.
    asked: Arc<Mutex<Instant>>,
}

impl Inner {
    fn revised(&self) {
        self.revisions.send_modify(|number| *number += 1);
    }
}

impl CachedHub {
    /// Whether the definition is due for a refresh. Of several concurrent callers, one
    /// gets true.
    fn is_due(&self) -> bool {
        let (now, mut asked) = (Instant::now(), self.asked.lock());
        let is_due = now >= *asked + limits::POLICY_LOOK;
        if is_due {
            *asked = now;
        }
        is_due
    }

    pub(crate) fn next_partition(&self) -> u32 {
        self.turns.fetch_add(1, Ordering::Relaxed) % self.hub.partitions
    }

    pub(crate) fn check(&self, partition: u32) -> Result<()> {
        if partition < self.hub.partitions {
            Ok(())
        } else {
            Err(Error::partition(&self.hub.name, self.hub.partitions))
        }
    }
}

impl EventHubs {
    /// The event hubs of a runtime's space, whose services must hold [`register`]'s.
    pub fn new(runtime: &Runtime) -> Self {
        let inner = Inner {
            space: runtime.space().clone(),
            router: Arc::clone(runtime.router()),
            catalog: runtime.handle(),
            slots: runtime.handle(),
            claims: runtime.handle(),
            known: RwLock::new(HashMap::new()),
            revisions: watch::Sender::new(0),
            live: Arc::default(),
            changes: runtime.changes(),
            followers: Arc::default(),
            traffic: Arc::default(),
        };
        let live = Arc::clone(&inner.live);
        let chairs = ReaderLeases::new(live, &inner.router, runtime.changes());
        inner.router.register(HUB_PARTITION, chairs);
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Creates an event hub; fails if one of that name exists.
    pub async fn create(&self, definition: EventHubDefinition) -> Result<Arc<EventHub>> {
        let command = CatalogCommand::Create {
            definition,
            is_ensured: false,
        };
        self.define(command).await
    }

    /// Creates an event hub, or updates the one of that name. Groups and policies that
    /// the definition does not name stay.
    pub async fn ensure(&self, definition: EventHubDefinition) -> Result<Arc<EventHub>> {
        let command = CatalogCommand::Create {
            definition,
            is_ensured: true,
        };
        self.define(command).await
    }

    /// Changes an event hub.
    pub async fn change(&self, name: &str, change: EventHubChange) -> Result<Arc<EventHub>> {
        let removed = match &change {
            EventHubChange::RemoveGroup(group) => Some(folded(group)),
            _ => None,
        };
        let hub = self
            .define(CatalogCommand::Change {
                name: name.to_owned(),
                what: change,
            })
            .await?;
        if let Some(group) = removed {
            let why = Error::group(&hub.name, &group);
            self.disconnect_all(&hub, Some(&group), &why).await;
        }
        Ok(hub)
    }

    /// Deletes an event hub with its events, groups and checkpoints, and disconnects
    /// its readers.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let (own, name) = (self.clone(), name.to_owned());
        // Readers are disconnected even if the caller drops this future.
        let deleting = tokio::spawn(name_task(async move {
            let hub = own.ask(CatalogCommand::Delete(name.clone())).await?;
            own.inner.known.write().remove(&folded(&name));
            own.inner.revised();
            own.disconnect_all(&hub, None, &Error::hub(&name)).await;
            Ok(())
        }));
        deleting
            .await
            .unwrap_or_else(|_| Err(Error::shutting_down()))
    }

    /// Disconnects all readers of an event hub, or of one group, at all nodes.
    async fn disconnect_all(&self, hub: &EventHub, group: Option<&str>, why: &Error) {
        self.inner.live.disconnect_all(hub.id, group, why);
        if self.inner.router.is_single_node() {
            return;
        }
        let name = folded(&hub.name);
        let partitions = (0..hub.partitions).map(|slot| {
            let usher = ReaderLeaseClient {
                router: Arc::clone(&self.inner.router),
                place: self.inner.space.partition_of(HUB_PARTITION, &name, slot),
            };
            async move { usher.disconnect_all(hub.id, group, why).await }
        });
        // An unreachable owner has lost its readers, or is about to.
        futures_util::future::join_all(partitions).await;
    }

    /// One event hub; its name may be in any case.
    pub async fn get(&self, name: &str) -> Result<Arc<EventHub>> {
        Ok(Arc::clone(&self.known(name).await?.hub))
    }

    /// One event hub, at most `limits::POLICY_LOOK` old, including changes by other
    /// nodes.
    pub async fn fresh(&self, name: &str) -> Result<Arc<EventHub>> {
        let known = self.known(name).await?;
        // In a single-node space every change passes through this node.
        if self.inner.router.is_single_node() || !known.is_due() {
            return Ok(Arc::clone(&known.hub));
        }
        match self.ask(CatalogCommand::Get(name.to_owned())).await {
            Ok(hub) => Ok(Arc::clone(&self.remember(hub).hub)),
            Err(error) => Err(self.forget_if_stale(&known, error)),
        }
    }

    /// Changes when a definition is changed through this node. Changes by other nodes
    /// are not reported.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.inner.revisions.subscribe()
    }

    /// Whether other nodes can change definitions.
    pub fn is_shared(&self) -> bool {
        !self.inner.router.is_single_node()
    }

    /// All event hubs, by name.
    pub async fn list(&self) -> Result<Vec<EventHub>> {
        let reply = self
            .inner
            .catalog
            .call(keys::catalog(), CatalogCommand::List);
        match reply.await? {
            CatalogResponse::Hubs(hubs) => Ok(hubs),
            CatalogResponse::Hub(_) | CatalogResponse::Forwarded => Err(Error::damaged("a reply")),
        }
    }

    /// Reads a partition for a group. An older reader that must yield is disconnected
    /// before this returns; a reader at the end receives what is published afterwards.
    pub async fn reader(
        &self,
        name: &str,
        group: &str,
        partition: u32,
        attach: ReaderOptions,
    ) -> Result<PartitionReader> {
        let known = self.known(name).await?;
        if known.hub.group(group).is_none() {
            return Err(Error::group(&known.hub.name, group));
        }
        let (window, stream) = self.open(&known, partition).await?;
        let beginning = position::resolve(&window, stream, attach.start).await?;
        let spot = self.reader_key(&known, group, partition);
        let hold = self.attach_reader(&known, spot, &attach).await?;
        let router = Arc::clone(&self.inner.router);
        let traffic = Arc::clone(&self.inner.traffic);
        PartitionReader::new(router, window, stream, hold, beginning, traffic).await
    }

    /// Registers a reader, locally or at the partition's owner.
    async fn attach_reader(
        &self,
        known: &CachedHub,
        spot: ReaderKey,
        attach: &ReaderOptions,
    ) -> Result<ReaderAttachment> {
        let here = |spot| {
            self.inner
                .live
                .attach(spot, attach, false)
                .map(ReaderAttachment::Local)
        };
        if self.inner.router.is_single_node() {
            return here(spot);
        }
        let usher = self.reader_lease_client(known, spot.partition);
        match usher.acquire(&spot, attach).await {
            Ok(sitting) => Ok(ReaderAttachment::Remote(sitting)),
            Err(error) if error.is_unsupported() => here(spot),
            Err(error) => Err(error),
        }
    }

    /// Reads a partition outside all groups, for inspection: it displaces no reader and
    /// ignores epochs.
    pub async fn observer(
        &self,
        name: &str,
        partition: u32,
        start: EventPosition,
    ) -> Result<PartitionReader> {
        let known = self.known(name).await?;
        let (window, stream) = self.open(&known, partition).await?;
        let beginning = position::resolve(&window, stream, start).await?;
        // No group has an empty name.
        let spot = self.reader_key(&known, "", partition);
        let seat = self
            .inner
            .live
            .attach(spot, &ReaderOptions::at(start), false)?;
        let router = Arc::clone(&self.inner.router);
        let traffic = Arc::clone(&self.inner.traffic);
        PartitionReader::new(
            router,
            window,
            stream,
            ReaderAttachment::Local(seat),
            beginning,
            traffic,
        )
        .await
    }

    /// The properties of a partition.
    pub async fn partition(&self, name: &str, partition: u32) -> Result<PartitionProperties> {
        let known = self.known(name).await?;
        let (window, stream) = self.open(&known, partition).await?;
        let head = window.stream(stream).await?;
        let time = head.map_or(known.hub.created, |head| head.time);
        let head = head.unwrap_or_default();
        Ok(PartitionProperties {
            partition,
            first_sequence: head.first.0 as i64,
            last_sequence: head.next.0 as i64 - 1,
            last_offset: head.end.0 as i64 - 1,
            last_time: time,
            is_empty: head.first == head.next,
        })
    }

    /// The number of the first event at a position, and the offset of the one before.
    pub(crate) async fn find(
        &self,
        known: &CachedHub,
        partition: u32,
        position: EventPosition,
    ) -> Result<(i64, i64)> {
        let (window, stream) = self.open(known, partition).await?;
        let next = position::resolve(&window, stream, position).await?.sequence;
        let offset = position::offset_before(&window, stream, next).await?;
        Ok((next as i64, offset))
    }

    /// Reader counters of this node.
    pub fn reader_counts(&self) -> ReaderCounts {
        self.inner.live.counts()
    }

    /// Published and delivered events of this node.
    pub fn traffic(&self) -> Traffic {
        self.inner.traffic.read()
    }

    async fn ask(&self, command: CatalogCommand) -> Result<EventHub> {
        let reply = self.inner.catalog.call(keys::catalog(), command);
        match reply.await? {
            CatalogResponse::Hub(hub) => Ok(hub),
            CatalogResponse::Hubs(_) | CatalogResponse::Forwarded => Err(Error::damaged("a reply")),
        }
    }

    async fn define(&self, command: CatalogCommand) -> Result<Arc<EventHub>> {
        let hub = self.ask(command).await?;
        Ok(Arc::clone(&self.remember(hub).hub))
    }

    /// Caches an event hub, unless a newer version is cached.
    fn remember(&self, hub: EventHub) -> Arc<CachedHub> {
        let name = folded(&hub.name);
        let mut known = self.inner.known.write();
        let before = known.get(&name).filter(|known| known.hub.id == hub.id);
        if let Some(before) = before.filter(|known| known.hub.revision >= hub.revision) {
            return Arc::clone(before);
        }
        let (turns, streams, asked) = match before {
            Some(before) => (
                Arc::clone(&before.turns),
                Arc::clone(&before.streams),
                Arc::clone(&before.asked),
            ),
            None => {
                let streams = (0..hub.partitions).map(|_| OnceCell::new()).collect();
                let asked = Arc::new(Mutex::new(Instant::now()));
                (Arc::default(), streams, asked)
            }
        };
        let found = Arc::new(CachedHub {
            terms: hub.terms(),
            name: name.as_str().into(),
            hub: Arc::new(hub),
            turns,
            streams,
            asked,
        });
        known.insert(name, Arc::clone(&found));
        drop(known);
        self.inner.revised();
        found
    }

    pub(crate) async fn known(&self, name: &str) -> Result<Arc<CachedHub>> {
        if let Some(known) = self.inner.known.read().get(&folded(name)) {
            return Ok(Arc::clone(known));
        }
        let hub = self.ask(CatalogCommand::Get(name.to_owned())).await?;
        Ok(self.remember(hub))
    }

    /// Drops an outdated event hub from the cache.
    pub(crate) fn forget(&self, known: &CachedHub) {
        let mut all = self.inner.known.write();
        if all
            .get(&*known.name)
            .is_some_and(|other| other.hub.id == known.hub.id)
        {
            all.remove(&*known.name);
        }
        drop(all);
        self.inner.revised();
        let why = Error::hub(&known.hub.name);
        self.inner.live.disconnect_all(known.hub.id, None, &why);
    }

    /// The reader key of a partition and group.
    pub(crate) fn reader_key(&self, known: &CachedHub, group: &str, partition: u32) -> ReaderKey {
        ReaderKey {
            hub: known.hub.id,
            group: folded(group).into(),
            partition,
        }
    }

    /// The store partition that hosts a hub partition.
    pub(crate) fn hosting_partition(&self, known: &CachedHub, partition: u32) -> Partition {
        self.inner
            .space
            .partition_of(HUB_PARTITION, &known.name, partition)
    }

    /// The client for reader leases at a partition's owner.
    pub(crate) fn reader_lease_client(
        &self,
        known: &CachedHub,
        partition: u32,
    ) -> ReaderLeaseClient {
        ReaderLeaseClient {
            router: Arc::clone(&self.inner.router),
            place: self.hosting_partition(known, partition),
        }
    }

    /// The durable rows and events of a hub partition, wherever it is served.
    pub(crate) fn remote_reader(&self, known: &CachedHub, partition: u32) -> RemoteReader {
        self.inner
            .router
            .reader(self.hosting_partition(known, partition))
    }

    /// The stream of a hub partition, created if missing.
    async fn open(&self, known: &CachedHub, partition: u32) -> Result<(RemoteReader, StreamId)> {
        known.check(partition)?;
        let window = self.remote_reader(known, partition);
        let cell = &known.streams[partition as usize];
        let stream = cell.get_or_try_init(|| async {
            let command = HubPartitionCommand::Open(known.terms);
            match self.send_command(known, partition, command).await? {
                HubPartitionResponse::Opened(stream) => {
                    stream_of(stream).ok_or_else(|| Error::damaged("a hub partition"))
                }
                _ => Err(Error::damaged("a reply")),
            }
        });
        Ok((window, *stream.await?))
    }

    /// Sends a command to a hub partition.
    pub(crate) async fn send_command(
        &self,
        known: &CachedHub,
        partition: u32,
        command: HubPartitionCommand,
    ) -> Result<HubPartitionResponse> {
        let to = keys::hub_partition_address(&known.name, partition);
        let place = self.hosting_partition(known, partition);
        let reply = self.inner.slots.call_in(place, to, command).await;
        reply.map_err(|error| self.forget_if_stale(known, error.into()))
    }

    /// Drops the cached definition if the hub partition reports that it is closed.
    pub(crate) fn forget_if_stale(&self, known: &CachedHub, error: Error) -> Error {
        if error.kind() != ErrorKind::HubNotFound {
            return error;
        }
        self.forget(known);
        Error::hub(&known.hub.name)
    }
}
