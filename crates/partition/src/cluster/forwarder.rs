//! Forwards requests to partition owners, in one hop.
//!
//! A receiver never forwards a request: nodes that disagree about an owner would
//! forward it without end. So the sender looks the owner up again, for a bounded time,
//! as long as the request was certainly not executed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::backoff::Backoff;
use steadfast_core::id::{Owner, Partition};
use steadfast_core::limits;
use tokio::time::Instant;

use super::members::Members;
use super::network::{ClusterNetwork, NetworkError};
use super::request::{self, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::Envelope;
use crate::ingress::owner_handler::OwnerRequest;
use crate::ingress::router::Router;
use crate::ingress::transport::{MessageBatch, NodeTransport};
use crate::reads::read_request::{ReadRequest, ReadResponse};

/// Forwards requests to partitions of other nodes.
pub struct Forwarder {
    me: Owner,
    roster: Arc<Members>,
    network: Arc<dyn ClusterNetwork>,
    router: OnceLock<Weak<Router>>,
    sent: AtomicU64,
    retried: AtomicU64,
}

/// The first and the longest pause before the owner is looked up again.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Forwarder {
    /// Forwards to the known members.
    pub fn new(me: Owner, roster: Arc<Members>, network: Arc<dyn ClusterNetwork>) -> Self {
        Self {
            me,
            roster,
            network,
            router: OnceLock::new(),
            sent: AtomicU64::new(0),
            retried: AtomicU64::new(0),
        }
    }

    /// Sets the router of this node: a partition may move to this node during a retry.
    pub fn join(&self, router: &Arc<Router>) {
        let _ = self.router.set(Arc::downgrade(router));
    }

    /// Requests that were sent to other nodes, and how often an owner was looked up
    /// again.
    pub fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.sent), read(&self.retried))
    }

    async fn send(
        &self,
        to: Partition,
        request: Request,
        limit: Duration,
        is_repeatable: bool,
    ) -> Result<Bytes> {
        let bytes = request.encode();
        if bytes.len() > limits::NODE_MESSAGE_BYTES {
            return Err(Error::new(ErrorKind::Malformed {
                what: "a message that is too large for another node",
            }));
        }
        let mut end = Instant::now() + limits::FORWARD_TIME;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let mut changes = self.roster.changes();
            let began = Instant::now();
            let error = match self.attempt(to, &request, &bytes, limit).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if matches!(error.kind(), ErrorKind::NotOwner { .. }) {
                // The request may have waited there for long until the partition was
                // handed over.
                end += began.elapsed();
            }
            if !passes(&error, is_repeatable) || Instant::now() >= end {
                return Err(error);
            }
            self.retried.fetch_add(1, Ordering::Relaxed);
            // A change of the owner ends the pause early; the owner opening the
            // partition does not.
            let _ = tokio::time::timeout(backoff.pause(), changes.changed()).await;
        }
    }

    async fn attempt(
        &self,
        to: Partition,
        request: &Request,
        bytes: &Bytes,
        limit: Duration,
    ) -> Result<Bytes> {
        let router = self.router.get().and_then(Weak::upgrade);
        if let Some(router) = router.filter(|router| router.mailbox(to).is_some()) {
            return request::serve(&router, request.clone()).await;
        }
        let owner = self.roster.owner(to);
        let Some((peer, _)) = owner.filter(|(peer, _)| peer.owner != self.me) else {
            return Err(Error::new(ErrorKind::NotOwner { partition: to }));
        };
        self.sent.fetch_add(1, Ordering::Relaxed);
        match self.network.send(&peer, bytes.clone(), limit).await {
            Ok(reply) => request::decode_answer(reply),
            Err(NetworkError::Unsent(why)) => {
                let node = peer.name;
                tracing::debug!(event = "cluster.not_reached", node, why);
                Err(Error::new(ErrorKind::Unreachable { partition: to }))
            }
            Err(NetworkError::Unknown(why)) => {
                let node = peer.name;
                tracing::debug!(event = "cluster.answer_lost", node, why);
                Err(Error::unknown(to, None))
            }
        }
    }
}

/// Whether the owner may be looked up again.
fn passes(error: &Error, is_repeatable: bool) -> bool {
    match error.kind() {
        ErrorKind::NotOwner { .. } | ErrorKind::Draining { .. } | ErrorKind::Unreachable { .. } => {
            true
        }
        ErrorKind::OutcomeUnknown { .. } => is_repeatable,
        // The node's lease or ownership ended before the request was executed; reads
        // also find ledgers that have just been handed over.
        _ => match error.code().0 {
            "STF-2019" | "STF-3002" | "STF-3010" => true,
            "STF-2007" | "STF-2012" => is_repeatable,
            _ => false,
        },
    }
}

