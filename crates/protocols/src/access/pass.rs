//! What somebody has proved.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use super::demand::{Demand, Scope};
use super::denied::{Denied, Reason};
use super::key::{Key, Ring, Slot};
use super::right::{Area, Grant, Right};

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

    pub(super) fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// What its key is granted.
    pub fn grants(&self) -> &[Grant] {
        &self.key.grants
    }

    /// Whether its holder may do what is demanded.
    pub fn meets(&self, demand: &Demand<'_>) -> Result<(), Denied> {
        match demand.is_met_by(&self.key.grants) {
            true => Ok(()),
            false => Err(self.denied(demand)),
        }
    }

    /// Whether its holder may do this. Without an entity: in the whole area.
    pub fn allows(&self, right: Right, area: Area, entity: Option<&str>) -> Result<(), Denied> {
        let scope = entity.map_or(Scope::Whole, Scope::Entity);
        self.meets(&Demand::new(&[right], area, scope))
    }

    /// Whether its holder may give others these rights: it has them all itself.
    pub fn grants_all(&self, grants: &[Grant]) -> Result<(), Denied> {
        let is_more = |grant: &&Grant| !self.key.grants.iter().any(|own| own.contains(grant));
        match grants.iter().find(is_more) {
            None => Ok(()),
            Some(grant) => {
                let name = self.name();
                let message = format!("the key '{name}' cannot grant '{grant}': it has less");
                Err(Denied::new(Reason::Forbidden, message))
            }
        }
    }

    fn denied(&self, demand: &Demand<'_>) -> Denied {
        let rights: Vec<_> = demand.rights.iter().map(ToString::to_string).collect();
        let (name, area) = (self.name(), demand.area);
        let entity = match demand.scope {
            Scope::Entity(entity) => format!("/{entity}"),
            Scope::AnyEntity | Scope::Whole => String::new(),
        };
        let rights = rights.join(" or ");
        let message = format!("the key '{name}' has no right '{rights} {area}{entity}'");
        Denied::new(Reason::Forbidden, message)
    }
}
