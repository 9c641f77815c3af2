//! Versions of a type in a collection that outlives them.

use std::sync::Arc;
use std::time::Duration;

use steadfast::schema::{Key, Record, Unknown, WriteVersion};
use steadfast::{Dictionary, Options, Queue, Replica};
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::{Engine, Store};

mod v1 {
    use super::*;

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct House {
        #[n(0)]
        pub(super) name: String,
        #[n(2)]
        pub(super) boiler: Boiler,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct Boiler {
        #[n(1)]
        pub(super) power: u32,
        pub(super) unknown: Unknown,
    }

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) struct Place {
        #[n(0)]
        pub(super) city: String,
        #[n(1)]
        pub(super) number: u32,
        pub(super) unknown: Unknown,
    }
}

mod v2 {
    use super::*;

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct House {
        #[n(0)]
        pub(super) name: String,
        #[n(1)]
        #[record(since = 2)]
        pub(super) street: Option<String>,
        #[n(2)]
        pub(super) boiler: Boiler,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct Boiler {
        #[n(0)]
        #[record(since = 2)]
        pub(super) maker: Option<String>,
        #[n(1)]
        pub(super) power: u32,
        pub(super) unknown: Unknown,
    }

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) struct Place {
        #[n(0)]
        pub(super) city: String,
        #[n(1)]
        pub(super) number: u32,
        #[n(2)]
        pub(super) floor: Option<i8>,
        pub(super) unknown: Unknown,
    }
}

/// The key of version 1, compared by number first.
mod reordered {
    use super::*;

    #[derive(Key, Clone, Debug, PartialEq, Eq, Hash)]
    pub(super) struct Place {
        #[n(0)]
        pub(super) city: String,
        #[n(1)]
        pub(super) number: u32,
        pub(super) unknown: Unknown,
    }

    impl Ord for Place {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            (self.number, &self.city).cmp(&(other.number, &other.city))
        }
    }

    impl PartialOrd for Place {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
}

/// A process with its own code, on an engine that outlives it.
struct Process {
    store: Store,
    replica: Replica,
}

impl Process {
    async fn start(engine: &Arc<dyn Engine>, incarnation: u128) -> Self {
        let owner = Owner {
            node: 1,
            incarnation,
        };
        let options = steadfast_storage::Options::new(owner);
        let store = Store::start(Arc::clone(engine), options);
        let ledger = store.acquire(Partition(3)).await.unwrap();
        let replica = Replica::primary(ledger, Options::default()).await.unwrap();
        Self { store, replica }
    }

    async fn stop(self) {
        self.store.close().await;
    }
}

fn house() -> v2::House {
    v2::House {
        name: "seven".into(),
        street: Some("Long Road".into()),
        boiler: v2::Boiler {
            maker: Some("Ember".into()),
            power: 12,
            unknown: Unknown::NONE,
        },
        unknown: Unknown::NONE,
    }
}

fn place(floor: Option<i8>) -> v2::Place {
    v2::Place {
        city: "Delft".into(),
        number: 7,
        floor,
        unknown: Unknown::NONE,
    }
}

