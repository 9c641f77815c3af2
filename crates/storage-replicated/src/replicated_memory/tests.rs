//! Several nodes in one process, on one durable engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{Owner, Partition, TableId};
use steadfast_storage::body::Writes;
use steadfast_storage::engine::Engine;
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{ErrorKind, Ledger, NodeLease, Options, Store, Visibility};

use super::{ClusterPeers, ReplicaSet, ReplicatedMemory, ReplicationSetup};

const PARTITION: Partition = Partition(7);
const ROWS: TableId = TableId(3);

/// The cluster around the nodes.
#[derive(Default)]
struct ReplicaTestCluster {
    nodes: Mutex<BTreeMap<Owner, Weak<ReplicatedMemory>>>,
    /// Nodes whose messages are lost, in both directions.
    cut: Mutex<BTreeSet<Owner>>,
    dead: Mutex<BTreeSet<Owner>>,
    leaving: Mutex<BTreeSet<Owner>>,
    owner: Mutex<Option<Owner>>,
}

struct ReplicaTestPeers {
    me: Owner,
    world: Arc<ReplicaTestCluster>,
}

#[async_trait]
impl ClusterPeers for ReplicaTestPeers {
    fn may_own(&self, _: Partition) -> bool {
        *self.world.owner.lock() == Some(self.me)
    }

    fn staying(&self) -> Vec<Owner> {
        let nodes = self.world.nodes.lock().keys().copied().collect::<Vec<_>>();
        let leaving = self.world.leaving.lock();
        let others = nodes.into_iter().filter(|node| *node != self.me);
        others
            .filter(|node| self.is_living(*node) && !leaving.contains(node))
            .collect()
    }

    fn is_living(&self, node: Owner) -> bool {
        self.world.nodes.lock().contains_key(&node) && !self.world.dead.lock().contains(&node)
    }

    async fn send(&self, to: Owner, letter: Bytes, _: Duration, _: bool) -> Option<Bytes> {
        tokio::task::yield_now().await;
        {
            let cut = self.world.cut.lock();
            if cut.contains(&to) || cut.contains(&self.me) {
                return None;
            }
        }
        let node = self.world.nodes.lock().get(&to)?.upgrade()?;
        node.handle_message(letter)
    }
}

struct ReplicaTestNode {
    me: Owner,
    copies: Arc<ReplicatedMemory>,
    store: Store,
    lease: NodeLease,
}

struct ReplicaTestSite {
    durable: Arc<dyn Engine>,
    world: Arc<ReplicaTestCluster>,
    clock: Arc<dyn Clock>,
}

impl ReplicaTestSite {
    fn new() -> Self {
        Self::on(Arc::new(MemoryEngine::new()))
    }

