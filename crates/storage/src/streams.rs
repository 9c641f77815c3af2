//! Event streams of one partition: heads and the cached tail.
//!
//! The owner gives every batch its sequence numbers, offset and time when it is
//! staged; readers see only what is durable. The tail of each stream stays in
//! memory, so that readers that keep up never ask the engine. All partitions of a
//! node share one budget for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_varint};
use steadfast_core::id::{Offset, Sequence, StreamId};
use tokio::sync::watch;

use crate::body::StagedPublication;
use crate::engine::{EventBatch, ReadPosition};

/// Where a stream begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHead {
    /// The oldest event that was not trimmed.
    pub first: Sequence,
    /// Where its batch starts.
    pub first_offset: Offset,
    /// The number that the next event gets.
    pub next: Sequence,
    /// The offset that the next batch gets.
    pub end: Offset,
    /// When the newest batch was appended.
    pub time: Timestamp,
}

/// Heads and tails of one partition's streams.
#[derive(Debug)]
pub(crate) struct EventStreams {
    /// With everything that is on its way to the log.
    staged: BTreeMap<StreamId, StreamHead>,
    /// What readers may see.
    durable: BTreeMap<StreamId, StreamHead>,
    tails: HashMap<StreamId, VecDeque<EventBatch>>,
    /// Cached batches in the order in which they came in; some may be gone.
    arrivals: VecDeque<(StreamId, Sequence)>,
    /// How many batches are cached.
    cached: usize,
    /// The watchers of a stream's end.
    followers: HashMap<StreamId, watch::Sender<Sequence>>,
    budget: Arc<TailBudget>,
}

/// Memory that the tails of all partitions share.
#[derive(Debug)]
pub(crate) struct TailBudget {
    used: AtomicU64,
    limit: u64,
}

impl TailBudget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            limit,
        }
    }

    fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }
}

impl EventStreams {
    pub(crate) fn new(heads: BTreeMap<StreamId, StreamHead>, budget: Arc<TailBudget>) -> Self {
        Self {
            staged: heads.clone(),
            durable: heads,
            tails: HashMap::new(),
            arrivals: VecDeque::new(),
            cached: 0,
            followers: HashMap::new(),
            budget,
        }
    }

    /// The durable end of a stream, to be followed.
    pub(crate) fn follow(&mut self, stream: StreamId) -> watch::Receiver<Sequence> {
        let next = self.head(stream).unwrap_or_default().next;
        // Watchers that have gone are removed.
        self.followers.retain(|_, sender| !sender.is_closed());
        let sender = self.followers.entry(stream);
        sender.or_insert_with(|| watch::channel(next).0).subscribe()
    }

    /// The sender that notifies followers of a stream's end.
    pub(crate) fn follower(&self, stream: StreamId) -> Option<watch::Sender<Sequence>> {
        if self.followers.is_empty() {
            None
        } else {
            self.followers.get(&stream).cloned()
        }
    }

    /// Closes all watchers: the streams belong to another owner.
    pub(crate) fn close_followers(&mut self) {
        self.followers.clear();
    }

    /// Gives a publication its place.
    pub(crate) fn stage(&mut self, publication: StagedPublication, time: Timestamp) -> EventBatch {
        let head = self.staged.entry(publication.stream).or_default();
        let batch = EventBatch::new(
            publication.stream,
            head.next,
            head.end,
            publication.count,
            time,
            publication.bytes,
        );
        advance(head, &batch);
        batch
    }

    /// Moves the beginning of a stream, never back and never past its end; answers
    /// whether it moved.
    pub(crate) fn stage_trim(&mut self, stream: StreamId, first: Sequence, offset: Offset) -> bool {
        trim(self.staged.entry(stream).or_default(), first, offset)
    }

    /// Shows a batch to readers and keeps it in the tail.
    pub(crate) fn committed(&mut self, batch: EventBatch) {
        advance(self.durable.entry(batch.stream).or_default(), &batch);
        self.remember(batch);
    }

    /// Lets readers see a trim.
    pub(crate) fn committed_trim(&mut self, stream: StreamId, first: Sequence, offset: Offset) {
        trim(self.durable.entry(stream).or_default(), first, offset);
        while let Some(tail) = self.tails.get_mut(&stream)
            && tail.front().is_some_and(|batch| batch.next() <= first)
        {
            self.forget_oldest(stream);
        }
    }

    /// A batch that was found in the log when the partition was loaded.
    pub(crate) fn replay(&mut self, batch: EventBatch) {
        advance(self.staged.entry(batch.stream).or_default(), &batch);
        self.committed(batch);
    }

    /// Rolls back what never became durable.
    pub(crate) fn roll_back(&mut self) {
        self.staged.clone_from(&self.durable);
    }

    /// Begin and end of a stream, with what is on its way.
    pub(crate) fn staged_head(&self, stream: StreamId) -> Option<StreamHead> {
        self.staged.get(&stream).copied()
    }