#[async_trait]
impl NodeTransport for Forwarder {
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        let request = Request::Call(to, envelope);
        self.send(to, request, limits::FORWARD_CALL, false).await
    }

    async fn deliver(&self, to: Partition, parcel: MessageBatch) -> Result<u64> {
        let request = Request::Deliver(to, parcel);
        let reply = self.send(to, request, limits::FORWARD_READ, true).await?;
        request::decode_handled(reply)
    }

    async fn commit(&self, to: Partition, commands: Vec<Envelope>) -> Result<()> {
        let request = Request::Commit(to, commands);
        let sent = self.send(to, request, limits::FORWARD_CALL, false).await;
        sent.map(drop)
    }

    async fn read(&self, to: Partition, question: ReadRequest) -> Result<ReadResponse> {
        let request = Request::Read(to, question);
        let reply = self.send(to, request, limits::FORWARD_READ, true).await?;
        request::decode_read(reply)
    }

    async fn request(&self, to: Partition, inquiry: OwnerRequest) -> Result<Bytes> {
        let is_repeatable = inquiry.is_repeatable;
        let request = Request::Dispatch(to, inquiry);
        self.send(to, request, limits::FORWARD_CALL, is_repeatable)
            .await
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::VirtualClock;
    use steadfast_core::id::Epoch;
    use steadfast_storage::engine::Record;

    use super::super::member_record::{MemberRecord, NodeIdentity, State};
    use super::super::network::ClusterPeer;
    use super::*;
    use crate::ingress::address::{Address, ServiceKind};

    const TO: Partition = Partition::new(0, 3);

    /// Another node with a fixed behaviour.
    enum FakeNode {
        /// It does not serve the partition.
        Elsewhere,
        /// Its answers are lost.
        Silent,
        /// It serves the partition for a long time, and then not, this many times.
        Leaving(AtomicU64),
    }

    #[async_trait]
    impl ClusterNetwork for FakeNode {
        async fn send(
            &self,
            _: &ClusterPeer,
            _: Bytes,
            _: Duration,
        ) -> std::result::Result<Bytes, NetworkError> {
            match self {
                Self::Elsewhere => {
                    let refused = Error::new(ErrorKind::NotOwner { partition: TO });
                    Ok(request::encode_answer(Err(refused)))
                }
                Self::Silent => Err(NetworkError::Unknown("it is silent".to_owned())),
                Self::Leaving(times) => {
                    tokio::time::sleep(2 * limits::FORWARD_TIME).await;
                    let is_left = times.fetch_sub(1, Ordering::Relaxed) > 0;
                    let refused = Error::new(ErrorKind::NotOwner { partition: TO });
                    Ok(request::encode_answer(if is_left {
                        Err(refused)
                    } else {
                        Ok(Bytes::from_static(b"answered"))
                    }))
                }
            }
        }
    }

    /// A node with one other member, which claims the partition.
    fn forward(other: FakeNode) -> Forwarder {
        let owner = |node| Owner {
            node,
            incarnation: 1,
        };
        let clock = Arc::new(VirtualClock::default());
        let roster = Members::new(Arc::clone(&clock) as _, Duration::from_secs(5), 0);
        let member = MemberRecord {
            identity: NodeIdentity {
                name: "other".into(),
                address: String::new(),
                cluster: String::new(),
                fingerprint: [0; 16],
                protocol: 1,
                schema: 1,
            },
            owner: owner(2),
            state: State::Up,
            serves: vec![(TO.index(), Epoch(1))],
            missed: Vec::new(),
            is_isolated: false,
        };
        let record = Record {
            key: MemberRecord::key("other"),
            version: 1,
            value: member.encode(),
        };
        roster.learn(&[record], Duration::ZERO);
        Forwarder::new(owner(1), Arc::new(roster), Arc::new(other))
    }

    fn envelope() -> Envelope {
        Envelope::new(Address::new(ServiceKind(1), "name", "key"), "body")
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_looked_for_again_and_again_for_a_bounded_time() {
        let forward = forward(FakeNode::Elsewhere);
        let began = Instant::now();
        let error = forward.call(TO, envelope()).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotOwner { .. }),
            "{error}"
        );
        let took = began.elapsed();
        let most = limits::FORWARD_TIME + LONGEST_PAUSE;
        assert!(took >= limits::FORWARD_TIME && took <= most, "{took:?}");
        let (sent, _) = forward.counts();
        assert!((20..200).contains(&sent), "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_is_gone_after_however_long_it_was_there() {
        let forward = forward(FakeNode::Leaving(AtomicU64::new(2)));
        let answer = forward.call(TO, envelope()).await.unwrap();
        assert_eq!((&answer[..], forward.counts().0), (&b"answered"[..], 3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_happened_is_not_sent_again() {
        let forward = forward(FakeNode::Silent);
        let error = forward.call(TO, envelope()).await.unwrap_err();
        let is_unknown = matches!(error.kind(), ErrorKind::OutcomeUnknown { .. });
        assert!(is_unknown, "{error}");
        assert_eq!(forward.counts(), (1, 0));
    }

    /// A request of another node is answered by the receiver itself.
    #[tokio::test(start_paused = true)]
    async fn a_request_of_another_node_is_not_sent_on() {
        let forward = Arc::new(forward(FakeNode::Elsewhere));
        let router = Router::new(Arc::clone(&forward) as Arc<dyn NodeTransport>);
        let error = router.serve(TO, envelope()).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotOwner { .. }),
            "{error}"
        );
        assert_eq!(forward.counts(), (0, 0));
    }
}
