//! The other nodes, and what waits to be told to them.
//!
//! There is one lane per node. What is put into it arrives once and in order for as
//! long as the node lives: a batch is told again until it is answered, and the other
//! side drops what it has heard. With the node, what waits for it is dropped.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::{Mutex, RwLock};
use steadfast_core::codec::Malformed;
use steadfast_core::limits;
use steadfast_core::task::named;
use steadfast_partition::{Error, ErrorKind, Kind, Result as PartitionResult};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;

/// The kind of what nodes tell one another about hubs.
pub const WORDS: Kind = Kind(65);

/// Another node, in one of its lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Other {
    pub name: String,
    pub life: u128,
}

/// The other nodes.
pub trait Others: Send + Sync + 'static {
    /// Who this node is.
    fn me(&self) -> Other;

    /// Those that live.
    fn all(&self) -> Vec<Other>;

    /// Rings when they may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Tells one of them something.
    fn tell(&self, to: &Other, kind: Kind, word: Bytes) -> BoxFuture<'_, PartitionResult<Bytes>>;
}

/// Who is told of nodes that come and go.
pub(crate) trait Watcher: Send + Sync {
    /// A node is there: what is put into its lane is the first that it hears.
    fn came(&self, node: &str);

    /// A node has gone.
    fn gone(&self, node: &str);
}

/// All other nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    others: OnceLock<Arc<dyn Others>>,
    lanes: RwLock<Vec<Arc<Lane>>>,
    next_lane: AtomicU64,
    /// What was heard last of whom.
    heard: Mutex<HashMap<Other, Arc<Mutex<Heard>>>>,
}

/// The newest lane of another node, the number of its last batch, and its answer.
#[derive(Default)]
struct Heard {
    lane: u64,
    number: u64,
    reply: Bytes,
    at: Option<Instant>,
}

/// How often nodes are looked for that have gone without a word.
const LOOK: Duration = Duration::from_secs(1);

/// How soon a batch is told again.
const AGAIN: Duration = Duration::from_millis(100);

/// How long a new node may take until it hears of hubs.
const BEGINNING: Duration = Duration::from_secs(10);

impl Nodes {
    /// From now on there are others. It counts once.
    pub(crate) fn open(self: &Arc<Self>, others: Arc<dyn Others>, watcher: Arc<dyn Watcher>) {
        let changes = others.changes();
        if self.others.set(others).is_ok() {
            self.look(&*watcher);
            tokio::spawn(named(keep(Arc::downgrade(self), changes, watcher)));
        }
    }

    /// Whether there is no other node.
    pub(crate) fn is_alone(&self) -> bool {
        self.lanes.read().is_empty()
    }

    /// Whether there may be other nodes.
    pub(crate) fn is_open(&self) -> bool {
        self.others.get().is_some()
    }

    /// Names of all other nodes.
    pub(crate) fn names(&self) -> Vec<String> {
        let lanes = self.lanes.read();
        lanes.iter().map(|lane| lane.other.name.clone()).collect()
    }

    /// What stands in ids that this node gives out, so that others know whose they are.
    pub(crate) fn mark(&self) -> Option<String> {
        let others = self.others.get()?;
        Some(mark(&others.me().name))
    }

    /// Tells all nodes something; one message each.
    pub(crate) fn tell_all(&self, word: &Bytes) {
        for lane in self.lanes.read().iter() {
            lane.put(word.clone(), None);
        }
    }

    /// Tells one node something. False if it is not there.
    pub(crate) fn tell(&self, node: &str, word: Bytes) -> bool {
        let lane = self.lane(node);
        lane.is_some_and(|lane| lane.put(word, None))
    }

    /// Asks all nodes something: it is in their lanes when this returns. Those that do
    /// not answer are left out.
    pub(crate) fn ask_all(&self, word: &Bytes) -> BoxFuture<'static, Vec<(String, Bytes)>> {
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

    /// Asks one node something that waits for nothing else.
    pub(crate) async fn request(&self, node: &str, kind: Kind, body: Bytes) -> Option<Bytes> {
        let lane = self.lane(node)?;
        let others = self.others.get()?;
        others.tell(&lane.other, kind, body).await.ok()
    }

    /// Waits until little waits to be told.
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

    /// Takes in what another node tells: each word once, and in order.
    pub(crate) fn hear(
        &self,
        batch: Bytes,
        handle: impl Fn(&str, Bytes) -> Bytes,
    ) -> Result<Bytes, Malformed> {
        let batch = Batch::decode(batch)?;
        let from = Other {
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
            return Ok(Batch::replies(&[]));
        }
        let words = batch.words.into_iter();
        let replies: Vec<_> = words.map(|word| handle(&batch.from, word)).collect();
        *heard = Heard {
            lane: batch.lane,
            number: batch.number,
            reply: Batch::replies(&replies),
            at: Some(Instant::now()),
        };
        Ok(heard.reply.clone())
    }

