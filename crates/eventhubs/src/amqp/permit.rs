//! The tokens of a connection and their rights.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::{AccessPolicy, EventHub, Rights};
use steadfast_net::access::{
    AccessError, AccessErrorKind, Demand, EntityScope, KeyRing, Principal, Proof, Right, Secret,
    ServiceArea, is_for_area,
};
use steadfast_wire::amqp::address;
use steadfast_wire::sas::Sas;

use super::context::Context;

/// The rights that a token grants.
#[derive(Clone, Debug)]
pub(crate) enum TokenPermit {
    /// One of the server's keys.
    Key(Principal),
    /// A policy of one event hub.
    Policy {
        hub: String,
        name: String,
        rights: Rights,
        /// The one of its keys that has signed the token.
        key: Secret,
        expires: Timestamp,
    },
    /// Access control is off.
    Open,
    /// It was valid, but its key is revoked.
    Revoked(AccessError),
}

impl TokenPermit {
    fn expires(&self) -> Option<Timestamp> {
        match self {
            Self::Key(pass) => pass.expires,
            Self::Policy { expires, .. } => Some(*expires),
            Self::Open | Self::Revoked(_) => None,
        }
    }

    /// The key or the policy behind it.
    fn holder(&self) -> Option<&str> {
        match self {
            Self::Key(pass) => Some(pass.name()),
            Self::Policy { name, .. } => Some(name),
            Self::Open | Self::Revoked(_) => None,
        }
    }

    /// The same permit under the keys of a later ring.
    pub(super) fn renewed(self, ring: &KeyRing) -> Result<Self, AccessError> {
        match self {
            Self::Key(pass) => pass.revalidate(ring).map(Self::Key),
            other => Ok(other),
        }
    }

    /// The same permit under the current policies of its event hub; `None` if the event
    /// hub was deleted.
    fn under(self, found: Option<&EventHub>) -> Result<Self, AccessError> {
        let Self::Policy {
            hub,
            name,
            key,
            expires,
            ..
        } = self
        else {
            return Ok(self);
        };
        let policy = found.and_then(|found| found.policy(&name));
        let is_its = |policy: &&AccessPolicy| key.is(&policy.primary) || key.is(&policy.secondary);
        match policy.filter(is_its) {
            Some(policy) => Ok(Self::Policy {
                rights: policy.rights,
                hub,
                name,
                key,
                expires,
            }),
            None => {
                let words = format!("the key of the policy '{name}' of '{hub}' no longer counts");
                Err(AccessError::new(AccessErrorKind::Wrong, words))
            }
        }
    }

    pub(crate) fn allows(&self, right: Right, hub: &str) -> Result<(), AccessError> {
        match self {
            Self::Open => Ok(()),
            Self::Revoked(denied) => Err(denied.clone()),
            Self::Key(pass) => pass.allows(right, ServiceArea::Events, Some(hub)),
            Self::Policy {
                hub: own,
                name,
                rights,
                ..
            } => {
                let has = match right {
                    Right::Send => rights.send,
                    Right::Listen | Right::Read => rights.listen,
                    Right::Manage => false,
                };
                if own.eq_ignore_ascii_case(hub) && (has || rights.manage) {
                    Ok(())
                } else {
                    Err(AccessError::new(
                        AccessErrorKind::Forbidden,
                        format!("the policy '{name}' of '{own}' has no right '{right} {hub}'"),
                    ))
                }
            }
        }
    }
}

/// The current state of an event hub; none if it was deleted.
pub(super) type CurrentHub = (String, Option<Arc<EventHub>>);

/// A permit and the path that it is for.
#[derive(Debug)]
struct AmqpToken {
    path: String,
    permit: TokenPermit,
}

/// The tokens of one connection.
#[derive(Debug, Default)]
pub(super) struct AmqpTokens {
    all: Vec<AmqpToken>,
}

impl AmqpTokens {
    /// Adds a token, or renews the one for the same audience. Evicts the oldest if there
    /// are too many.
    pub(super) fn put(&mut self, audience: &str, permit: TokenPermit) {
        let path = address::path(audience).to_lowercase();
        self.all.retain(|token| token.path != path);
        if self.all.len() >= limits::AMQP_TOKENS {
            self.all.remove(0);
        }
        self.all.push(AmqpToken { path, permit });
    }

    /// Whether a token allows a link to `path`, which belongs to `hub`.
    pub(super) fn allow(
        &self,
        path: &str,
        hub: &str,
        right: Right,
        now: Timestamp,
    ) -> Result<(), AccessError> {
        let path = path.to_lowercase();
        self.find(&path, hub, &[right], now, |own| covers(own, &path))
    }

