//! Notifications, in the order of the log.
//!
//! Notices are sent when a commit becomes visible, before its locks are released, so a
//! subscriber sees changes of a key in the order in which they happened. A subscriber's
//! first notice is `Rebuild`: earlier knowledge is invalid, and the state at the LSN of
//! that notice is the one to start from. Notices are bounded: a subscriber that falls too
//! far behind gets `Rebuild` again.

use std::sync::OnceLock;

use bytes::Bytes;
use steadfast_core::id::Lsn;
use steadfast_core::limits;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::lock::resident::DecodedValue;

/// A change of a partition's set of collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateNotice {
    /// A collection was created.
    Add { name: String, lsn: Lsn },
    /// A collection was removed.
    Remove { name: String, lsn: Lsn },
    /// List the collections again: this is the state to start from.
    Rebuild { lsn: Lsn },
}

/// A notice about transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionNotice {
    /// A transaction is durable and visible.
    Commit { transaction: u64, lsn: Lsn },
    /// Notices were missed, or none was received so far.
    Rebuild { lsn: Lsn },
}

/// A change of a row, without its types.
#[derive(Clone, Debug)]
pub(crate) struct RowNotice {
    pub(crate) lsn: Lsn,
    pub(crate) what: RowChange,
}

#[derive(Clone, Debug)]
pub(crate) enum RowChange {
    Add(Bytes, DecodedValue),
    Update(Bytes, DecodedValue),
    Remove(Bytes),
    Clear,
}

/// The channel for the notices of one collection; free until there is a subscriber.
pub(crate) type RowNoticeChannel = NoticeChannel<RowNotice>;

/// A bounded channel to any number of subscribers.
#[derive(Debug)]
pub(crate) struct NoticeChannel<T> {
    sender: OnceLock<broadcast::Sender<T>>,
}

impl<T: Clone> NoticeChannel<T> {
    /// Whether there are subscribers.
    pub(crate) fn has_subscribers(&self) -> bool {
        let sender = self.sender.get();
        sender.is_some_and(|sender| sender.receiver_count() > 0)
    }

    pub(crate) fn send(&self, notice: T) {
        if let Some(sender) = self.sender.get() {
            // The last subscriber may have been dropped.
            let _ = sender.send(notice);
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<T> {
        let channel = || broadcast::channel(limits::NOTICES).0;
        self.sender.get_or_init(channel).subscribe()
    }
}

impl<T> Default for NoticeChannel<T> {
    fn default() -> Self {
        Self {
            sender: OnceLock::new(),
        }
    }
}

/// What a subscriber receives.
#[derive(Debug)]
pub(crate) enum SubscriptionEvent<T> {
    /// A notice.
    Notice(T),
    /// The subscriber is new, or was too slow: start over.
    Rebuild,
    /// There will be no more.
    End,
}

/// A subscription that begins with a rebuild.
#[derive(Debug)]
pub(crate) struct NoticeSubscription<T> {
    receiver: broadcast::Receiver<T>,
    is_new: bool,
}

impl<T: Clone> NoticeSubscription<T> {
    pub(crate) fn new(channel: &NoticeChannel<T>) -> Self {
        Self {
            receiver: channel.subscribe(),
            is_new: true,
        }
    }

    pub(crate) async fn next(&mut self) -> SubscriptionEvent<T> {
        if std::mem::take(&mut self.is_new) {
            return SubscriptionEvent::Rebuild;
        }
        match self.receiver.recv().await {
            Ok(notice) => SubscriptionEvent::Notice(notice),
            Err(RecvError::Lagged(_)) => {
                // Skip the buffered notices: the rebuild covers them.
                self.receiver = self.receiver.resubscribe();
                SubscriptionEvent::Rebuild
            }
            Err(RecvError::Closed) => SubscriptionEvent::End,
        }
    }
}
