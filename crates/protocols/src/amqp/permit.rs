//! What a connection has proved by its tokens.

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::{Policy, Rights};
use steadfast_wire::amqp::address;
use steadfast_wire::sas::Sas;

use super::context::Context;
use crate::access::{Area, Denied, Pass, Reason, Right};

/// What a token permits.
#[derive(Clone, Debug)]
pub(crate) enum Permit {
    /// One of the server's keys.
    Key(Pass),
    /// A policy of one event hub.
    Policy {
        hub: String,
        name: String,
        rights: Rights,
        expires: Timestamp,
    },
    /// Nothing is checked.
    Open,
}

impl Permit {
    fn expires(&self) -> Option<Timestamp> {
        match self {
            Self::Key(pass) => pass.expires,
            Self::Policy { expires, .. } => Some(*expires),
            Self::Open => None,
        }
    }

    pub(crate) fn allows(&self, right: Right, hub: &str) -> Result<(), Denied> {
        match self {
            Self::Open => Ok(()),
            Self::Key(pass) => pass.allows(right, Area::Events, Some(hub)),
            Self::Policy {
                hub: own,
                name,
                rights,
                ..
            } => {
                let has = match right {
                    Right::Send => rights.send,
                    Right::Listen => rights.listen,
                    Right::Manage => false,
                };
                match own.eq_ignore_ascii_case(hub) && (has || rights.manage) {
                    true => Ok(()),
                    false => Err(Denied::new(
                        Reason::Forbidden,
                        format!("the policy '{name}' of '{own}' has no right '{right} {hub}'"),
                    )),
                }
            }
        }
    }
}

/// A permit and the path that it is for.
#[derive(Debug)]
struct Token {
    path: String,
    permit: Permit,
}

/// The tokens of one connection.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    all: Vec<Token>,
}

impl Tokens {
    /// Adds a token, or renews the one for the same audience. The oldest goes if
    /// there are too many.
    pub(super) fn put(&mut self, audience: &str, permit: Permit) {
        let path = address::path(audience).to_lowercase();
        self.all.retain(|token| token.path != path);
        if self.all.len() >= limits::AMQP_TOKENS {
            self.all.remove(0);
        }
        self.all.push(Token { path, permit });
    }

    /// Whether a link to `path`, which belongs to `hub`, may be there.
    pub(super) fn allow(
        &self,
        path: &str,
        hub: &str,
        right: Right,
        now: Timestamp,
    ) -> Result<(), Denied> {
        let path = path.to_lowercase();
        self.find(&path, hub, &[right], now, |own| covers(own, &path))
    }

    /// Whether somebody with any right on an event hub, or on something in it, may ask
    /// about it.
    pub(super) fn allow_asking(&self, hub: &str, now: Timestamp) -> Result<(), Denied> {
        let path = hub.to_lowercase();
        let is_about = |own: &str| covers(own, &path) || covers(&path, own);
        self.find(&path, hub, &[Right::Listen, Right::Send], now, is_about)
    }

    fn find(
        &self,
        path: &str,
        hub: &str,
        rights: &[Right],
        now: Timestamp,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), Denied> {
        let mut denied = Denied::new(
            Reason::Missing,
            format!("no token for '{path}' was put on this connection"),
        );
        for token in self.all.iter().filter(|token| is_meant(&token.path)) {
            if token.permit.expires().is_some_and(|end| end <= now) {
                denied = Denied::new(Reason::Expired, format!("the token for '{path}' has ended"));
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

    /// When the next token ends.
    pub(super) fn next_end(&self, after: Timestamp) -> Option<Timestamp> {
        let ends = self.all.iter().filter_map(|token| token.permit.expires());
        ends.filter(|end| *end > after).min()
    }
}

/// Whether a token for `own` is good for `asked`; both in lower case.
fn covers(own: &str, asked: &str) -> bool {
    own.is_empty()
        || asked == own
        || asked
            .strip_prefix(own)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// Verifies a token for an audience: by the server's keys, or else by the policies of
/// the event hub that the audience names.
pub(crate) async fn verify(
    context: &Context,
    kind: &str,
    token: &str,
    audience: &str,
) -> Result<Permit, Denied> {
    let Some(access) = &context.access else {
        return Ok(Permit::Open);
    };
    if kind.eq_ignore_ascii_case("jwt") {
        return access
            .jwt(token, Right::Listen, Area::Events)
            .or_else(|_| access.jwt(token, Right::Send, Area::Events))
            .map(|(_, pass)| Permit::Key(pass));
    }
    let denied = match access.sas(token, audience) {
        Ok(pass) => return Ok(Permit::Key(pass)),
        Err(denied) => denied,
    };
    let hub = address::path(audience).split('/').next().unwrap_or("");
    match (Sas::parse(token), context.hubs.get(hub).await) {
        (Ok(sas), Ok(hub)) => {
            let mut policies = hub.policies.iter();
            let policy = policies.find(|policy| policy.name == sas.key_name);
            let policy = policy.filter(|policy| has_signed(policy, &sas));
            let permit = policy.map(|policy| Permit::Policy {
                hub: hub.name.clone(),
                name: policy.name.clone(),
                rights: policy.rights,
                expires: Timestamp(sas.expiry.saturating_mul(1000)),
            });
            let is_live = sas.expiry.saturating_mul(1000) > context.clock.now().0;
            match permit {
                Some(permit) if is_live && sas.covers(audience) => Ok(permit),
                _ => Err(denied),
            }
        }
        _ => Err(denied),
    }
}

/// Verifies the token that a request to `$management` carries: for this request only,
/// so it ends with its key.
pub(super) async fn verify_asking(context: &Context, token: &str, hub: &str) -> Result<(), Denied> {
    let kind = match token.starts_with("SharedAccessSignature ") {
        true => "servicebus.windows.net:sastoken",
        false => "jwt",
    };
    let permit = verify(context, kind, token, hub).await?;
    let listen = permit.allows(Right::Listen, hub);
    listen.or_else(|_| permit.allows(Right::Send, hub))
}

fn has_signed(policy: &Policy, sas: &Sas) -> bool {
    sas.is_signed_by(&policy.primary) || sas.is_signed_by(&policy.secondary)
}
