//! Connections that end with their proof.
//!
//! A proof is verified once, when a connection or a wait begins. A long-lived holder
//! watches the key ring: the proof ends when the key is deleted, when the secret behind
//! it is rotated away, or when the key loses the right in use. Expiry is the protocol's
//! own: some end a connection with its token, others do not.

use std::sync::Arc;

use tokio::sync::watch;

use super::audit::Audit;
use super::demand::{Demand, EntityScope};
use super::error::AccessError;
use super::key::KeyRing;
use super::principal::Principal;
use super::right::{Right, ServiceArea};
use super::verify::AccessControl;

/// Watches a proof in use, and the rights of which one is needed.
pub struct ProofWatch {
    pass: Principal,
    rights: &'static [Right],
    area: ServiceArea,
    entity: Option<String>,
    rings: watch::Receiver<Arc<KeyRing>>,
    audit: Arc<Audit>,
    /// The kind of connection, for the audit.
    kind: &'static str,
}

impl AccessControl {
    /// Watches a proof that a connection of this kind uses, for instance `worker stream`.
    pub fn watch_proof(
        &self,
        kind: &'static str,
        pass: &Principal,
        rights: &'static [Right],
        area: ServiceArea,
        entity: Option<&str>,
    ) -> ProofWatch {
        let mut rings = self.rings();
        // The ring may have changed since the proof was verified.
        rings.mark_changed();
        ProofWatch {
            pass: pass.clone(),
            rights,
            area,
            entity: entity.map(str::to_owned),
            rings,
            audit: Arc::clone(self.audit()),
            kind,
        }
    }
}

impl ProofWatch {
    /// Waits until the proof is revoked, and returns the reason.
    pub async fn proof_ended(&mut self) -> AccessError {
        loop {
            if self.rings.changed().await.is_err() {
                // Without a key ring there is nothing to watch.
                std::future::pending::<()>().await;
            }
            if let Err(denied) = self.check() {
                let key = self.pass.responsible_key();
                self.audit.revoked(self.kind, key, &denied);
                return denied;
            }
        }
    }

    fn check(&mut self) -> Result<(), AccessError> {
        let ring = Arc::clone(&self.rings.borrow_and_update());
        let pass = self.pass.revalidate(&ring)?;
        let scope = self
            .entity
            .as_deref()
            .map_or(EntityScope::Whole, EntityScope::Entity);
        pass.meets(&Demand::new(self.rights, self.area, scope))?;
        self.pass = pass;
        Ok(())
    }
}

/// Waits for the end of a proof, if there is one to watch.
pub async fn ended(follow: &mut Option<ProofWatch>) -> AccessError {
    match follow {
        Some(follow) => follow.proof_ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use steadfast_core::clock::{Timestamp, VirtualClock};

    use super::super::key::Key;
    use super::super::secret::Secret;
    use super::super::verify::Proof;
    use super::*;

    fn ring(keys: &[(&str, &str, &[&str])]) -> KeyRing {
        let mut ring = KeyRing::new();
        for (name, grant, secrets) in keys {
            ring.add(Key {
                name: (*name).to_owned(),
                grants: vec![grant.parse().unwrap()],
                primary: Secret::new(secrets[0]),
                secondary: secrets.get(1).copied().map(Secret::new),
            });
        }
        ring
    }

    fn access() -> AccessControl {
        let ring = ring(&[("a", "listen events/x", &["one"])]);
        let clock = VirtualClock::starting_at(Timestamp(0));
        AccessControl::new(ring, Arc::new(clock))
    }

    const RIGHTS: &[Right] = &[Right::Listen];

    fn pass(access: &AccessControl) -> Principal {
        let demand = Demand::new(RIGHTS, ServiceArea::Events, EntityScope::Entity("x"));
        access.authorize(Proof::Secret("one"), &demand).unwrap()
    }

    fn follow(access: &AccessControl) -> ProofWatch {
        access.watch_proof(
            "test",
            &pass(access),
            RIGHTS,
            ServiceArea::Events,
            Some("x"),
        )
    }

    #[test]
    fn a_proof_ends_with_its_key_its_secret_or_its_right() {
        let cases = [
            (ring(&[]), "the key 'a' was deleted"),
            (
                ring(&[("a", "listen events/x", &["three", "two"])]),
                "the secret of the key 'a' no longer counts",
            ),
            (
                ring(&[("a", "listen events/y", &["one"])]),
                "the key 'a' has no right 'listen events/x'",
            ),
        ];
        for (changed, why) in cases {
            let access = access();
            let mut follow = follow(&access);
            assert!(follow.proof_ended().now_or_never().is_none());
            access.replace(changed);
            let denied = follow.proof_ended().now_or_never().unwrap();
            assert_eq!(denied.message(), why);
        }
    }

    #[test]
    fn a_proof_goes_on_while_its_secret_counts_and_its_right_stays() {
        let access = access();
        let mut follow = follow(&access);
        // Rotated once, and with another right in addition.
        access.replace(ring(&[
            ("a", "manage *", &["two", "one"]),
            ("b", "manage *", &["other"]),
        ]));
        assert!(follow.proof_ended().now_or_never().is_none());
        access.replace(ring(&[("a", "listen events", &["two", "one"])]));
        assert!(follow.proof_ended().now_or_never().is_none());
        // Rotated twice.
        access.replace(ring(&[("a", "listen events", &["three", "two"])]));
        assert!(follow.proof_ended().now_or_never().is_some());
    }

    #[test]
    fn a_change_between_proof_and_follow_is_not_missed() {
        let access = access();
        let pass = pass(&access);
        access.replace(ring(&[]));
        let mut follow = access.watch_proof("test", &pass, RIGHTS, ServiceArea::Events, Some("x"));
        assert!(follow.proof_ended().now_or_never().is_some());
    }
}
