//! A full backup and all that build on it.
//!
//! Links are found by id, not by name, and each must be of the same life of the
//! store and not older than the one below it. A chain with a hole is refused when
//! it is opened; [`BackupChain::verify`] reads every byte of it. A chain is sealed with one key
//! or not at all: a backup that claims to be plain cannot stand among sealed ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use steadfast_core::id::Partition;
use steadfast_storage::{Error, Result};
use tokio::sync::watch;
use xxhash_rust::xxh3::Xxh3;

use crate::block::BlockReader;
use crate::error::ErrorKind;
use crate::events::{EventFile, EventReader};
use crate::folder::BackupFolder;
use crate::manifest::{Extent, MANIFEST_FILE, Manifest};
use crate::manifest_file::{FileContent, ManifestFile, damaged, unreadable};
use crate::merge::RunMerger;
use crate::progress::{BackupPhase, BackupProgress};
use crate::repository::{backups, number_of};
use crate::run::RunReader;
use crate::seal::BackupKey;

/// Backups that are restored together.
#[derive(Debug)]
pub struct BackupChain {
    /// The full one first.
    links: Vec<ChainLink>,
    /// Whether it is plain text, was found as the newest one of a folder, and backups
    /// beside it are sealed.
    is_doubtful: bool,
}

/// One backup.
#[derive(Debug)]
struct ChainLink {
    folder: BackupFolder,
    manifest: Manifest,
}

impl BackupChain {
    /// Opens the chain that ends with a backup, or with the newest one in a folder
    /// of backups. Refuses one with a hole, a missing file or a file of another
    /// length; what the files hold is looked at by [`BackupChain::verify`].
    ///
    /// Without a key a sealed chain can be verified as far as its digests go, and not be
    /// restored. A chain of plain text needs none.
    pub fn open(path: &Path, key: Option<&BackupKey>) -> Result<Self> {
        let is_named = is_backup(path);
        let last = if is_named {
            path.to_path_buf()
        } else {
            newest(path)?
        };
        let mut links = vec![ChainLink::read(&last, key)?];
        let siblings = Siblings::read(&last)?;
        while let Some(parent) = links.last().and_then(|l| l.manifest.parent.clone()) {
            let child = links.last().map_or(&last, |link| &link.folder.path);
            let link = siblings.find(&parent, child, key)?;
            if links
                .iter()
                .any(|known| known.folder.path == link.folder.path)
            {
                return Err(broken(&last, "backups build on one another in a ring"));
            }
            links.push(link);
        }
        links.reverse();
        let is_plain = links.iter().all(|link| !link.manifest.is_sealed());
        let chain = Self {
            links,
            is_doubtful: !is_named && is_plain && siblings.may_have_sealed(),
        };
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
        &self.end().folder.path
    }

    /// Whether it is sealed, and a key has opened it.
    pub fn is_opened(&self) -> bool {
        self.end().folder.is_opened()
    }

    /// Refuses a sealed chain without its key, and one of plain text that stands where
    /// sealed ones do unless it was named: plain text is made without the key.
    pub fn expect_restorable(&self) -> Result<()> {
        if self.is_doubtful {
            return Err(Error::new(ErrorKind::BackupKey {
                path: self.folder().to_path_buf(),
                what: "the newest backup is plain text, and others beside it are sealed, so it \
                       may be forged; name its folder to restore it, or that of a sealed one"
                    .into(),
            }));
        }
        self.end().folder.expect_readable()
    }

    pub(crate) fn last_folder(&self) -> &BackupFolder {
        &self.end().folder
    }

