//! A full backup and all that build on it.
//!
//! Links are found by id, not by name, and each must be of the same life of the
//! store and not older than the one below it. A chain with a hole is refused when
//! it is opened; [`Chain::verify`] reads every byte of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use steadfast_core::id::Partition;
use tokio::sync::watch;
use xxhash_rust::xxh3::Xxh3;

use super::events::EventReader;
use super::manifest::{Extent, MANIFEST_FILE, Manifest};
use super::merge::Merge;
use super::progress::{Phase, Progress};
use super::run::RunReader;
use super::saved::{Content, SavedFile, damaged, unreadable};
use super::write::{backups, number_of};
use crate::error::{Error, Kind, Result};

/// Backups that are restored together.
#[derive(Debug)]
pub struct Chain {
    /// The full one first.
    links: Vec<Link>,
}

/// One backup.
#[derive(Debug)]
struct Link {
    folder: PathBuf,
    manifest: Manifest,
}

impl Chain {
    /// Opens the chain that ends with a backup, or with the newest one in a folder
    /// of backups. Refuses one with a hole, a missing file or a file of another
    /// length; what the files hold is looked at by [`Chain::verify`].
    pub fn open(path: &Path) -> Result<Self> {
        let last = match is_backup(path) {
            true => path.to_path_buf(),
            false => newest(path)?,
        };
        let mut links = vec![Link::read(&last)?];
        let siblings = Siblings::read(&last)?;
        while let Some(parent) = links.last().and_then(|l| l.manifest.parent.clone()) {
            let child = links.last().map_or(&last, |link| &link.folder);
            let link = siblings.find(&parent, child)?;
            if links.iter().any(|known| known.folder == link.folder) {
                return Err(broken(&last, "backups build on one another in a ring"));
            }
            links.push(link);
        }
        links.reverse();
        let chain = Self { links };
        chain.check(&last)?;
        Ok(chain)
    }

    /// The manifests, the full backup's first.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.links.iter().map(|link| &link.manifest)
    }

    /// The backup that a restore brings back.
    pub fn last(&self) -> &Manifest {
        &self.end().manifest
    }

    /// The folder of that backup.
    pub fn folder(&self) -> &Path {
        &self.end().folder
    }

    /// Reads all files and compares them with their digests.
    pub fn verify(&self, progress: &watch::Sender<Progress>) -> Result<()> {
        progress.send_replace(Progress {
            phase: Phase::Checking,
            ..Progress::default()
        });
        for link in &self.links {
            for file in &link.manifest.files {
                link.verify(file)?;
                progress.send_modify(|progress| progress.bytes += file.bytes);
            }
        }
        Ok(())
    }

    /// Runs of rows of a partition, newest first.
    pub(super) fn runs(&self, partition: Partition) -> Result<Vec<RunReader>> {
        let mut runs = Vec::new();
        for link in self.links.iter().rev() {
            runs.extend(open_runs(&link.folder, &link.manifest.files, partition)?);
        }
        Ok(runs)
    }

    /// Rows of a partition, in order.
    pub(super) fn rows(&self, partition: Partition) -> Result<Merge> {
        Merge::new(self.runs(partition)?)
    }

    /// Event batches of a partition, in the order of their streams.
    pub(super) fn events(&self, partition: Partition) -> EventReader {
        let mut files = Vec::new();
        for link in &self.links {
            for content in [Content::Events, Content::Tail] {
                let found = link.manifest.files_of(partition, content);
                files.extend(found.map(|file| (link.folder.join(&file.name), content)));
            }
        }
        EventReader::new(files)
    }

    fn end(&self) -> &Link {
        self.links.last().expect("a chain has a link")
    }

    fn check(&self, last: &Path) -> Result<()> {
        let mut below: Option<&Manifest> = None;
        for link in &self.links {
            let manifest = &link.manifest;
            let stands_alone = manifest.extent == Extent::Full;
            if stands_alone != manifest.parent.is_none() {
                return Err(broken(last, "a backup does not say what it builds on"));
            }
            if let Some(below) = below {
                follows(below, manifest).map_err(|what| broken(last, &what))?;
            }
            for file in &manifest.files {
                link.check(file)?;
            }
            below = Some(manifest);
        }
        Ok(())
    }
}

