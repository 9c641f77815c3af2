//! Checkpoint stores of the SDKs' processors.

use std::collections::BTreeMap;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits::{KEPT_BLOBS, SCAN_ROWS};

use crate::blob::checkpoint_blob_name::CheckpointBlobName;
use crate::blob::record::Blob;
use crate::blob::store::Blobs;
use crate::error::{ErrorKind, Result};

/// Ownership and checkpoint of one partition, as an SDK's processors store them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStoreEntry {
    pub partition: u32,
    /// The container: `account/container`.
    pub container: String,
    /// The owner, unless released, and when it was written.
    pub owner: Option<(String, Timestamp)>,
    /// The last processed event, and when it was written.
    pub checkpoint: Option<(i64, Timestamp)>,
}

impl CheckpointStoreEntry {
    /// The time of the last write.
    pub fn modified(&self) -> Option<Timestamp> {
        let owner = self.owner.as_ref().map(|(_, time)| *time);
        owner.max(self.checkpoint.map(|(_, time)| time))
    }

    fn take(&mut self, mark: &CheckpointBlobName<'_>, blob: &Blob) {
        let find = |name: &str| {
            let mut pairs = blob.metadata.iter();
            let found = pairs.find(|(own, _)| own.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        if mark.is_ownership {
            let owner = find("ownerid").filter(|owner| !owner.is_empty());
            self.owner = owner.map(|owner| (owner.to_owned(), blob.modified));
        } else {
            let sequence = find("sequencenumber").and_then(|text| text.parse().ok());
            self.checkpoint = sequence.map(|sequence| (sequence, blob.modified));
        }
    }
}

impl Blobs {
    /// Ownerships and checkpoints of a group that processors of SDKs store, in all
    /// containers that this node serves. The number of scanned blobs is bounded.
    pub async fn checkpoint_store_entries(
        &self,
        hub: &str,
        group: &str,
    ) -> Result<Vec<CheckpointStoreEntry>> {
        let mut found: BTreeMap<(String, String, u32), CheckpointStoreEntry> = BTreeMap::new();
        let mut left = KEPT_BLOBS;
        for container in self.containers().await? {
            let mut from = Some(String::new());
            while let Some(start) = from.take().filter(|_| left > 0) {
                let page = match self.list(&container, "", &start, SCAN_ROWS / 10).await {
                    // The container was removed concurrently.
                    Err(error) if error.kind() == ErrorKind::ContainerNotFound => break,
                    page => page?,
                };
                left = left.saturating_sub(page.blobs.len());
                for blob in &page.blobs {
                    let mark = CheckpointBlobName::of(&blob.name).filter(|mark| {
                        mark.hub.eq_ignore_ascii_case(hub) && mark.group.eq_ignore_ascii_case(group)
                    });
                    let Some(mark) = mark else {
                        continue;
                    };
                    let place = (container.clone(), mark.namespace.to_owned(), mark.partition);
                    let kept = found.entry(place).or_insert_with(|| CheckpointStoreEntry {
                        partition: mark.partition,
                        container: container.clone(),
                        ..CheckpointStoreEntry::default()
                    });
                    kept.take(&mark, blob);
                }
                from = page.next;
            }
        }
        Ok(found.into_values().collect())
    }
}
