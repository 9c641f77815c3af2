//! The blobs API for the rest of the node.
//!
//! Processors of the SDKs store their ownerships and checkpoints as blobs. A write
//! that changes an owner there disconnects the group's readers of the partition, like
//! a claim in our own store.

use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use steadfast_core::limits::{BLOB_PIECE_BYTES, SCAN_ROWS};
use steadfast_partition::{Address, Handle, RemoteReader, Router, Runtime, Space};

use crate::blob::checkpoint_blob_name::CheckpointBlobName;
use crate::blob::claim_locks::ClaimLocks;
use crate::blob::command::{BlobCommand, BlobResponse};
use crate::blob::key::{list_key, piece_key};
use crate::blob::lease::LeaseAction;
use crate::blob::record::{Blob, BlobPairs, BlockList, Conditions, Container, PutBlobRequest};
use crate::blob::service::BlobService;
use crate::error::{Error, ErrorKind, Result};
use crate::hubs::EventHubs;
use crate::keys::{self, BLOB, BLOCK_LISTS, CONTAINERS, PIECES};

/// All blobs of a space. Cheap to clone.
#[derive(Clone)]
pub struct Blobs {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) space: Space,
    pub(super) router: Arc<Router>,
    pub(super) containers: Handle<BlobService>,
    hubs: EventHubs,
    pub(super) claims: ClaimLocks,
}

/// The location of the bytes of one version of a blob. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Layout {
    container: String,
    id: u64,
    /// Bodies and their lengths, in order.
    runs: Arc<[(u64, u64)]>,
}

