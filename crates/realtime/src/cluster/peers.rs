//! Peer nodes, and the lanes of messages to them.
//!
//! There is one lane per peer node. Its messages arrive exactly once and in order
//! while that node lives: a batch is retried until it is answered, and the receiver
//! drops duplicates. When the node leaves, its queued messages are dropped.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::{Mutex, RwLock};
use steadfast_core::codec::DecodeError;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{Error, ErrorKind, Result as PartitionResult, ServiceKind};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::batch::PeerBatch;

/// The kind of hub messages between nodes.
pub const WORDS: ServiceKind = ServiceKind(65);

/// A peer node, in one of its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerNode {
    pub name: String,
    pub life: u128,
}

/// The peer nodes.
pub trait PeerTransport: Send + Sync + 'static {
    /// This node.
    fn me(&self) -> PeerNode;

    /// All live peer nodes.
    fn all(&self) -> Vec<PeerNode>;

    /// Changes when the list may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Sends a message to one of them.
    fn tell(
        &self,
        to: &PeerNode,
        kind: ServiceKind,
        word: Bytes,
    ) -> BoxFuture<'_, PartitionResult<Bytes>>;
}

/// Observes peer nodes that join and leave.
pub(crate) trait PeerObserver: Send + Sync {
    /// A node has joined: the first message in its lane is the first it receives.
    fn came(&self, node: &str);

    /// A node has left.
    fn gone(&self, node: &str);
}

/// All peer nodes.
#[derive(Default)]
pub(crate) struct PeerNodes {
    others: OnceLock<Arc<dyn PeerTransport>>,
    lanes: RwLock<Vec<Arc<PeerLane>>>,
    next_lane: AtomicU64,
    /// The last batch received from each node.
    heard: Mutex<HashMap<PeerNode, Arc<Mutex<LastBatch>>>>,
}

/// The newest lane of a peer node, the number of its last batch, and the response.
#[derive(Default)]
struct LastBatch {
    lane: u64,
    number: u64,
    reply: Bytes,
    at: Option<Instant>,
}

/// Poll interval for nodes that have left without notice.
const LOOK: Duration = Duration::from_secs(1);

/// Retry interval of a batch.
const AGAIN: Duration = Duration::from_millis(100);

/// Time within which a new node must accept hub messages.
const BEGINNING: Duration = Duration::from_secs(10);

impl PeerNodes {
    /// Enables peer nodes. Only the first call counts.
    pub(crate) fn open(
        self: &Arc<Self>,
        others: Arc<dyn PeerTransport>,
        watcher: Arc<dyn PeerObserver>,
    ) {
        let changes = others.changes();
        if self.others.set(others).is_ok() {
            self.look(&*watcher);
            tokio::spawn(name_task(keep(Arc::downgrade(self), changes, watcher)));
        }
    }

    /// Whether there is no peer node.
    pub(crate) fn is_alone(&self) -> bool {
        self.lanes.read().is_empty()
    }

    /// Whether there may be peer nodes.
    pub(crate) fn is_open(&self) -> bool {
        self.others.get().is_some()
    }

    /// Names of all peer nodes.
    pub(crate) fn names(&self) -> Vec<String> {
        let lanes = self.lanes.read();
        lanes.iter().map(|lane| lane.other.name.clone()).collect()
    }

    /// A mark in ids of this node, by which peers find their owner.
    pub(crate) fn mark(&self) -> Option<String> {
        let others = self.others.get()?;
        Some(mark(&others.me().name))
    }

    /// Sends a message to all peer nodes; one message each.
    pub(crate) fn broadcast(&self, word: &Bytes) {
        for lane in self.lanes.read().iter() {
            lane.put(word.clone(), None);
        }
    }

    /// Sends a message to one peer node. False if it is not a peer.
    pub(crate) fn send(&self, node: &str, word: Bytes) -> bool {
        let lane = self.lane(node);
        lane.is_some_and(|lane| lane.put(word, None))
    }

