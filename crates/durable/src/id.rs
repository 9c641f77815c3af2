//! Names of task hubs, instances and entities.
//!
//! Stored state depends on the addresses here, so they never change. An entity is
//! an instance whose id is `@name@key`; its name is lower case, its key is not
//! touched.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast_core::limits;
use steadfast_partition::{Address, ServiceKind};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, ErrorKind, Result};

/// The service that runs instances.
pub const KIND: ServiceKind = ServiceKind(32);

/// The address of an instance of a task hub.
pub(crate) fn address(hub: &str, instance: &str) -> Address {
    Address::new(KIND, hub.to_owned(), instance.to_owned())
}

/// The address of another instance of the same task hub.
pub(crate) fn sibling_address(of: &Address, instance: &str) -> Address {
    Address::new(KIND, of.name.clone(), instance.to_owned())
}

/// Whether an instance is an entity.
pub fn is_entity(instance: &str) -> bool {
    instance.starts_with('@')
}

/// An entity's name and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId {
    name: String,
    key: String,
}

impl EntityId {
    /// Names an entity.
    pub fn new(name: &str, key: &str) -> Result<Self> {
        let is_bad = name.is_empty() || name.contains('@') || has_control(name);
        if is_bad || has_control(key) {
            return Err(invalid(&format!("{name:?} with the key {key:?}")));
        }
        let id = Self {
            name: name.to_lowercase(),
            key: key.to_owned(),
        };
        checked_length(id.name.chars().count() + id.key.chars().count() + 2)?;
        Ok(id)
    }

    /// Parses `@name@key`; the key may contain more `@`.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = text.strip_prefix('@').and_then(|rest| rest.split_once('@'));
        match parts {
            Some((name, key)) => Self::new(name, key),
            None => Err(invalid(&format!("{text:?}"))),
        }
    }

    /// The name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}@{}", self.name, self.key)
    }
}

/// A GUID that depends on the seed only.
pub(crate) fn guid(seed: &str) -> String {
    Uuid::from_u128(xxh3_128(seed.as_bytes())).to_string()
}

/// A new unique GUID. The kernel provides randomness once per process, not once per
/// request.
pub(crate) fn fresh_guid() -> String {
    static SEED: LazyLock<Uuid> = LazyLock::new(Uuid::new_v4);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut seed = [0; 24];
    seed[..16].copy_from_slice(SEED.as_bytes());
    seed[16..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let bytes = xxh3_128(&seed).to_be_bytes();
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    id.to_string()
}

fn invalid(what: &str) -> Error {
    let message = format!("{what} is not an entity id; use @name@key with a non-empty name");
    Error::new(ErrorKind::Invalid, message)
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn checked_length(characters: usize) -> Result<()> {
    if characters <= limits::INSTANCE_ID {
        return Ok(());
    }
    let most = limits::INSTANCE_ID;
    Err(Error::new(
        ErrorKind::Invalid,
        format!("the id of an instance is at most {most} characters long; this one is longer"),
    ))
}

/// Checks the id of an orchestration.
pub(crate) fn check_instance(id: &str) -> Result<()> {
    checked_length(id.chars().count())?;
    if id.is_empty() || is_entity(id) || has_control(id) {
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{id:?} is not an orchestration id: it must not be empty, start with @ or contain \
                 control characters"
            ),
        ))
    } else {
        Ok(())
    }
}

/// Checks the name of a task hub.
pub(crate) fn check_hub(name: &str) -> Result<()> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= limits::TASK_HUB_NAME && name.chars().all(is_good) {
        Ok(())
    } else {
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{name:?} is not a task hub name: use 1 to 64 letters, digits, '-', '_' and '.'"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_50_names_fold_to_lower_case_and_keys_do_not() {
        let id = EntityId::parse("@Counter@Alice@home").unwrap();
        assert_eq!((id.name(), id.key()), ("counter", "Alice@home"));
        assert_eq!(id.to_string(), "@counter@Alice@home");
        assert_eq!(EntityId::parse("@c@").unwrap().key(), "");
        for bad in ["", "@", "@@k", "counter", "@counter", "@a\0@b"] {
            let error = EntityId::parse(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn fresh_ids_are_guids_and_differ() {
        let mut ids: Vec<_> = (0..1000).map(|_| fresh_guid()).collect();
        assert!(ids.iter().all(|id| Uuid::parse_str(id).is_ok()));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1000);
    }

    #[test]
    fn ids_have_a_longest_length() {
        assert!(check_instance(&"x".repeat(100)).is_ok());
        assert!(check_instance(&"x".repeat(101)).is_err());
        assert!(check_instance("@x").is_err());
        assert!(EntityId::parse(&format!("@c@{}", "k".repeat(98))).is_err());
        assert!(check_hub("my.hub_1-a").is_ok());
        assert!(check_hub("a b").is_err());
    }
}
