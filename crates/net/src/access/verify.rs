//! Verification of proofs, for all protocols.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_wire::jwt::Jwt;
use steadfast_wire::sas::Sas;
use tokio::sync::watch;

use super::audit::Audit;
use super::demand::Demand;
use super::error::{AccessError, AccessErrorKind};
use super::key::{Key, KeyRing, SecretSlot};
use super::principal::{ASKER_IS_GONE, Principal};
use super::request_key::proven_by;
use super::secret::Secret;

/// Permitted clock skew of the issuer of a web token.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The message for every proof that matches no key, with a known name or not.
const NOT_OURS: &str = "the secret or signature is not one of this server's keys";

/// Stands in for the secret of an unknown name: base64, as long as a real secret.
const UNKNOWN: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The claim of a token that this server issued: the mark of the key that requested it.
pub const MARK: &str = "steadfast.mark";

/// The claims of a web token.
pub type TokenClaims = Map<String, Value>;

/// The credentials that a caller presents.
#[derive(Clone, Copy)]
pub enum Proof<'a> {
    /// An `Authorization` header: a shared access signature that covers `resource`, or
    /// `Bearer` with a secret or, where the route takes them, a web token.
    Header {
        header: Option<&'a str>,
        resource: &'a str,
    },
    /// A shared access signature that covers `resource`.
    Sas { token: &'a str, resource: &'a str },
    /// A JSON web token.
    Token(&'a str),
    /// A secret itself.
    Secret(&'a str),
    /// A key's name and its secret.
    Plain { name: &'a str, secret: &'a str },
    /// A signature of another form, which is checked with each secret of the key.
    Signature {
        name: &'a str,
        is_signed_by: &'a dyn Fn(&str) -> bool,
    },
}

impl Proof<'_> {
    /// Whether no secret, token or signature is presented; the name of a key alone is none.
    fn is_empty(&self) -> bool {
        let (Self::Sas { token: text, .. }
        | Self::Token(text)
        | Self::Secret(text)
        | Self::Plain { secret: text, .. }) = self
        else {
            return false;
        };
        text.trim().is_empty()
    }
}

/// The valid keys. They can be replaced at run time.
pub struct AccessControl {
    ring: watch::Sender<Arc<KeyRing>>,
    clock: Arc<dyn Clock>,
    audit: Arc<Audit>,
}

impl AccessControl {
    /// Accepts the keys of this ring.
    pub fn new(ring: KeyRing, clock: Arc<dyn Clock>) -> Self {
        Self {
            ring: watch::Sender::new(Arc::new(ring)),
            audit: Arc::new(Audit::new(Arc::clone(&clock))),
            clock,
        }
    }

    /// The time that credentials are checked against.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Replaces the valid keys.
    pub fn replace(&self, ring: KeyRing) {
        let fresh = Arc::new(ring);
        let former = self.ring.send_replace(Arc::clone(&fresh));
        self.audit.replaced(&former, &fresh);
    }

    /// The record of changes and refusals.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Subscribes to the valid keys.
    pub fn rings(&self) -> watch::Receiver<Arc<KeyRing>> {
        self.ring.subscribe()
    }