    /// The nodes that a token may be of, the likeliest first.
    pub(crate) fn likely(&self, token: &str) -> Vec<String> {
        let marked = token.rsplit_once('.').map(|(_, own)| own);
        let mut names = self.names();
        names.sort_by_key(|name| marked != Some(mark(name).as_str()));
        names
    }

    fn lane(&self, node: &str) -> Option<Arc<Lane>> {
        let lanes = self.lanes.read();
        lanes.iter().find(|lane| lane.other.name == node).cloned()
    }

    /// Opens lanes to those who have come, and closes those of others.
    fn look(self: &Arc<Self>, watcher: &dyn Watcher) {
        let Some(others) = self.others.get() else {
            return;
        };
        let all = others.all();
        let (gone, came) = {
            let mut lanes = self.lanes.write();
            let gone: Vec<_> = lanes
                .extract_if(.., |lane| !all.contains(&lane.other))
                .collect();
            let is_new = |other: &&Other| lanes.iter().all(|lane| lane.other != **other);
            let came: Vec<_> = all.iter().filter(is_new).cloned().collect();
            for other in &came {
                let number = self.next_lane.fetch_add(1, Ordering::Relaxed) + 1;
                lanes.push(Lane::new(other.clone(), number, Arc::clone(others)));
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
        // One that has just come may be heard before it is seen.
        let is_new = |heard: &Heard| heard.at.is_some_and(|at| at.elapsed() < BEGINNING);
        let mut heard = self.heard.lock();
        heard.retain(|other, last| all.contains(other) || is_new(&last.lock()));
    }
}

/// Looks for nodes that come and go, for as long as somebody wants to know.
async fn keep(nodes: Weak<Nodes>, mut changes: watch::Receiver<u64>, watcher: Arc<dyn Watcher>) {
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

/// A short name of a node that can stand in an address.
fn mark(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}

/// What waits to be told to one node.
struct Lane {
    other: Other,
    number: u64,
    others: Arc<dyn Others>,
    queue: Mutex<Queue>,
    /// Something was told.
    told: Notify,
    /// It has answered once.
    is_heard: AtomicBool,
    batches: AtomicU64,
    began: Instant,
    over: CancellationToken,
}

#[derive(Default)]
struct Queue {
    words: VecDeque<Word>,
    bytes: usize,
    is_running: bool,
    /// Something was left out since the last batch.
    is_cut: bool,
}

struct Word {
    body: Bytes,
    reply: Option<oneshot::Sender<Bytes>>,
}

impl Lane {
    fn new(other: Other, number: u64, others: Arc<dyn Others>) -> Arc<Self> {
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

    /// Adds a word. False if there is no room for it, or nobody to hear it.
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
        queue.words.push_back(Word { body, reply });
        if !std::mem::replace(&mut queue.is_running, true) {
            tokio::spawn(named(Arc::clone(self).run()));
        }
        true
    }

    /// A node that has never answered holds nobody up.
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

    /// Tells what there is, batch after batch.
    async fn run(self: Arc<Self>) {
        while let Some(words) = self.next() {
            self.tell(words).await;
            self.told.notify_waiters();
        }
    }

    /// The words of the next batch. With `None` nobody tells anything any more.
    fn next(&self) -> Option<Vec<Word>> {
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

    async fn tell(&self, words: Vec<Word>) {
        let me = self.others.me();
        let bytes = words.iter().map(|word| word.body.len()).sum();
        let batch = Batch {
            from: me.name,
            life: me.life,
            lane: self.number,
            number: self.batches.fetch_add(1, Ordering::Relaxed) + 1,
            words: words.iter().map(|word| word.body.clone()).collect(),
        };
        let reply = self.answer(&batch.encode()).await;
        {
            let mut queue = self.queue.lock();
            // At the end of the lane nothing waits any more.
            queue.bytes = queue.bytes.saturating_sub(bytes);
        }
        let replies = reply.and_then(|reply| Batch::read_replies(reply).ok());
        let replies = replies.unwrap_or_default();
        for (word, reply) in words.into_iter().zip(replies) {
            if let Some(waiting) = word.reply {
                // Whoever has asked may have gone.
                let _ = waiting.send(reply);
            }
        }
    }

    /// Tells a batch until it is answered, or the node has gone.
    async fn answer(&self, batch: &Bytes) -> Option<Bytes> {
        while !self.over.is_cancelled() {
            let telling = self.others.tell(&self.other, WORDS, batch.clone());
            match tokio::time::timeout(limits::NODE_TELL, telling).await {
                Ok(Ok(reply)) => {
                    self.is_heard.store(true, Ordering::Relaxed);
                    return Some(reply);
                }
                // It has not begun yet, or is of a version that knows nothing of this.
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

    /// The node has gone.
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
