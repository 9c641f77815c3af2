//! Keys that seal the files of a backup.
//!
//! Every backup has a data key of its own, drawn for it and kept in its manifest, sealed
//! under the operator's key. Every file has a key derived from the data key, so the place
//! of a block in its file is its nonce. Associated data names the format, the backup, the
//! file, its content and the place: a block that is altered, moved or taken from another
//! file or backup does not open. AES-256-GCM seals, HKDF and HMAC with SHA-256 derive keys
//! and authenticate the manifest.

use std::fmt;
use std::fs;
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use steadfast_core::{hex, limits};
use steadfast_storage::{Error, Result};

use crate::error::ErrorKind;
use crate::manifest_file::{FileContent, SEALED_FORMAT};

/// What sealing adds to a block.
pub(crate) const TAG_BYTES: usize = 16;

const DATA_KEY_BYTES: usize = 32;
const FINGERPRINT_BYTES: usize = 8;

/// What all keys of sealed backups are derived for.
const PURPOSE: &[u8] = b"steadfast backup 2";

/// What seals and opens backups: the text of `secret.key`, or of another file.
///
/// A backup does not open without it, so it is kept in another place than the backups.
#[derive(Clone)]
pub struct BackupKey {
    key: LessSafeKey,
    fingerprint: String,
    /// Where its text comes from.
    source: Option<String>,
    is_short: bool,
}

impl BackupKey {
    /// The key that a long random text stands for.
    pub fn new(text: &str) -> Self {
        let root = Salt::new(HKDF_SHA256, PURPOSE).extract(text.trim().as_bytes());
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        expand(&root, &[b"fingerprint"], &mut fingerprint);
        Self {
            key: cipher(&root, &[b"data keys"]),
            fingerprint: hex::encode(&fingerprint),
            source: None,
            is_short: text.trim().len() < limits::BACKUP_KEY_BYTES,
        }
    }

    /// Names the file or the setting that the key comes from, for errors.
    #[must_use]
    pub fn of(mut self, source: impl fmt::Display) -> Self {
        self.source = Some(source.to_string());
        self
    }

    /// The key in a file; a short one is refused.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|e| Error::io(file, "read", e))?;
        let key = Self::new(&text).of(file.display());
        key.expect_long(file)?;
        Ok(key)
    }

    /// Refuses a key that is short enough to be guessed; `path` is what it is for.
    pub fn expect_long(&self, path: &Path) -> Result<()> {
        if !self.is_short {
            return Ok(());
        }
        let least = limits::BACKUP_KEY_BYTES;
        let source = self.source.as_deref().unwrap_or("the library");
        Err(Error::new(ErrorKind::BackupKey {
            path: path.to_path_buf(),
            what: format!(
                "the key of {source} has fewer than {least} bytes, so it can be guessed; name a \
                 file with a longer random text"
            ),
        }))
    }

    /// A random key, which is lost with its last clone.
    pub fn random() -> Self {
        Self::new(&hex::encode(&random::<DATA_KEY_BYTES>()))
    }

    /// Tells keys apart without revealing them.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The fingerprint, and where the key comes from if that is known.
    pub(crate) fn described(&self) -> String {
        match &self.source {
            Some(source) => format!("{} of {source}", self.fingerprint),
            None => self.fingerprint.clone(),
        }
    }
}

impl fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupKey({})", self.fingerprint)
    }
}

/// How a backup is sealed, as its manifest says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SealHeader {
    /// The fingerprint of the operator's key.
    pub(crate) key: String,
    /// The data key, sealed with it.
    pub(crate) data_key: String,
    /// Authenticates the manifest.
    pub(crate) mac: String,
}

/// The key of one backup.
pub(crate) struct DataKey {
    id: String,
    root: Prk,
}

impl DataKey {
    /// Draws the key of a new backup; answers what its manifest says of it.
    pub(crate) fn draw(id: &str, key: &BackupKey) -> (Self, SealHeader) {
        let (nonce, mut bytes) = (random::<NONCE_LEN>(), random::<DATA_KEY_BYTES>().to_vec());
        let own = Self::new(id, &bytes);
        let sealed = key.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(data_key_place(id)),
            &mut bytes,
        );
        sealed.expect("a key is shorter than what the cipher takes");
        let sealing = SealHeader {
            key: key.fingerprint.clone(),
            data_key: hex::encode(&nonce) + &hex::encode(&bytes),
            mac: String::new(),
        };
        (own, sealing)
    }

    /// The key of a backup; `None` if what its manifest says of it was altered.
    pub(crate) fn open(id: &str, sealing: &SealHeader, key: &BackupKey) -> Option<Self> {
        let mut bytes = hex::decode(&sealing.data_key)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let place = Aad::from(data_key_place(id));
        let bytes = key.key.open_in_place(nonce, place, sealed).ok()?;
        (bytes.len() == DATA_KEY_BYTES).then(|| Self::new(id, bytes))
    }

    fn new(id: &str, bytes: &[u8]) -> Self {
        Self {
            id: id.to_owned(),
            root: Prk::new_less_safe(HKDF_SHA256, bytes),
        }
    }

    /// The key of a file.
    pub(crate) fn file(&self, name: &str, content: FileContent) -> FileKey {
        let mut place = PURPOSE.to_vec();
        place.extend_from_slice(&SEALED_FORMAT.to_le_bytes());
        place.extend_from_slice(&(content as u32).to_le_bytes());
        for part in [&self.id, name] {
            place.extend_from_slice(&(part.len() as u32).to_le_bytes());
            place.extend_from_slice(part.as_bytes());
        }
        FileKey {
            key: cipher(&self.root, &[b"file", &place]),
            place,
        }
    }

    /// A digest that says nothing about what it was made of.
    pub(crate) fn digest(&self, text: &str) -> String {
        hex::encode(hmac::sign(&self.mac_key(b"digests"), text.as_bytes()).as_ref())
    }

    /// Authenticates a manifest.
    pub(crate) fn sign(&self, manifest: &[u8]) -> String {
        hex::encode(hmac::sign(&self.mac_key(b"manifest"), manifest).as_ref())
    }

    /// Whether a manifest is what was signed.
    pub(crate) fn is_signed(&self, manifest: &[u8], mac: &str) -> bool {
        let mac = hex::decode(mac).unwrap_or_default();
        hmac::verify(&self.mac_key(b"manifest"), manifest, &mac).is_ok()
    }

    fn mac_key(&self, purpose: &[u8]) -> hmac::Key {
        let purpose = [PURPOSE, purpose];
        let derived = self.root.expand(&purpose, HMAC_SHA256);
        derived
            .expect("a key is shorter than what is derived")
            .into()
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({})", self.id)
    }
}

