//! The manifest: what a backup holds, written last.
//!
//! A backup without a valid manifest does not exist. It names every file with its length
//! and digest, says which backup it builds on, and carries a digest of itself, so that no
//! line of it changes unnoticed. That of a sealed backup also has the key of its files,
//! sealed, and is authenticated with it; its content stays plain text: when the backup
//! was taken, the lengths of its files, and how many rows and events they hold.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use steadfast_core::id::Partition;
use steadfast_storage::{Error, Result, private};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::ErrorKind;
use crate::folder::BackupFolder;
use crate::manifest_file::{
    FileContent, ManifestFile, PLAIN_FORMAT, SEALED_FORMAT, altered, damaged, unreadable,
};
use crate::seal::{BackupKey, DataKey, SealHeader};

pub(crate) const MANIFEST_FILE: &str = "manifest.json";
const DRAFT_FILE: &str = "manifest.json.new";

/// Whether a backup stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// Everything.
    Full,
    /// What has changed since its parent.
    Incremental,
}

/// What a backup is and holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// Drawn for this backup.
    pub id: String,
    /// The backup that it builds on.
    pub parent: Option<String>,
    /// Whether it stands alone.
    pub extent: Extent,
    /// When it was finished, in milliseconds since 1970.
    pub time_ms: i64,
    /// The life of the store that it was taken of; a restore begins a new one.
    pub store: String,
    /// The version that wrote it.
    pub version: String,
    /// The state that it brings back, per partition.
    pub partitions: Vec<PartitionManifest>,
    /// Events that are in this very backup.
    pub events: u64,
    pub(crate) files: Vec<ManifestFile>,
    /// How it is sealed, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealing: Option<SealHeader>,
    /// Digest of all the above.
    pub(crate) digest: String,
}

/// A partition as a backup brings it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionManifest {
    /// The partition's number.
    pub partition: u32,
    /// The last transaction that the backup holds.
    pub lsn: u64,
    /// The owner's time then, in milliseconds since 1970.
    pub time_ms: i64,
    /// How many rows it has with the backups below it.
    pub rows: u64,
    pub(crate) rows_digest: String,
}

impl Manifest {
    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Rows of all partitions.
    pub fn rows(&self) -> u64 {
        self.partitions.iter().map(|saved| saved.rows).sum()
    }

    /// Whether its files are sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealing.is_some()
    }

    /// The fingerprint of the key that it is sealed with.
    pub fn key(&self) -> Option<&str> {
        self.sealing.as_ref().map(|sealing| sealing.key.as_str())
    }

    /// Its folder, with what opens its files. Without a key those of a sealed backup stay
    /// closed; a wrong key and an altered manifest are refused.
    pub(crate) fn unlock(&self, folder: &Path, key: Option<&BackupKey>) -> Result<BackupFolder> {
        let (sealing, key) = match (&self.sealing, key) {
            (None, _) => return Ok(BackupFolder::new(folder, None)),
            (Some(sealing), None) => return Ok(BackupFolder::locked(folder, &sealing.key)),
            (Some(sealing), Some(key)) => (sealing, key),
        };
        if sealing.key != key.fingerprint() {
            let (own, given) = (&sealing.key, key.described());
            return Err(Error::new(ErrorKind::BackupKey {
                path: folder.to_path_buf(),
                what: format!(
                    "the backup is sealed with the key {own}, and the key that was tried is \
                     {given}; give the key of the server that took it"
                ),
            }));
        }
        let path = folder.join(MANIFEST_FILE);
        let Some(data_key) = DataKey::open(&self.id, sealing, key) else {
            return Err(altered(&path, "its key was sealed for another backup"));
        };
        if data_key.is_signed(&self.signed(), &sealing.mac) {
            Ok(BackupFolder::new(folder, Some(data_key)))
        } else {
            Err(altered(&path, "it is not what was signed"))
        }
    }

    pub(crate) fn saved(&self, partition: Partition) -> Option<&PartitionManifest> {
        let number = partition.0;
        self.partitions.iter().find(|s| s.partition == number)
    }

    /// Files of one kind and partition, in the order in which they were written.
    pub(crate) fn files_of(
        &self,
        partition: Partition,
        content: FileContent,
    ) -> impl Iterator<Item = &ManifestFile> {
        let own = move |file: &&ManifestFile| file.partition == Some(partition.0);
        let files = self.files.iter().filter(own);
        files.filter(move |file| file.content == content)
    }

    /// Signs the manifest if it is sealed, and writes it durably; its folder's name is not
    /// yet.
    pub(crate) fn write(mut self, folder: &BackupFolder) -> Result<Self> {
        let mac = folder.data_key()?.map(|key| key.sign(&self.signed()));
        if let (Some(sealing), Some(mac)) = (&mut self.sealing, mac) {
            sealing.mac = mac;
        }
        self.digest = self.own_digest();
        let folder = &folder.path;
        let path = folder.join(MANIFEST_FILE);
        let draft = folder.join(DRAFT_FILE);
        let text = serde_json::to_string_pretty(&self).expect("plain data is JSON");
        let write = || -> std::io::Result<()> {
            let mut file = private::create(&draft)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|e| Error::io(&path, "write", e))?;
        Ok(self)
    }

    /// Reads the manifest of a backup.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST_FILE);
        let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => damaged(&path, "it is no text"),
            _ => unreadable(&path, e),
        })?;
        let malformed = |_| damaged(&path, "it is no manifest");
        let any: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
        let found = any.get("format").and_then(serde_json::Value::as_u64);
        let found = found.and_then(|found| u32::try_from(found).ok());
        if let Some(found) = found.filter(|found| *found > SEALED_FORMAT) {
            return Err(Error::new(ErrorKind::NewerBackup {
                path: folder.to_path_buf(),
                found,
                known: SEALED_FORMAT,
            }));
        }
        let manifest: Self = serde_json::from_value(any).map_err(malformed)?;
        if manifest.own_digest() != manifest.digest {
            return Err(damaged(&path, "it does not have its digest"));
        }
        let format = if manifest.is_sealed() {
            SEALED_FORMAT
        } else {
            PLAIN_FORMAT
        };
        if manifest.format == format {
            Ok(manifest)
        } else {
            Err(damaged(
                &path,
                "its format does not say whether it is sealed",
            ))
        }
    }

    /// What is signed: everything but the signature and the digest over it.
    fn signed(&self) -> Vec<u8> {
        let mut blank = self.clone();
        blank.digest.clear();
        if let Some(sealing) = &mut blank.sealing {
            sealing.mac.clear();
        }
        serde_json::to_vec(&blank).expect("plain data is JSON")
    }

    fn own_digest(&self) -> String {
        let blank = Self {
            digest: String::new(),
            ..self.clone()
        };
        let text = serde_json::to_vec(&blank).expect("plain data is JSON");
        format!("{:032x}", xxh3_128(&text))
    }
}
