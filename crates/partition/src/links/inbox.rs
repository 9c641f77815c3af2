//! Messages of other partitions, each handled once.
//!
//! The last handled number is stored in the same commit as the effects of its message.
//! A lower number is a duplicate and is dropped. One message of a link is handled at a
//! time; the others wait behind it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use steadfast_core::id::{Lsn, Partition};

use crate::ingress::control::BatchReceipt;
use crate::ingress::transport::{MessageBatch, PartitionLink};

#[derive(Default)]
pub(crate) struct Inbox {
    lines: BTreeMap<PartitionLink, InboundLink>,
}

/// The incoming messages of one partition.
#[derive(Default)]
struct InboundLink {
    /// Whether a message ever arrived.
    is_known: bool,
    handled: u64,
    /// The commit that holds `handled`.
    lsn: Lsn,
    queue: VecDeque<(u64, Bytes)>,
    /// The last number that arrived.
    queued: u64,
    /// The message that is being handled; it waits for rows.
    is_busy: bool,
    acknowledgements: Vec<(u64, BatchReceipt)>,
}

impl Inbox {
    /// Restores a link from its row.
    pub(crate) fn restore(&mut self, link: PartitionLink, handled: u64) {
        let line = InboundLink {
            is_known: true,
            handled,
            queued: handled,
            ..InboundLink::default()
        };
        self.lines.insert(link, line);
    }

    /// Queues a batch; answers how many of its messages are duplicates.
    pub(crate) fn take(&mut self, parcel: MessageBatch, receipt: BatchReceipt) -> usize {
        let line = self.lines.entry(parcel.link).or_default();
        if !line.is_known {
            // Messages before these were for an earlier incarnation of this partition.
            line.is_known = true;
            line.handled = parcel.first.saturating_sub(1);
            line.queued = line.handled;
        }
        if parcel.first > line.queued + 1 {
            tracing::warn!(
                event = "partition.messages_missing",
                source = %parcel.link.source, expected = line.queued + 1, found = parcel.first,
                "messages are missing: this partition was restored to an earlier state"
            );
        }
        let count = parcel.messages.len();
        let last = parcel.first + count as u64 - 1;
        let mut seen = 0;
        // The messages first: no number follows the last one.
        for (message, number) in parcel.messages.into_iter().zip(parcel.first..) {
            if number <= line.queued {
                seen += 1;
                continue;
            }
            line.queue.push_back((number, message));
            line.queued = number;
        }
        line.acknowledgements.push((last, receipt));
        seen
    }

    /// The next message of a link, unless one is being handled.
    pub(crate) fn next(&mut self, link: PartitionLink) -> Option<(u64, Bytes)> {
        let line = self.lines.get_mut(&link)?;
        if line.is_busy {
            return None;
        }
        let next = line.queue.pop_front()?;
        line.is_busy = true;
        Some(next)
    }

    /// A message was handled in the commit at `lsn`.
    pub(crate) fn handled(&mut self, link: PartitionLink, number: u64, lsn: Lsn) {
        if let Some(line) = self.lines.get_mut(&link) {
            (line.handled, line.lsn) = (number, lsn);
            line.is_busy = false;
        }
    }

    /// Acknowledgements, each with the commit that must be durable first.
    pub(crate) fn acknowledgements(
        &mut self,
        link: PartitionLink,
    ) -> Vec<(Lsn, u64, BatchReceipt)> {
        let Some(line) = self.lines.get_mut(&link) else {
            return Vec::new();
        };
        let (handled, lsn) = (line.handled, line.lsn);
        if !line
            .acknowledgements
            .iter()
            .any(|(last, _)| *last <= handled)
        {
            return Vec::new();
        }
        let all = std::mem::take(&mut line.acknowledgements);
        let (ready, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(last, _)| *last <= handled);
        line.acknowledgements = rest;
        let ready = ready.into_iter().map(|(_, reply)| (lsn, handled, reply));
        ready.collect()
    }
}

/// The key of a link's row.
pub(crate) fn row_key(link: PartitionLink) -> Vec<u8> {
    let mut key = Vec::with_capacity(20);
    key.extend_from_slice(&link.source.0.to_be_bytes());
    key.extend_from_slice(&link.incarnation.to_be_bytes());
    key
}

/// The link in the key of a row.
pub(crate) fn split_row_key(key: &[u8]) -> Option<PartitionLink> {
    let (source, rest) = key.split_first_chunk::<4>()?;
    let incarnation = rest.first_chunk::<16>()?;
    Some(PartitionLink {
        source: Partition(u32::from_be_bytes(*source)),
        incarnation: u128::from_be_bytes(*incarnation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_may_reach_the_number_before_the_last() {
        let link = PartitionLink {
            source: Partition(9),
            incarnation: 1,
        };
        let parcel = MessageBatch {
            link,
            first: u64::MAX - 2,
            messages: vec!["one".into(), "two".into()],
        };
        let mut inbox = Inbox::default();
        let (reply, _answer) = tokio::sync::oneshot::channel();
        assert_eq!(inbox.take(parcel, BatchReceipt::Remote(reply)), 0);
        assert_eq!(inbox.next(link), Some((u64::MAX - 2, "one".into())));
    }
}
