//! Keys and the key ring.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::right::Grant;
use super::secret::Secret;

/// The account of the blob endpoint that all keys use; no key has this name.
pub const SHARED: &str = "shared";

/// A name, its rights, and up to two secrets that prove it.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    pub grants: Vec<Grant>,
    /// The current one.
    pub primary: Secret,
    /// The previous one, which is valid until the next rotation.
    pub secondary: Option<Secret>,
}

/// Which of a key's two secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretSlot {
    Primary,
    Secondary,
}

impl Key {
    /// Its secrets, the current one first.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let second = self.secondary.as_ref();
        std::iter::once(&self.primary)
            .chain(second)
            .map(Secret::reveal)
    }

    /// The secret for which `proves` holds, the current one first.
    pub fn proof(&self, proves: impl Fn(&str) -> bool) -> Option<SecretSlot> {
        if proves(self.primary.reveal()) {
            return Some(SecretSlot::Primary);
        }
        let second = self.secondary.as_ref()?;
        proves(second.reveal()).then_some(SecretSlot::Secondary)
    }

    /// One of its secrets.
    pub fn secret(&self, slot: SecretSlot) -> Option<&Secret> {
        match slot {
            SecretSlot::Primary => Some(&self.primary),
            SecretSlot::Secondary => self.secondary.as_ref(),
        }
    }
}

/// All keys, by name.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: BTreeMap<String, Arc<Key>>,
}

impl KeyRing {
    /// An empty ring: all access is denied.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. False if there is one of that name already.
    pub fn add(&mut self, key: Key) -> bool {
        let is_new = !self.keys.contains_key(&key.name);
        if is_new {
            self.keys.insert(key.name.clone(), Arc::new(key));
        }
        is_new
    }

    /// The key of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Key>> {
        self.keys.get(name)
    }

    /// All keys in the order of their names.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.values()
    }

    /// Whether the ring has no key: all access is denied.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