    /// Whether a token with any right on an event hub, or on a part of it, allows a
    /// management request about it.
    pub(super) fn allow_asking(&self, hub: &str, now: Timestamp) -> Result<(), AccessError> {
        let path = hub.to_lowercase();
        let is_about = |own: &str| covers(own, &path) || covers(&path, own);
        self.find(&path, hub, SOME.rights, now, is_about)
    }

    fn find(
        &self,
        path: &str,
        hub: &str,
        rights: &[Right],
        now: Timestamp,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), AccessError> {
        let mut denied = AccessError::new(
            AccessErrorKind::Missing,
            format!("no token for '{path}' was put on this connection"),
        );
        for token in self.all.iter().filter(|token| is_meant(&token.path)) {
            if token.permit.expires().is_some_and(|end| end <= now) {
                denied = AccessError::new(
                    AccessErrorKind::Expired,
                    format!("the token for '{path}' has ended"),
                );
                continue;
            }
            for right in rights {
                match token.permit.allows(*right, hub) {
                    Ok(()) => return Ok(()),
                    Err(why) => denied = why,
                }
            }
        }
        Err(denied)
    }

    /// Renews all tokens under a later ring; returns the revoked keys.
    pub(super) fn renew(&mut self, ring: &KeyRing) -> Vec<(String, AccessError)> {
        self.renew_by(|permit| permit.renewed(ring))
    }

    /// Renews tokens of policies from the current event hubs; returns the revoked
    /// policies. Skips event hubs that are not listed.
    pub(super) fn renew_policies(&mut self, found: &[CurrentHub]) -> Vec<(String, AccessError)> {
        self.renew_by(|permit| {
            let TokenPermit::Policy { hub, .. } = &permit else {
                return Ok(permit);
            };
            match found.iter().find(|(name, _)| name == hub) {
                Some((_, found)) => permit.under(found.as_deref()),
                None => Ok(permit),
            }
        })
    }

    fn renew_by(
        &mut self,
        renew: impl Fn(TokenPermit) -> Result<TokenPermit, AccessError>,
    ) -> Vec<(String, AccessError)> {
        let mut ended = Vec::new();
        for token in &mut self.all {
            let Some(holder) = token.permit.holder().map(str::to_owned) else {
                continue;
            };
            token.permit = renew(token.permit.clone()).unwrap_or_else(|denied| {
                ended.push((holder, denied.clone()));
                TokenPermit::Revoked(denied)
            });
        }
        ended
    }

    /// The key or the policy behind the tokens for a path.
    pub(super) fn holder(&self, path: &str) -> Option<&str> {
        let path = path.to_lowercase();
        let mut meant = self.all.iter().filter(|token| covers(&token.path, &path));
        meant.find_map(|token| token.permit.holder())
    }

    /// The event hubs whose policies have signed tokens.
    pub(super) fn policy_hubs(&self) -> Vec<String> {
        let hubs = self.all.iter().filter_map(|token| match &token.permit {
            TokenPermit::Policy { hub, .. } => Some(hub.clone()),
            _ => None,
        });
        let mut hubs: Vec<_> = hubs.collect();
        hubs.sort_unstable();
        hubs.dedup();
        hubs
    }

    /// The next expiry of a token.
    pub(super) fn next_end(&self, after: Timestamp) -> Option<Timestamp> {
        let ends = self.all.iter().filter_map(|token| token.permit.expires());
        ends.filter(|end| *end > after).min()
    }
}

/// Whether a token for `own` covers `asked`; both in lower case.
fn covers(own: &str, asked: &str) -> bool {
    own.is_empty()
        || asked == own
        || asked
            .strip_prefix(own)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// The minimum a token must grant when it is put; each link demands more.
pub(super) const SOME: Demand<'static> = Demand {
    rights: &[Right::Send, Right::Listen, Right::Read],
    area: ServiceArea::Events,
    scope: EntityScope::AnyEntity,
    audience: None,
};

