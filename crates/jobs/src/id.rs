//! The names of collections and jobs.
//!
//! Names are compared without regard to case; the spelling in which something was
//! made is kept. Parts are separated by a zero byte, which no name has.

use steadfast_collections::schema::Record;
use steadfast_partition::{Address, Kind};

/// Which addresses belong to jobs.
pub const KIND: Kind = Kind(48);

/// A collection of jobs, as somebody spelt it.
#[derive(Record, Clone, PartialEq, Eq, Hash, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct CollectionId {
    #[n(0)]
    pub subscription: String,
    #[n(1)]
    pub group: String,
    #[n(2)]
    pub name: String,
}

/// A job, as somebody spelt it.
#[derive(Record, Clone, PartialEq, Eq, Hash, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct JobId {
    #[n(0)]
    pub collection: CollectionId,
    #[n(1)]
    pub name: String,
}

impl CollectionId {
    /// Names a collection; `None` if a part is empty, too long or has control
    /// characters.
    pub fn new(subscription: &str, group: &str, name: &str) -> Option<Self> {
        let parts = [subscription, group, name];
        parts.into_iter().all(is_name).then(|| Self {
            subscription: subscription.into(),
            group: group.into(),
            name: name.into(),
        })
    }

    /// What identifies it, whatever its spelling.
    pub(crate) fn key(&self) -> String {
        let parts = [&self.subscription, &self.group, &self.name];
        parts.map(|part| part.to_lowercase()).join("\0")
    }

    /// Where it lives: its jobs live with it.
    pub(crate) fn address(&self) -> Address {
        Address::new(KIND, self.key(), "")
    }

    /// A job of this collection.
    pub fn job(&self, name: &str) -> Option<JobId> {
        is_name(name).then(|| JobId {
            collection: self.clone(),
            name: name.into(),
        })
    }
}

impl JobId {
    /// The address that commands, timers and work of the job carry.
    pub(crate) fn address(&self) -> Address {
        Address::new(KIND, self.collection.key(), self.name.to_lowercase())
    }
}

/// Long enough for everything that people call their jobs.
const NAME_CHARS: usize = 260;

fn is_name(text: &str) -> bool {
    let length = text.chars().count();
    (1..=NAME_CHARS).contains(&length) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_matter_and_parts_do_not_run_together() {
        let one = CollectionId::new("s", "RG", "Jobs").unwrap();
        let two = CollectionId::new("S", "rg", "jOBS").unwrap();
        assert_eq!(one.address(), two.address());
        assert_eq!(
            one.job("Ü").unwrap().address(),
            two.job("ü").unwrap().address()
        );
        let other = CollectionId::new("s", "rgj", "obs").unwrap();
        assert_ne!(one.key(), other.key());
        assert!(CollectionId::new("s", "", "x").is_none());
        assert!(one.job("a\0b").is_none());
    }
}
