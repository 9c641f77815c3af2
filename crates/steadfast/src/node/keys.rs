//! The key file.
//!
//! The file is authoritative: a change is written to a new file, synced and renamed before
//! it takes effect. Only the owner of the file can read it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steadfast_core::limits;
use steadfast_net::access::{Grant, Key, Secret};

use super::error::{Error, Result};

/// Keys in a file.
#[derive(Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFileContent {
    #[serde(default, rename = "key")]
    keys: Vec<StoredKey>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    name: String,
    rights: Vec<String>,
    primary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    secondary: Option<String>,
}

/// The outcome of a change.
pub(super) enum KeyChangeOutcome {
    /// The key's new secret.
    Done(Secret),
    /// A key of that name exists.
    Exists,
    /// There is no key of that name.
    Missing,
    /// The maximum number of keys is reached.
    Full,
}

impl KeyFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// All keys; none if there is no file yet.
    pub(super) fn load(&self) -> Result<Vec<Key>> {
        let stored = self.read()?;
        stored.keys.into_iter().map(|key| self.key(key)).collect()
    }

    /// Adds a key with a new secret.
    pub(super) fn create(&self, name: &str, grants: &[Grant]) -> Result<KeyChangeOutcome> {
        let mut stored = self.read()?;
        if stored.keys.iter().any(|key| key.name == name) {
            return Ok(KeyChangeOutcome::Exists);
        }
        if stored.keys.len() >= limits::KEYS {
            return Ok(KeyChangeOutcome::Full);
        }
        let secret = self.secret()?;
        stored.keys.push(StoredKey {
            name: name.to_owned(),
            rights: grants.iter().map(ToString::to_string).collect(),
            primary: secret.reveal().to_owned(),
            secondary: None,
        });
        self.write(&stored)?;
        Ok(KeyChangeOutcome::Done(secret))
    }

    /// Gives a key a new secret; the former one becomes its second.
    pub(super) fn rotate(&self, name: &str) -> Result<KeyChangeOutcome> {
        let mut stored = self.read()?;
        let Some(key) = stored.keys.iter_mut().find(|key| key.name == name) else {
            return Ok(KeyChangeOutcome::Missing);
        };
        let secret = self.secret()?;
        let former = std::mem::replace(&mut key.primary, secret.reveal().to_owned());
        key.secondary = Some(former);
        self.write(&stored)?;
        Ok(KeyChangeOutcome::Done(secret))
    }

    /// Removes a key; false if there is none of that name.
    pub(super) fn delete(&self, name: &str) -> Result<bool> {
        let mut stored = self.read()?;
        let before = stored.keys.len();
        stored.keys.retain(|key| key.name != name);
        if stored.keys.len() == before {
            return Ok(false);
        }
        self.write(&stored)?;
        Ok(true)
    }

    fn key(&self, key: StoredKey) -> Result<Key> {
        let grants = key.rights.iter().map(|right| right.parse::<Grant>());
        let grants = grants.collect::<std::result::Result<_, _>>();
        Ok(Key {
            grants: grants.map_err(|error| self.error(format!("key '{}': {error}", key.name)))?,
            name: key.name,
            primary: Secret::new(key.primary),
            secondary: key.secondary.map(Secret::new),
        })
    }

    fn read(&self) -> Result<KeyFileContent> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(KeyFileContent::default());
            }
            text => text.map_err(|error| self.error(error))?,
        };
        // The reader's message names the field, and the text around it stays out.
        toml::from_str(&text).map_err(|error| self.error(error.message()))
    }

    fn write(&self, stored: &KeyFileContent) -> Result<()> {
        let text = toml::to_string(stored).map_err(|error| self.error(error))?;
        self.replace(&text).map_err(|error| self.error(error))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        steadfast_storage::private::create_dir_all(folder)?;
        let next = self.path.with_extension("next");
        // A file left by an interrupted change might be readable by others.
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, &self.path)?;
        fs::File::open(folder)?.sync_all()
    }

    fn secret(&self) -> Result<Secret> {
        Secret::random().ok_or_else(|| self.error("the system has no random bytes"))
    }

    #[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
    fn error(&self, why: impl ToString) -> Error {
        Error::Keys {
            file: self.path.clone(),
            why: why.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn secret(changed: KeyChangeOutcome) -> String {
        match changed {
            KeyChangeOutcome::Done(secret) => secret.reveal().to_owned(),
            KeyChangeOutcome::Exists => panic!("it exists"),
            KeyChangeOutcome::Missing => panic!("it is missing"),
            KeyChangeOutcome::Full => panic!("there are too many"),
        }
    }

    #[test]
    fn keys_are_kept_for_their_owner_only_and_rotate() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(folder.path().join("new/keys.toml"));
        assert!(file.load().unwrap().is_empty());
        let grants = ["send events/a".parse().unwrap()];
        let first = secret(file.create("a", &grants).unwrap());
        assert!(matches!(
            file.create("a", &grants).unwrap(),
            KeyChangeOutcome::Exists
        ));
        let mode = fs::metadata(&file.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = secret(file.rotate("a").unwrap());
        assert_ne!(first, second);
        let keys = file.load().unwrap();
        let secrets: Vec<_> = keys[0].secrets().map(str::to_owned).collect();
        assert_eq!(secrets, [second, first]);
        assert!(matches!(
            file.rotate("b").unwrap(),
            KeyChangeOutcome::Missing
        ));
        assert!(file.delete("a").unwrap() && !file.delete("a").unwrap());
    }

    #[test]
    fn a_damaged_file_is_named_and_its_secrets_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        fs::write(&path, "[[key]]\nname = 'a'\nprimary = 'hush'\nrights = 5\n").unwrap();
        let error = KeyFile::new(path).load().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains("STF-7005") && !shown.contains("hush"),
            "{shown}"
        );
    }
}
