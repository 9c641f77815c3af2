//! Proofs: web tokens, shared access signatures, secrets.

use std::sync::Arc;

use serde_json::json;
use steadfast_core::clock::Clock;
use steadfast_net::access::{
    AccessControl, Demand, EntityScope, Key, KeyRing, Proof, Right, Secret, ServiceArea,
    is_for_area,
};
use steadfast_wire::{jwt, sas};

use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::PausedClock;

const NAME: &str = "key";
const SECRET: &str = "c2VjcmV0";

/// What the proofs are for.
const RESOURCE: &str = "sb://localhost/houses";

/// The first byte of an input selects what the rest is.
mod mode {
    pub(super) const SAS: u8 = 0;
    pub(super) const TOKEN: u8 = 1;
    pub(super) const HEADER: u8 = 2;
    /// The claims of a web token, which is signed for the input.
    pub(super) const CLAIMS: u8 = 3;
    /// The expiry, in eight bytes, and the resource of a signature, which is made for
    /// the input.
    pub(super) const SIGNED: u8 = 4;
    /// A secret.
    pub(super) const SECRET: u8 = 5;
    pub(super) const COUNT: u8 = 6;
}

pub(crate) struct TokenSession {
    access: AccessControl,
}

impl Session for TokenSession {
    const NAME: &'static str = "tokens";

    const BOUND: MemoryBound = MemoryBound {
        least: 32 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let mut ring = KeyRing::new();
        ring.add(Key {
            name: NAME.to_owned(),
            grants: vec!["send events/houses".parse().expect("a grant")],
            primary: Secret::new(SECRET),
            secondary: None,
        });
        let access = AccessControl::new(ring, clock);
        Self { access }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let text = String::from_utf8_lossy(rest).into_owned();
        match mode % mode::COUNT {
            mode::SAS => self.admit(Proof::Sas {
                token: &text,
                resource: RESOURCE,
            }),
            mode::TOKEN => self.admit(Proof::Token(&text)),
            mode::HEADER => self.admit(Proof::Header {
                header: Some(&text),
                resource: RESOURCE,
            }),
            mode::CLAIMS => {
                if let Ok(claims) = serde_json::from_str(&text) {
                    self.admit(Proof::Token(&jwt::token(&claims, SECRET)));
                }
            }
            mode::SIGNED => {
                let Some((expiry, resource)) = rest.split_first_chunk::<8>() else {
                    return;
                };
                let resource = String::from_utf8_lossy(resource);
                let expiry = i64::from_be_bytes(*expiry);
                let token = sas::token(&resource, expiry, NAME, SECRET);
                self.admit(Proof::Sas {
                    token: &token,
                    resource: RESOURCE,
                });
            }
            _ => self.admit(Proof::Secret(&text)),
        }
    }

    async fn answers(&mut self) {
        let token = sas::token(RESOURCE, 4_000_000_000, NAME, SECRET);
        let proof = Proof::Sas {
            token: &token,
            resource: RESOURCE,
        };
        let demand = Demand::new(
            &[Right::Send],
            ServiceArea::Events,
            EntityScope::Entity("houses"),
        );
        let admitted = self.access.authorize(proof, &demand);
        assert!(admitted.is_ok(), "a good signature counts");
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

impl TokenSession {
    /// Presents a proof. A refusal is recorded, as that of a request is.
    fn admit(&self, proof: Proof<'_>) {
        let audience = |audience: &str| is_for_area(ServiceArea::Events, audience);
        let demand = Demand::new(
            &[Right::Send],
            ServiceArea::Events,
            EntityScope::Entity("houses"),
        );
        match self.access.authorize(proof, &demand.or_token(&audience)) {
            Ok(pass) => assert_eq!(pass.name(), NAME),
            Err(denied) => self.access.audit().refused(&denied),
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let later = 4_000_000_000;
    let signature = sas::token(RESOURCE, later, NAME, SECRET);
    let claims = json!({"aud": "events", "exp": later, "nbf": 1, "iat": 1.5, "sub": "x"});
    let map = claims.as_object().cloned().unwrap_or_default();
    let token = jwt::token(&map, SECRET);
    let many = json!({"aud": ["events", "http://localhost"], "exp": 1e300, "nbf": -1e300});
    let signed = [&i64::MAX.to_be_bytes()[..], RESOURCE.as_bytes()].concat();
    vec![
        records::with_mode(mode::SAS, signature.as_bytes()),
        records::with_mode(mode::TOKEN, token.as_bytes()),
        records::with_mode(mode::HEADER, signature.as_bytes()),
        records::with_mode(mode::HEADER, format!("Bearer {token}").as_bytes()),
        records::with_mode(mode::CLAIMS, claims.to_string().as_bytes()),
        records::with_mode(mode::CLAIMS, many.to_string().as_bytes()),
        records::with_mode(mode::SIGNED, &signed),
        records::with_mode(mode::SECRET, SECRET.as_bytes()),
    ]
}