    /// The valid keys.
    pub fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring.borrow())
    }

    /// Verifies a proof, and that its key has the rights that the route demands.
    pub fn authorize(
        &self,
        proof: Proof<'_>,
        demand: &Demand<'_>,
    ) -> Result<Principal, AccessError> {
        self.authorize_claims(proof, demand).map(|(pass, _)| pass)
    }

    /// The same, with the claims of a web token.
    pub fn authorize_claims(
        &self,
        proof: Proof<'_>,
        demand: &Demand<'_>,
    ) -> Result<(Principal, TokenClaims), AccessError> {
        let (pass, claims) = self.prove(proof, demand)?;
        pass.meets(demand)?;
        // Every protocol verifies its proof here: the connection is now proven.
        crate::listen::proven();
        proven_by(pass.key());
        Ok((pass, claims))
    }

    fn prove(
        &self,
        proof: Proof<'_>,
        demand: &Demand<'_>,
    ) -> Result<(Principal, TokenClaims), AccessError> {
        if proof.is_empty() {
            return Err(missing());
        }
        let pass = match proof {
            Proof::Header { header, resource } => {
                return self.header(header, resource, demand);
            }
            Proof::Token(token) => return self.token(token, demand),
            Proof::Sas { token, resource } => self.sas(token, resource)?,
            Proof::Secret(secret) => self.secret(secret)?,
            Proof::Plain { name, secret } => {
                let is_it = |own: &str| Secret::new(own).is(secret);
                let (key, slot) = self.named(name, &is_it)?;
                Principal::new(key, slot, None)
            }
            Proof::Signature { name, is_signed_by } => {
                let (key, slot) = self.named(name, is_signed_by)?;
                Principal::new(key, slot, None)
            }
        };
        Ok((pass, TokenClaims::new()))
    }

    fn header(
        &self,
        header: Option<&str>,
        resource: &str,
        demand: &Demand<'_>,
    ) -> Result<(Principal, TokenClaims), AccessError> {
        let header = header.unwrap_or_default().trim();
        match header.split_once(' ') {
            Some(("SharedAccessSignature", _)) => self
                .sas(header, resource)
                .map(|pass| (pass, TokenClaims::new())),
            Some((scheme, shown)) if scheme.eq_ignore_ascii_case("bearer") => {
                let shown = shown.trim();
                match self.secret(shown) {
                    Err(_) if demand.audience.is_some() && Jwt::parse(shown).is_ok() => {
                        self.token(shown, demand)
                    }
                    pass => pass.map(|pass| (pass, TokenClaims::new())),
                }
            }
            _ => Err(missing()),
        }
    }

    fn sas(&self, token: &str, resource: &str) -> Result<Principal, AccessError> {
        let sas = Sas::parse(token).map_err(|_| {
            AccessError::new(
                AccessErrorKind::Malformed,
                "the shared access signature cannot be read",
            )
        })?;
        let (key, slot) = self.named(&sas.key_name, &|secret| sas.is_signed_by(secret))?;
        let expires = Timestamp(sas.expiry.saturating_mul(1000));
        if expires <= self.clock.now() {
            return Err(expired("the shared access signature", sas.expiry));
        }
        if !sas.covers(resource) {
            let message = format!("the shared access signature is not for '{resource}'");
            return Err(AccessError::new(AccessErrorKind::Forbidden, message));
        }
        Ok(Principal::new(key, slot, Some(expires)))
    }

    fn token(
        &self,
        token: &str,
        demand: &Demand<'_>,
    ) -> Result<(Principal, TokenClaims), AccessError> {
        let jwt = Jwt::parse(token).map_err(|error| {
            AccessError::new(
                AccessErrorKind::Malformed,
                format!("the web token: {error}"),
            )
        })?;
        let ring = self.ring();
        let mut keys = ring.keys();
        let signed =
            keys.find_map(|key| Some((key, key.proof(|secret| jwt.is_signed_by(secret))?)));
        let Some((key, slot)) = signed else {
            return Err(AccessError::new(AccessErrorKind::Wrong, NOT_OURS));
        };
        let now = self.clock.now().0 as f64 / 1000.0;
        let skew = SKEW.as_secs_f64();
        let Some(expiry) = jwt.expiry() else {
            let message = "the web token does not say when it ends ('exp')";
            return Err(AccessError::new(AccessErrorKind::Malformed, message));
        };
        if expiry + skew <= now {
            return Err(expired("the web token", expiry as i64));
        }
        if jwt.not_before().is_some_and(|start| start - skew > now) {
            return Err(AccessError::new(
                AccessErrorKind::Expired,
                "the web token does not count yet",
            ));
        }
        let is_meant = |audience: &str| demand.audience.is_some_and(|is_ours| is_ours(audience));
        if !audiences(&jwt.claims).any(is_meant) {
            let message = "the web token is not for this: its audience ('aud') names another";
            return Err(AccessError::new(AccessErrorKind::Forbidden, message));
        }
        let mut claims = jwt.claims;
        let asker = asker(&ring, key.secret(slot), claims.remove(MARK))?;
        let expires = Timestamp((expiry * 1000.0) as i64);
        let pass = Principal::new(Arc::clone(key), slot, Some(expires));
        Ok((pass.on_behalf_of(asker), claims))
    }

    fn secret(&self, secret: &str) -> Result<Principal, AccessError> {
        let ring = self.ring();
        let mut found = None;
        // All are compared, so that the time does not reveal which one matched.
        for key in ring.keys() {
            let second = key.secondary.as_ref().is_some_and(|own| own.is(secret));
            match (key.primary.is(secret), second) {
                (true, _) => found = Some((key, SecretSlot::Primary)),
                (false, true) => found = Some((key, SecretSlot::Secondary)),
                (false, false) => {}
            }
        }
        match found {
            Some((key, slot)) => Ok(Principal::new(Arc::clone(key), slot, None)),
            None => Err(AccessError::new(AccessErrorKind::Wrong, NOT_OURS)),
        }
    }

    /// The key of that name, and which of its secrets matches the proof. An unknown name
    /// takes as long, and gets the same message, as a wrong secret.
    fn named(
        &self,
        name: &str,
        proves: &dyn Fn(&str) -> bool,
    ) -> Result<(Arc<Key>, SecretSlot), AccessError> {
        let ring = self.ring();
        let key = ring.get(name);
        let first = key.map_or(UNKNOWN, |key| key.primary.reveal());
        let second = key.and_then(|key| key.secondary.as_ref());
        let second = second.map_or(UNKNOWN, Secret::reveal);
        // Both are tried, also if the first one matches.
        let (is_first, is_second) = (proves(first), proves(second));
        match key {
            Some(key) if is_first => Ok((Arc::clone(key), SecretSlot::Primary)),
            Some(key) if is_second && key.secondary.is_some() => {
                Ok((Arc::clone(key), SecretSlot::Secondary))
            }
            _ => Err(AccessError::new(AccessErrorKind::Wrong, NOT_OURS)),
        }
    }
}

