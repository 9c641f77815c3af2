//! The network between nodes loses, delays and repeats.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use steadfast_core::id::Partition;
use steadfast_partition::{
    Envelope, Error, ErrorKind, Message, MessageBatch, NodeTransport, Result, Router,
};

use crate::oracle::Oracle;
use crate::story::Happen;

pub(crate) struct Net {
    oracle: Arc<Oracle>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    /// The nodes that are up.
    nodes: BTreeMap<u32, Weak<Router>>,
    is_calm: bool,
    lost: u64,
    repeated: u64,
}

/// What becomes of one message.
enum Fate {
    Lost,
    /// It arrives, but its answer does not.
    Unanswered,
    Arrives,
}

impl Net {
    pub(crate) fn new(oracle: Arc<Oracle>, seed: u64) -> Self {
        let state = State {
            rng: Rng::with_seed(seed),
            nodes: BTreeMap::new(),
            is_calm: false,
            lost: 0,
            repeated: 0,
        };
        Self {
            oracle,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn join(&self, node: u32, router: &Arc<Router>) {
        self.state.lock().nodes.insert(node, Arc::downgrade(router));
    }

    pub(crate) fn leave(&self, node: u32) {
        self.state.lock().nodes.remove(&node);
    }

    pub(crate) fn calm(&self) {
        self.state.lock().is_calm = true;
    }

    pub(crate) fn faults(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.lost, state.repeated)
    }

    async fn delay(&self) {
        let wait_us = {
            let mut state = self.state.lock();
            match (state.is_calm, state.rng.u8(0..20)) {
                (true, _) => 100,
                (false, 0) => state.rng.u64(0..500_000),
                (false, _) => state.rng.u64(0..5_000),
            }
        };
        tokio::time::sleep(Duration::from_micros(wait_us)).await;
    }

    fn fate(&self) -> Fate {
        let mut state = self.state.lock();
        if state.is_calm {
            return Fate::Arrives;
        }
        let fate = match state.rng.u8(0..100) {
            0..6 => Fate::Lost,
            6..12 => Fate::Unanswered,
            _ => return Fate::Arrives,
        };
        state.lost += 1;
        fate
    }

    /// The owner of the partition; now and then another node.
    fn find(&self, to: Partition) -> Option<Arc<Router>> {
        let mut state = self.state.lock();
        let nodes: Vec<_> = state.nodes.values().filter_map(Weak::upgrade).collect();
        if !state.is_calm && state.rng.u8(0..20) == 0 && !nodes.is_empty() {
            let any = state.rng.usize(0..nodes.len());
            return nodes.get(any).cloned();
        }
        nodes
            .into_iter()
            .find(|router| router.mailbox(to).is_some())
    }

    fn unreachable(to: Partition) -> Error {
        Error::new(ErrorKind::Unreachable { partition: to })
    }

    /// Sends a copy that arrives whenever it likes.
    fn maybe_repeat(self: &Arc<Self>, to: Partition, parcel: &MessageBatch) {
        {
            let mut state = self.state.lock();
            if state.is_calm || state.rng.u8(0..100) >= 15 {
                return;
            }
            state.repeated += 1;
        }
        let (net, parcel) = (Arc::clone(self), parcel.clone());
        tokio::spawn(async move {
            net.delay().await;
            net.delay().await;
            if let Some(router) = net.find(to) {
                let _ = router.receive(to, parcel).await;
            }
        });
    }
}

/// One node's end of the network.
pub(crate) struct Line(pub(crate) Arc<Net>);

#[async_trait]
impl NodeTransport for Line {
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        let net = &self.0;
        let fate = net.fate();
        net.delay().await;
        if matches!(fate, Fate::Lost) {
            return Err(Net::unreachable(to));
        }
        let router = net.find(to).ok_or_else(|| Net::unreachable(to))?;
        let answer = router.serve(to, envelope).await;
        net.delay().await;
        match fate {
            Fate::Arrives => answer,
            _ => Err(Net::unreachable(to)),
        }
    }

    async fn deliver(&self, to: Partition, parcel: MessageBatch) -> Result<u64> {
        let net = &self.0;
        for message in &parcel.messages {
            let envelope = Envelope::decode(message.clone()).unwrap();
            if let Ok(Happen::Got { op, .. }) = Happen::decode(&envelope.body) {
                net.oracle.leaves("a message", op);
            }
        }
        let fate = net.fate();
        net.maybe_repeat(to, &parcel);
        net.delay().await;
        if matches!(fate, Fate::Lost) {
            return Err(Net::unreachable(to));
        }
        let router = net.find(to).ok_or_else(|| Net::unreachable(to))?;
        let answer = router.receive(to, parcel).await;
        net.delay().await;
        match fate {
            Fate::Arrives => answer,
            _ => Err(Net::unreachable(to)),
        }
    }
}
