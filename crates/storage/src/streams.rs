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
use steadfast_core::codec::{Malformed, Reader, put_varint};
use steadfast_core::id::{Offset, Sequence, Stream};
use tokio::sync::watch;

use crate::body::Publication;
use crate::engine::{EventBatch, Start};

/// Where a stream begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
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
pub(crate) struct Streams {
    /// With everything that is on its way to the log.
    staged: BTreeMap<Stream, Head>,
    /// What readers may see.
    durable: BTreeMap<Stream, Head>,
    tails: HashMap<Stream, VecDeque<EventBatch>>,
    /// Cached batches in the order in which they came in; some may be gone.
    arrivals: VecDeque<(Stream, Sequence)>,
    /// How many batches are cached.
    cached: usize,
    /// The watchers of a stream's end.
    followers: HashMap<Stream, watch::Sender<Sequence>>,
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

impl Streams {
    pub(crate) fn new(heads: BTreeMap<Stream, Head>, budget: Arc<TailBudget>) -> Self {
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
    pub(crate) fn follow(&mut self, stream: Stream) -> watch::Receiver<Sequence> {
        let next = self.head(stream).unwrap_or_default().next;
        // Watchers that have gone are removed.
        self.followers.retain(|_, sender| !sender.is_closed());
        let sender = self.followers.entry(stream);
        sender.or_insert_with(|| watch::channel(next).0).subscribe()
    }

    /// Whom a new end of a stream concerns.
    pub(crate) fn follower(&self, stream: Stream) -> Option<watch::Sender<Sequence>> {
        match self.followers.is_empty() {
            true => None,
            false => self.followers.get(&stream).cloned(),
        }
    }

    /// Closes all watchers: the streams belong to another owner.
    pub(crate) fn dismiss(&mut self) {
        self.followers.clear();
    }

    /// Gives a publication its place.
    pub(crate) fn stage(&mut self, publication: Publication, time: Timestamp) -> EventBatch {
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
    pub(crate) fn stage_trim(&mut self, stream: Stream, first: Sequence, offset: Offset) -> bool {
        trim(self.staged.entry(stream).or_default(), first, offset)
    }

    /// Shows a batch to readers and keeps it in the tail.
    pub(crate) fn committed(&mut self, batch: EventBatch) {
        advance(self.durable.entry(batch.stream).or_default(), &batch);
        self.remember(batch);
    }

    /// Lets readers see a trim.
    pub(crate) fn committed_trim(&mut self, stream: Stream, first: Sequence, offset: Offset) {
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
    pub(crate) fn staged_head(&self, stream: Stream) -> Option<Head> {
        self.staged.get(&stream).copied()
    }

    /// Where a stream ends, with what is on its way.
    pub(crate) fn staged_end(&self, stream: Stream) -> Sequence {
        self.staged
            .get(&stream)
            .map_or(Sequence(0), |head| head.next)
    }

    /// The durable head, if the stream was ever written.
    pub(crate) fn head(&self, stream: Stream) -> Option<Head> {
        self.durable.get(&stream).copied()
    }

    /// All durable heads.
    pub(crate) fn heads(&self) -> &BTreeMap<Stream, Head> {
        &self.durable
    }

    /// Batches from the tail; `None` if its beginning is after `from`.
    pub(crate) fn cached(
        &self,
        stream: Stream,
        from: Start,
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

    fn is_oldest(&self, stream: Stream, first: Sequence) -> bool {
        let oldest = self.tails.get(&stream).and_then(VecDeque::front);
        oldest.is_some_and(|batch| batch.first == first)
    }

    fn forget_oldest(&mut self, stream: Stream) {
        let tail = self.tails.get_mut(&stream);
        if let Some(batch) = tail.and_then(VecDeque::pop_front) {
            self.cached -= 1;
            let weight = batch.weight() as u64;
            self.budget.used.fetch_sub(weight, Ordering::Relaxed);
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let held = self.tails.values().flatten().map(EventBatch::weight);
        let held = held.sum::<usize>() as u64;
        self.budget.used.fetch_sub(held, Ordering::Relaxed);
    }
}

/// Writes heads for the next owner.
pub(crate) fn encode_heads(out: &mut Vec<u8>, heads: &BTreeMap<Stream, Head>) {
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
pub(crate) fn decode_heads(reader: &mut Reader) -> Result<BTreeMap<Stream, Head>, Malformed> {
    let count = reader.varint()?;
    let mut heads = BTreeMap::new();
    for _ in 0..count {
        let stream = Stream(reader.varint_u32()?);
        let head = Head {
            first: Sequence(reader.varint()?),
            first_offset: Offset(reader.varint()?),
            next: Sequence(reader.varint()?),
            end: Offset(reader.varint()?),
            time: Timestamp(i64::try_from(reader.varint()?).map_err(|_| Malformed)?),
        };
        heads.insert(stream, head);
    }
    Ok(heads)
}

fn advance(head: &mut Head, batch: &EventBatch) {
    head.next = batch.next();
    head.end = batch.end();
    head.time = batch.time;
}

fn trim(head: &mut Head, first: Sequence, offset: Offset) -> bool {
    let is_inside = first > head.first && first <= head.next;
    if is_inside {
        head.first = first;
        head.first_offset = offset;
    }
    is_inside
}

/// Whether nothing before the batch can belong to the range.
fn starts_at(batch: &EventBatch, from: Start) -> bool {
    match from {
        Start::Sequence(sequence) => sequence >= batch.first,
        Start::Offset(offset) => offset >= batch.offset,
        // An earlier batch may have the same time.
        Start::Time(_) => false,
    }
}