    /// Reads every block of all files and compares them with their digests. Without a key,
    /// blocks of a sealed chain stay closed.
    pub fn verify(&self, progress: &watch::Sender<BackupProgress>) -> Result<()> {
        progress.send_replace(BackupProgress {
            phase: BackupPhase::Checking,
            ..BackupProgress::default()
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
    pub(crate) fn runs(&self, partition: Partition) -> Result<Vec<RunReader>> {
        let mut runs = Vec::new();
        for link in self.links.iter().rev() {
            runs.extend(open_runs(&link.folder, &link.manifest.files, partition)?);
        }
        Ok(runs)
    }

    /// Rows of a partition, in order.
    pub(crate) fn rows(&self, partition: Partition) -> Result<RunMerger> {
        RunMerger::new(self.runs(partition)?)
    }

    /// Event batches of a partition, in the order of their streams.
    pub(crate) fn events(&self, partition: Partition) -> EventReader {
        let mut files = Vec::new();
        for link in &self.links {
            for content in [FileContent::Events, FileContent::Tail] {
                let found = link.manifest.files_of(partition, content);
                files.extend(found.map(|file| EventFile {
                    folder: link.folder.clone(),
                    name: file.name.clone(),
                    content,
                }));
            }
        }
        EventReader::new(files)
    }

    fn end(&self) -> &ChainLink {
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
    if below.key() != manifest.key() {
        return Err("its backups are not all sealed with the same key".into());
    }
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

impl ChainLink {
    fn read(folder: &Path, key: Option<&BackupKey>) -> Result<Self> {
        let manifest = Manifest::read(folder)?;
        Ok(Self {
            folder: manifest.unlock(folder, key)?,
            manifest,
        })
    }

    fn path(&self, file: &ManifestFile) -> Result<PathBuf> {
        let name = Path::new(&file.name);
        let is_plain = name.file_name() == Some(name.as_os_str());
        let manifest = self.folder.path.join(MANIFEST_FILE);
        if is_plain {
            Ok(self.folder.path.join(name))
        } else {
            Err(damaged(&manifest, "it names a file outside its folder"))
        }
    }

    /// Whether a file is there and as long as it should be.
    fn check(&self, file: &ManifestFile) -> Result<()> {
        let path = self.path(file)?;
        let metadata = std::fs::metadata(&path).map_err(|e| unreadable(&path, e))?;
        let (found, bytes) = (metadata.len(), file.bytes);
        if found == bytes {
            Ok(())
        } else {
            Err(damaged(&path, format!("it has {found} bytes, not {bytes}")))
        }
    }

    fn verify(&self, file: &ManifestFile) -> Result<()> {
        let path = self.path(file)?;
        let digest = match self.folder.data_key() {
            Ok(key) => {
                let key = key.map(|key| key.file(&file.name, file.content));
                let (bytes, digest) = BlockReader::verify(&path, file.content, key)?;
                if bytes != file.bytes {
                    return Err(damaged(&path, "something follows its end"));
                }
                digest
            }
            Err(_) => digest(&path)?,
        };
        if digest == file.digest {
            Ok(())
        } else {
            Err(damaged(&path, "it does not have its digest"))
        }
    }
}

/// The digest of a file's bytes.
fn digest(path: &Path) -> Result<String> {
    let mut source = File::open(path).map_err(|e| unreadable(path, e))?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        let read = source.read(&mut buffer);
        match read.map_err(|e| unreadable(path, e))? {
            0 => return Ok(format!("{:032x}", hash.digest128())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// Runs of one backup, newest first.
pub(crate) fn open_runs(
    folder: &BackupFolder,
    files: &[ManifestFile],
    partition: Partition,
) -> Result<Vec<RunReader>> {
    let mut runs = Vec::new();
    for content in [FileContent::Delta, FileContent::Rows] {
        let own =
            |file: &&ManifestFile| file.partition == Some(partition.0) && file.content == content;
        for file in files.iter().filter(own).rev() {
            runs.push(RunReader::open(folder, &file.name, content)?);
        }
    }
    Ok(runs)
}

/// Backups beside a backup, by id.
struct Siblings {
    folders: BTreeMap<String, PathBuf>,
    has_sealed: bool,
    /// The first that cannot be read; it may be the one that is looked for.
    unreadable: Option<Error>,
}

impl Siblings {
    fn read(backup: &Path) -> Result<Self> {
        let absolute = std::fs::canonicalize(backup).map_err(|e| unreadable(backup, e))?;
        let shelf = absolute.parent().unwrap_or(&absolute);
        let mut siblings = Self {
            folders: BTreeMap::new(),
            has_sealed: false,
            unreadable: None,
        };
        for (_, folder) in backups(shelf)? {
            match Manifest::read(&folder) {
                Ok(manifest) => {
                    siblings.has_sealed |= manifest.is_sealed();
                    siblings.folders.insert(manifest.id, folder);
                }
                Err(error) => drop(siblings.unreadable.get_or_insert(error)),
            }
        }
        Ok(siblings)
    }

    /// Whether there are sealed backups, or one that may be: its manifest cannot be read.
    fn may_have_sealed(&self) -> bool {
        self.has_sealed || self.unreadable.is_some()
    }

    fn find(&self, id: &str, child: &Path, key: Option<&BackupKey>) -> Result<ChainLink> {
        match (self.folders.get(id), &self.unreadable) {
            (Some(folder), _) => ChainLink::read(folder, key),
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
        Error::new(ErrorKind::MissingFullBackup {
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
    Error::new(ErrorKind::BrokenChain {
        path: path.to_path_buf(),
        what: what.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest_file::{PLAIN_FORMAT, SEALED_FORMAT};
    use crate::seal::DataKey;

    /// Writes a backup without files; answers its id.
    fn write(shelf: &Path, number: u32, parent: Option<&str>, key: Option<&BackupKey>) -> String {
        let (extent, word) = match parent {
            Some(_) => (Extent::Incremental, "incremental"),
            None => (Extent::Full, "full"),
        };
        let id = number.to_string();
        let (data_key, sealing) = key.map(|key| DataKey::draw(&id, key)).unzip();
        let path = shelf.join(format!("{number:06}-{word}"));
        std::fs::create_dir(&path).unwrap();
        let manifest = Manifest {
            format: if key.is_some() {
                SEALED_FORMAT
            } else {
                PLAIN_FORMAT
            },
            id: id.clone(),
            parent: parent.map(str::to_owned),
            extent,
            time_ms: 0,
            store: "store".into(),
            version: "0".into(),
            partitions: Vec::new(),
            events: 0,
            files: Vec::new(),
            sealing,
            digest: String::new(),
        };
        manifest.write(&BackupFolder::new(&path, data_key)).unwrap();
        id
    }

    /// Manifests of plain text can be made without the key.
    #[test]
    fn sealed_and_plain_backups_do_not_make_one_chain() {
        let (key, other) = (BackupKey::new("one"), BackupKey::new("two"));
        let cases = [
            (Some(&key), None),
            (None, Some(&key)),
            (Some(&other), Some(&key)),
            (Some(&key), Some(&key)),
            (None, None),
        ];
        for (below, above) in cases {
            let shelf = tempfile::tempdir().unwrap();
            let parent = write(shelf.path(), 1, None, below);
            write(shelf.path(), 2, Some(&parent), above);
            let fits = below.map(BackupKey::fingerprint) == above.map(BackupKey::fingerprint);
            for given in [None, Some(&key)] {
                let opened = BackupChain::open(shelf.path(), given).map(|chain| chain.links.len());
                match opened {
                    Ok(links) => assert!(fits && links == 2, "{below:?} {above:?}"),
                    Err(error) => {
                        let code = error.code().0;
                        assert!(!fits, "{below:?} {above:?}: {error}");
                        assert!(["STF-2052", "STF-2062"].contains(&code), "{error}");
                    }
                }
            }
        }
    }
}