/// The key that requested a token, if the token has a mark.
fn asker(
    ring: &KeyRing,
    signer: Option<&Secret>,
    mark: Option<Value>,
) -> Result<Option<Principal>, AccessError> {
    let Some(mark) = mark else { return Ok(None) };
    let found = signer.zip(mark.as_str());
    let found = found.and_then(|(signer, mark)| Principal::marked(ring, signer, mark));
    let found = found.ok_or_else(|| AccessError::new(AccessErrorKind::Wrong, ASKER_IS_GONE));
    found.map(Some)
}

/// The audiences of a token: one text or several.
fn audiences(claims: &TokenClaims) -> impl Iterator<Item = &str> {
    let texts = match claims.get("aud") {
        Some(Value::Array(texts)) => texts.as_slice(),
        Some(text) => std::slice::from_ref(text),
        None => &[],
    };
    texts.iter().filter_map(Value::as_str)
}

/// There are no credentials.
fn missing() -> AccessError {
    AccessError::new(
        AccessErrorKind::Missing,
        "no key was given: send 'Authorization: Bearer <key>' or a shared access signature",
    )
}

fn expired(what: &str, seconds: i64) -> AccessError {
    AccessError::new(
        AccessErrorKind::Expired,
        format!("{what} has ended, {seconds} seconds after 1970"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steadfast_core::clock::VirtualClock;
    use steadfast_wire::{jwt, sas};

    use super::super::demand::{EntityScope, is_for_area};
    use super::super::right::{Right, ServiceArea};
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

    fn access() -> AccessControl {
        let mut ring = KeyRing::new();
        assert!(ring.add(key("sender", &["send events/houses"], &["new", "old"])));
        assert!(ring.add(key("hubs", &["manage realtime"], &["hub secret"])));
        assert!(!ring.add(key("hubs", &[], &["other"])));
        let clock = VirtualClock::starting_at(Timestamp(NOW * 1000));
        AccessControl::new(ring, Arc::new(clock))
    }

    fn reason<T>(result: Result<T, AccessError>) -> Option<AccessErrorKind> {
        result.err().map(|denied| denied.reason)
    }

    /// Demands the right to send to an event hub.
    fn events() -> Demand<'static> {
        Demand::new(
            &[Right::Send],
            ServiceArea::Events,
            EntityScope::Entity("houses"),
        )
    }

    #[test]
    fn both_secrets_of_a_key_count_until_it_is_replaced() {
        let access = access();
        for secret in ["new", "old"] {
            let token = sas::token("sb://h/houses", NOW + 60, "sender", secret);
            let sas = Proof::Sas {
                token: &token,
                resource: "sb://h/houses/Partitions/1",
            };
            let pass = access.authorize(sas, &events()).unwrap();
            assert_eq!(pass.expires, Some(Timestamp((NOW + 60) * 1000)));
            assert!(access.authorize(Proof::Secret(secret), &events()).is_ok());
            let plain = Proof::Plain {
                name: "sender",
                secret,
            };
            assert!(access.authorize(plain, &events()).is_ok());
        }
        let mut ring = KeyRing::new();
        ring.add(key("sender", &["send events"], &["newer", "new"]));
        access.replace(ring);
        let ask = |secret| access.authorize(Proof::Secret(secret), &events());
        assert!(ask("new").is_ok());
        assert_eq!(reason(ask("old")), Some(AccessErrorKind::Wrong));
    }

    #[test]
    fn each_bad_signature_is_refused_for_its_reason() {
        let access = access();
        let cases = [
            ("nonsense".to_owned(), AccessErrorKind::Malformed),
            (
                sas::token("sb://h/houses", NOW + 9, "unknown", "new"),
                AccessErrorKind::Wrong,
            ),
            (
                sas::token("sb://h/houses", NOW + 9, "sender", "bad"),
                AccessErrorKind::Wrong,
            ),
            (
                sas::token("sb://h/houses", NOW, "sender", "new"),
                AccessErrorKind::Expired,
            ),
            (
                sas::token("sb://h/cars", NOW + 9, "sender", "new"),
                AccessErrorKind::Forbidden,
            ),
        ];
        for (token, expected) in cases {
            let sas = Proof::Sas {
                token: &token,
                resource: "sb://h/houses",
            };
            let denied = access.authorize(sas, &events());
            assert_eq!(reason(denied), Some(expected), "{token}");
        }
    }

    #[test]
    fn a_web_token_counts_for_its_audience_and_the_rights_of_its_key() {
        let access = access();
        let token = |claims: Value, key: &str| jwt::token(claims.as_object().unwrap(), key);
        let is_ours = |audience: &str| audience == "here";
        let demand = Demand::new(
            &[Right::Listen],
            ServiceArea::Realtime,
            EntityScope::Entity("chat"),
        );
        let demand = demand.or_token(&is_ours);
        let ask = |token: &str| {
            let admitted = access.authorize_claims(Proof::Token(token), &demand);
            admitted.map(|(pass, claims)| (claims, pass))
        };
        let token = |mut claims: Value, key: &str| {
            claims["aud"] = claims
                .get("aud")
                .cloned()
                .unwrap_or(json!(["there", "here"]));
            token(claims, key)
        };
        let good = token(json!({"exp": NOW + 5, "nameid": "me"}), "hub secret");
        let (claims, pass) = ask(&good).unwrap();
        assert_eq!(
            (claims["nameid"].as_str(), pass.name()),
            (Some("me"), "hubs")
        );
        let cases = [
            (
                token(json!({"exp": NOW + 5}), "none of ours"),
                AccessErrorKind::Wrong,
            ),
            (
                token(json!({"exp": NOW + 5}), "new"),
                AccessErrorKind::Forbidden,
            ),
            (
                token(json!({"exp": NOW + 5, "aud": "there"}), "hub secret"),
                AccessErrorKind::Forbidden,
            ),
            (
                token(json!({"exp": NOW + 5, "aud": null}), "hub secret"),
                AccessErrorKind::Forbidden,
            ),
            (
                token(json!({"exp": NOW - 301}), "hub secret"),
                AccessErrorKind::Expired,
            ),
            (
                token(json!({"exp": NOW + 5, "nbf": NOW + 301}), "hub secret"),
                AccessErrorKind::Expired,
            ),
            (token(json!({}), "hub secret"), AccessErrorKind::Malformed),
        ];
        for (token, expected) in cases {
            assert_eq!(reason(ask(&token)), Some(expected), "{token}");
        }
    }

    #[test]
    fn what_is_empty_is_missing_and_not_wrong() {
        let access = access();
        let resource = "sb://host/houses";
        for text in ["", " "] {
            for proof in [
                Proof::Secret(text),
                Proof::Token(text),
                Proof::Sas {
                    token: text,
                    resource,
                },
                Proof::Plain {
                    name: "sender",
                    secret: text,
                },
                Proof::Plain {
                    name: "unknown",
                    secret: text,
                },
            ] {
                let reason = reason(access.authorize(proof, &events()));
                assert_eq!(reason, Some(AccessErrorKind::Missing));
            }
        }
    }

    #[test]
    fn a_header_brings_a_signature_a_secret_or_nothing() {
        let access = access();
        let ask = |header, demand: &Demand<'_>| {
            let resource = "/x";
            access.authorize(Proof::Header { header, resource }, demand)
        };
        assert!(ask(Some("bearer new"), &events()).is_ok());
        let node = Demand::new(
            &[Right::Manage, Right::Read],
            ServiceArea::Node,
            EntityScope::Whole,
        );
        let denied = ask(Some("bearer new"), &node).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "STF-6005: the key 'sender' has no right 'manage or read node'"
        );
        for missing in [None, Some("Basic eDp5")] {
            assert_eq!(
                reason(ask(missing, &events())),
                Some(AccessErrorKind::Missing)
            );
        }
    }

    #[test]
    fn a_header_brings_a_web_token_only_where_the_route_takes_one() {
        let access = access();
        let claims = json!({"exp": NOW + 5, "aud": "https://eventhubs.azure.net"});
        let token = jwt::token(claims.as_object().unwrap(), "new");
        let header = Some(format!("Bearer {token}"));
        let proof = Proof::Header {
            header: header.as_deref(),
            resource: "/x",
        };
        assert_eq!(
            reason(access.authorize(proof, &events())),
            Some(AccessErrorKind::Wrong)
        );
        let bare = access.authorize(Proof::Token(&token), &events());
        assert_eq!(reason(bare), Some(AccessErrorKind::Forbidden));
        let is_ours = |audience: &str| is_for_area(ServiceArea::Events, audience);
        assert!(
            access
                .authorize(proof, &events().or_token(&is_ours))
                .is_ok()
        );
    }

    #[test]
    fn an_unknown_name_is_refused_like_a_wrong_secret() {
        let access = access();
        let tried = std::cell::Cell::new(0);
        let ask = |name| {
            tried.set(0);
            let is_signed_by = |_: &str| {
                tried.set(tried.get() + 1);
                false
            };
            let proof = Proof::Signature {
                name,
                is_signed_by: &is_signed_by,
            };
            let denied = access.authorize(proof, &events()).unwrap_err();
            (denied, tried.get())
        };
        // One key has two secrets, one has one, and one does not exist.
        assert_eq!(ask("sender"), ask("unknown"));
        assert_eq!(ask("hubs"), ask("unknown"));
        assert_eq!(ask("unknown").1, 2);
        // The stand-in for a missing secret proves nothing.
        for name in ["hubs", "unknown"] {
            let plain = Proof::Plain {
                name,
                secret: UNKNOWN,
            };
            assert_eq!(
                reason(access.authorize(plain, &events())),
                Some(AccessErrorKind::Wrong)
            );
        }
    }

    #[test]
    fn nothing_shows_a_secret() {
        let access = access();
        let pass = access.authorize(Proof::Secret("new"), &events());
        let shown = format!("{:?} {pass:?}", access.ring());
        assert!(
            !shown.contains("hub secret") && !shown.contains("\"new\""),
            "{shown}"
        );
    }
}
