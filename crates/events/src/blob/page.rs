//! Lists of blobs, flat or by delimiter.
//!
//! Also the deletion of containers with all their blobs.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::limits::SCAN_ROWS;
use steadfast_core::task::name_task;

use crate::blob::command::BlobCommand;
use crate::blob::key::{blob_key, pieces};
use crate::blob::record::Blob;
use crate::blob::store::Blobs;
use crate::error::{Error, Result};
use crate::keys::{self, BLOBS, BLOCKS};

/// Approximate number of pieces that one command removes.
const SWEPT_PIECES: u32 = 4096;

/// A page of the blobs of a container, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPage {
    pub blobs: Vec<Blob>,
    /// Common name prefixes up to a delimiter, each for all blobs that share it.
    pub prefixes: Vec<String>,
    /// The start of the next page; `None` if this is the last.
    pub next: Option<String>,
}

impl BlobPage {
    fn len(&self) -> usize {
        self.blobs.len() + self.prefixes.len()
    }
}

impl Blobs {
    /// Blobs whose name begins with `prefix`, from `from` on, `limit` at most.
    pub async fn list(
        &self,
        container: &str,
        prefix: &str,
        from: &str,
        limit: usize,
    ) -> Result<BlobPage> {
        self.list_by(container, (prefix, ""), from, limit).await
    }

    /// As [`Blobs::list`], but blobs with the delimiter after the prefix are collapsed
    /// into one entry: their name up to it. An empty delimiter collapses nothing.
    pub async fn list_by(
        &self,
        container: &str,
        (prefix, delimiter): (&str, &str),
        from: &str,
        limit: usize,
    ) -> Result<BlobPage> {
        let id = self.container(container).await?.id;
        let limit = limit.clamp(1, SCAN_ROWS - 1);
        let mut page = BlobPage::default();
        let mut start = Some(blob_key(id, prefix.max(from)));
        while let Some(key) = start.take() {
            let names = (prefix, delimiter);
            start = self
                .fill(container, id, names, key, &mut page, limit)
                .await?;
        }
        Ok(page)
    }

    /// Adds the rows from a key on. Returns where to continue, if rows were skipped.
    async fn fill(
        &self,
        container: &str,
        id: u64,
        (prefix, delimiter): (&str, &str),
        key: Vec<u8>,
        page: &mut BlobPage,
        limit: usize,
    ) -> Result<Option<Vec<u8>>> {
        let start = Bound::Included(Bytes::from(key));
        let end = Bound::Excluded(Bytes::from((id + 1).to_be_bytes().to_vec()));
        let window = self.window(container);
        let rows = window.rows(BLOBS, start, end, limit + 1 - page.len());
        let rows = rows.await?;
        // A prefix whose blobs continue after these rows is skipped by its key.
        let is_full = rows.len() > limit - page.len();
        let last = rows.last().map(|row| row.key.clone());
        let mut passed: Option<Vec<u8>> = None;
        for row in rows {
            if passed.as_ref().is_some_and(|key| row.key[..] < key[..]) {
                continue;
            }
            passed = None;
            let blob: Blob = keys::decode(&row.value).map_err(|_| Error::damaged("a blob"))?;
            let Some(rest) = blob.name.strip_prefix(prefix) else {
                return Ok(None);
            };
            if page.len() == limit {
                page.next = Some(blob.name);
                return Ok(None);
            }
            let cut = rest.find(delimiter).filter(|_| !delimiter.is_empty());
            let Some(cut) = cut else {
                page.blobs.push(blob);
                continue;
            };
            let common = &blob.name[..prefix.len() + cut + delimiter.len()];
            passed = Some(behind(blob_key(id, common)));
            page.prefixes.push(common.to_owned());
        }
        // Rows of one prefix are one entry, so the page may have space for more.
        let next = || passed.or_else(|| last.map(|key| [&key[..], &[0]].concat()));
        Ok(is_full.then(next).flatten())
    }

    /// Removes a container with all its blobs. Once the container is removed, the
    /// removal of its blobs continues even if the caller drops this future.
    pub async fn delete_container(&self, container: &str) -> Result<()> {
        let (own, container) = (self.clone(), container.to_owned());
        let deleting = tokio::spawn(name_task(async move {
            let removed = own.container_of(&container, BlobCommand::Remove).await?;
            own.sweep(&container, removed.id).await
        }));
        deleting
            .await
            .unwrap_or_else(|_| Err(Error::shutting_down()))
    }

    async fn sweep(&self, container: &str, id: u64) -> Result<()> {
        let window = self.window(container);
        for table in [BLOCKS, BLOBS] {
            loop {
                let start = Bound::Included(Bytes::from(blob_key(id, "")));
                let end = Bound::Excluded(Bytes::from((id + 1).to_be_bytes().to_vec()));
                let rows = window.rows(table, start, end, SCAN_ROWS / 10).await?;
                let (mut names, mut size) = (Vec::new(), 0);
                for row in rows {
                    let name = String::from_utf8_lossy(&row.key[size_of::<u64>()..]);
                    names.push(name.into_owned());
                    let blob = keys::decode::<Blob>(&row.value);
                    size += blob.map_or(SWEPT_PIECES, |blob| pieces(blob.length));
                    if size >= SWEPT_PIECES {
                        break;
                    }
                }
                if names.is_empty() {
                    break;
                }
                let sweep = BlobCommand::Sweep {
                    container: id,
                    names,
                };
                self.call(container, sweep).await?;
            }
        }
        Ok(())
    }
}

/// The first key after all that start with `key`, which must hold a byte below 0xFF:
/// a container's number does.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    while key.last() == Some(&u8::MAX) {
        key.pop();
    }
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}