/// Why a backup cannot build on another.
fn follows(below: &Manifest, manifest: &Manifest) -> std::result::Result<(), String> {
    if below.store != manifest.store {
        return Err("its backups are of different stores".into());
    }
    for saved in &below.partitions {
        let partition = Partition(saved.partition);
        let Some(later) = manifest.saved(partition) else {
            return Err(format!("partition {partition} is missing from a later one"));
        };
        if later.lsn < saved.lsn {
            return Err(format!("partition {partition} is older in a later backup"));
        }
    }
    Ok(())
}

impl Link {
    fn read(folder: &Path) -> Result<Self> {
        Ok(Self {
            folder: folder.to_path_buf(),
            manifest: Manifest::read(folder)?,
        })
    }

    fn path(&self, file: &SavedFile) -> Result<PathBuf> {
        let name = Path::new(&file.name);
        let is_plain = name.file_name() == Some(name.as_os_str());
        let manifest = self.folder.join(MANIFEST_FILE);
        match is_plain {
            true => Ok(self.folder.join(name)),
            false => Err(damaged(&manifest, "it names a file somewhere else")),
        }
    }

    /// Whether a file is there and as long as it should be.
    fn check(&self, file: &SavedFile) -> Result<()> {
        let path = self.path(file)?;
        let metadata = std::fs::metadata(&path).map_err(|e| unreadable(&path, e))?;
        let (found, bytes) = (metadata.len(), file.bytes);
        match found == bytes {
            true => Ok(()),
            false => Err(damaged(&path, format!("it has {found} bytes, not {bytes}"))),
        }
    }

    fn verify(&self, file: &SavedFile) -> Result<()> {
        let path = self.path(file)?;
        let mut source = File::open(&path).map_err(|e| unreadable(&path, e))?;
        let mut hash = Xxh3::new();
        let mut buffer = vec![0; 1024 * 1024];
        loop {
            let read = source.read(&mut buffer);
            match read.map_err(|e| unreadable(&path, e))? {
                0 => break,
                length => hash.update(&buffer[..length]),
            }
        }
        match format!("{:032x}", hash.digest128()) == file.digest {
            true => Ok(()),
            false => Err(damaged(&path, "it does not have its digest")),
        }
    }
}

/// Runs of one backup, newest first.
pub(super) fn open_runs(
    folder: &Path,
    files: &[SavedFile],
    partition: Partition,
) -> Result<Vec<RunReader>> {
    let mut runs = Vec::new();
    for content in [Content::Delta, Content::Rows] {
        let own =
            |file: &&SavedFile| file.partition == Some(partition.0) && file.content == content;
        for file in files.iter().filter(own).rev() {
            runs.push(RunReader::open(&folder.join(&file.name), content)?);
        }
    }
    Ok(runs)
}

/// Backups beside a backup, by id.
struct Siblings {
    folders: BTreeMap<String, PathBuf>,
    /// The first that cannot be read; it may be the one that is looked for.
    unreadable: Option<Error>,
}

impl Siblings {
    fn read(backup: &Path) -> Result<Self> {
        let absolute = std::fs::canonicalize(backup).map_err(|e| unreadable(backup, e))?;
        let shelf = absolute.parent().unwrap_or(&absolute);
        let mut siblings = Self {
            folders: BTreeMap::new(),
            unreadable: None,
        };
        for (_, folder) in backups(shelf)? {
            match Manifest::read(&folder) {
                Ok(manifest) => drop(siblings.folders.insert(manifest.id, folder)),
                Err(error) => drop(siblings.unreadable.get_or_insert(error)),
            }
        }
        Ok(siblings)
    }

    fn find(&self, id: &str, child: &Path) -> Result<Link> {
        match (self.folders.get(id), &self.unreadable) {
            (Some(folder), _) => Link::read(folder),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(broken(
                child,
                "the backup that it builds on is not beside it",
            )),
        }
    }
}

fn is_backup(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| number_of(name).is_some()) || path.join(MANIFEST_FILE).exists()
}

fn newest(shelf: &Path) -> Result<PathBuf> {
    let missing = || {
        Error::new(Kind::MissingFullBackup {
            path: shelf.to_path_buf(),
            why: "it holds no backup".into(),
        })
    };
    if !shelf.exists() {
        return Err(missing());
    }
    let newest = backups(shelf)?.pop();
    newest.map(|(_, path)| path).ok_or_else(missing)
}

fn broken(path: &Path, what: &str) -> Error {
    Error::new(Kind::BrokenChain {
        path: path.to_path_buf(),
        what: what.to_string(),
    })
}
