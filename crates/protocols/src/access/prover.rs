//! The key that has proven the current request.

use std::sync::{Arc, OnceLock};

use super::key::Key;

tokio::task_local! {
    static PROVER: Prover;
}

/// By which key a request was proven, as soon as it was. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prover(Arc<OnceLock<Arc<Key>>>);

impl Prover {
    /// Serves a request whose proof is remembered here.
    pub(crate) async fn scope<F: Future>(self, work: F) -> F::Output {
        PROVER.scope(self, work).await
    }

    /// The name of the key.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.get().map(|key| key.name.as_str())
    }
}

/// This key has proven the current request.
pub(super) fn proven_by(key: &Arc<Key>) {
    let _ = PROVER.try_with(|prover| prover.0.set(Arc::clone(key)));
}