impl Blobs {
    /// The blobs of a runtime's space.
    pub fn new(runtime: &Runtime, hubs: EventHubs) -> Self {
        let inner = Inner {
            space: runtime.space().clone(),
            router: Arc::clone(runtime.router()),
            containers: runtime.handle(),
            hubs,
            claims: ClaimLocks::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Creates a container. Its name is `account/container`, or any other unique name
    /// of the caller.
    pub async fn create_container(
        &self,
        container: &str,
        metadata: BlobPairs,
    ) -> Result<Container> {
        self.container_of(container, BlobCommand::Create { metadata })
            .await
    }

    /// A container.
    pub async fn container(&self, container: &str) -> Result<Container> {
        self.container_of(container, BlobCommand::Find).await
    }

    /// Writes a blob: metadata and body together.
    pub async fn put(
        &self,
        container: &str,
        put: PutBlobRequest,
        conditions: Conditions,
    ) -> Result<Blob> {
        put.check()?;
        let name = put.name.clone();
        let command = BlobCommand::Put { put, conditions };
        self.write(container, &name, command).await
    }

    /// Replaces the metadata of an existing blob.
    pub async fn describe(
        &self,
        container: &str,
        name: &str,
        metadata: BlobPairs,
        conditions: Conditions,
    ) -> Result<Blob> {
        let command = BlobCommand::Describe {
            name: name.to_owned(),
            metadata,
            conditions,
        };
        self.write(container, name, command).await
    }

    /// Removes a blob.
    pub async fn delete(&self, container: &str, name: &str, conditions: Conditions) -> Result<()> {
        let name = name.to_owned();
        let command = BlobCommand::Delete { name, conditions };
        self.call(container, command).await.map(drop)
    }

    /// Acquires, renews, changes, releases or breaks the lease of a blob.
    pub async fn lease(
        &self,
        container: &str,
        name: &str,
        action: LeaseAction,
        conditions: Conditions,
    ) -> Result<Blob> {
        let command = BlobCommand::Lease {
            name: name.to_owned(),
            action,
            conditions,
        };
        self.write(container, name, command).await
    }

    /// A blob without its body.
    pub async fn get(&self, container: &str, name: &str) -> Result<Blob> {
        let name = name.to_owned();
        match self.call(container, BlobCommand::Get { name }).await? {
            BlobResponse::Blob { blob, .. } => Ok(blob),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// A blob and a part of its body, or all of it.
    pub async fn read(
        &self,
        container: &str,
        name: &str,
        range: Option<Range<u64>>,
    ) -> Result<(Blob, Bytes)> {
        // A write between the two reads replaces the body: then retry.
        const ATTEMPTS: u32 = 8;
        for _ in 0..ATTEMPTS {
            let blob = self.get(container, name).await?;
            let range = range.clone().unwrap_or(0..blob.length);
            if let Some(body) = self.part(container, &blob, range).await? {
                return Ok((blob, body));
            }
        }
        let words = format!("blob '{name}' is being overwritten continuously; retry");
        Err(Error::new(ErrorKind::Unavailable, words))
    }

    /// A part of the body of a blob in this version; `None` if it was overwritten
    /// since.
    pub async fn part(
        &self,
        container: &str,
        blob: &Blob,
        range: Range<u64>,
    ) -> Result<Option<Bytes>> {
        let end = range.end.min(blob.length);
        match self.layout(container, blob).await? {
            Some(layout) => self.bytes(&layout, range.start.min(end)..end).await,
            None => Ok(None),
        }
    }

    /// The layout of the body of this version; `None` if it was overwritten since.
    pub async fn layout(&self, container: &str, blob: &Blob) -> Result<Option<Layout>> {
        let id = self.container(container).await?.id;
        let runs = match blob.blocks {
            None => vec![(blob.body, blob.length)],
            Some(_) => {
                let window = self.window(container);
                let row = window.row(BLOCK_LISTS, &list_key(id, blob.body)).await?;
                let Some(row) = row else {
                    return Ok(None);
                };
                let list = keys::decode::<BlockList>(&row);
                let list = list.map_err(|_| Error::damaged("a list of blocks"))?;
                let runs = list.blocks.iter().map(|block| (block.body, block.length));
                runs.collect()
            }
        };
        Ok(Some(Layout {
            container: container.to_owned(),
            id,
            runs: runs.into(),
        }))
    }

    /// Removes the ownerships and checkpoints of a deleted event hub from all containers
    /// that this node serves: they would mislead processors of a new event hub of the
    /// same name. Returns their number.
    pub async fn forget_event_hub(&self, hub: &str) -> Result<u64> {
        self.forget_marks(hub, None).await
    }

    /// As [`Blobs::forget_event_hub`], for one deleted group.
    pub async fn forget_group(&self, hub: &str, group: &str) -> Result<u64> {
        self.forget_marks(hub, Some(group)).await
    }

    async fn forget_marks(&self, hub: &str, group: Option<&str>) -> Result<u64> {
        let mut count = 0;
        for container in self.containers().await? {
            count += match self.forget_marks_in(&container, hub, group).await {
                // The container was removed concurrently, with its blobs.
                Err(error) if error.kind() == ErrorKind::ContainerNotFound => 0,
                forgotten => forgotten?,
            };
        }
        Ok(count)
    }

    async fn forget_marks_in(
        &self,
        container: &str,
        hub: &str,
        group: Option<&str>,
    ) -> Result<u64> {
        let mut count = 0;
        let mut from = Some(String::new());
        while let Some(start) = from {
            let page = self.list(container, "", &start, SCAN_ROWS / 10).await?;
            let is_meant = |blob: &&Blob| {
                CheckpointBlobName::of(&blob.name).is_some_and(|mark| {
                    let is_group = |group| mark.group.eq_ignore_ascii_case(group);
                    mark.hub.eq_ignore_ascii_case(hub) && group.is_none_or(is_group)
                })
            };
            let meant = page.blobs.iter().filter(is_meant);
            let names: Vec<_> = meant.map(|blob| blob.name.clone()).collect();
            if !names.is_empty() {
                count += names.len() as u64;
                let id = self.container(container).await?.id;
                // The event hub was deleted: a lease does not protect the blob.
                let sweep = BlobCommand::Sweep {
                    container: id,
                    names,
                };
                self.call(container, sweep).await?;
            }
            from = page.next;
        }
        Ok(count)
    }

    /// The names of all containers.
    pub(super) async fn containers(&self) -> Result<Vec<String>> {
        let found = self.list_containers().await?;
        Ok(found.into_iter().map(|(name, _)| name).collect())
    }

    /// All containers, by name.
    pub async fn list_containers(&self) -> Result<Vec<(String, Container)>> {
        let mut found = Vec::new();
        for partition in self.inner.space.all() {
            let window = self.inner.router.reader(partition);
            // No name is empty; the row of that key is a counter.
            let mut last = Bytes::new();
            loop {
                let (from, to) = (Bound::Excluded(last.clone()), Bound::Unbounded);
                let rows = window.rows(CONTAINERS, from, to, SCAN_ROWS).await?;
                let count = rows.len();
                for row in rows {
                    let container = keys::decode(&row.value);
                    let container = container.map_err(|_| Error::damaged("a container"))?;
                    let name = String::from_utf8_lossy(&row.key).into_owned();
                    found.push((name, container));
                    last = row.key;
                }
                if count < SCAN_ROWS {
                    break;
                }
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// A byte range of a body; `None` if its blob was overwritten since.
    pub async fn bytes(&self, layout: &Layout, range: Range<u64>) -> Result<Option<Bytes>> {
        let window = self.window(&layout.container);
        let mut found = BytesMut::with_capacity((range.end - range.start.min(range.end)) as usize);
        let mut start = 0;
        for (body, length) in layout.runs.iter().copied() {
            let end = start + length;
            let mut at = range.start.max(start);
            while at < range.end.min(end) {
                let within = at - start..range.end.min(end) - start;
                let key = (layout.id, body);
                let Some(part) = piece(&window, key, within).await? else {
                    return Ok(None);
                };
                at += part.len() as u64;
                found.extend_from_slice(&part);
            }
            start = end;
        }
        Ok(Some(found.freeze()))
    }

    pub(super) async fn write(
        &self,
        container: &str,
        name: &str,
        command: BlobCommand,
    ) -> Result<Blob> {
        let BlobResponse::Blob { blob, before } = self.call(container, command).await? else {
            return Err(Error::damaged("a reply"));
        };
        if let Some(claim) = CheckpointBlobName::of(name).filter(|mark| mark.is_ownership) {
            let owner = |pairs: &BlobPairs| {
                let found = pairs
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case("ownerid"));
                found.map(|(_, owner)| owner.clone()).unwrap_or_default()
            };
            let (before, now) = (owner(&before), owner(&blob.metadata));
            if before != now {
                self.cut(&claim, &now).await;
            }
        }
        Ok(blob)
    }

    /// Disconnects readers after a change of a partition's owner. The blob may name an
    /// event hub that does not exist.
    async fn cut(&self, claim: &CheckpointBlobName<'_>, owner: &str) {
        if let Ok(known) = self.inner.hubs.known_group(claim.hub, claim.group).await {
            let hubs = &self.inner.hubs;
            let changed = (None, owner);
            hubs.owner_changed(&known, claim.group, claim.partition, changed)
                .await;
        }
    }

    pub(super) async fn container_of(
        &self,
        container: &str,
        command: BlobCommand,
    ) -> Result<Container> {
        match self.call(container, command).await? {
            BlobResponse::Container(container) => Ok(container),
            _ => Err(Error::damaged("a reply")),
        }
    }

    pub(super) async fn call(&self, container: &str, command: BlobCommand) -> Result<BlobResponse> {
        crate::blob::record::check_name(container)?;
        if !command.needs_room() {
            return self.send(container, command).await;
        }
        match self.send(container, command.clone()).await {
            Err(error) if error.kind() == ErrorKind::AccountFull => {
                self.call_with_room(container, &command).await
            }
            done => done,
        }
    }

    /// Calls a container, whatever room its account has.
    pub(super) async fn send(&self, container: &str, command: BlobCommand) -> Result<BlobResponse> {
        let reply = self.inner.containers.call(address(container), command);
        Ok(reply.await?)
    }

    pub(super) fn window(&self, container: &str) -> RemoteReader {
        let place = self.inner.space.partition(&address(container));
        self.inner.router.reader(place)
    }
}

/// The part of a range that lies in its first piece.
async fn piece(
    window: &RemoteReader,
    (id, body): (u64, u64),
    range: Range<u64>,
) -> Result<Option<Bytes>> {
    let size = BLOB_PIECE_BYTES as u64;
    let number = range.start / size;
    let key = piece_key(id, body, number as u32);
    let Some(found) = window.row(PIECES, &key).await? else {
        return Ok(None);
    };
    let start = (range.start % size) as usize;
    let end = ((range.end - number * size) as usize).min(found.len());
    if start < end {
        Ok(Some(found.slice(start..end)))
    } else {
        Err(Error::damaged("a piece of a blob"))
    }
}

pub(super) fn address(container: &str) -> Address {
    Address::new(BLOB, container.to_owned(), "")
}
