//! The names of collections and jobs.
//!
//! Names are compared case-insensitively; the original spelling is kept. Parts are
//! separated by a zero byte, which no name has.

use steadfast_collections::schema::Record;
use steadfast_partition::{Address, ServiceKind};

/// The service kind of jobs.
pub const KIND: ServiceKind = ServiceKind(48);

/// The id of a job collection, in its original spelling.
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

/// The id of a job, in its original spelling.
#[derive(Record, Clone, PartialEq, Eq, Hash, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct JobId {
    #[n(0)]
    pub collection: CollectionId,
    #[n(1)]
    pub name: String,
}

impl CollectionId {
    /// The id of a collection; `None` if a part is empty, too long or has control
    /// characters.
    pub fn new(subscription: &str, group: &str, name: &str) -> Option<Self> {
        let parts = [subscription, group, name];
        parts.into_iter().all(is_name).then(|| Self {
            subscription: subscription.into(),
            group: group.into(),
            name: name.into(),
        })
    }

    /// The normalised key, independent of spelling.
    pub(crate) fn key(&self) -> String {
        let parts = [&self.subscription, &self.group, &self.name];
        parts.map(|part| part.to_lowercase()).join("\0")
    }

    /// The address of the collection, in the same partition as its jobs.
    pub(crate) fn address(&self) -> Address {
        Address::new(KIND, self.key(), "")
    }

    /// The id of a job of this collection.
    pub fn job(&self, name: &str) -> Option<JobId> {
        is_name(name).then(|| JobId {
            collection: self.clone(),
            name: name.into(),
        })
    }
}

impl JobId {
    /// The address of the job's commands, timers and work.
    pub(crate) fn address(&self) -> Address {
        Address::new(KIND, self.collection.key(), self.name.to_lowercase())
    }
}

/// The longest part of a name.
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
