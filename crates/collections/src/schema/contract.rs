//! Checks that stored keys keep their meaning.
//!
//! The check runs when a collection is opened. Stored keys come in the order of their
//! bytes. If code changes how a key type sorts, compares or encodes, rows could be lost
//! or found twice. Such code is rejected with [`ErrorKind::KeyContractChanged`], before
//! it writes.

use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::key::{Key, decode_key, encode_key};

/// Checks keys one by one, in the order in which they are stored.
#[derive(Debug)]
pub struct KeyCheck<K> {
    before: Option<K>,
}

impl<K: Key> KeyCheck<K> {
    /// A check that has seen no key.
    pub fn new() -> Self {
        Self { before: None }
    }

    /// Checks the next stored key and returns it.
    pub fn next(&mut self, bytes: &[u8]) -> Result<&K> {
        let key = decode_key::<K>(bytes)
            .map_err(|error| Error::caused(changed::<K>(bytes, "cannot be read"), error))?;
        let again = encode_key(&key)
            .map_err(|error| Error::caused(changed::<K>(bytes, "cannot be written"), error))?;
        if again != bytes {
            return Err(Error::new(changed::<K>(
                bytes,
                "is written differently now",
            )));
        }
        if self.before.as_ref().is_some_and(|before| *before >= key) {
            return Err(Error::new(changed::<K>(
                bytes,
                "no longer sorts after the key that is stored before it",
            )));
        }
        Ok(self.before.insert(key))
    }
}

impl<K: Key> Default for KeyCheck<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Checks all keys of a collection, in the order in which they are stored.
pub fn check_keys<K: Key>(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<()> {
    let mut check = KeyCheck::<K>::new();
    for key in keys {
        check.next(key.as_ref())?;
    }
    Ok(())
}

#[cold]
fn changed<K: Key>(bytes: &[u8], how: &str) -> ErrorKind {
    ErrorKind::KeyContractChanged {
        type_name: K::type_name(),
        how: format!("the stored key {} {how}", bytes.escape_ascii()),
    }
}
