//! Services, schemes, volatile state and secondaries; C66.

use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_collections::{
    Dictionary, DictionaryQuery, Lifecycle, Options, PartitionKey, Replica, ReplicaRole, Result,
    Scheme, ServiceDefinition, State,
};
use steadfast_core::id::{Owner, Partition, TableId};
use steadfast_storage::engine::Engine;
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Store, Writes};

use crate::site::{PARTITION, Site, Words, code, key, options_with};

/// Where the numbers of incarnations stand.
const INCARNATIONS: TableId = TableId(0xff04);

/// The volatile space of one process.
struct Volatile {
    _store: Store,
    replica: Replica,
}

async fn volatile() -> Volatile {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let owner = Owner {
        node: 1,
        incarnation: 1,
    };
    let store = Store::start(engine, steadfast_storage::Options::new(owner));
    let ledger = store.acquire(Partition::new(1, 0)).await.unwrap();
    let options = Options {
        is_volatile: true,
        ..Options::default()
    };
    let replica = Replica::primary(ledger, options).await.unwrap();
    Volatile {
        _store: store,
        replica,
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Lifecycle for Diary {
    async fn open(&self, state: &State) -> Result<()> {
        self.0.lock().push(format!("open {:?}", state.list()));
        Ok(())
    }

    async fn change_role(&self, role: ReplicaRole) -> Result<()> {
        self.0.lock().push(format!("{role:?}"));
        Ok(())
    }

    async fn on_data_loss(&self, state: &State, incarnation: u64) -> Result<bool> {
        let seen = state.list();
        self.0.lock().push(format!("lost {incarnation} {seen:?}"));
        Ok(false)
    }
}

fn cache(is_volatile: bool) -> ServiceDefinition {
    ServiceDefinition {
        name: "cache".to_owned(),
        scheme: Scheme::Singleton,
        is_volatile,
    }
}

#[tokio::test]
async fn c66_lost_volatile_state_is_told_and_has_a_new_incarnation() {
    let site = Site::new().await;
    let service = ServiceDefinition::create(&site.ledger, cache(true))
        .await
        .unwrap();
    let first = volatile().await;
    let diary = Diary::default();
    let partition = service.open(&site.ledger, &first.replica, 0, &diary);
    let partition = partition.await.unwrap();
    assert_eq!((partition.incarnation, partition.was_lost), (1, false));
    let words: Words = partition.state.get_or_add("words").await.unwrap();
    let mut tx = first.replica.begin();
    words.set(&mut tx, key("k"), 1).await.unwrap();
    tx.commit().await.unwrap();
    // Opened again in the same process: nothing is lost.
    let again = service.open(&site.ledger, &first.replica, 0, &diary);
    let again = again.await.unwrap();
    assert_eq!((again.incarnation, again.was_lost), (1, false));
    assert!(
        again
            .state
            .try_get::<Words>("words")
            .await
            .unwrap()
            .is_some()
    );
    // The process is gone, and its memory with it.
    drop((first, words));
    let site = site.restart().await;
    let second = volatile().await;
    let service = ServiceDefinition::find(&site.ledger, "cache")
        .await
        .unwrap()
        .unwrap();
    let partition = service.open(&site.ledger, &second.replica, 0, &diary);
    let partition = partition.await.unwrap();
    assert_eq!((partition.incarnation, partition.was_lost), (2, true));
    let told = diary.0.into_inner();
    let expected = [
        "open []",
        "Primary",
        "open [\"urn:words\"]",
        "Primary",
        "lost 2 []",
        "open []",
        "Primary",
    ];
    assert_eq!(told, expected, "told before it was opened");
}

/// A node reads the partition before its owner opens it, and is gone by then.
#[tokio::test]
async fn c66_a_loss_that_others_saw_first_is_told_to_the_next_owner() {
    let site = Site::new().await;
    let service = ServiceDefinition::create(&site.ledger, cache(true))
        .await
        .unwrap();
    let diary = Diary::default();
    let first = volatile().await;
    let opened = service.open(&site.ledger, &first.replica, 0, &diary).await;
    assert_eq!(opened.unwrap().incarnation, 1);
    drop(first);
    let second = volatile().await;
    for was_lost in [true, false] {
        let entered = service
            .open_without_lifecycle(&site.ledger, &second.replica, 0)
            .await;
        let entered = entered.unwrap();
        assert_eq!((entered.incarnation, entered.was_lost), (2, was_lost));
    }
    // Only what is in rows is known by now.
    let site = site.restart().await;
    let service = ServiceDefinition::find(&site.ledger, "cache")
        .await
        .unwrap()
        .unwrap();
    for was_lost in [true, false] {
        let opened = service.open(&site.ledger, &second.replica, 0, &diary).await;
        let opened = opened.unwrap();
        assert_eq!((opened.incarnation, opened.was_lost), (2, was_lost));
    }
    let told = diary.0.into_inner();
    let losses = told.iter().filter(|told| told.starts_with("lost"));
    assert_eq!(losses.collect::<Vec<_>>(), ["lost 2 []"], "{told:?}");
}

/// A row of a version that did not note who was told.
#[tokio::test]
async fn c66_a_loss_is_told_that_follows_an_older_row() {
    let site = Site::new().await;
    let service = ServiceDefinition::create(&site.ledger, cache(true))
        .await
        .unwrap();
    let mut writes = Writes::new();
    writes.put(INCARNATIONS, b"cache#0", &[3]);
    site.ledger.commit(writes).await.unwrap();
    let diary = Diary::default();
    let empty = volatile().await;
    let opened = service.open(&site.ledger, &empty.replica, 0, &diary).await;
    let opened = opened.unwrap();
    assert_eq!((opened.incarnation, opened.was_lost), (4, true));
}

#[tokio::test]
async fn a_service_is_never_converted() {
    let site = Site::new().await;
    ServiceDefinition::create(&site.ledger, cache(false))
        .await
        .unwrap();
    let same = ServiceDefinition::create(&site.ledger, cache(false)).await;
    assert!(same.is_ok(), "created twice is found");
    let converted = ServiceDefinition::create(&site.ledger, cache(true)).await;
    assert_eq!(code(converted), "STF-3019");
    let mut resized = cache(false);
    resized.scheme = Scheme::Named(vec![key("a")]);
    let resized = ServiceDefinition::create(&site.ledger, resized).await;
    assert_eq!(code(resized), "STF-3019");
    let site = site.restart().await;
    let converted = ServiceDefinition::create(&site.ledger, cache(true)).await;
    assert_eq!(code(converted), "STF-3019", "also after a restart");
    let space = volatile().await;
    let wrong = cache(false).state(&space.replica, 0);
    assert_eq!(code(wrong), "STF-3019", "the wrong space");
}

#[tokio::test]
async fn partitions_keep_their_names_apart() {
    let site = Site::new().await;
    let service = ServiceDefinition {
        name: key("houses"),
        scheme: Scheme::Int64Range {
            low: 0,
            high: 99,
            count: 4,
        },
        is_volatile: false,
    };
    let service = ServiceDefinition::create(&site.ledger, service)
        .await
        .unwrap();
    let partition = service.partition(PartitionKey::Number(30)).unwrap();
    assert_eq!(partition, 1);
    assert_eq!(
        code(service.partition(PartitionKey::Number(100))),
        "STF-3019"
    );
    assert_eq!(code(service.state(&site.replica, 4)), "STF-3019");
    // Partitions 0 and 1 would share their names if there were only one.
    let left: Words = service
        .state(&site.replica, 0)
        .unwrap()
        .get_or_add("words")
        .await
        .unwrap();
    let right: Words = service
        .state(&site.replica, 1)
        .unwrap()
        .get_or_add("words")
        .await
        .unwrap();
    let mut tx = site.replica.begin();
    left.set(&mut tx, key("k"), 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(site.committed(&left, "k").await, Some(1));
    assert_eq!(site.committed(&right, "k").await, None);
}

#[tokio::test]
async fn bad_schemes_are_refused() {
    let site = Site::new().await;
    let range = |low, high, count| Scheme::Int64Range { low, high, count };
    let named = |names: &[&str]| Scheme::Named(names.iter().map(|n| key(n)).collect());
    let bad = [
        range(1, 0, 1),
        range(0, 9, 0),
        range(0, 9, 11),
        range(i64::MIN, i64::MAX, 65_537),
        named(&[]),
        named(&["a", "a"]),
    ];
    for scheme in bad {
        let service = ServiceDefinition {
            scheme: scheme.clone(),
            ..cache(false)
        };
        let refused = ServiceDefinition::create(&site.ledger, service).await;
        assert_eq!(code(refused), "STF-3019", "{scheme:?}");
    }
}

#[tokio::test]
async fn a_secondary_reads_whole_flushed_states() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("b", 1)]).await;
    site.store.flush().await.unwrap();
    let engine = Arc::clone(&site.engine);
    let secondary = Replica::secondary(engine, PARTITION, options_with(&site.clock));
    assert_eq!(secondary.role(), ReplicaRole::ActiveSecondary);
    let there: Dictionary<String, u64> = secondary.state().try_get("words").await.unwrap().unwrap();
    let set = async |value| {
        let mut tx = site.replica.begin();
        words.set(&mut tx, key("a"), value).await.unwrap();
        words.set(&mut tx, key("b"), value).await.unwrap();
        tx.commit().await.unwrap();
    };
    set(2).await;
    let mut tx = secondary.begin();
    let seen = there
        .entries(&mut tx, DictionaryQuery::all())
        .await
        .unwrap();
    assert!(seen.iter().all(|(_, value)| *value == 1), "not flushed yet");
    let before = tx.snapshot_lsn().unwrap();
    site.store.flush().await.unwrap();
    // Half of an old state and half of a new one is never shown.
    let torn = there.get(&mut tx, &key("b")).await;
    assert_eq!(code(torn), "STF-3003");
    let mut tx = secondary.begin();
    let seen = there
        .entries(&mut tx, DictionaryQuery::all())
        .await
        .unwrap();
    assert!(seen.iter().all(|(_, value)| *value == 2));
    assert!(tx.snapshot_lsn().unwrap() > before);
}
