//! Waiters for instances and answers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::entity::Outcome;

/// A task hub and an instance.
type Key = (String, String);
/// A task hub, an entity and a request.
type CallKey = (String, String, String);

/// The waiters on this node.
#[derive(Default)]
pub(crate) struct Waiters {
    instances: Mutex<HashMap<Key, watch::Sender<()>>>,
    calls: Mutex<HashMap<CallKey, Vec<oneshot::Sender<Outcome>>>>,
}

/// Notifies when an instance has a new state.
pub(crate) struct StateWatch {
    waits: Arc<Waiters>,
    key: Key,
    rings: Option<watch::Receiver<()>>,
}

impl Waiters {
    /// Watches the state of an instance from now on.
    pub(crate) fn watch(self: &Arc<Self>, hub: &str, instance: &str) -> StateWatch {
        let key = (hub.to_owned(), instance.to_owned());
        let mut instances = self.instances.lock();
        let sender = instances
            .entry(key.clone())
            .or_insert_with(|| watch::channel(()).0);
        StateWatch {
            waits: Arc::clone(self),
            rings: Some(sender.subscribe()),
            key,
        }
    }

    pub(crate) fn changed(&self, hub: &str, instance: &str) {
        let key = (hub.to_owned(), instance.to_owned());
        if let Some(sender) = self.instances.lock().get(&key) {
            sender.send_replace(());
        }
    }

    /// Waits for the answer to a call, from now on.
    pub(crate) fn wait_for_answer(
        self: &Arc<Self>,
        hub: &str,
        entity: &str,
        request: &str,
    ) -> CallWaiter {
        let (sender, answer) = oneshot::channel();
        let key = (hub.to_owned(), entity.to_owned(), request.to_owned());
        self.calls
            .lock()
            .entry(key.clone())
            .or_default()
            .push(sender);
        CallWaiter {
            waits: Arc::clone(self),
            key,
            answer,
        }
    }

    pub(crate) fn answer(&self, hub: &str, entity: &str, request: &str, outcome: &Outcome) {
        let key = (hub.to_owned(), entity.to_owned(), request.to_owned());
        let waiting = self.calls.lock().remove(&key).unwrap_or_default();
        for sender in waiting {
            // A caller that stopped waiting needs no answer.
            let _ = sender.send(outcome.clone());
        }
    }
}

/// Waits for the answer to a call.
pub(crate) struct CallWaiter {
    waits: Arc<Waiters>,
    key: CallKey,
    answer: oneshot::Receiver<Outcome>,
}

impl CallWaiter {
    /// The answer; `None` if the node shuts down.
    pub(crate) async fn answer(&mut self) -> Option<Outcome> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for CallWaiter {
    fn drop(&mut self) {
        self.answer.close();
        let mut calls = self.waits.calls.lock();
        if let Some(waiting) = calls.get_mut(&self.key) {
            waiting.retain(|sender| !sender.is_closed());
            if waiting.is_empty() {
                calls.remove(&self.key);
            }
        }
    }
}

impl StateWatch {
    /// Waits for a new state.
    pub(crate) async fn changed(&mut self) {
        if let Some(rings) = &mut self.rings
            && rings.changed().await.is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for StateWatch {
    fn drop(&mut self) {
        let mut instances = self.waits.instances.lock();
        self.rings = None;
        if let Some(sender) = instances.get(&self.key)
            && sender.receiver_count() == 0
        {
            instances.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_kept_who_has_stopped_waiting() {
        let waits: Arc<Waiters> = Arc::default();
        let (one, two) = (
            waits.wait_for_answer("h", "@e@k", "r"),
            waits.wait_for_answer("h", "@e@k", "r"),
        );
        let bell = waits.watch("h", "i");
        drop(one);
        assert_eq!(waits.calls.lock().len(), 1);
        drop(two);
        drop(bell);
        assert!(waits.calls.lock().is_empty());
        assert!(waits.instances.lock().is_empty());
    }
}