    /// Where a stream ends, with what is on its way.
    pub(crate) fn staged_end(&self, stream: StreamId) -> Sequence {
        self.staged
            .get(&stream)
            .map_or(Sequence(0), |head| head.next)
    }

    /// The durable head, if the stream was ever written.
    pub(crate) fn head(&self, stream: StreamId) -> Option<StreamHead> {
        self.durable.get(&stream).copied()
    }

    /// All durable heads.
    pub(crate) fn heads(&self) -> &BTreeMap<StreamId, StreamHead> {
        &self.durable
    }

    /// Batches from the tail; `None` if its beginning is after `from`.
    pub(crate) fn cached(
        &self,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Option<Vec<EventBatch>> {
        let tail = self.tails.get(&stream)?;
        let oldest = tail.front()?;
        let is_whole = self.head(stream)?.first >= oldest.first;
        if !is_whole && !starts_at(oldest, from) {
            return None;
        }
        let skip = tail.partition_point(|batch| from.is_past(batch));
        let mut bytes = 0;
        let mut found = Vec::new();
        for batch in tail.iter().skip(skip) {
            if bytes > 0 && bytes + batch.weight() > max_bytes {
                break;
            }
            bytes += batch.weight();
            found.push(batch.clone());
        }
        Some(found)
    }

    fn remember(&mut self, batch: EventBatch) {
        let weight = batch.weight() as u64;
        self.budget.used.fetch_add(weight, Ordering::Relaxed);
        self.arrivals.push_back((batch.stream, batch.first));
        self.cached += 1;
        self.tails.entry(batch.stream).or_default().push_back(batch);
        while self.budget.is_exceeded() {
            let Some((stream, first)) = self.arrivals.pop_front() else {
                break;
            };
            if self.is_oldest(stream, first) {
                self.forget_oldest(stream);
            }
        }
        // Trimmed batches leave their arrivals behind: sweep them up now and then.
        if self.arrivals.len() > 2 * self.cached + 1024 {
            let tails = &self.tails;
            self.arrivals.retain(|(stream, first)| {
                let oldest = tails.get(stream).and_then(VecDeque::front);
                oldest.is_some_and(|batch| batch.first <= *first)
            });
        }
    }

    fn is_oldest(&self, stream: StreamId, first: Sequence) -> bool {
        let oldest = self.tails.get(&stream).and_then(VecDeque::front);
        oldest.is_some_and(|batch| batch.first == first)
    }

    fn forget_oldest(&mut self, stream: StreamId) {
        let tail = self.tails.get_mut(&stream);
        if let Some(batch) = tail.and_then(VecDeque::pop_front) {
            self.cached -= 1;
            let weight = batch.weight() as u64;
            self.budget.used.fetch_sub(weight, Ordering::Relaxed);
        }
    }
}

impl Drop for EventStreams {
    fn drop(&mut self) {
        let held = self.tails.values().flatten().map(EventBatch::weight);
        let held = held.sum::<usize>() as u64;
        self.budget.used.fetch_sub(held, Ordering::Relaxed);
    }
}

/// Writes heads for the next owner.
pub fn encode_heads(out: &mut Vec<u8>, heads: &BTreeMap<StreamId, StreamHead>) {
    put_varint(out, heads.len() as u64);
    for (stream, head) in heads {
        put_varint(out, u64::from(stream.0));
        put_varint(out, head.first.0);
        put_varint(out, head.first_offset.0);
        put_varint(out, head.next.0);
        put_varint(out, head.end.0);
        put_varint(out, head.time.0.max(0) as u64);
    }
}

/// Reads what [`encode_heads`] wrote.
pub fn decode_heads(
    reader: &mut ByteReader,
) -> Result<BTreeMap<StreamId, StreamHead>, DecodeError> {
    let count = reader.varint()?;
    let mut heads = BTreeMap::new();
    for _ in 0..count {
        let stream = StreamId(reader.varint_u32()?);
        let head = StreamHead {
            first: Sequence(reader.varint()?),
            first_offset: Offset(reader.varint()?),
            next: Sequence(reader.varint()?),
            end: Offset(reader.varint()?),
            time: Timestamp(i64::try_from(reader.varint()?).map_err(|_| DecodeError)?),
        };
        heads.insert(stream, head);
    }
    Ok(heads)
}

fn advance(head: &mut StreamHead, batch: &EventBatch) {
    head.next = batch.next();
    head.end = batch.end();
    head.time = batch.time;
}

fn trim(head: &mut StreamHead, first: Sequence, offset: Offset) -> bool {
    let is_inside = first > head.first && first <= head.next;
    if is_inside {
        head.first = first;
        head.first_offset = offset;
    }
    is_inside
}

/// Whether nothing before the batch can belong to the range.
fn starts_at(batch: &EventBatch, from: ReadPosition) -> bool {
    match from {
        ReadPosition::Sequence(sequence) => sequence >= batch.first,
        ReadPosition::Offset(offset) => offset >= batch.offset,
        // An earlier batch may have the same time.
        ReadPosition::Time(_) => false,
    }
}
