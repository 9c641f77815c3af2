//! Files and folders of the fake disk, by inode number.
//!
//! A node stays as long as an entry, durable or not, or an open handle refers to it: a file whose
//! removal does not survive a cut comes back. Inode numbers are never used twice, so that the
//! kernel and late handles never mistake a node from before a cut for one from after it.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use fuser::Errno;

use super::content::DiskFileContent;
use super::folder::{DiskFolder, EntryChange, Inode};

pub(super) const ROOT: Inode = 1;

/// Removals between two searches for unreachable nodes.
const REMOVALS_PER_SWEEP: usize = 256;

pub(super) struct Tree {
    nodes: HashMap<Inode, TreeNode>,
    next_inode: Inode,
    removals: usize,
}

pub(super) struct TreeNode {
    pub(super) mode: u16,
    pub(super) handles: u32,
    /// Bytes set aside past the size.
    pub(super) reserved: u64,
    pub(super) body: NodeBody,
    linked: bool,
    parent: Inode,
    name: OsString,
}

pub(super) enum NodeBody {
    File(DiskFileContent),
    Folder(DiskFolder),
}

/// Whether a rename may replace its target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rename {
    Replace,
    KeepTarget,
    Exchange,
}

/// One end of a rename: a folder and a name in it.
#[derive(Clone, Copy)]
pub(super) struct RenameEnd<'a> {
    pub(super) folder: Inode,
    pub(super) name: &'a OsStr,
}

impl Tree {
    /// An empty tree whose inode numbers start after those of an earlier one.
    pub(super) fn empty(earlier: Option<&Tree>) -> Tree {
        let root = TreeNode::new(
            0o755,
            NodeBody::Folder(DiskFolder::default()),
            ROOT,
            OsStr::new(""),
        );
        Tree {
            nodes: HashMap::from([(ROOT, root)]),
            next_inode: earlier.map_or(ROOT + 1, |tree| tree.next_inode),
            removals: 0,
        }
    }