    /// Sends a request to all peer nodes: it is in their lanes when this returns.
    /// Nodes that do not respond are left out.
    pub(crate) fn request_all(&self, word: &Bytes) -> BoxFuture<'static, Vec<(String, Bytes)>> {
        let lanes = self.lanes.read();
        let asked = lanes.iter().map(|lane| {
            let (said, waiting) = oneshot::channel();
            let name = lane.other.name.clone();
            lane.put(word.clone(), Some(said));
            async move {
                let answer = tokio::time::timeout(limits::NODE_TELL, waiting).await;
                Some((name, answer.ok()?.ok()?))
            }
        });
        let asked = join_all(asked.collect::<Vec<_>>());
        Box::pin(async move { asked.await.into_iter().flatten().collect() })
    }

    /// Sends one node a request outside its lane.
    pub(crate) async fn request(
        &self,
        node: &str,
        kind: ServiceKind,
        body: Bytes,
    ) -> Option<Bytes> {
        let lane = self.lane(node)?;
        let others = self.others.get()?;
        others.tell(&lane.other, kind, body).await.ok()
    }

    /// Waits until all lanes have room.
    pub(crate) async fn room(&self) {
        let full: Vec<_> = {
            let lanes = self.lanes.read();
            lanes
                .iter()
                .filter(|lane| lane.is_full())
                .cloned()
                .collect()
        };
        for lane in full {
            lane.room().await;
        }
    }

    /// Handles a batch of a peer node: each message once, and in order.
    pub(crate) fn receive(
        &self,
        batch: Bytes,
        handle: impl Fn(&str, Bytes) -> Bytes,
    ) -> Result<Bytes, DecodeError> {
        let batch = PeerBatch::decode(batch)?;
        let from = PeerNode {
            name: batch.from.clone(),
            life: batch.life,
        };
        let heard = {
            let mut all = self.heard.lock();
            Arc::clone(all.entry(from).or_default())
        };
        let mut heard = heard.lock();
        let last = (heard.lane, heard.number);
        if (batch.lane, batch.number) == last {
            return Ok(heard.reply.clone());
        }
        if (batch.lane, batch.number) < last {
            return Ok(PeerBatch::replies(&[]));
        }
        let words = batch.words.into_iter();
        let replies: Vec<_> = words.map(|word| handle(&batch.from, word)).collect();
        *heard = LastBatch {
            lane: batch.lane,
            number: batch.number,
            reply: PeerBatch::replies(&replies),
            at: Some(Instant::now()),
        };
        Ok(heard.reply.clone())
    }

    /// The nodes that may hold a token, the likeliest first.
    pub(crate) fn likely(&self, token: &str) -> Vec<String> {
        let marked = token.rsplit_once('.').map(|(_, own)| own);
        let mut names = self.names();
        names.sort_by_key(|name| marked != Some(mark(name).as_str()));
        names
    }

    fn lane(&self, node: &str) -> Option<Arc<PeerLane>> {
        let lanes = self.lanes.read();
        lanes.iter().find(|lane| lane.other.name == node).cloned()
    }

    /// Opens lanes to nodes that have joined, and closes those of nodes that have
    /// left.
    fn look(self: &Arc<Self>, watcher: &dyn PeerObserver) {
        let Some(others) = self.others.get() else {
            return;
        };
        let all = others.all();
        let (gone, came) = {
            let mut lanes = self.lanes.write();
            let gone: Vec<_> = lanes
                .extract_if(.., |lane| !all.contains(&lane.other))
                .collect();
            let is_new = |other: &&PeerNode| lanes.iter().all(|lane| lane.other != **other);
            let came: Vec<_> = all.iter().filter(is_new).cloned().collect();
            for other in &came {
                let number = self.next_lane.fetch_add(1, Ordering::Relaxed) + 1;
                lanes.push(PeerLane::new(other.clone(), number, Arc::clone(others)));
            }
            (gone, came)
        };
        for lane in gone {
            lane.end();
            watcher.gone(&lane.other.name);
        }
        for other in came {
            watcher.came(&other.name);
        }
        // A node that has just joined may send before it is listed.
        let is_new = |heard: &LastBatch| heard.at.is_some_and(|at| at.elapsed() < BEGINNING);
        let mut heard = self.heard.lock();
        heard.retain(|other, last| all.contains(other) || is_new(&last.lock()));
    }
}

/// Polls the peer nodes until the set is dropped.
async fn keep(
    nodes: Weak<PeerNodes>,
    mut changes: watch::Receiver<u64>,
    watcher: Arc<dyn PeerObserver>,
) {
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() {
                return;
            },
            () = tokio::time::sleep(LOOK) => {}
        }
        match nodes.upgrade() {
            Some(nodes) => nodes.look(&*watcher),
            None => return,
        }
    }
}

/// A short URL-safe mark of a node's name.
fn mark(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}

/// The queue of messages to one node.
struct PeerLane {
    other: PeerNode,
    number: u64,
    others: Arc<dyn PeerTransport>,
    queue: Mutex<LaneQueue>,
    /// A batch was sent.
    told: Notify,
    /// It has responded once.
    is_heard: AtomicBool,
    batches: AtomicU64,
    began: Instant,
    over: CancellationToken,
}

#[derive(Default)]
struct LaneQueue {
    words: VecDeque<QueuedMessage>,
    bytes: usize,
    is_running: bool,
    /// A message was dropped since the last batch.
    is_cut: bool,
}