    fn on(durable: Arc<dyn Engine>) -> Self {
        Self {
            durable,
            world: Arc::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    fn node(&self, number: u32) -> ReplicaTestNode {
        let me = Owner {
            node: number,
            incarnation: 1,
        };
        let lease = NodeLease::new(Arc::clone(&self.clock));
        lease.begin(Duration::from_secs(1_000_000));
        let copies = Arc::new(ReplicatedMemory::new(ReplicationSetup {
            me,
            durable: Arc::clone(&self.durable),
            peers: Arc::new(ReplicaTestPeers {
                me,
                world: Arc::clone(&self.world),
            }),
            clock: Arc::clone(&self.clock),
            lease: Some(lease.clone()),
        }));
        self.world.nodes.lock().insert(me, Arc::downgrade(&copies));
        let mut options = Options::new(me);
        options.background = false;
        let store = Store::start(Arc::clone(&copies) as _, options);
        ReplicaTestNode {
            me,
            copies,
            store,
            lease,
        }
    }

    async fn own(&self, node: &ReplicaTestNode) -> Ledger {
        *self.world.owner.lock() = Some(node.me);
        node.store.acquire(PARTITION).await.unwrap()
    }

    /// Waits until so many nodes hold the partition.
    async fn held_by(&self, node: &ReplicaTestNode, holders: usize) -> ReplicaSet {
        loop {
            let charter = node.copies.replica_set(PARTITION).unwrap();
            if charter.holders.len() == holders {
                return charter;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills a node; the others notice.
    fn kill(&self, node: ReplicaTestNode) {
        self.world.dead.lock().insert(node.me);
        self.world.cut.lock().insert(node.me);
        drop(node);
    }
}

async fn put(ledger: &Ledger, key: u64) -> steadfast_storage::Result<()> {
    let mut writes = Writes::new();
    writes.put(ROWS, &key.to_be_bytes(), b"value");
    ledger.commit(writes).await.map(drop)
}

async fn has(ledger: &Ledger, key: u64) -> bool {
    let key = key.to_be_bytes();
    let row = ledger.get(ROWS, &key, Visibility::Durable).await;
    row.unwrap().is_some()
}

#[tokio::test]
async fn the_next_owner_has_everything_whoever_it_is() {
    let site = ReplicaTestSite::new();
    let (a, b, c, d) = (site.node(1), site.node(2), site.node(3), site.node(4));
    let ledger = site.own(&a).await;
    let charter = site.held_by(&a, 3).await;
    for key in 0..100 {
        put(&ledger, key).await.unwrap();
    }
    site.kill(a);
    // It may be the node that held nothing.
    let others = [&b, &c, &d];
    let outside = others
        .iter()
        .find(|node| !charter.holders.contains(&node.me));
    let next = outside.unwrap();
    let ledger = site.own(next).await;
    for key in 0..100 {
        assert!(has(&ledger, key).await, "{key}");
    }
    put(&ledger, 100).await.unwrap();
    let charter = site.held_by(next, 3).await;
    assert_eq!((charter.life, charter.owner), (1, Some(next.me)));
    // And on from there, with flushed rows and log.
    next.store.flush().await.unwrap();
    put(&ledger, 101).await.unwrap();
    let last = others.iter().find(|node| node.me != next.me).unwrap();
    let ledger = site.own(last).await;
    for key in 0..102 {
        assert!(has(&ledger, key).await, "{key}");
    }
}

#[tokio::test]
async fn a_newcomer_gets_a_whole_copy_under_load() {
    let site = ReplicaTestSite::new();
    let a = site.node(1);
    let ledger = site.own(&a).await;
    for key in 0..500 {
        put(&ledger, key).await.unwrap();
    }
    a.store.flush().await.unwrap();
    let b = site.node(2);
    let writer = ledger.clone();
    let writing = tokio::spawn(async move {
        for key in 500..2_000 {
            put(&writer, key).await.unwrap();
        }
    });
    site.held_by(&a, 2).await;
    writing.await.unwrap();
    site.kill(a);
    let ledger = site.own(&b).await;
    for key in 0..2_000 {
        assert!(has(&ledger, key).await, "{key}");
    }
    assert_eq!(b.copies.replica_set(PARTITION).unwrap().life, 1);
}

#[tokio::test]
async fn c61_a_deposed_owner_acknowledges_nothing() {
    let site = ReplicaTestSite::new();
    let (a, b, _c) = (site.node(1), site.node(2), site.node(3));
    let old = site.own(&a).await;
    site.held_by(&a, 3).await;
    put(&old, 1).await.unwrap();
    // Cut off, it does not know that there is a new owner.
    site.world.cut.lock().insert(a.me);
    let new = site.own(&b).await;
    put(&new, 2).await.unwrap();
    let lonely = tokio::spawn(async move { put(&old, 3).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!lonely.is_finished(), "only the old owner has it");
    site.world.cut.lock().clear();
    let told = lonely.await.unwrap().unwrap_err();
    assert!(
        matches!(
            told.kind(),
            ErrorKind::OutcomeUnknown { .. } | ErrorKind::Fenced { .. }
        ),
        "{told}"
    );
    assert!(has(&new, 1).await && has(&new, 2).await && !has(&new, 3).await);
    // Entries that only the old owner had are dropped with its copy.
    site.held_by(&b, 3).await;
    let again = site.own(&a).await;
    assert!(has(&again, 2).await && !has(&again, 3).await);
}

#[tokio::test]
async fn an_owner_alone_stops_with_its_lease() {
    let site = ReplicaTestSite::new();
    let a = site.node(1);
    let ledger = site.own(&a).await;
    put(&ledger, 1).await.unwrap();
    a.lease.begin(Duration::ZERO);
    assert!(put(&ledger, 2).await.is_err());
}

#[tokio::test]
async fn holders_that_are_gone_are_taken_off_the_record() {
    let site = ReplicaTestSite::new();
    let (a, b, c) = (site.node(1), site.node(2), site.node(3));
    let ledger = site.own(&a).await;
    site.held_by(&a, 3).await;
    site.kill(b);
    put(&ledger, 1).await.unwrap();
    site.held_by(&a, 2).await;
    site.kill(c);
    // Two of two are needed until the record says otherwise.
    put(&ledger, 2).await.unwrap();
    let charter = site.held_by(&a, 1).await;
    assert_eq!(charter.life, 1);
    // One after the other they come back, in other lives.
    let (d, e) = (site.node(12), site.node(13));
    site.held_by(&a, 3).await;
    // One of them leaves, and another takes its place.
    site.world.leaving.lock().insert(d.me);
    let f = site.node(14);
    loop {
        let charter = site.held_by(&a, 3).await;
        if !charter.holders.contains(&d.me) && charter.holders.contains(&f.me) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    site.kill(a);
    let ledger = site.own(&e).await;
    assert!(has(&ledger, 1).await && has(&ledger, 2).await);
}

#[tokio::test]
async fn holders_are_missed_where_nothing_is_written() {
    let site = ReplicaTestSite::new();
    let (a, b, c) = (site.node(1), site.node(2), site.node(3));
    let ledger = site.own(&a).await;
    put(&ledger, 1).await.unwrap();
    site.held_by(&a, 3).await;
    site.kill(b);
    site.held_by(&a, 2).await;
    site.kill(a);
    // One of two is enough: nothing is acknowledged by one of them.
    let ledger = site.own(&c).await;
    assert!(has(&ledger, 1).await);
    assert_eq!(c.copies.replica_set(PARTITION).unwrap().life, 1);
}

#[tokio::test]
async fn an_owner_without_a_lease_takes_nobody_off_the_record() {
    let site = ReplicaTestSite::new();
    let (a, b, c) = (site.node(1), site.node(2), site.node(3));
    let ledger = site.own(&a).await;
    put(&ledger, 1).await.unwrap();
    let before = site.held_by(&a, 3).await;
    // It has had no contact since its lease ended, and takes the others for dead.
    a.lease.begin(Duration::ZERO);
    site.world.dead.lock().extend([b.me, c.me]);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let (_, found) = ReplicaSet::find(&*site.durable, PARTITION).await.unwrap();
    assert_eq!(found.holders, before.holders);
}

#[tokio::test]
async fn whoever_leaves_waits_for_another_copy() {
    let site = ReplicaTestSite::new();
    let a = site.node(1);
    let ledger = site.own(&a).await;
    put(&ledger, 1).await.unwrap();
    // There is no other node.
    a.copies.wait_for_replica(PARTITION).await;
    let b = site.node(2);
    a.copies.wait_for_replica(PARTITION).await;
    let charter = a.copies.replica_set(PARTITION).unwrap();
    assert!(charter.holders.contains(&b.me));
}

#[tokio::test]
async fn c66_a_partition_without_holders_begins_anew() {
    let site = ReplicaTestSite::new();
    let (a, b, c) = (site.node(1), site.node(2), site.node(3));
    let ledger = site.own(&a).await;
    site.held_by(&a, 3).await;
    put(&ledger, 1).await.unwrap();
    // Two at once: the third may miss something.
    site.world.cut.lock().extend([a.me, b.me]);
    *site.world.owner.lock() = Some(c.me);
    let early = c.store.acquire(PARTITION).await.err().unwrap();
    assert_eq!(early.code().0, "STF-2021", "they may still answer");
    site.kill(a);
    site.kill(b);
    let ledger = site.own(&c).await;
    assert!(!has(&ledger, 1).await);
    assert_eq!(c.copies.replica_set(PARTITION).unwrap().life, 2);
    put(&ledger, 2).await.unwrap();
    // What was acknowledged since is as safe as before.
    let d = site.node(4);
    site.held_by(&c, 2).await;
    site.kill(c);
    let ledger = site.own(&d).await;
    assert!(has(&ledger, 2).await);
    assert_eq!(d.copies.replica_set(PARTITION).unwrap().life, 2);
}

/// The record says that one node holds everything, but that node does not know.
#[tokio::test]
async fn a_copy_that_is_not_whole_counts_for_nothing_whatever_is_lost() {
    for seed in 0..16 {
        let durable = Arc::new(HostileEngine::new(
            Arc::new(MemoryEngine::new()),
            EngineFaults::default(),
            seed,
        ));
        let site = ReplicaTestSite::on(Arc::clone(&durable) as _);
        let (a, b, c) = (site.node(1), site.node(2), site.node(3));
        let ledger = site.own(&a).await;
        site.held_by(&a, 3).await;
        put(&ledger, 1).await.unwrap();
        site.kill(a);
        site.kill(b);
        *site.world.owner.lock() = Some(c.me);
        durable.set_faults(EngineFaults {
            lost_swap: 50,
            ..EngineFaults::default()
        });
        let ledger = loop {
            if let Ok(ledger) = c.store.acquire(PARTITION).await {
                break ledger;
            }
        };
        assert!(!has(&ledger, 1).await, "seed {seed}: it may miss others");
        assert!(c.copies.replica_set(PARTITION).unwrap().life >= 2, "{seed}");
    }
}

#[tokio::test]
async fn nobody_takes_what_is_not_its_own() {
    let site = ReplicaTestSite::new();
    let (a, b) = (site.node(1), site.node(2));
    site.own(&a).await;
    let refused = b.store.acquire(PARTITION).await.err().unwrap();
    assert_eq!(refused.code().0, "STF-2013");
    assert_eq!(
        a.copies.known_partitions(PARTITION.space()).await.unwrap(),
        [PARTITION.index()]
    );
}
