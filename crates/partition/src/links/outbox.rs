//! Messages to other partitions, until they have arrived.
//!
//! Each message is a row, numbered per destination. It may be sent once its commit is
//! durable; its row is deleted when the destination has acknowledged it. Of a long
//! queue, memory holds only the front. One batch per link is in flight.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use steadfast_core::id::Partition;
use steadfast_core::limits;

use crate::ingress::transport::{MessageBatch, PartitionLink};

pub(crate) struct Outbox {
    link: PartitionLink,
    lines: BTreeMap<Partition, OutboundLink>,
    /// Keys of rows of arrived messages: the next commit deletes them.
    arrived: VecDeque<Bytes>,
    /// Messages that have not arrived, over all links.
    backlog: u64,
}

/// The outgoing messages to one partition.
#[derive(Default)]
struct OutboundLink {
    /// The last number that was assigned.
    last: u64,
    /// The last number that is durable.
    durable: u64,
    /// The front of what has not arrived, dense up to `known`.
    queue: VecDeque<(u64, Bytes)>,
    /// Messages after this number are in the table only.
    known: u64,
    is_under_way: bool,
    /// While rows are being read: numbers up to this one are among them.
    loading: Option<u64>,
}

/// What a link needs next.
pub(crate) enum DeliveryStep {
    Nothing,
    /// Send this batch to the destination.
    Deliver(MessageBatch),
    /// Read rows from this number on.
    Load(u64),
}

impl Outbox {
    pub(crate) fn new(link: PartitionLink) -> Self {
        Self {
            link,
            lines: BTreeMap::new(),
            arrived: VecDeque::new(),
            backlog: 0,
        }
    }

    /// Restores a link from the table: `last` was the last number assigned. Messages
    /// that have not arrived are read on demand.
    pub(crate) fn restore(&mut self, to: Partition, last: u64) {
        let line = OutboundLink {
            last,
            durable: last,
            ..OutboundLink::default()
        };
        self.backlog += line.backlog();
        self.lines.insert(to, line);
    }

    /// The last number that was assigned for a destination.
    pub(crate) fn last(&self, to: Partition) -> u64 {
        self.lines.get(&to).map_or(0, |line| line.last)
    }

    /// A message was staged.
    pub(crate) fn staged(&mut self, to: Partition, number: u64, message: Bytes) {
        let line = self.lines.entry(to).or_default();
        let before = line.backlog();
        line.last = number;
        if line.known + 1 == number && line.queue.len() < limits::LINK_QUEUE {
            line.queue.push_back((number, message));
            line.known = number;
        }
        self.backlog = self.backlog - before + line.backlog();
    }

    /// Messages up to this number are durable.
    pub(crate) fn durable(&mut self, to: Partition, number: u64) {
        if let Some(line) = self.lines.get_mut(&to) {
            line.durable = line.durable.max(number);
        }
    }

    /// The next step for a destination.
    pub(crate) fn next(&mut self, to: Partition) -> DeliveryStep {
        let link = self.link;
        let Some(line) = self.lines.get_mut(&to) else {
            return DeliveryStep::Nothing;
        };
        if line.needs_rows() {
            line.loading = Some(line.durable);
            return DeliveryStep::Load(line.known + 1);
        }
        if line.is_under_way || to == link.source {
            return DeliveryStep::Nothing;
        }
        match line.parcel(link) {
            Some(parcel) => {
                line.is_under_way = true;
                DeliveryStep::Deliver(parcel)
            }
            None => DeliveryStep::Nothing,
        }
    }

    /// All messages to this partition itself in memory: they do not leave, so they need
    /// not be durable.
    pub(crate) fn take_own(&mut self) -> VecDeque<(u64, Bytes)> {
        let Some(line) = self.lines.get_mut(&self.link.source) else {
            return VecDeque::new();
        };
        let before = line.backlog();
        let own = std::mem::take(&mut line.queue);
        self.backlog = self.backlog - before + line.backlog();
        own
    }

    /// Rows have been read. They are durable and ascending, with gaps where messages
    /// have arrived already.
    pub(crate) fn loaded(&mut self, to: Partition, rows: Vec<(u64, Bytes)>, is_last: bool) {
        let Some(line) = self.lines.get_mut(&to) else {
            return;
        };
        let before = line.backlog();
        let sought = line.loading.take().unwrap_or_default();
        for (number, message) in rows {
            if number > line.known {
                line.queue.push_back((number, message));
                line.known = number;
            }
        }
        if is_last {
            // A durable message without a row has arrived.
            line.known = line.known.max(sought);
        }
        self.backlog = self.backlog - before + line.backlog();
    }

