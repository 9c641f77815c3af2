//! The entries of one folder and which of them are durable.
//!
//! Changes since the last sync are an ordered list; after a power cut a prefix of it survives.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The number of a node: a file or folder.
pub(super) type Inode = u64;

pub(super) type FolderEntries = BTreeMap<OsString, Inode>;

#[derive(Default)]
pub(super) struct DiskFolder {
    live: FolderEntries,
    durable: FolderEntries,
    pending: Vec<PendingEntry>,
}

/// One operation on the entries that is not durable yet.
pub(super) struct PendingEntry {
    pub(super) operation: u64,
    /// The other folder of a rename between two folders.
    pub(super) peer: Option<Inode>,
    changes: Vec<EntryChange>,
}

/// A name and the node that it refers to from now on.
pub(super) type EntryChange = (OsString, Option<Inode>);

impl DiskFolder {
    /// Entries that are all durable.
    pub(super) fn durable(entries: FolderEntries) -> DiskFolder {
        DiskFolder {
            live: entries.clone(),
            durable: entries,
            pending: Vec::new(),
        }
    }

    pub(super) fn get(&self, name: &OsStr) -> Option<Inode> {
        self.live.get(name).copied()
    }

    pub(super) fn live(&self) -> &FolderEntries {
        &self.live
    }

    pub(super) fn into_durable(self) -> FolderEntries {
        self.durable
    }

    pub(super) fn pending(&self) -> &[PendingEntry] {
        &self.pending
    }

    /// All nodes that a current, durable or pending entry refers to.
    pub(super) fn references(&self) -> impl Iterator<Item = Inode> + '_ {
        let pending = self.pending.iter().flat_map(|pending| &pending.changes);
        let entries = self.live.values().chain(self.durable.values());
        entries
            .copied()
            .chain(pending.filter_map(|(_, inode)| *inode))
    }

    /// Changes entries in one step.
    pub(super) fn change(
        &mut self,
        operation: u64,
        peer: Option<Inode>,
        changes: Vec<EntryChange>,
    ) {
        apply(&mut self.live, &changes);
        self.pending.push(PendingEntry {
            operation,
            peer,
            changes,
        });
    }

    /// Makes all operations before the moment durable and returns those that have a peer.
    pub(super) fn settle(&mut self, moment: u64) -> Vec<(u64, Inode)> {
        let end = self
            .pending
            .partition_point(|pending| pending.operation < moment);
        let mut shared = Vec::new();
        for pending in self.pending.drain(..end) {
            apply(&mut self.durable, &pending.changes);
            shared.extend(pending.peer.map(|peer| (pending.operation, peer)));
        }
        shared
    }
}

fn apply(entries: &mut FolderEntries, changes: &[EntryChange]) {
    for (name, inode) in changes {
        match inode {
            Some(inode) => entries.insert(name.clone(), *inode),
            None => entries.remove(name),
        };
    }
}
