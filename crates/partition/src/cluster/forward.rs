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
use steadfast_core::id::{Owner, Partition};
use steadfast_core::limits;
use tokio::time::Instant;

use super::exchange::{self, Request};
use super::network::{Broken, Network};
use super::roster::Roster;
use crate::address::Envelope;
use crate::clerk::Inquiry;
use crate::error::{Error, Kind, Result};
use crate::question::{Finding, Question};
use crate::router::Router;
use crate::transport::{Parcel, Transport};

/// Forwards requests to partitions of other nodes.
pub struct Forward {
    me: Owner,
    roster: Arc<Roster>,
    network: Arc<dyn Network>,
    router: OnceLock<Weak<Router>>,
    sent: AtomicU64,
    retried: AtomicU64,
}

/// The first and the longest pause before the owner is looked up again.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Forward {
    /// Forwards to the known members.
    pub fn new(me: Owner, roster: Arc<Roster>, network: Arc<dyn Network>) -> Self {
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
            return Err(Error::new(Kind::Malformed {
                what: "a message that is too large for another node",
            }));
        }
        let mut end = Instant::now() + limits::FORWARD_TIME;
        let mut pause = FIRST_PAUSE;
        loop {
            let mut changes = self.roster.changes();
            let began = Instant::now();
            let error = match self.attempt(to, &request, &bytes, limit).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if matches!(error.kind(), Kind::NotOwner { .. }) {
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
            let _ = tokio::time::timeout(pause, changes.changed()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
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
        if let Some(router) = router.filter(|router| router.door(to).is_some()) {
            return exchange::serve(&router, request.clone()).await;
        }
        let owner = self.roster.owner(to);
        let Some((peer, _)) = owner.filter(|(peer, _)| peer.owner != self.me) else {
            return Err(Error::new(Kind::NotOwner { partition: to }));
        };
        self.sent.fetch_add(1, Ordering::Relaxed);
        match self.network.send(&peer, bytes.clone(), limit).await {
            Ok(reply) => exchange::open(reply),
            Err(Broken::Unsent(why)) => {
                let node = peer.name;
                tracing::debug!(event = "cluster.not_reached", node, why);
                Err(Error::new(Kind::Unreachable { partition: to }))
            }
            Err(Broken::Unknown(why)) => {
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
        Kind::NotOwner { .. } | Kind::Draining { .. } | Kind::Unreachable { .. } => true,
        Kind::OutcomeUnknown { .. } => is_repeatable,
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
impl Transport for Forward {
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        let request = Request::Call(to, envelope);
        self.send(to, request, limits::FORWARD_CALL, false).await
    }

    async fn deliver(&self, to: Partition, parcel: Parcel) -> Result<u64> {
        let request = Request::Deliver(to, parcel);
        let reply = self.send(to, request, limits::FORWARD_READ, true).await?;
        exchange::handled(reply)
    }

    async fn commit(&self, to: Partition, commands: Vec<Envelope>) -> Result<()> {
        let request = Request::Commit(to, commands);
        let sent = self.send(to, request, limits::FORWARD_CALL, false).await;
        sent.map(drop)
    }

    async fn read(&self, to: Partition, question: Question) -> Result<Finding> {
        let request = Request::Read(to, question);
        let reply = self.send(to, request, limits::FORWARD_READ, true).await?;
        exchange::found(reply)
    }

    async fn ask(&self, to: Partition, inquiry: Inquiry) -> Result<Bytes> {
        let is_repeatable = inquiry.is_repeatable;
        let request = Request::Ask(to, inquiry);
        self.send(to, request, limits::FORWARD_CALL, is_repeatable)
            .await
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::VirtualClock;
    use steadfast_core::id::Epoch;
    use steadfast_storage::engine::Record;

    use super::super::member::{Identity, Member, State};
    use super::super::network::Peer;
    use super::*;
    use crate::address::{Address, Kind as ServiceKind};

    const TO: Partition = Partition::new(0, 3);

    /// Another node with a fixed behaviour.
    enum Other {
        /// It does not serve the partition.
        Elsewhere,
        /// Its answers are lost.
        Silent,
        /// It serves the partition for a long time, and then not, this many times.
        Leaving(AtomicU64),
    }

    #[async_trait]
    impl Network for Other {
        async fn send(
            &self,
            _: &Peer,
            _: Bytes,
            _: Duration,
        ) -> std::result::Result<Bytes, Broken> {
            match self {
                Self::Elsewhere => {
                    let refused = Error::new(Kind::NotOwner { partition: TO });
                    Ok(exchange::reply(Err(refused)))
                }
                Self::Silent => Err(Broken::Unknown("it is silent".to_owned())),
                Self::Leaving(times) => {
                    tokio::time::sleep(2 * limits::FORWARD_TIME).await;
                    let is_left = times.fetch_sub(1, Ordering::Relaxed) > 0;
                    let refused = Error::new(Kind::NotOwner { partition: TO });
                    Ok(exchange::reply(match is_left {
                        true => Err(refused),
                        false => Ok(Bytes::from_static(b"answered")),
                    }))
                }
            }
        }
    }

    /// A node with one other member, which claims the partition.
    fn forward(other: Other) -> Forward {
        let owner = |node| Owner {
            node,
            incarnation: 1,
        };
        let clock = Arc::new(VirtualClock::default());
        let roster = Roster::new(Arc::clone(&clock) as _, Duration::from_secs(5), 0);
        let member = Member {
            identity: Identity {
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
            key: Member::key("other"),
            version: 1,
            value: member.encode(),
        };
        roster.learn(&[record], Duration::ZERO);
        Forward::new(owner(1), Arc::new(roster), Arc::new(other))
    }

    fn envelope() -> Envelope {
        Envelope::new(Address::new(ServiceKind(1), "name", "key"), "body")
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_looked_for_again_and_again_for_a_bounded_time() {
        let forward = forward(Other::Elsewhere);
        let began = Instant::now();
        let error = forward.call(TO, envelope()).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::NotOwner { .. }), "{error}");
        let took = began.elapsed();
        let most = limits::FORWARD_TIME + LONGEST_PAUSE;
        assert!(took >= limits::FORWARD_TIME && took <= most, "{took:?}");
        let (sent, _) = forward.counts();
        assert!((20..200).contains(&sent), "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_is_gone_after_however_long_it_was_there() {
        let forward = forward(Other::Leaving(AtomicU64::new(2)));
        let answer = forward.call(TO, envelope()).await.unwrap();
        assert_eq!((&answer[..], forward.counts().0), (&b"answered"[..], 3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_happened_is_not_sent_again() {
        let forward = forward(Other::Silent);
        let error = forward.call(TO, envelope()).await.unwrap_err();
        let is_unknown = matches!(error.kind(), Kind::OutcomeUnknown { .. });
        assert!(is_unknown, "{error}");
        assert_eq!(forward.counts(), (1, 0));
    }

    /// A request of another node is answered by the receiver itself.
    #[tokio::test(start_paused = true)]
    async fn a_request_of_another_node_is_not_sent_on() {
        let forward = Arc::new(forward(Other::Elsewhere));
        let router = Router::new(Arc::clone(&forward) as Arc<dyn Transport>);
        let error = router.serve(TO, envelope()).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::NotOwner { .. }), "{error}");
        assert_eq!(forward.counts(), (0, 0));
    }
}
