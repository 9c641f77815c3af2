//! The one place where proofs are verified.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_wire::jwt::Jwt;
use steadfast_wire::sas::Sas;
use tokio::sync::watch;

use super::audit::Audit;
use super::denied::{Denied, Reason};
use super::key::{Key, Ring, Slot};
use super::pass::Pass;
use super::right::{Area, Right};

/// How far the clock of whoever made a web token may be off.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The keys that count now. They can be replaced while everything runs.
pub struct Access {
    ring: watch::Sender<Arc<Ring>>,
    clock: Arc<dyn Clock>,
    audit: Arc<Audit>,
}

impl Access {
    /// Lets in whoever has one of these keys.
    pub fn new(ring: Ring, clock: Arc<dyn Clock>) -> Self {
        Self {
            ring: watch::Sender::new(Arc::new(ring)),
            audit: Arc::new(Audit::new(Arc::clone(&clock))),
            clock,
        }
    }

    /// From now on these keys count, and no others.
    pub fn replace(&self, ring: Ring) {
        let fresh = Arc::new(ring);
        let former = self.ring.send_replace(Arc::clone(&fresh));
        self.audit.replaced(&former, &fresh);
    }

    /// What was changed and refused.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// The keys that count, and each change of them.
    pub fn rings(&self) -> watch::Receiver<Arc<Ring>> {
        self.ring.subscribe()
    }

    /// The keys that count now.
    pub fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.borrow())
    }

    /// What an `Authorization` header proves: a shared access signature that
    /// covers `resource`, or `Bearer` and a secret.
    pub fn header(&self, header: Option<&str>, resource: &str) -> Result<Pass, Denied> {
        let header = header.unwrap_or_default().trim();
        match header.split_once(' ') {
            Some(("SharedAccessSignature", _)) => self.sas(header, resource),
            Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => {
                self.secret(secret.trim())
            }
            _ => Err(Denied::new(
                Reason::Missing,
                "no key was given: send 'Authorization: Bearer <key>' or a shared access signature",
            )),
        }
    }

    /// A shared access signature that covers `resource`.
    pub fn sas(&self, token: &str, resource: &str) -> Result<Pass, Denied> {
        let sas = Sas::parse(token).map_err(|_| {
            Denied::new(
                Reason::Malformed,
                "the shared access signature cannot be read",
            )
        })?;
        let (key, slot) = self.named(&sas.key_name, |secret| sas.is_signed_by(secret))?;
        let expires = Timestamp(sas.expiry.saturating_mul(1000));
        if expires <= self.clock.now() {
            return Err(expired("the shared access signature", sas.expiry));
        }
        if !sas.covers(resource) {
            let message = format!("the shared access signature is not for '{resource}'");
            return Err(Denied::new(Reason::Forbidden, message));
        }
        Ok(Pass::new(key, slot, Some(expires)))
    }

    /// A JSON web token of somebody who has this right somewhere in the area. The
    /// caller compares the audience.
    pub fn jwt(
        &self,
        token: &str,
        right: Right,
        area: Area,
    ) -> Result<(Map<String, Value>, Pass), Denied> {
        let jwt = Jwt::parse(token)
            .map_err(|error| Denied::new(Reason::Malformed, format!("the web token: {error}")))?;
        let ring = self.ring();
        let mut keys = ring.keys().filter(|key| may(key, right, area));
        let signed =
            keys.find_map(|key| Some((key, key.proof(|secret| jwt.is_signed_by(secret))?)));
        let Some((key, slot)) = signed else {
            let message =
                format!("no key with the right '{right} {area}' has signed the web token");
            return Err(Denied::new(Reason::Wrong, message));
        };
        let now = self.clock.now().0 as f64 / 1000.0;
        let skew = SKEW.as_secs_f64();
        let Some(expiry) = jwt.expiry() else {
            let message = "the web token does not say when it ends ('exp')";
            return Err(Denied::new(Reason::Malformed, message));
        };
        if expiry + skew <= now {
            return Err(expired("the web token", expiry as i64));
        }
        if jwt.not_before().is_some_and(|start| start - skew > now) {
            return Err(Denied::new(
                Reason::Expired,
                "the web token does not count yet",
            ));
        }
        let expires = Timestamp((expiry * 1000.0) as i64);
        let pass = Pass::new(Arc::clone(key), slot, Some(expires));
        Ok((jwt.claims, pass))
    }

    /// A secret itself.
    pub fn secret(&self, secret: &str) -> Result<Pass, Denied> {
        let ring = self.ring();
        let mut found = None;
        // All are compared, so that the time does not tell which one it was.
        for key in ring.keys() {
            let second = key.secondary.as_ref().is_some_and(|own| own.is(secret));
            match (key.primary.is(secret), second) {
                (true, _) => found = Some((key, Slot::Primary)),
                (false, true) => found = Some((key, Slot::Secondary)),
                (false, false) => {}
            }
        }
        match found {
            Some((key, slot)) => Ok(Pass::new(Arc::clone(key), slot, None)),
            None => Err(Denied::new(
                Reason::Wrong,
                "the key is not one of this server's",
            )),
        }
    }

    /// A key's name and its secret.
    pub fn plain(&self, name: &str, secret: &str) -> Result<Pass, Denied> {
        let is_it = |own: &str| super::secret::Secret::new(own).is(secret);
        let (key, slot) = self.named(name, is_it)?;
        Ok(Pass::new(key, slot, None))
    }

    /// Some other proof that somebody has a key: `proves` is asked about each of
    /// its secrets.
    pub fn prove(&self, name: &str, proves: impl Fn(&str) -> bool) -> Result<Pass, Denied> {
        let (key, slot) = self.named(name, proves)?;
        Ok(Pass::new(key, slot, None))
    }

    fn named(&self, name: &str, proves: impl Fn(&str) -> bool) -> Result<(Arc<Key>, Slot), Denied> {
        let ring = self.ring();
        let Some(key) = ring.get(name) else {
            let message = format!("there is no key '{name}'");
            return Err(Denied::new(Reason::Wrong, message));
        };
        match key.proof(proves) {
            Some(slot) => Ok((Arc::clone(key), slot)),
            None => Err(Denied::new(
                Reason::Wrong,
                format!("it was not made with the key '{name}'"),
            )),
        }
    }
}

