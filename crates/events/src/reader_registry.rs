//! The readers of this node, and their admission.
//!
//! In a cluster, a node registers the readers of all nodes for the partitions that it
//! owns.
//!
//! Per event hub, group and partition: one reader with an epoch, or a few without.
//! An older reader is disconnected before a newer one is admitted, atomically, so
//! there are never two owners of a partition. The registry is in memory only.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use steadfast_core::limits;
use tokio::sync::{Notify, watch};

use crate::error::{Error, ErrorKind, Result};
use crate::reader_options::ReaderOptions;

/// What a reader reads: event hub, group in lower case, partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderKey {
    pub(crate) hub: u64,
    pub(crate) group: Arc<str>,
    pub(crate) partition: u32,
}

/// All readers of this node.
#[derive(Default)]
pub(crate) struct ReaderRegistry {
    readers: Mutex<HashMap<ReaderKey, Vec<Entry>>>,
    /// The latest known claims, with their versions. A reader that names an owner is
    /// admitted only for the current one.
    owners: Mutex<HashMap<ReaderKey, (u64, String)>>,
    /// Notified when dead letters are to be replayed.
    bells: Mutex<HashMap<ReaderKey, Arc<Notify>>>,
    next: AtomicU64,
    counters: ReaderCounters,
}

#[derive(Default)]
struct ReaderCounters {
    displaced: AtomicU64,
    refused: AtomicU64,
    overlaps: AtomicU64,
}

/// Reader counters of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Readers that are attached now.
    pub attached: u64,
    /// Readers that were disconnected because another displaced them.
    pub displaced: u64,
    /// Readers that were rejected.
    pub refused: u64,
    /// Partitions with two owners of one group at the same time; always 0.
    pub overlaps: u64,
}

struct Entry {
    number: u64,
    name: String,
    epoch: Option<i64>,
    cut: Arc<DisconnectSignal>,
}

/// Tells a reader that it is disconnected, and why.
pub(crate) struct DisconnectSignal {
    is_cut: AtomicBool,
    why: watch::Sender<Option<Error>>,
}

impl DisconnectSignal {
    pub(crate) fn new() -> Self {
        Self {
            is_cut: AtomicBool::new(false),
            why: watch::channel(None).0,
        }
    }

    pub(crate) fn disconnect(&self, why: Error) {
        self.is_cut.store(true, Ordering::Release);
        self.why.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(why);
            is_first
        });
    }

    /// Why the reader was disconnected, if it was.
    pub(crate) fn error(&self) -> Option<Error> {
        if self.is_cut.load(Ordering::Acquire) {
            self.why.borrow().clone()
        } else {
            None
        }
    }

    /// Waits until the reader is disconnected.
    pub(crate) fn wait(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut why = self.why.subscribe();
        async move {
            match why.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(error)) => error.clone(),
                // The reader itself was dropped.
                _ => Error::new(ErrorKind::Displaced, "the reader was closed"),
            }
        }
    }
}

/// The registration of a reader, removed on drop.
pub(crate) struct ReaderGuard {
    registry: Arc<ReaderRegistry>,
    key: ReaderKey,
    number: u64,
    pub(crate) cut: Arc<DisconnectSignal>,
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let mut spots = self.registry.readers.lock();
        if let Some(entries) = spots.get_mut(&self.key) {
            entries.retain(|entry| entry.number != self.number);
            if entries.is_empty() {
                spots.remove(&self.key);
            }
        }
    }
}