struct QueuedMessage {
    body: Bytes,
    reply: Option<oneshot::Sender<Bytes>>,
}

impl PeerLane {
    fn new(other: PeerNode, number: u64, others: Arc<dyn PeerTransport>) -> Arc<Self> {
        Arc::new(Self {
            other,
            number,
            others,
            queue: Mutex::default(),
            told: Notify::new(),
            is_heard: AtomicBool::new(false),
            batches: AtomicU64::new(0),
            began: Instant::now(),
            over: CancellationToken::new(),
        })
    }

    /// Queues a message. False if the lane is full or closed.
    fn put(self: &Arc<Self>, body: Bytes, reply: Option<oneshot::Sender<Bytes>>) -> bool {
        let mut queue = self.queue.lock();
        if self.over.is_cancelled() {
            return false;
        }
        if queue.bytes + body.len() > limits::NODE_QUEUE_BYTES && !queue.words.is_empty() {
            if !std::mem::replace(&mut queue.is_cut, true) {
                let node = self.other.name.as_str();
                tracing::warn!(event = "realtime.slow_node", node);
            }
            return false;
        }
        queue.bytes += body.len();
        queue.words.push_back(QueuedMessage { body, reply });
        if !std::mem::replace(&mut queue.is_running, true) {
            tokio::spawn(name_task(Arc::clone(self).run()));
        }
        true
    }

    /// A node that has never responded causes no backpressure.
    fn is_full(&self) -> bool {
        let is_heard = self.is_heard.load(Ordering::Relaxed);
        is_heard && self.queue.lock().bytes > limits::NODE_ROOM_BYTES && !self.over.is_cancelled()
    }

    async fn room(&self) {
        loop {
            let told = self.told.notified();
            if !self.is_full() {
                return;
            }
            tokio::select! {
                () = told => {}
                () = self.over.cancelled() => return,
            }
        }
    }

    /// Sends batch after batch until the queue is empty.
    async fn run(self: Arc<Self>) {
        while let Some(words) = self.next() {
            self.tell(words).await;
            self.told.notify_waiters();
        }
    }

    /// The messages of the next batch; `None` ends the sender task.
    fn next(&self) -> Option<Vec<QueuedMessage>> {
        let mut queue = self.queue.lock();
        queue.is_cut = false;
        if queue.words.is_empty() {
            queue.is_running = false;
            return None;
        }
        let (mut words, mut bytes) = (Vec::new(), 0);
        while let Some(word) = queue.words.front() {
            bytes += word.body.len();
            let is_much = bytes > limits::NODE_BATCH_BYTES || words.len() >= limits::NODE_BATCH;
            if is_much && !words.is_empty() {
                break;
            }
            words.extend(queue.words.pop_front());
        }
        Some(words)
    }

    async fn tell(&self, words: Vec<QueuedMessage>) {
        let me = self.others.me();
        let bytes = words.iter().map(|word| word.body.len()).sum();
        let batch = PeerBatch {
            from: me.name,
            life: me.life,
            lane: self.number,
            number: self.batches.fetch_add(1, Ordering::Relaxed) + 1,
            words: words.iter().map(|word| word.body.clone()).collect(),
        };
        let reply = self.answer(&batch.encode()).await;
        {
            let mut queue = self.queue.lock();
            // The queue is already empty after the end of the lane.
            queue.bytes = queue.bytes.saturating_sub(bytes);
        }
        let replies = reply.and_then(|reply| PeerBatch::read_replies(reply).ok());
        let replies = replies.unwrap_or_default();
        for (word, reply) in words.into_iter().zip(replies) {
            if let Some(waiting) = word.reply {
                // The requester may have been dropped.
                let _ = waiting.send(reply);
            }
        }
    }

    /// Sends a batch until it is answered, or the node has left.
    async fn answer(&self, batch: &Bytes) -> Option<Bytes> {
        while !self.over.is_cancelled() {
            let telling = self.others.tell(&self.other, WORDS, batch.clone());
            match tokio::time::timeout(limits::NODE_TELL, telling).await {
                Ok(Ok(reply)) => {
                    self.is_heard.store(true, Ordering::Relaxed);
                    return Some(reply);
                }
                // It has not started yet, or its version does not know hub messages.
                Ok(Err(error)) if is_deaf(&error) && self.began.elapsed() > BEGINNING => {
                    return None;
                }
                _ => {}
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.over.cancelled() => {}
            }
        }
        None
    }

    /// Closes the lane of a node that has left.
    fn end(&self) {
        self.over.cancel();
        let mut queue = self.queue.lock();
        queue.words.clear();
        queue.bytes = 0;
    }
}

fn is_deaf(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoService { .. })
}