fn may(key: &Key, right: Right, area: Area) -> bool {
    let mut grants = key.grants.iter();
    grants.any(|grant| grant.holds_somewhere(right, area))
}

fn expired(what: &str, seconds: i64) -> Denied {
    Denied::new(
        Reason::Expired,
        format!("{what} has ended, {seconds} seconds after 1970"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steadfast_core::clock::VirtualClock;
    use steadfast_wire::{jwt, sas};

    use super::super::secret::Secret;
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn key(name: &str, grants: &[&str], secrets: &[&str]) -> Key {
        Key {
            name: name.to_owned(),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            primary: Secret::new(secrets[0]),
            secondary: secrets.get(1).copied().map(Secret::new),
        }
    }

    fn access() -> Access {
        let mut ring = Ring::new();
        assert!(ring.add(key("sender", &["send events/houses"], &["new", "old"])));
        assert!(ring.add(key("hubs", &["manage realtime"], &["hub secret"])));
        assert!(!ring.add(key("hubs", &[], &["other"])));
        let clock = VirtualClock::starting_at(Timestamp(NOW * 1000));
        Access::new(ring, Arc::new(clock))
    }

    fn reason<T>(result: Result<T, Denied>) -> Option<Reason> {
        result.err().map(|denied| denied.reason)
    }

    #[test]
    fn both_secrets_of_a_key_count_until_it_is_replaced() {
        let access = access();
        for secret in ["new", "old"] {
            let token = sas::token("sb://h/houses", NOW + 60, "sender", secret);
            let pass = access.sas(&token, "sb://h/houses/Partitions/1").unwrap();
            assert_eq!(pass.expires, Some(Timestamp((NOW + 60) * 1000)));
            assert!(access.secret(secret).is_ok());
            assert!(access.plain("sender", secret).is_ok());
        }
        let mut ring = Ring::new();
        ring.add(key("sender", &["send events"], &["newer", "new"]));
        access.replace(ring);
        assert!(access.secret("new").is_ok());
        assert_eq!(reason(access.secret("old")), Some(Reason::Wrong));
    }

    #[test]
    fn each_bad_signature_is_refused_for_its_reason() {
        let access = access();
        let cases = [
            ("nonsense".to_owned(), Reason::Malformed),
            (
                sas::token("sb://h/houses", NOW + 9, "nobody", "new"),
                Reason::Wrong,
            ),
            (
                sas::token("sb://h/houses", NOW + 9, "sender", "bad"),
                Reason::Wrong,
            ),
            (
                sas::token("sb://h/houses", NOW, "sender", "new"),
                Reason::Expired,
            ),
            (
                sas::token("sb://h/cars", NOW + 9, "sender", "new"),
                Reason::Forbidden,
            ),
        ];
        for (token, expected) in cases {
            assert_eq!(
                reason(access.sas(&token, "sb://h/houses")),
                Some(expected),
                "{token}"
            );
        }
    }

    #[test]
    fn a_web_token_counts_if_a_key_of_the_area_has_signed_it() {
        let access = access();
        let token = |claims: Value, key: &str| jwt::token(claims.as_object().unwrap(), key);
        let ask = |token: &str| access.jwt(token, Right::Listen, Area::Realtime);
        let good = token(json!({"exp": NOW + 5, "nameid": "me"}), "hub secret");
        let (claims, pass) = ask(&good).unwrap();
        assert_eq!(
            (claims["nameid"].as_str(), pass.name()),
            (Some("me"), "hubs")
        );
        let cases = [
            (token(json!({"exp": NOW + 5}), "new"), Reason::Wrong),
            (
                token(json!({"exp": NOW - 301}), "hub secret"),
                Reason::Expired,
            ),
            (
                token(json!({"exp": NOW + 5, "nbf": NOW + 301}), "hub secret"),
                Reason::Expired,
            ),
            (token(json!({}), "hub secret"), Reason::Malformed),
        ];
        for (token, expected) in cases {
            assert_eq!(reason(ask(&token)), Some(expected), "{token}");
        }
    }

    #[test]
    fn a_header_brings_a_signature_a_secret_or_nothing() {
        let access = access();
        let pass = access.header(Some("bearer new"), "/x").unwrap();
        assert!(
            pass.allows(Right::Send, Area::Events, Some("houses"))
                .is_ok()
        );
        let denied = pass.allows(Right::Manage, Area::Node, None).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "STF-6005: the key 'sender' has no right 'manage node'"
        );
        assert_eq!(reason(access.header(None, "/x")), Some(Reason::Missing));
        assert_eq!(
            reason(access.header(Some("Basic eDp5"), "/x")),
            Some(Reason::Missing)
        );
    }

    #[test]
    fn nothing_shows_a_secret() {
        let access = access();
        let shown = format!("{:?} {:?}", access.ring(), access.secret("new"));
        assert!(
            !shown.contains("hub secret") && !shown.contains("\"new\""),
            "{shown}"
        );
    }
}
