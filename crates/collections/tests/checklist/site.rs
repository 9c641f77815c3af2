//! A partition on an engine, with a clock of its own.

use std::sync::Arc;
use std::time::Duration;

use steadfast_collections::lock::latch::ParkingLatch;
use steadfast_collections::{
    Dictionary, ErrorKind, OperationOptions, Options, Replica, Result, State,
};
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::engine::Engine;
use steadfast_storage::{Ledger, Store};

pub(crate) const PARTITION: Partition = Partition(7);

pub(crate) type Words = Dictionary<String, u64>;

/// A store with one partition and its replica.
pub(crate) struct Site {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: VirtualClock,
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) replica: Replica,
    incarnation: u128,
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::on(crate::engine::fresh().await).await
    }

    pub(crate) async fn on(engine: Arc<dyn Engine>) -> Self {
        let clock = VirtualClock::starting_at(Timestamp(1_000_000));
        Self::open(engine, clock, 1).await
    }

    async fn open(engine: Arc<dyn Engine>, clock: VirtualClock, incarnation: u128) -> Self {
        let mut options = steadfast_storage::Options::new(Owner {
            node: 1,
            incarnation,
        });
        options.clock = Arc::new(clock.clone());
        let store = Store::start(Arc::clone(&engine), options);
        let ledger = store.acquire(PARTITION).await.unwrap();
        let replica = Replica::primary(ledger.clone(), options_with(&clock)).await;
        Self {
            engine,
            clock,
            store,
            ledger,
            replica: replica.unwrap(),
            incarnation,
        }
    }

    /// The same folder after the process was gone.
    pub(crate) async fn restart(self) -> Self {
        let Self {
            engine,
            clock,
            store,
            incarnation,
            ..
        } = self;
        store.close().await;
        Self::open(engine, clock, incarnation + 1).await
    }

    pub(crate) fn state(&self) -> State {
        self.replica.state()
    }

    pub(crate) async fn words(&self) -> Words {
        self.state().get_or_add("words").await.unwrap()
    }

    /// Words that are there before a test begins.
    pub(crate) async fn words_with(&self, words: &[(&str, u64)]) -> Words {
        let dictionary = self.words().await;
        let mut tx = self.replica.begin();
        for (key, value) in words {
            dictionary
                .set(&mut tx, (*key).to_owned(), *value)
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        dictionary
    }

    /// What another transaction sees under a key; fails if it is locked.
    pub(crate) async fn committed(&self, words: &Words, key: &str) -> Option<u64> {
        let mut tx = self.replica.begin();
        let found = words.with(at_once()).get(&mut tx, &key.to_owned()).await;
        found.unwrap().map(|value| *value)
    }
}

pub(crate) fn options_with(clock: &VirtualClock) -> Options {
    Options {
        clock: Arc::new(clock.clone()),
        ..Options::default()
    }
}

/// Tries once.
pub(crate) fn at_once() -> OperationOptions {
    OperationOptions::default().timeout(Duration::ZERO)
}

pub(crate) fn key(text: &str) -> String {
    text.to_owned()
}

/// Whether an operation failed for want of a lock.
pub(crate) fn timed_out<T>(result: &Result<T>) -> bool {
    let is_it = |kind: &ErrorKind| {
        matches!(
            kind,
            ErrorKind::LockTimeout { .. } | ErrorKind::Deadlock { .. }
        )
    };
    matches!(result, Err(error) if is_it(error.kind()))
}

pub(crate) fn code<T>(result: Result<T>) -> &'static str {
    result.err().expect("it should have failed").code().0
}

/// The lock table of production.
pub(crate) type Locks = steadfast_collections::lock::LockTable<ParkingLatch>;