#[tokio::test]
async fn c69_a_rolling_upgrade_loses_nothing() {
    let engine = crate::engine::fresh().await;

    let new = Process::start(&engine, 1).await;
    let houses: Dictionary<v2::Place, v2::House> =
        new.replica.state().get_or_add("houses").await.unwrap();
    let mut tx = new.replica.begin();
    for floor in [None, Some(-1), Some(1), Some(2), Some(3)] {
        houses.add(&mut tx, place(floor), house()).await.unwrap();
    }
    tx.commit().await.unwrap();
    new.stop().await;

    // Older code changes every row in another way.
    let old = Process::start(&engine, 2).await;
    let houses: Dictionary<v1::Place, v1::House> =
        old.replica.state().get_or_add("houses").await.unwrap();
    let moved: Queue<v1::House> = old.replica.state().get_or_add("moved").await.unwrap();
    let keys: Vec<v1::Place> = [None, Some(-1), Some(1), Some(2), Some(3)]
        .map(|floor| {
            let key = steadfast::schema::encode_key(&place(floor)).unwrap();
            steadfast::schema::decode_key(&key).unwrap()
        })
        .into();
    let mut tx = old.replica.begin();
    let rename = |old: &v1::House| v1::House {
        name: "eight".into(),
        ..old.evolve()
    };
    let rebuild = |_: &v1::House| v1::House {
        name: "eight".into(),
        boiler: v1::Boiler {
            power: 12,
            unknown: Unknown::NONE,
        },
        unknown: Unknown::NONE,
    };
    assert!(houses.update(&mut tx, &keys[0], rename).await.unwrap());
    assert!(houses.update(&mut tx, &keys[1], rebuild).await.unwrap());
    let read = houses.get(&mut tx, &keys[2]).await.unwrap().unwrap();
    let changed = rename(&read);
    houses.set(&mut tx, keys[2].clone(), changed).await.unwrap();
    let read = houses.get(&mut tx, &keys[4]).await.unwrap().unwrap();
    let swapped = houses.try_update(&mut tx, &keys[4], rebuild(&read), &read);
    assert!(swapped.await.unwrap());
    let taken = houses.try_remove(&mut tx, &keys[3]).await.unwrap().unwrap();
    moved.enqueue(&mut tx, rename(&taken)).await.unwrap();
    tx.commit().await.unwrap();
    old.stop().await;

    let new = Process::start(&engine, 3).await;
    let houses: Dictionary<v2::Place, v2::House> =
        new.replica.state().get_or_add("houses").await.unwrap();
    let moved: Queue<v2::House> = new.replica.state().get_or_add("moved").await.unwrap();
    let expected = v2::House {
        name: "eight".into(),
        ..house()
    };
    let mut tx = new.replica.begin();
    for floor in [None, Some(-1), Some(1), Some(3)] {
        let found = houses.get(&mut tx, &place(floor)).await.unwrap().unwrap();
        assert_eq!(*found, expected, "floor {floor:?}");
    }
    let gone = houses.get(&mut tx, &place(Some(2))).await.unwrap();
    assert!(gone.is_none());
    let found = moved.try_dequeue(&mut tx).await.unwrap().unwrap();
    assert_eq!(*found, expected);
}

#[tokio::test]
async fn c71_a_replica_switches_its_write_version_while_it_runs() {
    let engine = crate::engine::fresh().await;
    let first = Process::start(&engine, 1).await;
    let houses: Dictionary<String, v2::House> =
        first.replica.state().get_or_add("houses").await.unwrap();
    let version = first.replica.write_version();
    for (name, number) in [("one", 1), ("two", 2)] {
        version.set(number);
        let mut tx = first.replica.begin();
        houses.add(&mut tx, name, house()).await.unwrap();
        tx.commit().await.unwrap();
    }
    first.stop().await;

    let second = Process::start(&engine, 2).await;
    let houses: Dictionary<String, v2::House> =
        second.replica.state().get_or_add("houses").await.unwrap();
    let mut tx = second.replica.begin();
    let one = houses.get(&mut tx, "one").await.unwrap().unwrap();
    assert_eq!((&one.street, &one.boiler.maker), (&None, &None));
    let two = houses.get(&mut tx, "two").await.unwrap().unwrap();
    assert_eq!(*two, house());

    // Back to version 1: what is stored stays, also through a change.
    second.replica.write_version().set(1);
    let rename = |old: &v2::House| v2::House {
        name: "renamed".into(),
        ..old.evolve()
    };
    assert!(houses.update(&mut tx, "two", rename).await.unwrap());
    tx.commit().await.unwrap();
    second.stop().await;

    let third = Process::start(&engine, 3).await;
    let houses: Dictionary<String, v2::House> =
        third.replica.state().get_or_add("houses").await.unwrap();
    assert_eq!(third.replica.write_version().get(), WriteVersion::LATEST);
    let mut tx = third.replica.begin();
    let two = houses.get(&mut tx, "two").await.unwrap().unwrap();
    assert_eq!(*two, rename(&house()));
}

