//! The kernel's requests to the fake disk.
//!
//! Nothing is cached by the kernel: entries and attributes live zero seconds and files are read
//! directly, so that no stale page is seen after a restart.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;

use super::content::BLOCK_BYTES;
use super::folder::Inode;
use super::tree::{NodeBody, ROOT, Rename, RenameEnd, Tree};
use super::volume::Volume;

const NEVER_CACHED: Duration = Duration::ZERO;
const MAX_WRITE_BYTES: u32 = 1 << 20;

/// The volume as the kernel sees it.
pub(super) struct KernelServer {
    volume: Arc<Mutex<Volume>>,
    listings: Mutex<Listings>,
}

/// Open folders; each lists the entries that existed when reading began, also if some
/// are removed.
#[derive(Default)]
struct Listings {
    last_handle: u64,
    open: HashMap<u64, Vec<FolderListing>>,
}

type FolderListing = (Inode, FileType, OsString);

/// Syncs a file and replies to its caller.
pub(super) fn sync_file(volume: &mut Volume, inode: Inode, reply: ReplyEmpty) {
    answer(volume.sync_file(inode), reply);
}

impl KernelServer {
    pub(super) fn new(volume: Arc<Mutex<Volume>>) -> KernelServer {
        KernelServer {
            volume,
            listings: Mutex::default(),
        }
    }

    fn listings(&self) -> MutexGuard<'_, Listings> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Volume> {
        // A poisoned volume still answers: a request without a reply would hang its caller.
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filesystem for KernelServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // On an error the default size applies, which works too.
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let volume = self.lock();
        let found = volume.view().and_then(|tree| {
            let inode = tree.lookup(parent.0, name)?;
            attributes(tree, inode)
        });
        answer_entry(found, reply);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let volume = self.lock();
        let tree = match inode.0 {
            ROOT => Ok(&volume.tree),
            _ => volume.view(),
        };
        answer_attributes(tree.and_then(|tree| attributes(tree, inode.0)), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut volume = self.lock();
        let changed = set_attributes(&mut volume, inode.0, mode, size);
        answer_attributes(changed, reply);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let permissions = permissions(mode & !umask);
        let made = self.lock().make_folder(place(parent, name), permissions);
        let attributes =
            made.map(|inode| attributes_of(inode, FileType::Directory, permissions, 0));
        answer_entry(attributes, reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let permissions = permissions(mode & !umask);
        match self.lock().create(place(parent, name), permissions) {
            Ok(inode) => reply.created(
                &NEVER_CACHED,
                &attributes_of(inode, FileType::RegularFile, permissions, 0),
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_DIRECT_IO,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.lock().unlink(place(parent, name)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.lock().remove_folder(place(parent, name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            flags if flags.is_empty() => Rename::Replace,
            RenameFlags::RENAME_NOREPLACE => Rename::KeepTarget,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = (place(parent, name), place(new_parent, new_name));
        answer(self.lock().rename(from, to, mode), reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let is_writing = !matches!(flags.acc_mode(), OpenAccMode::O_RDONLY);
        match self.lock().open(inode.0, is_writing) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.lock().release(inode.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let volume = self.lock();
        match volume.view().and_then(|tree| tree.file(inode.0)) {
            Ok(file) => reply.data(file.read(offset as usize, size as usize)),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.lock().write(inode.0, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut volume = self.lock();
        match &mut volume.faults.held_syncs {
            Some(held) => held.push((inode.0, reply)),
            None => sync_file(&mut volume, inode.0, reply),
        }
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.lock().sync_folder(inode.0), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        answer(
            allocate(&mut self.lock(), inode.0, offset, length, mode),
            reply,
        );
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let volume = self.lock();
        if let Err(error) = volume.view().and_then(|tree| tree.folder(inode.0)) {
            return reply.error(error);
        }
        let handle = self.listings().open();
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings().open.remove(&handle.0);
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.lock().view().and_then(|tree| list(tree, inode.0));
        let fresh = match listed {
            Ok(fresh) => fresh,
            Err(error) => return reply.error(error),
        };
        let mut listings = self.listings();
        let listing = listings.open.entry(handle.0).or_default();
        if offset == 0 {
            *listing = fresh;
        }
        let rest = listing.iter().zip(1..).skip(offset as usize);
        for ((inode, kind, name), position) in rest {
            if reply.add(INodeNo(*inode), position, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let volume = self.lock();
        if volume.cut {
            return reply.error(Errno::EIO);
        }
        let block = BLOCK_BYTES as u64;
        let (capacity, free) = volume.space();
        let (all, free) = (capacity / block, free / block);
        reply.statfs(
            all,
            free,
            free,
            1 << 20,
            1 << 20,
            block as u32,
            255,
            block as u32,
        );
    }
}

fn place(parent: INodeNo, name: &OsStr) -> RenameEnd<'_> {
    RenameEnd {
        folder: parent.0,
        name,
    }
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn set_attributes(
    volume: &mut Volume,
    inode: Inode,
    mode: Option<u32>,
    size: Option<u64>,
) -> Result<FileAttr, Errno> {
    volume.view()?;
    let mut attributes = attributes(&volume.tree, inode)?;
    if let Some(mode) = mode {
        attributes.perm = permissions(mode);
        volume.tree.node_mut(inode)?.mode = attributes.perm;
    }
    if let Some(size) = size {
        volume.resize(inode, size)?;
        attributes.size = size;
    }
    Ok(attributes)
}

fn allocate(
    volume: &mut Volume,
    inode: Inode,
    offset: u64,
    length: u64,
    mode: FallocateFlags,
) -> Result<(), Errno> {
    let extend = !mode.contains(FallocateFlags::KEEP_SIZE);
    let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
    match mode - FallocateFlags::KEEP_SIZE {
        mode if mode.is_empty() => volume.allocate(inode, end, extend),
        FallocateFlags::ZERO_RANGE => {
            volume.zero(inode, offset, length)?;
            volume.allocate(inode, end, extend)
        }
        FallocateFlags::PUNCH_HOLE => volume.zero(inode, offset, length),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

impl Listings {
    fn open(&mut self) -> u64 {
        self.last_handle += 1;
        self.open.insert(self.last_handle, Vec::new());
        self.last_handle
    }
}

fn list(tree: &Tree, inode: Inode) -> Result<Vec<FolderListing>, Errno> {
    let mut entries = vec![
        (inode, FileType::Directory, OsString::from(".")),
        (ROOT, FileType::Directory, OsString::from("..")),
    ];
    for (name, child) in tree.folder(inode)?.live() {
        entries.push((*child, kind(&tree.node(*child)?.body), name.clone()));
    }
    Ok(entries)
}

fn kind(body: &NodeBody) -> FileType {
    match body {
        NodeBody::File(_) => FileType::RegularFile,
        NodeBody::Folder(_) => FileType::Directory,
    }
}

fn attributes(tree: &Tree, inode: Inode) -> Result<FileAttr, Errno> {
    let node = tree.node(inode)?;
    Ok(attributes_of(
        inode,
        kind(&node.body),
        node.mode,
        node.size(),
    ))
}

fn attributes_of(inode: Inode, kind: FileType, permissions: u16, size: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: size.div_ceil(BLOCK_BYTES as u64),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: permissions,
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&NEVER_CACHED, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn answer_attributes(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&NEVER_CACHED, &attributes),
        Err(error) => reply.error(error),
    }
}
