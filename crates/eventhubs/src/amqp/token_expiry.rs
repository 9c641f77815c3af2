//! Expiry of tokens: detaches the links they authorise.
//!
//! A token ends when it expires, when its key is revoked, or when its key loses the right
//! that a link needs. The connection stays: its client may put a new token.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::ErrorKind;
use steadfast_net::access::{AccessError, KeyRing};
use tokio::sync::watch;

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::context::Context;
use super::permit::{CurrentHub, TokenPermit};
use super::work::{self, WorkCompletion};

/// The kind of the revoked resource in the audit log.
const KIND: &str = "AMQP link";

impl AmqpConnection {
    /// The next expiry of a token.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.context.access.as_ref()?;
        self.tokens.next_end(self.context.clock.now())
    }

    /// Detaches links whose token has expired without a renewal.
    pub(super) fn detach_expired(&mut self) {
        self.cut_denied();
    }

    /// Detaches links without a valid token; returns their paths and the reasons.
    fn cut_denied(&mut self) -> Vec<(String, AccessError)> {
        let now = self.context.clock.now();
        let denied: Vec<_> = self
            .links
            .iter()
            .filter_map(|(id, link)| {
                let need = link.need.as_ref()?;
                let allowed = self.tokens.allow(&need.path, &need.hub, need.right, now);
                let denied = allowed.err()?;
                Some((*id, need.path.clone(), denied))
            })
            .collect();
        let mut cut = Vec::new();
        for (id, path, denied) in denied {
            self.detach(id, &Condition::from(denied.clone()));
            cut.push((path, denied));
        }
        cut
    }

    /// Watches the keys of the server for as long as the connection lasts.
    pub(super) fn watch_keys(&mut self) {
        let Some(access) = &self.context.access else {
            return;
        };
        let mut rings = access.rings();
        // Tokens verified before this are checked once more.
        rings.mark_changed();
        self.work.push(changed(rings));
    }

    /// The keys of the server have changed.
    pub(super) fn on_keys(&mut self, mut rings: watch::Receiver<Arc<KeyRing>>) {
        let ring = Arc::clone(&rings.borrow_and_update());
        let ended = self.tokens.renew(&ring);
        self.revoke(&ended);
        self.work.push(changed(rings));
    }

    /// Watches the policies that have signed tokens, from a revision on; without a
    /// revision they are checked at once.
    pub(super) fn watch_policies(&mut self, since: Option<watch::Receiver<u64>>) {
        let hubs = self.tokens.policy_hubs();
        if hubs.is_empty() {
            self.policies = None;
            return;
        }
        let mut revisions = since.unwrap_or_else(|| {
            let mut revisions = self.context.hubs.revisions();
            revisions.mark_changed();
            revisions
        });
        let context = Arc::clone(&self.context);
        let (work, aborted) = work::bound(async move {
            let changed = revisions.changed();
            // Other nodes change policies without a notification.
            let _ = if context.hubs.is_shared() {
                tokio::time::timeout(limits::POLICY_LOOK, changed)
                    .await
                    .is_ok()
            } else {
                changed.await.is_ok()
            };
            let found = look(&context, hubs).await;
            WorkCompletion::Policies { found, revisions }
        });
        self.policies = Some(aborted);
        self.work.push(work);
    }

    /// The policies of event hubs were read again.
    pub(super) fn on_policies(&mut self, found: &[CurrentHub], revisions: watch::Receiver<u64>) {
        let ended = self.tokens.renew_policies(found);
        self.revoke(&ended);
        self.watch_policies(Some(revisions));
    }

    /// Detaches links whose key was revoked or has lost the right.
    fn revoke(&mut self, ended: &[(String, AccessError)]) {
        let cut = self.cut_denied();
        let Some(access) = &self.context.access else {
            return;
        };
        for (holder, denied) in ended {
            access.audit().revoked(KIND, holder, denied);
        }
        for (path, denied) in &cut {
            if let Some(holder) = self.tokens.holder(path) {
                access.audit().revoked(KIND, holder, denied);
            }
        }
    }

    /// Re-checks a verified permit against the current keys.
    pub(super) fn current(&self, permit: TokenPermit) -> Result<TokenPermit, AccessError> {
        match &self.context.access {
            Some(access) => permit.renewed(&access.ring()),
            None => Ok(permit),
        }
    }
}

/// Waits for a change of keys.
fn changed(mut rings: watch::Receiver<Arc<KeyRing>>) -> BoxFuture<'static, WorkCompletion> {
    Box::pin(async move {
        match rings.changed().await {
            Ok(()) => WorkCompletion::Keys(rings),
            Err(_) => WorkCompletion::Cancelled,
        }
    })
}

/// The current event hubs. One that cannot be read is left out.
async fn look(context: &Context, hubs: Vec<String>) -> Vec<CurrentHub> {
    let mut found = Vec::new();
    for hub in hubs {
        match context.hubs.fresh(&hub).await {
            Ok(now) => found.push((hub, Some(now))),
            Err(error) if error.kind() == ErrorKind::HubNotFound => found.push((hub, None)),
            Err(_) => {}
        }
    }
    found
}