impl ReaderRegistry {
    /// Admits or rejects a reader. Readers that must yield are disconnected first. A
    /// reader that moves from a previous owner displaces no reader of its own epoch.
    pub(crate) fn attach(
        self: &Arc<Self>,
        spot: ReaderKey,
        attach: &ReaderOptions,
        is_back: bool,
    ) -> Result<ReaderGuard> {
        let (name, epoch) = (attach.name.as_str(), attach.epoch);
        let mut spots = self.readers.lock();
        if let Some(owner) = &attach.owner {
            self.check_owner(&spot, owner)?;
        }
        let entries = spots.entry(spot.clone()).or_default();
        let same = entries.iter().find(|entry| entry.epoch == epoch);
        let judged = match (epoch, same) {
            (Some(epoch), Some(same)) if is_back => {
                let words = format!(
                    "Receiver '{}' with epoch '{epoch}' has come while the partition moved, \
                     hence receiver '{name}' is getting disconnected.",
                    same.name
                );
                Err(Error::new(ErrorKind::Displaced, words))
            }
            (Some(epoch), _) => self.take_over(entries, name, epoch),
            (None, _) => admit(entries, name),
        };
        if let Err(error) = judged {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            if entries.is_empty() {
                spots.remove(&spot);
            }
            return Err(error);
        }
        if epoch.is_some() && !entries.is_empty() {
            // Disconnected readers have left the list: it must be empty.
            self.counters.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = Arc::new(DisconnectSignal::new());
        entries.push(Entry {
            number,
            name: name.to_owned(),
            epoch,
            cut: Arc::clone(&cut),
        });
        drop(spots);
        Ok(ReaderGuard {
            registry: Arc::clone(self),
            key: spot,
            number,
            cut,
        })
    }

    fn take_over(&self, entries: &mut Vec<Entry>, name: &str, epoch: i64) -> Result<()> {
        let higher = entries.iter().find(|entry| entry.epoch > Some(epoch));
        if let Some(Entry {
            name: old,
            epoch: Some(held),
            ..
        }) = higher
        {
            let words = format!(
                "Receiver '{old}' with a higher epoch '{held}' already exists. Receiver \
                 '{name}' with epoch {epoch} cannot be created. Make sure you are creating \
                 receiver with increasing epoch value to ensure connectivity, or ensure all \
                 old epoch receivers are closed or disconnected."
            );
            return Err(Error::new(ErrorKind::LowerEpoch, words));
        }
        for entry in entries.drain(..) {
            let held = entry
                .epoch
                .map_or("none".to_owned(), |held| held.to_string());
            let words = format!(
                "New receiver '{name}' with higher epoch of '{epoch}' is created hence current \
                 receiver '{}' with epoch '{held}' is getting disconnected. If you are \
                 recreating the receiver, make sure a higher epoch is used.",
                entry.name
            );
            self.displace(&entry, Error::new(ErrorKind::Displaced, words));
        }
        Ok(())
    }

    /// Records a claim, unless a later one is known, and disconnects the readers.
    pub(crate) fn owner_changed(&self, spot: &ReaderKey, claim: Option<(u64, &str)>, why: &Error) {
        // The lock of the readers is held, so no reader is admitted in between.
        let mut spots = self.readers.lock();
        if let Some((version, owner)) = claim {
            let mut owners = self.owners.lock();
            let known = owners.entry(spot.clone()).or_default();
            if version < known.0 {
                return;
            }
            *known = (version, owner.to_owned());
        }
        for entry in spots.remove(spot).unwrap_or_default() {
            self.displace(&entry, why.clone());
        }
    }

    fn check_owner(&self, spot: &ReaderKey, owner: &str) -> Result<()> {
        match self.owners.lock().get(spot) {
            Some((_, known)) if known != owner => {
                let words = format!("'{known}' owns the partition, so '{owner}' is not let in.");
                Err(Error::new(ErrorKind::Displaced, words))
            }
            _ => Ok(()),
        }
    }

    /// Notifies the processor of this partition; returns whether there is one.
    pub(crate) fn ring(&self, spot: &ReaderKey) -> bool {
        let bells = self.bells.lock();
        let bell = bells.get(spot);
        bell.inspect(|bell| bell.notify_one()).is_some()
    }

    /// Adds the replay notification of the partition's processor.
    pub(crate) fn add_bell(&self, spot: &ReaderKey) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        self.bells.lock().insert(spot.clone(), Arc::clone(&bell));
        bell
    }

    /// Removes a replay notification, if it is still registered.
    pub(crate) fn remove_bell(&self, spot: &ReaderKey, bell: &Arc<Notify>) {
        let mut bells = self.bells.lock();
        if bells
            .get(spot)
            .is_some_and(|other| Arc::ptr_eq(other, bell))
        {
            bells.remove(spot);
        }
    }

    /// Disconnects all readers of an event hub, or of one group.
    pub(crate) fn disconnect_all(&self, hub: u64, group: Option<&str>, why: &Error) {
        let is_meant =
            |spot: &ReaderKey| spot.hub == hub && group.is_none_or(|group| *spot.group == *group);
        let mut spots = self.readers.lock();
        let meant: Vec<_> = spots
            .keys()
            .filter(|spot| is_meant(spot))
            .cloned()
            .collect();
        for spot in meant {
            for entry in spots.remove(&spot).unwrap_or_default() {
                self.displace(&entry, why.clone());
            }
        }
        self.owners.lock().retain(|spot, _| !is_meant(spot));
    }

    fn displace(&self, entry: &Entry, why: Error) {
        self.counters.displaced.fetch_add(1, Ordering::Relaxed);
        entry.cut.disconnect(why);
    }

    pub(crate) fn counts(&self) -> ReaderCounts {
        let attached = self.readers.lock().values().map(Vec::len).sum::<usize>();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReaderCounts {
            attached: attached as u64,
            displaced: read(&self.counters.displaced),
            refused: read(&self.counters.refused),
            overlaps: read(&self.counters.overlaps),
        }
    }
}

fn admit(entries: &[Entry], name: &str) -> Result<()> {
    if let Some(held) = entries.iter().find_map(|entry| entry.epoch) {
        let words = format!(
            "At least one receiver for the endpoint is created with epoch of '{held}', and so \
             non-epoch receiver is not allowed. Either reconnect with a higher epoch, or make \
             sure all epoch receivers are closed or disconnected."
        );
        return Err(Error::new(ErrorKind::EpochRequired, words));
    }
    if entries.len() >= limits::GROUP_READERS {
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let words = format!(
            "Exceeded the maximum number of allowed receivers per partition in a consumer \
             group which is {}. List of connected receivers - {}. '{name}' was not let in.",
            limits::GROUP_READERS,
            names.join(", ")
        );
        return Err(Error::new(ErrorKind::TooManyReaders, words));
    }
    Ok(())
}