    pub(super) fn node(&self, inode: Inode) -> Result<&TreeNode, Errno> {
        self.nodes.get(&inode).ok_or(Errno::EIO)
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> Result<&mut TreeNode, Errno> {
        self.nodes.get_mut(&inode).ok_or(Errno::EIO)
    }

    pub(super) fn file(&self, inode: Inode) -> Result<&DiskFileContent, Errno> {
        self.node(inode)?.file()
    }

    pub(super) fn file_mut(&mut self, inode: Inode) -> Result<&mut DiskFileContent, Errno> {
        match &mut self.node_mut(inode)?.body {
            NodeBody::File(content) => Ok(content),
            NodeBody::Folder(_) => Err(Errno::EISDIR),
        }
    }

    pub(super) fn folder(&self, inode: Inode) -> Result<&DiskFolder, Errno> {
        match &self.node(inode)?.body {
            NodeBody::Folder(folder) => Ok(folder),
            NodeBody::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn folder_mut(&mut self, inode: Inode) -> Result<&mut DiskFolder, Errno> {
        match &mut self.node_mut(inode)?.body {
            NodeBody::Folder(folder) => Ok(folder),
            NodeBody::File(_) => Err(Errno::ENOTDIR),
        }
    }

    /// All inode numbers in order.
    pub(super) fn inodes(&self) -> Vec<Inode> {
        let mut inodes: Vec<_> = self.nodes.keys().copied().collect();
        inodes.sort_unstable();
        inodes
    }

    pub(super) fn lookup(&self, folder: Inode, name: &OsStr) -> Result<Inode, Errno> {
        self.folder(folder)?.get(name).ok_or(Errno::ENOENT)
    }

    /// The node at a path relative to the root.
    pub(super) fn find(&self, path: &Path) -> Result<Inode, Errno> {
        let mut inode = ROOT;
        for component in path.components() {
            if let Component::Normal(name) = component {
                inode = self.lookup(inode, name)?;
            }
        }
        Ok(inode)
    }

    /// The path relative to the root, also of a removed node.
    pub(super) fn path(&self, inode: Inode) -> PathBuf {
        let mut names = Vec::new();
        let mut node = self.nodes.get(&inode);
        while let Some(child) = node.filter(|node| !node.name.is_empty()) {
            names.push(child.name.as_os_str());
            node = self.nodes.get(&child.parent);
        }
        names.iter().rev().collect()
    }

    /// The bytes of all reachable files.
    pub(super) fn used_bytes(&self) -> u64 {
        let reachable = self.nodes.values();
        reachable
            .filter(|node| node.linked || node.handles > 0)
            .map(|node| node.reserved.max(node.size()))
            .sum()
    }

    /// Adds a node that no entry refers to yet.
    pub(super) fn add(&mut self, mode: u16, body: NodeBody, place: RenameEnd<'_>) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        let node = TreeNode::new(mode, body, place.folder, place.name);
        self.nodes.insert(inode, node);
        inode
    }

    pub(super) fn create(
        &mut self,
        operation: u64,
        place: RenameEnd<'_>,
        mode: u16,
        body: NodeBody,
    ) -> Result<Inode, Errno> {
        if self.folder(place.folder)?.get(place.name).is_some() {
            return Err(Errno::EEXIST);
        }
        let inode = self.add(mode, body, place);
        let change = (place.name.to_owned(), Some(inode));
        let folder = self.folder_mut(place.folder)?;
        folder.change(operation, None, vec![change]);
        Ok(inode)
    }

    pub(super) fn unlink(&mut self, operation: u64, place: RenameEnd<'_>) -> Result<(), Errno> {
        let inode = self.lookup(place.folder, place.name)?;
        self.file(inode)?;
        self.remove(operation, place, inode)
    }

    pub(super) fn remove_folder(
        &mut self,
        operation: u64,
        place: RenameEnd<'_>,
    ) -> Result<(), Errno> {
        let inode = self.lookup(place.folder, place.name)?;
        if !self.folder(inode)?.live().is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove(operation, place, inode)
    }

    pub(super) fn rename(
        &mut self,
        operation: u64,
        from: RenameEnd<'_>,
        to: RenameEnd<'_>,
        mode: Rename,
    ) -> Result<(), Errno> {
        let moved = self.lookup(from.folder, from.name)?;
        let target = self.folder(to.folder)?.get(to.name);
        if target == Some(moved) {
            return Ok(());
        }
        self.check_target(moved, target, mode)?;
        let left = target.filter(|_| mode == Rename::Exchange);
        let removal = (from.name.to_owned(), left);
        let insertion = (to.name.to_owned(), Some(moved));
        self.change_both(operation, (from.folder, removal), (to.folder, insertion))?;
        self.node_mut(moved)?.place(to);
        match (left, target) {
            (Some(left), _) => self.node_mut(left)?.place(from),
            (None, Some(target)) => self.unlinked(target)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// Makes the entries of a folder durable.
    pub(super) fn sync_folder(&mut self, inode: Inode) -> Result<(), Errno> {
        self.folder(inode)?;
        let mut open = vec![(u64::MAX, inode)];
        while let Some((moment, inode)) = open.pop() {
            if let Ok(folder) = self.folder_mut(inode) {
                let shared = folder.settle(moment);
                open.extend(
                    shared
                        .iter()
                        .map(|(operation, peer)| (operation + 1, *peer)),
                );
            }
        }
        if self.removals >= REMOVALS_PER_SWEEP {
            self.sweep();
        }
        Ok(())
    }

    /// Makes the entries of all folders durable.
    pub(super) fn sync_entries(&mut self) {
        for node in self.nodes.values_mut() {
            if let NodeBody::Folder(folder) = &mut node.body {
                folder.settle(u64::MAX);
            }
        }
    }

    /// Closes all handles and drops what only they kept.
    pub(super) fn close_all(&mut self) {
        self.nodes.values_mut().for_each(|node| node.handles = 0);
        self.sweep();
    }

    /// Takes a node out, to move its body elsewhere.
    pub(super) fn take(&mut self, inode: Inode) -> Option<TreeNode> {
        self.nodes.remove(&inode)
    }

    fn check_target(&self, moved: Inode, target: Option<Inode>, mode: Rename) -> Result<(), Errno> {
        let Some(target) = target else {
            return match mode {
                Rename::Exchange => Err(Errno::ENOENT),
                Rename::Replace | Rename::KeepTarget => Ok(()),
            };
        };
        match mode {
            Rename::KeepTarget => return Err(Errno::EEXIST),
            Rename::Exchange => return Ok(()),
            Rename::Replace => {}
        }
        match (&self.node(moved)?.body, &self.node(target)?.body) {
            (NodeBody::File(_), NodeBody::Folder(_)) => Err(Errno::EISDIR),
            (NodeBody::Folder(_), NodeBody::File(_)) => Err(Errno::ENOTDIR),
            (NodeBody::Folder(_), NodeBody::Folder(folder)) if !folder.live().is_empty() => {
                Err(Errno::ENOTEMPTY)
            }
            _ => Ok(()),
        }
    }

    /// Changes one entry in each of two folders, which may be the same.
    fn change_both(
        &mut self,
        operation: u64,
        (source, removal): (Inode, EntryChange),
        (target, insertion): (Inode, EntryChange),
    ) -> Result<(), Errno> {
        if source == target {
            let folder = self.folder_mut(source)?;
            folder.change(operation, None, vec![removal, insertion]);
            return Ok(());
        }
        let folder = self.folder_mut(source)?;
        folder.change(operation, Some(target), vec![removal]);
        let folder = self.folder_mut(target)?;
        folder.change(operation, Some(source), vec![insertion]);
        Ok(())
    }

    fn remove(&mut self, operation: u64, place: RenameEnd<'_>, inode: Inode) -> Result<(), Errno> {
        let change = (place.name.to_owned(), None);
        let folder = self.folder_mut(place.folder)?;
        folder.change(operation, None, vec![change]);
        self.unlinked(inode)
    }

    fn unlinked(&mut self, inode: Inode) -> Result<(), Errno> {
        self.removals += 1;
        self.node_mut(inode)?.linked = false;
        Ok(())
    }

    fn sweep(&mut self) {
        self.removals = 0;
        let folders = self.nodes.values().filter_map(|node| match &node.body {
            NodeBody::Folder(folder) => Some(folder),
            NodeBody::File(_) => None,
        });
        let referenced: HashSet<_> = folders.flat_map(DiskFolder::references).collect();
        self.nodes
            .retain(|inode, node| *inode == ROOT || node.handles > 0 || referenced.contains(inode));
    }
}

impl TreeNode {
    pub(super) fn size(&self) -> u64 {
        match &self.body {
            NodeBody::File(content) => content.size() as u64,
            NodeBody::Folder(_) => 0,
        }
    }

    fn new(mode: u16, body: NodeBody, parent: Inode, name: &OsStr) -> TreeNode {
        TreeNode {
            mode,
            handles: 0,
            reserved: 0,
            body,
            linked: true,
            parent,
            name: name.to_owned(),
        }
    }

    fn file(&self) -> Result<&DiskFileContent, Errno> {
        match &self.body {
            NodeBody::File(content) => Ok(content),
            NodeBody::Folder(_) => Err(Errno::EISDIR),
        }
    }

    fn place(&mut self, place: RenameEnd<'_>) {
        self.parent = place.folder;
        self.name = place.name.to_owned();
    }
}
