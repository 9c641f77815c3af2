//! Authentication and authorisation of blob requests.
//!
//! An account is a key of the server, by its name. Its holder signs requests with the
//! secret, or issues shared access signatures with fewer rights. The account [`SHARED`]
//! belongs to no key: every key signs requests to it with its own name and secret, so
//! that processors with several keys share a group.
//!
//! A write may take partitions away from readers, so it needs the rights to listen and
//! to send. A blob that keeps an ownership or a checkpoint needs these rights on its
//! event hub; any other blob needs them on all event hubs, or on any one if it is in
//! the key's own account.

use std::net::IpAddr;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::iso::parse_time;
use steadfast_events::event_hub_of;
use steadfast_net::access::{
    AccessError, AccessErrorKind, Demand, EntityScope, Principal, Proof, Right, SHARED, ServiceArea,
};
use steadfast_wire::blob::sas::{BlobSas, SasScope};
use steadfast_wire::blob::shared_key::{Request, SharedKey};

use super::context::Context;
use super::header_values;
use super::operation::BlobOperation;
use super::request::BlobRequest;

const LOOK: &[&[Right]] = &[&[Right::Listen, Right::Read]];
const WRITE: &[&[Right]] = &[&[Right::Listen], &[Right::Send]];

/// The rights of every operation: one of each list is required. An operation that is not
/// listed is permitted to no key.
static NEEDED: [(BlobOperation, &[&[Right]]); 13] = [
    (BlobOperation::CreateContainer, WRITE),
    (BlobOperation::ReadContainer, LOOK),
    (BlobOperation::DeleteContainer, &[&[Right::Manage]]),
    (BlobOperation::List, LOOK),
    (BlobOperation::Put, WRITE),
    (BlobOperation::Describe, WRITE),
    (BlobOperation::Read, LOOK),
    (BlobOperation::Head, LOOK),
    (BlobOperation::Delete, WRITE),
    (BlobOperation::PutBlock, WRITE),
    (BlobOperation::PutBlocks, WRITE),
    (BlobOperation::ReadBlocks, LOOK),
    (BlobOperation::Lease, WRITE),
];

/// The names of all operations that some key permits.
pub fn operations() -> Vec<String> {
    let names = NEEDED.iter().map(|(own, _)| format!("{own:?}"));
    names.collect()
}

/// The clock skew that a signed request may have.
const SKEW: Duration = Duration::from_secs(15 * 60);

/// The verified identity and rights of a request.
pub(super) struct BlobPermit {
    pass: Principal,
    /// `None` if the request itself is signed.
    sas: Option<BlobSas>,
}

impl BlobPermit {
    /// Authenticates a request.
    pub(super) fn verify(context: &Context, ask: &BlobRequest) -> Result<Self, AccessError> {
        let sas = BlobSas::parse(&ask.parameters, &ask.place);
        let sas = sas.map_err(|why| {
            let words = format!("the shared access signature cannot be verified: {}", why.0);
            AccessError::new(AccessErrorKind::Malformed, words)
        })?;
        let account = &ask.place.account;
        if let Some(sas) = sas {
            // Admission also marks the connection as authenticated, so an expired signature
            // is refused before.
            check_sas(context, ask, &sas)?;
            let is_signed_by = |key: &str| sas.is_signed_by(key);
            let pass = admit(context, account, &is_signed_by)?;
            let sas = Some(sas);
            return Ok(Self { pass, sas });
        }
        let header = ask.header("authorization");
        let Some(header) = header.filter(|header| presents_signature(header)) else {
            let words = "neither a signed request nor a shared access signature";
            return Err(AccessError::new(AccessErrorKind::Missing, words));
        };
        let claim = SharedKey::parse(header).map_err(|_| {
            let words = "'Authorization' is not 'SharedKey <account>:<signature>'";
            AccessError::new(AccessErrorKind::Malformed, words)
        })?;
        if claim.account != *account && account != SHARED {
            let words = "the request is signed for another account than it is sent to";
            return Err(AccessError::new(AccessErrorKind::Wrong, words));
        }
        let request = Request {
            verb: ask.method.as_str(),
            path: &ask.path,
            parameters: &ask.parameters,
            headers: &ask.headers,
        };
        check_date(context.access.now(), ask)?;
        let is_signed_by = |key: &str| claim.is_signed_by(key, &request);
        let pass = admit(context, &claim.account, &is_signed_by)?;
        Ok(Self { pass, sas: None })
    }

    /// Whether the caller may perform this operation.
    pub(super) fn allow(
        &self,
        operation: BlobOperation,
        ask: &BlobRequest,
    ) -> Result<(), AccessError> {
        let needed = NEEDED.iter().find(|(own, _)| *own == operation);
        let (_, needed) = needed.ok_or_else(|| {
            let words = "no key permits this operation";
            AccessError::new(AccessErrorKind::Forbidden, words)
        })?;
        // A processor lists the ownerships, or the checkpoints, of one group.
        let listed = format!("{}0", ask.parameter("prefix").unwrap_or(""));
        let is_own = ask.place.account != SHARED;
        let scope = match operation {
            BlobOperation::DeleteContainer => EntityScope::Whole,
            BlobOperation::CreateContainer | BlobOperation::ReadContainer => EntityScope::AnyEntity,
            BlobOperation::List => scope(&listed, is_own),
            _ => scope(ask.blob(), is_own),
        };
        for rights in *needed {
            let demand = Demand::new(rights, ServiceArea::Events, scope);
            self.pass.meets(&demand)?;
        }
        if self.sas.as_ref().is_none_or(|sas| permits(sas, operation)) {
            Ok(())
        } else {
            Err(AccessError::new(
                AccessErrorKind::Forbidden,
                "the shared access signature does not permit this",
            ))
        }
    }

