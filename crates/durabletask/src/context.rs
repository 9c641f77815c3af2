//! State shared by the Durable Task service.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_durable::{TaskHub, TaskHubs, TaskServiceCounts};
use steadfast_net::access::{
    AccessControl, AccessError, Demand, EntityScope, Principal, Proof, ProofWatch, Right,
    ServiceArea, is_for_area,
};
use steadfast_wire::durabletask::MESSAGE_BYTES;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::status::{denied, refused};

/// The task hub of requests that name none.
pub(super) const DEFAULT_HUB: &str = "default";

/// State shared by all requests.
pub struct Context {
    pub hubs: TaskHubs,
    /// `None` disables access control, for development on loopback.
    pub access: Option<Arc<AccessControl>>,
    pub clock: Arc<dyn Clock>,
    /// Cancelled when the node drains: waits fail with `UNAVAILABLE`, work streams end.
    pub leaving: CancellationToken,
    pub counts: Arc<TaskServiceCounts>,
}

/// The caller of a method, its task hub and its deadline.
pub(super) struct GrpcCaller {
    pub(super) context: Arc<Context>,
    pub(super) hub: TaskHub,
    /// The name of the worker.
    pub(super) name: String,
    /// How long the client waits for an answer.
    pub(super) patience: Option<Duration>,
    /// The longest message that the worker accepts.
    pub(super) message_bytes: usize,
    /// Its verified proof, and the rights of which the method needs one.
    proof: Option<(Principal, &'static [Right])>,
}

impl GrpcCaller {
    /// The caller from these headers, if it has one of the rights.
    pub(super) fn new(
        context: &Arc<Context>,
        headers: &HeaderMap,
        rights: &'static [Right],
    ) -> Result<Self, Status> {
        let name = text(headers, "taskhub")?.unwrap_or(DEFAULT_HUB);
        let proof = match &context.access {
            Some(access) => {
                let header = text(headers, AUTHORIZATION.as_str())?;
                let allowed = allow(access, header, rights, name);
                let allowed = allowed.inspect_err(|why| access.audit().refused(why));
                Some((allowed.map_err(|why| denied(&why))?, rights))
            }
            None => {
                steadfast_net::listen::proven();
                None
            }
        };
        Ok(Self {
            context: Arc::clone(context),
            hub: context.hubs.hub(name).map_err(|error| refused(&error))?,
            name: text(headers, "workerid")?.unwrap_or_default().to_owned(),
            patience: text(headers, "grpc-timeout")?.and_then(patience),
            message_bytes: text(headers, MESSAGE_BYTES)?
                .map_or(Ok(limits::WORKER_MESSAGE_BYTES), message_bytes)?,
            proof,
        })
    }

    /// Watches the proof for revocation while a stream or a wait lasts.
    pub(super) fn follow(&self, kind: &'static str) -> Option<ProofWatch> {
        let (access, (pass, rights)) = (self.context.access.as_ref()?, self.proof.as_ref()?);
        let hub = Some(self.hub.name());
        Some(access.watch_proof(kind, pass, rights, ServiceArea::Durable, hub))
    }
}

fn message_bytes(text: &str) -> Result<usize, Status> {
    let bytes = text.parse().map_err(|_| {
        super::status::malformed(format!("the metadata '{MESSAGE_BYTES}' is no number"))
    });
    bytes.map(|bytes: usize| bytes.min(limits::GRPC_MESSAGE_BYTES))
}

/// Whether a proof lets its holder do this in a task hub: a key itself, a shared
/// access signature, or a web token for this service that a key has signed.
pub(super) fn allow(
    access: &AccessControl,
    header: Option<&str>,
    rights: &[Right],
    hub: &str,
) -> Result<Principal, AccessError> {
    let resource = "/TaskHubSidecarService";
    permit(access, Proof::Header { header, resource }, rights, hub)
}

/// The same for any proof.
pub(super) fn permit(
    access: &AccessControl,
    proof: Proof<'_>,
    rights: &[Right],
    hub: &str,
) -> Result<Principal, AccessError> {
    let is_ours = |audience: &str| is_for_area(ServiceArea::Durable, audience);
    let demand = Demand::new(rights, ServiceArea::Durable, EntityScope::Entity(hub));
    access.authorize(proof, &demand.or_token(&is_ours))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Status> {
    let value = headers.get(name).map(|value| value.to_str());
    let bad = |_| super::status::malformed(format!("the metadata '{name}' is no text"));
    value.transpose().map_err(bad)
}

/// Parses a gRPC time-out: up to eight digits and a unit.
fn patience(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back().filter(char::is_ascii)?;
    let digits = &text[..text.len() - 1];
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        'H' => Duration::from_secs(number * 3600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patience_of_a_client_is_read() {
        assert_eq!(patience("30S"), Some(Duration::from_secs(30)));
        assert_eq!(
            patience("99999999n"),
            Some(Duration::from_nanos(99_999_999))
        );
        assert_eq!(patience("2H"), Some(Duration::from_secs(7200)));
        for bad in ["", "S", "999999999S", "1x", "1ä", "-1S"] {
            assert_eq!(patience(bad), None, "{bad}");
        }
    }
}