/// Verifies a token for an audience: with the server's keys, or else with the policies
/// of the event hub that the audience names.
pub(crate) async fn verify(
    context: &Context,
    kind: &str,
    token: &str,
    audience: &str,
) -> Result<TokenPermit, AccessError> {
    let Some(access) = &context.access else {
        steadfast_net::listen::proven();
        return Ok(TokenPermit::Open);
    };
    if kind.eq_ignore_ascii_case("jwt") {
        let is_ours = |audience: &str| is_for_area(ServiceArea::Events, audience);
        let demand = SOME.or_token(&is_ours);
        return access
            .authorize(Proof::Token(token), &demand)
            .map(TokenPermit::Key);
    }
    let resource = audience;
    let denied = match access.authorize(Proof::Sas { token, resource }, &SOME) {
        Ok(pass) => return Ok(TokenPermit::Key(pass)),
        Err(denied) => denied,
    };
    let hub = address::path(audience).split('/').next().unwrap_or("");
    match (Sas::parse(token), context.hubs.fresh(hub).await) {
        (Ok(sas), Ok(hub)) => {
            let mut policies = hub.policies.iter();
            let policy = policies.find(|policy| policy.name == sas.key_name);
            let signed = policy.and_then(|policy| Some((policy, signer(policy, &sas)?)));
            let permit = signed.map(|(policy, key)| TokenPermit::Policy {
                hub: hub.name.clone(),
                name: policy.name.clone(),
                rights: policy.rights,
                key,
                expires: Timestamp(sas.expiry.saturating_mul(1000)),
            });
            let is_live = sas.expiry.saturating_mul(1000) > context.clock.now().0;
            match permit {
                Some(permit) if is_live && sas.covers(audience) => {
                    steadfast_net::listen::proven();
                    Ok(permit)
                }
                _ => Err(denied),
            }
        }
        _ => Err(denied),
    }
}

/// Verifies the token in a request to `$management`, for this request only.
pub(super) async fn verify_asking(
    context: &Context,
    token: &str,
    audience: &str,
    hub: &str,
) -> Result<(), AccessError> {
    let kind = if token.starts_with("SharedAccessSignature ") {
        "servicebus.windows.net:sastoken"
    } else {
        "jwt"
    };
    let permit = verify(context, kind, token, audience).await?;
    let mut denied = Ok(());
    for right in SOME.rights {
        denied = permit.allows(*right, hub);
        if denied.is_ok() {
            break;
        }
    }
    denied
}

/// The key of a policy that has signed a token.
fn signer(policy: &AccessPolicy, sas: &Sas) -> Option<Secret> {
    let mut keys = [&policy.primary, &policy.secondary].into_iter();
    keys.find(|key| sas.is_signed_by(key)).map(Secret::new)
}

#[cfg(test)]
mod tests {
    use steadfast_events::EventRetention;

    use super::*;

    fn policy(rights: Rights, primary: &str, secondary: &str) -> EventHub {
        let policy = AccessPolicy {
            name: "p".to_owned(),
            rights,
            primary: primary.to_owned(),
            secondary: secondary.to_owned(),
        };
        EventHub {
            id: 1,
            revision: 1,
            name: "houses".to_owned(),
            partitions: 1,
            created: Timestamp(0),
            retention: EventRetention::default(),
            groups: Vec::new(),
            policies: vec![policy],
        }
    }

    #[test]
    fn tokens_of_a_connection_are_bounded_and_the_oldest_goes() {
        let mut tokens = AmqpTokens::default();
        let now = Timestamp(0);
        for number in 0..=limits::AMQP_TOKENS {
            tokens.put(&format!("sb://h/hub-{number}"), TokenPermit::Open);
        }
        assert_eq!(tokens.all.len(), limits::AMQP_TOKENS);
        let allow = |path: &str| tokens.allow(path, path, Right::Send, now);
        assert!(allow("hub-0").is_err());
        assert!(allow("hub-1").is_ok() && allow(&format!("hub-{}", limits::AMQP_TOKENS)).is_ok());
    }

    #[test]
    fn a_policy_counts_with_the_keys_and_rights_that_it_has_now() {
        let listen = Rights {
            listen: true,
            ..Rights::default()
        };
        let permit = TokenPermit::Policy {
            hub: "houses".to_owned(),
            name: "p".to_owned(),
            rights: listen,
            key: Secret::new("one"),
            expires: Timestamp(1),
        };
        let under = |hub: &EventHub| permit.clone().under(Some(hub));
        for counts in [("one", "two"), ("two", "one")] {
            let permit = under(&policy(listen, counts.0, counts.1)).unwrap();
            assert!(permit.allows(Right::Listen, "houses").is_ok());
        }
        let shrunk = under(&policy(Rights::default(), "one", "two")).unwrap();
        assert!(shrunk.allows(Right::Listen, "houses").is_err());
        // Created again under the same name.
        assert!(under(&policy(listen, "two", "three")).is_err());
        assert!(permit.clone().under(None).is_err());
    }
}
