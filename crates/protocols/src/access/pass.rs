//! What somebody has proved.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use super::demand::{Demand, Scope};
use super::denied::{Denied, Reason};
use super::key::{Key, Ring, Slot};
use super::right::{Area, Grant, Right};
use super::secret::Secret;

/// Said to the holder of a token, which does not learn the names of keys.
pub(super) const ASKER_IS_GONE: &str = "the key that asked for the web token no longer counts";
const ASKER_HAS_LESS: &str = "the key that asked for the web token has lost the right to this";

/// The rights of whoever has shown a proof.
#[derive(Clone, Debug)]
pub struct Pass {
    key: Arc<Key>,
    /// The secret that was shown, or that has signed what was shown.
    slot: Slot,
    /// When it ends, if it does.
    pub expires: Option<Timestamp>,
    /// The key that asked for the token, if this server made it: both must count.
    asker: Option<Arc<Self>>,
}

impl Pass {
    pub(super) fn new(key: Arc<Key>, slot: Slot, expires: Option<Timestamp>) -> Self {
        Self {
            key,
            slot,
            expires,
            asker: None,
        }
    }

    /// The same proof, which counts only as long as that of the key that asked for it.
    pub(super) fn asked_by(mut self, asker: Option<Self>) -> Self {
        self.asker = asker.map(Arc::new);
        self
    }

    /// Marks a token that is made for the holder: it ends with this key. Only the server
    /// that signs the token can tell whose mark it is.
    pub fn mark(&self, signer: &Secret) -> Option<String> {
        let secret = self.key.secret(self.slot)?;
        Some(mark(signer, self.name(), secret.reveal()))
    }

    /// The key that has left this mark, if it still counts.
    pub(super) fn marked(ring: &Ring, signer: &Secret, shown: &str) -> Option<Self> {
        ring.keys().find_map(|key| {
            let slot = key.proof(|secret| mark(signer, &key.name, secret) == shown)?;
            Some(Self::new(Arc::clone(key), slot, None))
        })
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
        let gone = |_| Denied::new(Reason::Wrong, ASKER_IS_GONE);
        let asker = self.asker.as_ref();
        let asker = asker.map(|asker| asker.renewed(ring).map_err(gone));
        let renewed = Self::new(Arc::clone(key), slot, self.expires);
        Ok(renewed.asked_by(asker.transpose()?))
    }

    pub(super) fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// The name of the key that answers for the proof: the one that asked for the token,
    /// if there is one.
    pub fn answerable(&self) -> &str {
        self.asker
            .as_ref()
            .map_or(self.name(), |asker| asker.name())
    }

    /// What its key is granted.
    pub fn grants(&self) -> &[Grant] {
        &self.key.grants
    }

    /// Whether its holder may do what is demanded.
    pub fn meets(&self, demand: &Demand<'_>) -> Result<(), Denied> {
        if !demand.is_met_by(&self.key.grants) {
            return Err(self.denied(demand));
        }
        let is_lost = |asker: &Arc<Self>| asker.meets(demand).is_err();
        match self.asker.as_ref().is_some_and(is_lost) {
            true => Err(Denied::new(Reason::Forbidden, ASKER_HAS_LESS)),
            false => Ok(()),
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
            Scope::AnyEntity | Scope::Whole | Scope::AnyKey => String::new(),
        };
        let rights = rights.join(" or ");
        let message = format!("the key '{name}' has no right '{rights} {area}{entity}'");
        Denied::new(Reason::Forbidden, message)
    }
}

/// What marks a token as asked for by a key with this secret.
fn mark(signer: &Secret, name: &str, secret: &str) -> String {
    let own = signer.derive(&format!("asked for by {name}\n{secret}"));
    own.reveal().to_owned()
}