/// The key of one file of one backup. Each place in the file is sealed once.
pub(crate) struct FileKey {
    key: LessSafeKey,
    /// What every block's associated data begins with.
    place: Vec<u8>,
}

impl FileKey {
    /// Seals a block in place.
    pub(crate) fn seal(&self, number: u64, block: &mut Vec<u8>) {
        let (nonce, place) = (nonce(number), self.place(number));
        let sealed = self.key.seal_in_place_append_tag(nonce, place, block);
        sealed.expect("blocks are shorter than what the cipher takes");
    }

    /// Opens a block in place; `None` if it is not the one that was sealed there.
    pub(crate) fn open(&self, number: u64, mut block: Vec<u8>) -> Option<Vec<u8>> {
        let (nonce, place) = (nonce(number), self.place(number));
        let length = self.key.open_in_place(nonce, place, &mut block).ok()?.len();
        block.truncate(length);
        Some(block)
    }

    fn place(&self, number: u64) -> Aad<Vec<u8>> {
        Aad::from([&self.place[..], &number.to_le_bytes()].concat())
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn data_key_place(id: &str) -> Vec<u8> {
    [PURPOSE, b"\0data key\0", id.as_bytes()].concat()
}

fn cipher(root: &Prk, purpose: &[&[u8]]) -> LessSafeKey {
    let key = root.expand(purpose, &AES_256_GCM);
    let key = key.expect("a key is shorter than what is derived");
    LessSafeKey::new(UnboundKey::from(key))
}

/// How many bytes are derived.
struct KeyLength(usize);

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(root: &Prk, purpose: &[&[u8]], into: &mut [u8]) {
    let derived = root.expand(purpose, KeyLength(into.len()));
    let derived = derived.and_then(|derived| derived.fill(into));
    derived.expect("a few bytes are derived, and as many as there is room for");
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.expect("the system gives random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_key_opens_with_its_key_for_its_backup_only() {
        let (key, other) = (BackupKey::new("one"), BackupKey::new("two"));
        assert_ne!(key.fingerprint(), other.fingerprint());
        assert_eq!(key.fingerprint(), BackupKey::new(" one\n").fingerprint());
        let (own, sealing) = DataKey::draw("a", &key);
        assert_ne!(sealing, DataKey::draw("a", &key).1, "each is drawn");
        let opened = DataKey::open("a", &sealing, &key).unwrap();
        assert_eq!(opened.digest("x"), own.digest("x"));
        assert!(DataKey::open("a", &sealing, &other).is_none());
        assert!(
            DataKey::open("b", &sealing, &key).is_none(),
            "it was copied"
        );
        for at in 0..sealing.data_key.len() {
            let mut altered = sealing.clone();
            let digit = altered.data_key.remove(at);
            altered
                .data_key
                .insert(at, if digit == '0' { '1' } else { '0' });
            assert!(DataKey::open("a", &altered, &key).is_none(), "digit {at}");
            altered.data_key.truncate(at);
            assert!(DataKey::open("a", &altered, &key).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn a_block_opens_in_its_place_of_its_file_and_backup_only() {
        let key = BackupKey::new("k");
        let (own, _) = DataKey::draw("a", &key);
        let file = own.file("f", FileContent::Rows);
        let mut block = b"geheim".to_vec();
        file.seal(3, &mut block);
        assert_eq!(block.len(), 6 + TAG_BYTES);
        assert_eq!(file.open(3, block.clone()).unwrap(), b"geheim");
        let (other, _) = DataKey::draw("a", &key);
        let renamed = DataKey {
            id: "b".into(),
            root: own.root.clone(),
        };
        let others = [
            (own.file("f", FileContent::Rows), 4),
            (own.file("g", FileContent::Rows), 3),
            (own.file("f", FileContent::Delta), 3),
            (other.file("f", FileContent::Rows), 3),
            (renamed.file("f", FileContent::Rows), 3),
        ];
        for (number, (file, place)) in others.iter().enumerate() {
            assert!(file.open(*place, block.clone()).is_none(), "case {number}");
        }
        for at in 0..block.len() {
            let mut altered = block.clone();
            altered[at] ^= 1;
            assert!(file.open(3, altered).is_none(), "byte {at}");
            assert!(file.open(3, block[..at].to_vec()).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn only_a_signed_manifest_passes() {
        let (key, _) = DataKey::draw("a", &BackupKey::new("k"));
        let mac = key.sign(b"manifest");
        assert!(key.is_signed(b"manifest", &mac));
        for (text, mac) in [
            ("Manifest", mac.as_str()),
            ("manifest", ""),
            ("manifest", "0"),
            ("manifest", &mac[2..]),
            ("manifest", &key.digest("manifest")),
        ] {
            assert!(!key.is_signed(text.as_bytes(), mac), "{text} {mac}");
        }
    }
}
