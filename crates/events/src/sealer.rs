//! Encryption of policy keys at rest.
//!
//! The caller provides the [`Sealer`]. A sealed key is bound to its context: event hub,
//! policy, and which of its two keys it is. Plain-text keys of older versions are read
//! as they are, and sealed when their event hub is next read or written.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::definition::{AccessPolicy, EventHub};
use crate::keys::folded;

/// Encrypts and decrypts keys.
pub trait Sealer: Send + Sync + 'static {
    /// Encrypts a text for storage, bound to the context `place`.
    fn seal(&self, place: &str, text: &str) -> String;

    /// Decrypts a stored text, or returns plain text unchanged. `None` if it was sealed
    /// with another key, or for another context.
    fn open(&self, place: &str, stored: &str) -> Option<String>;
}

/// How the catalog stores keys: sealed, if there is a sealer.
#[derive(Clone, Default)]
pub(crate) struct KeyVault {
    sealer: Option<Arc<dyn Sealer>>,
    /// Event hubs and policies whose unreadable keys were logged.
    told: Arc<Mutex<HashSet<(u64, String)>>>,
}

/// A stored event hub, decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenedHub {
    pub(crate) hub: EventHub,
    /// Policies whose keys cannot be decrypted.
    pub(crate) locked: Vec<AccessPolicy>,
    /// Some keys are stored in plain text, though there is a sealer.
    pub(crate) is_plain: bool,
}

impl KeyVault {
    pub(crate) fn new(sealer: Arc<dyn Sealer>) -> Self {
        Self {
            sealer: Some(sealer),
            told: Arc::default(),
        }
    }

    /// Whether a policy's unreadable keys are to be logged: true the first time.
    pub(crate) fn tells(&self, hub: &EventHub, policy: &AccessPolicy) -> bool {
        let mut told = self.told.lock();
        told.insert((hub.id, policy.name.clone()))
    }

    /// An event hub with sealed keys, for storage.
    pub(crate) fn sealed(&self, hub: &EventHub) -> EventHub {
        let mut stored = hub.clone();
        if let Some(sealer) = &self.sealer {
            for policy in &mut stored.policies {
                policy.primary = sealer.seal(&place(hub, policy, "primary"), &policy.primary);
                policy.secondary = sealer.seal(&place(hub, policy, "secondary"), &policy.secondary);
            }
        }
        stored
    }

    /// A stored event hub with decrypted keys, and the policies that stay sealed.
    pub(crate) fn opened(&self, mut hub: EventHub) -> OpenedHub {
        let (mut locked, mut is_plain) = (Vec::new(), false);
        if self.sealer.is_some() {
            for policy in std::mem::take(&mut hub.policies) {
                match self.opened_policy(&hub, &policy) {
                    Some(open) => {
                        is_plain |= open == policy;
                        hub.policies.push(open);
                    }
                    None => locked.push(policy),
                }
            }
        }
        OpenedHub {
            hub,
            locked,
            is_plain,
        }
    }

    fn opened_policy(&self, hub: &EventHub, policy: &AccessPolicy) -> Option<AccessPolicy> {
        let sealer = self.sealer.as_ref()?;
        Some(AccessPolicy {
            primary: sealer.open(&place(hub, policy, "primary"), &policy.primary)?,
            secondary: sealer.open(&place(hub, policy, "secondary"), &policy.secondary)?,
            ..policy.clone()
        })
    }
}

/// The context that a key is bound to: hub ids are never reused.
fn place(hub: &EventHub, policy: &AccessPolicy, which: &str) -> String {
    let (id, name) = (hub.id, folded(&hub.name));
    format!("event hub {id} {name}\0policy {}\0{which}", policy.name)
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::Timestamp;

    use super::*;
    use crate::definition::{EventHubDefinition, Rights};

    /// Prefixes the text with its context.
    struct PlainSealer;

    impl Sealer for PlainSealer {
        fn seal(&self, place: &str, text: &str) -> String {
            format!("sealed {place}|{text}")
        }

        fn open(&self, place: &str, stored: &str) -> Option<String> {
            match stored.strip_prefix("sealed ") {
                Some(rest) => Some(rest.strip_prefix(place)?.strip_prefix('|')?.to_owned()),
                None => Some(stored.to_owned()),
            }
        }
    }

    fn hub(id: u64, name: &str, policy: &str) -> EventHub {
        let mut definition = EventHubDefinition::new(name, 1);
        definition.policies.push(AccessPolicy {
            name: policy.to_owned(),
            rights: Rights::default(),
            primary: "one".to_owned(),
            secondary: "two".to_owned(),
        });
        EventHub::of(id, &definition, Timestamp(0))
    }

    #[test]
    fn keys_open_at_their_own_place_only() {
        let vault = KeyVault::new(Arc::new(PlainSealer));
        let own = hub(7, "Orders", "send");
        let sealed = vault.sealed(&own);
        assert!(sealed.policies[0].primary.starts_with("sealed "));
        let opened = vault.opened(sealed.clone());
        assert_eq!((&opened.hub, opened.locked.len()), (&own, 0));
        assert!(!opened.is_plain);
        // To another event hub, another policy, and the other key of the same policy.
        let copied = sealed.policies[0].clone();
        let mut renamed = copied.clone();
        renamed.name = "manage".to_owned();
        let mut swapped = copied.clone();
        std::mem::swap(&mut swapped.primary, &mut swapped.secondary);
        let places = [(8, "Orders", copied.clone()), (7, "Other", copied)];
        let same = [(7, "Orders", renamed), (7, "Orders", swapped)];
        for (id, name, policy) in places.into_iter().chain(same) {
            let mut other = hub(id, name, "send");
            other.policies = vec![policy.clone()];
            let opened = vault.opened(other);
            assert_eq!(
                (opened.hub.policies, opened.locked),
                (Vec::new(), vec![policy])
            );
        }
    }

    #[test]
    fn keys_that_were_stored_as_they_are_open_and_are_sealed_then() {
        let vault = KeyVault::new(Arc::new(PlainSealer));
        let plain = hub(7, "orders", "send");
        let opened = vault.opened(plain.clone());
        assert_eq!((&opened.hub, opened.locked.len()), (&plain, 0));
        assert!(opened.is_plain);
        assert_ne!(vault.sealed(&opened.hub), plain);
        assert_eq!(KeyVault::default().sealed(&opened.hub), plain);
        assert!(!KeyVault::default().opened(plain).is_plain);
    }

    #[test]
    fn a_lock_is_told_once_per_event_hub_and_policy() {
        let vault = KeyVault::new(Arc::new(PlainSealer));
        let (one, two) = (hub(7, "orders", "send"), hub(8, "orders", "send"));
        assert!(vault.tells(&one, &one.policies[0]));
        assert!(!vault.clone().tells(&one, &one.policies[0]));
        assert!(vault.tells(&two, &two.policies[0]));
    }
}
