//! The key that authenticated the current request.

use std::sync::{Arc, OnceLock};

use super::key::Key;

tokio::task_local! {
    static PROVER: RequestKey;
}

/// The key of a request, once it is authenticated. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestKey(Arc<OnceLock<Arc<Key>>>);

impl RequestKey {
    /// Runs `work` for a request whose key is recorded here.
    pub(crate) async fn scope<F: Future>(self, work: F) -> F::Output {
        PROVER.scope(self, work).await
    }

    /// The name of the key.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.get().map(|key| key.name.as_str())
    }
}

/// Records the key of the current request.
pub(super) fn proven_by(key: &Arc<Key>) {
    let _ = PROVER.try_with(|prover| prover.0.set(Arc::clone(key)));
}
