//! Blobs as the rest of the node uses them.
//!
//! Processors of the SDKs keep their ownerships and checkpoints as blobs. A write
//! that changes an owner there cuts off whoever reads the partition for the group,
//! like a claim in our own store.

use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use steadfast_core::limits::{BLOB_PIECE_BYTES, SCAN_ROWS};
use steadfast_partition::{Address, Handle, Router, Runtime, Space, Window};

use crate::blob::mark::Mark;
use crate::blob::record::{Blob, BlobCommand, BlobReply, Conditions, Container, Pairs, Put};
use crate::blob::service::{Containers, blob_key, piece_key};
use crate::error::{Error, Kind, Result};
use crate::hubs::EventHubs;
use crate::place::{self, BLOB, BLOBS, CONTAINERS, PIECES};

/// All blobs of a space. Cheap to clone.
#[derive(Clone)]
pub struct Blobs {
    inner: Arc<Inner>,
}

struct Inner {
    space: Space,
    router: Arc<Router>,
    containers: Handle<Containers>,
    hubs: EventHubs,
}

/// Some blobs of a container, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub blobs: Vec<Blob>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<String>,
}

impl Blobs {
    /// The blobs of a runtime's space.
    pub fn new(runtime: &Runtime, hubs: EventHubs) -> Self {
        let inner = Inner {
            space: runtime.space().clone(),
            router: Arc::clone(runtime.router()),
            containers: runtime.handle(),
            hubs,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Makes a container. Its name is `account/container`, or whatever the caller
    /// keeps apart.
    pub async fn create_container(&self, container: &str, metadata: Pairs) -> Result<Container> {
        self.container_of(container, BlobCommand::Create { metadata })
            .await
    }

    /// A container.
    pub async fn container(&self, container: &str) -> Result<Container> {
        self.container_of(container, BlobCommand::Find).await
    }

    /// Removes a container with all its blobs. Once it is gone its blobs go, too, also if
    /// nobody waits for that any more.
    pub async fn delete_container(&self, container: &str) -> Result<()> {
        let (own, container) = (self.clone(), container.to_owned());
        let deleting = tokio::spawn(async move { own.delete_whole(&container).await });
        deleting.await.unwrap_or_else(|_| Err(Error::broken_off()))
    }

    async fn delete_whole(&self, container: &str) -> Result<()> {
        let removed = self.container_of(container, BlobCommand::Remove).await?;
        let mut from = String::new();
        loop {
            let page = self
                .page(container, removed.id, "", &from, SCAN_ROWS / 10)
                .await?;
            let names = page.blobs.into_iter().map(|blob| blob.name).collect();
            let sweep = BlobCommand::Sweep {
                container: removed.id,
                names,
            };
            self.call(container, sweep).await?;
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Writes a blob: description and body at once.
    pub async fn put(&self, container: &str, put: Put, conditions: Conditions) -> Result<Blob> {
        put.check()?;
        let name = put.name.clone();
        let command = BlobCommand::Put { put, conditions };
        self.write(container, &name, command).await
    }

    /// Replaces the metadata of a blob, which must be there.
    pub async fn describe(
        &self,
        container: &str,
        name: &str,
        metadata: Pairs,
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

    /// A blob without its body.
    pub async fn get(&self, container: &str, name: &str) -> Result<Blob> {
        let name = name.to_owned();
        match self.call(container, BlobCommand::Get { name }).await? {
            BlobReply::Blob { blob, .. } => Ok(blob),
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
        // A write between the two reads replaces the body: then look again.
        const ATTEMPTS: u32 = 8;
        for _ in 0..ATTEMPTS {
            let id = self.container(container).await?.id;
            let blob = self.get(container, name).await?;
            let range = range.clone().unwrap_or(0..blob.length);
            let range = range.start.min(blob.length)..range.end.min(blob.length);
            if let Some(body) = self.body(container, id, &blob, range).await? {
                return Ok((blob, body));
            }
        }
        let words = format!("blob '{name}' is being written over and over; try again");
        Err(Error::new(Kind::Unavailable, words))
    }

    /// A part of the body of a blob in this version; `None` if it was written
    /// meanwhile.
    pub async fn part(
        &self,
        container: &str,
        blob: &Blob,
        range: Range<u64>,
    ) -> Result<Option<Bytes>> {
        let id = self.container(container).await?.id;
        let end = range.end.min(blob.length);
        self.body(container, id, blob, range.start.min(end)..end)
            .await
    }

    /// Blobs whose name begins with `prefix`, from `from` on, `limit` at most.
    pub async fn list(
        &self,
        container: &str,
        prefix: &str,
        from: &str,
        limit: usize,
    ) -> Result<Page> {
        let id = self.container(container).await?.id;
        self.page(container, id, prefix, from, limit).await
    }

    /// Removes the ownerships and checkpoints of an event hub from all containers
    /// that this node serves, when the event hub is gone: they would keep processors
    /// from an event hub of the same name. Answers how many there were.
    pub async fn forget_event_hub(&self, hub: &str) -> Result<u64> {
        let mut count = 0;
        for container in self.containers().await? {
            let mut from = Some(String::new());
            while let Some(start) = from {
                let page = self.list(&container, "", &start, SCAN_ROWS / 10).await?;
                let is_meant = |blob: &&Blob| {
                    Mark::of(&blob.name).is_some_and(|mark| mark.hub.eq_ignore_ascii_case(hub))
                };
                for blob in page.blobs.iter().filter(is_meant) {
                    let deleted = self.delete(&container, &blob.name, Conditions::default());
                    match deleted.await {
                        Err(error) if error.kind() != Kind::BlobNotFound => return Err(error),
                        _ => count += 1,
                    }
                }
                from = page.next;
            }
        }
        Ok(count)
    }

    /// The containers of all partitions.
    pub(super) async fn containers(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for partition in self.inner.space.all() {
            let window = self.inner.router.window(partition);
            let (from, to) = (Bound::Unbounded, Bound::Unbounded);
            let rows = window.rows(CONTAINERS, from, to, SCAN_ROWS).await?;
            let names = rows.into_iter().map(|row| row.key);
            let names = names.filter_map(|name| String::from_utf8(name.to_vec()).ok());
            found.extend(names.filter(|name| !name.is_empty()));
        }
        Ok(found)
    }

    async fn page(
        &self,
        container: &str,
        id: u64,
        prefix: &str,
        from: &str,
        limit: usize,
    ) -> Result<Page> {
        let window = self.window(container);
        let limit = limit.clamp(1, SCAN_ROWS - 1);
        let start = Bytes::from(blob_key(id, prefix.max(from)));
        let end = Bytes::from((id + 1).to_be_bytes().to_vec());
        let rows = window.rows(
            BLOBS,
            Bound::Included(start),
            Bound::Excluded(end),
            limit + 1,
        );
        let mut page = Page::default();
        for row in rows.await? {
            let blob: Blob = place::decode(&row.value).map_err(|_| Error::damaged("a blob"))?;
            if !blob.name.starts_with(prefix) {
                break;
            }
            if page.blobs.len() == limit {
                page.next = Some(blob.name);
                break;
            }
            page.blobs.push(blob);
        }
        Ok(page)
    }

    /// A part of a body; `None` if the blob was written meanwhile.
    async fn body(
        &self,
        container: &str,
        id: u64,
        blob: &Blob,
        range: Range<u64>,
    ) -> Result<Option<Bytes>> {
        let size = BLOB_PIECE_BYTES as u64;
        let window = self.window(container);
        let mut body = BytesMut::with_capacity((range.end - range.start.min(range.end)) as usize);
        let mut at = range.start;
        while at < range.end {
            let piece = (at / size) as u32;
            let key = piece_key(id, blob.body, piece);
            let Some(found) = window.row(PIECES, &key).await? else {
                return Ok(None);
            };
            let start = (at % size) as usize;
            let end = ((range.end - u64::from(piece) * size) as usize).min(found.len());
            let Some(part) = found.get(start..end).filter(|part| !part.is_empty()) else {
                return Err(Error::damaged("a piece of a blob"));
            };
            body.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(Some(body.freeze()))
    }

    async fn write(&self, container: &str, name: &str, command: BlobCommand) -> Result<Blob> {
        let BlobReply::Blob { blob, before } = self.call(container, command).await? else {
            return Err(Error::damaged("a reply"));
        };
        if let Some(claim) = Mark::of(name).filter(|mark| mark.is_ownership) {
            let owner = |pairs: &Pairs| {
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

    /// A partition's owner has changed. A blob may look like an ownership of an
    /// event hub that is not there.
    async fn cut(&self, claim: &Mark<'_>, owner: &str) {
        if let Ok(known) = self.inner.hubs.known_group(claim.hub, claim.group).await {
            let hubs = &self.inner.hubs;
            let changed = (None, owner);
            hubs.owner_changed(&known, claim.group, claim.partition, changed)
                .await;
        }
    }

    async fn container_of(&self, container: &str, command: BlobCommand) -> Result<Container> {
        match self.call(container, command).await? {
            BlobReply::Container(container) => Ok(container),
            _ => Err(Error::damaged("a reply")),
        }
    }

    async fn call(&self, container: &str, command: BlobCommand) -> Result<BlobReply> {
        crate::blob::record::check_name(container)?;
        let reply = self.inner.containers.call(address(container), command);
        Ok(reply.await?)
    }

    fn window(&self, container: &str) -> Window {
        let place = self.inner.space.partition(&address(container));
        self.inner.router.window(place)
    }
}

fn address(container: &str) -> Address {
    Address::new(BLOB, container.to_owned(), "")
}
