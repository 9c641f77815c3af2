//! The server side of the region protocol.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_cluster_rpc::{PeerHandler, serve};
use steadfast_partition::region::{RegionAction, RegionRequest};

use super::inner::Inner;
use super::region::{AuthorizedRegions, RegionListener};
use super::scheduler;

/// Handles requests of the other region or, on a witness, of both regions.
struct RegionRequestHandler {
    peers: AuthorizedRegions,
    inner: Weak<Inner>,
}

/// Serves other regions until the node stops.
pub(super) fn open(entrance: RegionListener, inner: &Arc<Inner>) {
    let RegionListener {
        listener,
        credentials,
        peers,
    } = entrance;
    let desk = RegionRequestHandler {
        peers,
        inner: Arc::downgrade(inner),
    };
    let certificate = inner.certificate.clone();
    let certificate = certificate.filter(|_| listener.is_encrypted());
    let (stop, tasks) = (&inner.stop, &inner.tasks);
    let serving = serve(credentials, certificate, Arc::new(desk), stop.clone());
    tasks.spawn(listener.run(stop.clone(), tasks.clone(), serving));
}

#[async_trait]
impl PeerHandler for RegionRequestHandler {
    async fn answer(&self, from: &str, request: Bytes) -> Bytes {
        let (Ok(word), Some(inner)) = (RegionRequest::decode(request), self.inner.upgrade()) else {
            return Bytes::new();
        };
        if !self.peers.is_authorized(from, &word) {
            tracing::warn!(
                event = "region.unheard",
                from,
                "the peer sent a request that it is not authorized for"
            );
            return Bytes::new();
        }
        let RegionRequest {
            space,
            action: wish,
        } = word;
        if let (AuthorizedRegions::Voting(_, polls), RegionAction::Vote(ask)) = (&self.peers, &wish)
        {
            return match polls.vote(&space, ask).await {
                Ok(Some(say)) => say.encode(),
                _ => Bytes::new(),
            };
        }
        let home = inner.paired.as_ref().and_then(|own| own.home(&space));
        match (wish, home) {
            (RegionAction::Proxy(errand), Some(home)) => {
                let context = scheduler::context(&inner, false);
                steadfast_scheduler::serve_forwarded(&context, home, errand).await
            }
            (wish, Some(home)) => home.pairing.answer(wish).await,
            (_, None) => Bytes::new(),
        }
    }
}