    /// The destination has handled everything up to `handled`.
    pub(crate) fn arrived(&mut self, to: Partition, handled: u64) {
        let Some(line) = self.lines.get_mut(&to) else {
            return;
        };
        let before = line.backlog();
        line.is_under_way = false;
        while line
            .queue
            .front()
            .is_some_and(|(number, _)| *number <= handled)
        {
            if let Some((number, _)) = line.queue.pop_front() {
                self.arrived.push_back(row_key(to, number));
            }
        }
        self.backlog = self.backlog - before + line.backlog();
    }

    /// A batch has not arrived.
    pub(crate) fn came_back(&mut self, to: Partition) {
        if let Some(line) = self.lines.get_mut(&to) {
            line.is_under_way = false;
        }
    }

    /// Rows that the next commit may delete: some at a time, because deleting a row
    /// costs the loop as much as writing one.
    pub(crate) fn arrived_rows(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.arrived.iter().take(limits::SWEPT_ROWS)
    }

    /// Whether so many rows may be deleted that they need a commit of their own.
    pub(crate) fn is_littered(&self) -> bool {
        self.arrived.len() >= limits::LINK_QUEUE
    }

    /// Forgets the first `count` of these rows: they were deleted.
    pub(crate) fn forget_rows(&mut self, count: usize) {
        self.arrived.drain(..count);
    }

    /// Messages that have not arrived.
    pub(crate) fn backlog(&self) -> u64 {
        self.backlog
    }
}

impl OutboundLink {
    /// Messages that have not arrived.
    fn backlog(&self) -> u64 {
        match self.queue.front() {
            Some((first, _)) => self.last + 1 - first,
            None => self.last - self.known.min(self.last),
        }
    }

    /// Whether rows must be read: only the table holds the next messages.
    fn needs_rows(&self) -> bool {
        self.queue.is_empty() && self.known < self.durable && self.loading.is_none()
    }

    /// The next dense run of durable messages.
    fn parcel(&self, link: PartitionLink) -> Option<MessageBatch> {
        let (first, _) = *self.queue.front()?;
        let mut messages = Vec::new();
        let mut bytes = 0;
        for (index, (number, message)) in self.queue.iter().enumerate() {
            let is_dense = *number == first + index as u64;
            let fits = index == 0
                || (index < limits::PARCEL_MESSAGES
                    && bytes + message.len() <= limits::PARCEL_BYTES);
            if !is_dense || !fits || *number > self.durable {
                break;
            }
            bytes += message.len();
            messages.push(message.clone());
        }
        (!messages.is_empty()).then_some(MessageBatch {
            link,
            first,
            messages,
        })
    }
}

/// The key of a message's row.
pub(crate) fn row_key(to: Partition, number: u64) -> Bytes {
    let mut key = Vec::with_capacity(12);
    key.extend_from_slice(&to.0.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key.into()
}

/// Destination and number in the key of a message's row.
pub(crate) fn split_row_key(key: &[u8]) -> Option<(Partition, u64)> {
    let (to, rest) = key.split_first_chunk::<4>()?;
    let number = rest.first_chunk::<8>()?;
    let to = Partition(u32::from_be_bytes(*to));
    Some((to, u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_commit_removes_some_rows_only() {
        let (here, there) = (Partition::new(0, 0), Partition::new(0, 1));
        let mut outbox = Outbox::new(PartitionLink {
            source: here,
            incarnation: 1,
        });
        let most = limits::LINK_QUEUE as u64;
        for number in 1..=most {
            outbox.staged(there, number, Bytes::new());
        }
        outbox.arrived(there, most);
        assert!(outbox.is_littered());
        let mut rounds = 0;
        loop {
            let count = outbox.arrived_rows().len();
            if count == 0 {
                break;
            }
            assert!(count <= limits::SWEPT_ROWS);
            outbox.forget_rows(count);
            rounds += 1;
        }
        assert_eq!(rounds, limits::LINK_QUEUE / limits::SWEPT_ROWS);
        assert!(!outbox.is_littered());
    }
}