    /// Whether a blob may be created but not overwritten.
    pub(super) fn is_for_new_only(&self) -> bool {
        self.sas.as_ref().is_some_and(|sas| !sas.permits("w"))
    }
}

/// Whether anything stands where a signature belongs: `SharedKey <account>:<signature>`.
fn presents_signature(header: &str) -> bool {
    let (_, claim) = header.trim().split_once(' ').unwrap_or_default();
    let (_, signature) = claim.split_once(':').unwrap_or(("", claim));
    !signature.trim().is_empty()
}

/// The scope in which a blob of this name needs rights.
fn scope(name: &str, is_own: bool) -> EntityScope<'_> {
    match event_hub_of(name) {
        Some(hub) => EntityScope::Entity(hub),
        None if is_own => EntityScope::AnyEntity,
        None => EntityScope::Whole,
    }
}

/// The signing key, if it has any right on event hubs; the operation is checked later.
fn admit(
    context: &Context,
    name: &str,
    is_signed_by: &dyn Fn(&str) -> bool,
) -> Result<Principal, AccessError> {
    let rights = &[Right::Send, Right::Listen, Right::Read];
    let demand = Demand::new(rights, ServiceArea::Events, EntityScope::AnyEntity);
    let proof = Proof::Signature { name, is_signed_by };
    context.access.authorize(proof, &demand)
}

fn permits(sas: &BlobSas, operation: BlobOperation) -> bool {
    let letters = match operation {
        BlobOperation::CreateContainer => "cw",
        BlobOperation::Put | BlobOperation::PutBlock | BlobOperation::PutBlocks => "wc",
        BlobOperation::Describe | BlobOperation::Lease => "w",
        BlobOperation::ReadContainer
        | BlobOperation::Read
        | BlobOperation::Head
        | BlobOperation::ReadBlocks => "r",
        BlobOperation::DeleteContainer | BlobOperation::Delete => "d",
        BlobOperation::List => "l",
    };
    let is_in_scope = match (sas.scope, operation) {
        (
            SasScope::Account { has_containers, .. },
            BlobOperation::CreateContainer
            | BlobOperation::ReadContainer
            | BlobOperation::DeleteContainer
            | BlobOperation::List,
        ) => has_containers,
        (SasScope::Account { has_objects, .. }, _) => has_objects,
        // Containers themselves need a signature of the account.
        (
            _,
            BlobOperation::CreateContainer
            | BlobOperation::ReadContainer
            | BlobOperation::DeleteContainer,
        ) => false,
        (SasScope::Container, _) => true,
        (SasScope::Blob, BlobOperation::List) => false,
        (SasScope::Blob, _) => true,
    };
    is_in_scope && sas.permits(letters)
}

fn check_sas(context: &Context, ask: &BlobRequest, sas: &BlobSas) -> Result<(), AccessError> {
    let unreadable = || {
        let words = "the times of the shared access signature cannot be read";
        AccessError::new(AccessErrorKind::Malformed, words)
    };
    let now = context.access.now();
    let end = parse_time(&sas.expiry).ok_or_else(unreadable)?;
    let start = sas
        .start
        .as_deref()
        .map(|start| parse_time(start).ok_or_else(unreadable));
    let start = start.transpose()?;
    if end <= now || start.is_some_and(|start| start > now) {
        let words = "the shared access signature has ended, or does not count yet";
        return Err(AccessError::new(AccessErrorKind::Expired, words));
    }
    if sas.needs_encryption && !context.is_encrypted && !ask.is_proxied_encrypted {
        let words = "the shared access signature is for encrypted requests only";
        return Err(AccessError::new(AccessErrorKind::Forbidden, words));
    }
    match &sas.addresses {
        Some(range) if !ask.address.is_some_and(|own| is_within(own, range)) => {
            let words = "the shared access signature is not for this address";
            Err(AccessError::new(AccessErrorKind::Forbidden, words))
        }
        _ => Ok(()),
    }
}

/// Whether an address is in the range of a signature.
fn is_within(address: IpAddr, range: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<IpAddr>(), last.parse::<IpAddr>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&address),
        _ => false,
    }
}

fn check_date(now: Timestamp, ask: &BlobRequest) -> Result<(), AccessError> {
    let date = ask.header("x-ms-date").or_else(|| ask.header("date"));
    let Some(date) = date.and_then(header_values::parse) else {
        let words = "a signed request says when it was made, in 'x-ms-date'";
        return Err(AccessError::new(AccessErrorKind::Malformed, words));
    };
    if date.0.abs_diff(now.0) <= SKEW.as_millis() as u64 {
        Ok(())
    } else {
        Err(AccessError::new(
            AccessErrorKind::Expired,
            "the request was signed more than 15 minutes ago, or ahead; set the clock",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_a_range() {
        let own: IpAddr = "10.0.0.5".parse().unwrap();
        assert!(is_within(own, "10.0.0.5") && is_within(own, "10.0.0.1-10.0.0.9"));
        assert!(!is_within(own, "10.0.0.6") && !is_within(own, "10.0.0.6-10.0.0.9"));
        assert!(!is_within(own, "nonsense") && !is_within(own, "::1-::9"));
    }
}
