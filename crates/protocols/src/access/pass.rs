//! What somebody has proved.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use super::denied::{Denied, Reason};
use super::key::{Key, Ring, Slot};
use super::right::{Area, Right};

/// The rights of whoever has shown a proof.
#[derive(Clone, Debug)]
pub struct Pass {
    key: Arc<Key>,
    /// The secret that was shown, or that has signed what was shown.
    slot: Slot,
    /// When it ends, if it does.
    pub expires: Option<Timestamp>,
}

impl Pass {
    pub(super) fn new(key: Arc<Key>, slot: Slot, expires: Option<Timestamp>) -> Self {
        Self { key, slot, expires }
    }

    /// The same proof under the keys of a later ring: with the rights that its key has
    /// there. Refused if the key is gone, or if the secret behind the proof is.
    pub fn renewed(&self, ring: &Ring) -> Result<Self, Denied> {
        let name = self.name();
        let Some(key) = ring.get(name) else {
            let message = format!("the key '{name}' was deleted");
            return Err(Denied::new(Reason::Wrong, message));
        };
        let own = self.key.secret(self.slot);
        let slot = own.and_then(|own| key.proof(|secret| own.is(secret)));
        let Some(slot) = slot else {
            let message = format!("the secret of the key '{name}' no longer counts");
            return Err(Denied::new(Reason::Wrong, message));
        };
        Ok(Self::new(Arc::clone(key), slot, self.expires))
    }

    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// Whether its holder may do this. Without an entity: in the whole area.
    pub fn allows(&self, right: Right, area: Area, entity: Option<&str>) -> Result<(), Denied> {
        let mut grants = self.key.grants.iter();
        match grants.any(|grant| grant.holds(right, area, entity)) {
            true => Ok(()),
            false => Err(self.denied(right, area, entity)),
        }
    }

    /// Whether its holder may do this on some entity of the area.
    pub fn allows_somewhere(&self, right: Right, area: Area) -> Result<(), Denied> {
        let mut grants = self.key.grants.iter();
        match grants.any(|grant| grant.holds_somewhere(right, area)) {
            true => Ok(()),
            false => Err(self.denied(right, area, None)),
        }
    }

    fn denied(&self, right: Right, area: Area, entity: Option<&str>) -> Denied {
        let entity = entity
            .map(|entity| format!("/{entity}"))
            .unwrap_or_default();
        let name = self.name();
        let message = format!("the key '{name}' has no right '{right} {area}{entity}'");
        Denied::new(Reason::Forbidden, message)
    }
}
