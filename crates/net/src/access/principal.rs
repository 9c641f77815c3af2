//! The authenticated key of a request.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use super::demand::{Demand, EntityScope};
use super::error::{AccessError, AccessErrorKind};
use super::key::{Key, KeyRing, SecretSlot};
use super::right::{Grant, Right, ServiceArea};
use super::secret::Secret;

/// For the holder of a token, which does not learn the names of keys.
pub(super) const ASKER_IS_GONE: &str = "the key that asked for the web token no longer counts";
const ASKER_HAS_LESS: &str = "the key that asked for the web token has lost the right to this";

/// An authenticated key with its rights.
#[derive(Clone, Debug)]
pub struct Principal {
    key: Arc<Key>,
    /// The secret that was presented, or that signed the proof.
    slot: SecretSlot,
    /// When it expires, if it does.
    pub expires: Option<Timestamp>,
    /// The key that requested the token, if this server issued it: both must be valid.
    asker: Option<Arc<Self>>,
}

impl Principal {
    pub(super) fn new(key: Arc<Key>, slot: SecretSlot, expires: Option<Timestamp>) -> Self {
        Self {
            key,
            slot,
            expires,
            asker: None,
        }
    }

    /// The same proof, valid only as long as the one of the key that requested it.
    pub(super) fn on_behalf_of(mut self, asker: Option<Self>) -> Self {
        self.asker = asker.map(Arc::new);
        self
    }

    /// The mark of a token that is issued to the holder: the token ends with this key. Only
    /// the server that signs the token can tell which key it names.
    pub fn mark(&self, signer: &Secret) -> Option<String> {
        let secret = self.key.secret(self.slot)?;
        Some(mark(signer, self.name(), secret.reveal()))
    }

    /// The key of this mark, if it is still valid.
    pub(super) fn marked(ring: &KeyRing, signer: &Secret, shown: &str) -> Option<Self> {
        ring.keys().find_map(|key| {
            let slot = key.proof(|secret| mark(signer, &key.name, secret) == shown)?;
            Some(Self::new(Arc::clone(key), slot, None))
        })
    }

    /// Checks the proof against a newer key ring, and takes the rights that its key has
    /// there. Denied if the key or the secret behind the proof no longer exists.
    pub fn revalidate(&self, ring: &KeyRing) -> Result<Self, AccessError> {
        let name = self.name();
        let Some(key) = ring.get(name) else {
            let message = format!("the key '{name}' was deleted");
            return Err(AccessError::new(AccessErrorKind::Wrong, message));
        };
        let own = self.key.secret(self.slot);
        let slot = own.and_then(|own| key.proof(|secret| own.is(secret)));
        let Some(slot) = slot else {
            let message = format!("the secret of the key '{name}' no longer counts");
            return Err(AccessError::new(AccessErrorKind::Wrong, message));
        };
        let gone = |_| AccessError::new(AccessErrorKind::Wrong, ASKER_IS_GONE);
        let asker = self.asker.as_ref();
        let asker = asker.map(|asker| asker.revalidate(ring).map_err(gone));
        let renewed = Self::new(Arc::clone(key), slot, self.expires);
        Ok(renewed.on_behalf_of(asker.transpose()?))
    }

    pub(super) fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// The name of the responsible key: the one that requested the token, if there is one.
    pub fn responsible_key(&self) -> &str {
        self.asker
            .as_ref()
            .map_or(self.name(), |asker| asker.name())
    }

    /// The grants of its key.
    pub fn grants(&self) -> &[Grant] {
        &self.key.grants
    }

    /// Whether the key meets a demand.
    pub fn meets(&self, demand: &Demand<'_>) -> Result<(), AccessError> {
        if !demand.is_met_by(&self.key.grants) {
            return Err(self.denied(demand));
        }
        let is_lost = |asker: &Arc<Self>| asker.meets(demand).is_err();
        if self.asker.as_ref().is_some_and(is_lost) {
            Err(AccessError::new(AccessErrorKind::Forbidden, ASKER_HAS_LESS))
        } else {
            Ok(())
        }
    }

    /// Whether the key has this right. Without an entity: in the whole area.
    pub fn allows(
        &self,
        right: Right,
        area: ServiceArea,
        entity: Option<&str>,
    ) -> Result<(), AccessError> {
        let scope = entity.map_or(EntityScope::Whole, EntityScope::Entity);
        self.meets(&Demand::new(&[right], area, scope))
    }

    /// Whether the key may grant these rights: it must have them all itself.
    pub fn grants_all(&self, grants: &[Grant]) -> Result<(), AccessError> {
        let is_more = |grant: &&Grant| !self.key.grants.iter().any(|own| own.contains(grant));
        match grants.iter().find(is_more) {
            None => Ok(()),
            Some(grant) => {
                let name = self.name();
                let message = format!("the key '{name}' cannot grant '{grant}': it has less");
                Err(AccessError::new(AccessErrorKind::Forbidden, message))
            }
        }
    }

    fn denied(&self, demand: &Demand<'_>) -> AccessError {
        let rights: Vec<_> = demand.rights.iter().map(ToString::to_string).collect();
        let (name, area) = (self.name(), demand.area);
        let entity = match demand.scope {
            EntityScope::Entity(entity) => format!("/{entity}"),
            EntityScope::AnyEntity | EntityScope::Whole | EntityScope::AnyKey => String::new(),
        };
        let rights = rights.join(" or ");
        let message = format!("the key '{name}' has no right '{rights} {area}{entity}'");
        AccessError::new(AccessErrorKind::Forbidden, message)
    }
}

/// The mark of a token that was requested with this secret of a key.
fn mark(signer: &Secret, name: &str, secret: &str) -> String {
    let own = signer.derive(&format!("asked for by {name}\n{secret}"));
    own.reveal().to_owned()
}
