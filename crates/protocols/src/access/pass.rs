//! What somebody has proved.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use super::denied::{Denied, Reason};
use super::key::Key;
use super::right::{Area, Right};

/// The rights of whoever has shown a proof.
#[derive(Clone, Debug)]
pub struct Pass {
    key: Arc<Key>,
    /// When it ends, if it does.
    pub expires: Option<Timestamp>,
}

impl Pass {
    pub(super) fn new(key: Arc<Key>, expires: Option<Timestamp>) -> Self {
        Self { key, expires }
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
