//! A partition at a place that outlives its processes.

use std::path::Path;

use steadfast_collections::{Options, Replica};
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::Store;

/// An open place; the store must outlive the replica's use.
pub(crate) struct Folder {
    pub(crate) store: Store,
    pub(crate) replica: Replica,
}

/// How much log is kept before it is flushed; writers are throttled at three times
/// as much.
pub(crate) const OFTEN: u64 = 64 * 1024;

pub(crate) async fn open(path: &Path, log_target: u64) -> Folder {
    let engine = crate::place::engine(path).await;
    let mut options = steadfast_storage::Options::new(Owner {
        node: 1,
        incarnation: u128::from(fastrand::u64(..)),
    });
    options.log_target = log_target;
    options.log_limit = log_target.saturating_mul(3);
    options.event_tail = 64 * 1024;
    let store = Store::start(engine, options);
    let ledger = store.acquire(Partition(3)).await.unwrap();
    let replica = Replica::primary(ledger, Options::default()).await.unwrap();
    Folder { store, replica }
}

/// Runs on one thread, as the parent of killed children does.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(work)
}

/// Runs on two threads, as a server does.
pub(crate) fn block_on_two<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work)
}