#[tokio::test]
async fn c72_a_dictionary_is_not_opened_with_another_order_of_keys() {
    let engine = crate::engine::fresh().await;
    let first = Process::start(&engine, 1).await;
    let places: Dictionary<v1::Place, u64> =
        first.replica.state().get_or_add("places").await.unwrap();
    let mut tx = first.replica.begin();
    for (city, number) in [("a", 2), ("b", 1)] {
        let key = v1::Place {
            city: city.into(),
            number,
            unknown: Unknown::NONE,
        };
        places.add(&mut tx, key, 0).await.unwrap();
    }
    tx.commit().await.unwrap();
    first.stop().await;

    let second = Process::start(&engine, 2).await;
    let state = second.replica.state();
    let opened = state.get_or_add::<Dictionary<reordered::Place, u64>>("places");
    let error = opened.await.err().unwrap();
    let message = error.to_string();
    assert!(message.contains("STF-3046"), "{message}");
    // Code that kept the order opens it still.
    let places: Dictionary<v2::Place, u64> = state.get_or_add("places").await.unwrap();
    assert_eq!(places.approx_count(), 2);
}

#[tokio::test]
async fn c72_keys_behind_the_first_page_are_looked_at_too() {
    // More than one page, and only the last key is out of order.
    const KEYS: u32 = 11_000;
    let engine = crate::engine::fresh().await;
    let first = Process::start(&engine, 1).await;
    let state = first.replica.state();
    let places: Dictionary<v1::Place, u64> = state.get_or_add("places").await.unwrap();
    let place = |city: &str, number| v1::Place {
        city: city.into(),
        number,
        unknown: Unknown::NONE,
    };
    for numbers in (0..KEYS).collect::<Vec<_>>().chunks(1_000) {
        let mut tx = first.replica.begin();
        for number in numbers {
            places.add(&mut tx, place("a", *number), 0).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let mut tx = first.replica.begin();
    places.add(&mut tx, place("b", 0), 0).await.unwrap();
    tx.commit().await.unwrap();
    first.stop().await;

    let second = Process::start(&engine, 2).await;
    let state = second.replica.state();
    type Reordered = Dictionary<reordered::Place, u64>;
    let opened: Reordered = state.get_or_add("places").await.unwrap();
    let shut = async {
        loop {
            let mut tx = second.replica.begin();
            if let Err(error) = opened.count(&mut tx).await {
                break error;
            }
            tokio::task::yield_now().await;
        }
    };
    let shut = tokio::time::timeout(Duration::from_secs(60), shut).await;
    let error = shut.expect("the last key was not checked");
    assert!(error.to_string().contains("STF-3046"), "{error}");
    let again = state.get_or_add::<Reordered>("places").await;
    assert!(again.is_err(), "it stays shut");
    second.stop().await;
    // Code that kept the order finds everything.
    let third = Process::start(&engine, 3).await;
    let state = third.replica.state();
    let places: Dictionary<v2::Place, u64> = state.get_or_add("places").await.unwrap();
    assert_eq!(places.approx_count(), u64::from(KEYS) + 1);
}

#[tokio::test]
async fn c71_memory_and_storage_agree_about_fields_that_wait() {
    let engine = crate::engine::fresh().await;
    let first = Process::start(&engine, 1).await;
    let houses: Dictionary<String, v2::House> =
        first.replica.state().get_or_add("houses").await.unwrap();
    let version = first.replica.write_version();

    // Held back: a field that is not stored is not visible.
    version.set(1);
    let mut tx = first.replica.begin();
    houses.add(&mut tx, "one", house()).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = first.replica.begin();
    let one = houses.get(&mut tx, "one").await.unwrap().unwrap();
    assert_eq!((&one.street, &one.boiler.maker), (&None, &None));

    // Written, then the version goes back: a change keeps what is stored.
    version.set(2);
    houses.set(&mut tx, "two", house()).await.unwrap();
    tx.commit().await.unwrap();
    version.set(1);
    let mut tx = first.replica.begin();
    let rename = |old: &v2::House| v2::House {
        name: "renamed".into(),
        ..old.evolve()
    };
    assert!(houses.update(&mut tx, "two", rename).await.unwrap());
    tx.commit().await.unwrap();
    first.stop().await;

    let second = Process::start(&engine, 2).await;
    let houses: Dictionary<String, v2::House> =
        second.replica.state().get_or_add("houses").await.unwrap();
    let mut tx = second.replica.begin();
    let two = houses.get(&mut tx, "two").await.unwrap().unwrap();
    assert_eq!(*two, rename(&house()));
}
