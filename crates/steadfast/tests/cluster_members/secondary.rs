//! A node reads what another one owns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast::Node;
use steadfast::collections::{Dictionary, DictionaryQuery, PartitionKey, ReplicaRole, Scheme};
use steadfast_harness::postgres::PostgresCluster;

use crate::members::{PATIENCE, config_with, serves};

const KEYS: usize = 20;

async fn start(name: &str, url: &str) -> Node {
    let node = Node::builder().config(config_with(name, url, 4, &["storage.log_target=64KiB"]));
    node.start().await.unwrap()
}

const NAMES: [&str; 4] = ["n", "e", "s", "w"];

fn scheme() -> Scheme {
    Scheme::Named(NAMES.iter().map(|&name| name.to_owned()).collect())
}

/// Sets all keys to the next number, again and again.
async fn write(partition: steadfast::ServicePartition, last: Arc<AtomicU64>) {
    let numbers: Dictionary<String, u64> = partition.state().get_or_add("numbers").await.unwrap();
    loop {
        let next = last.load(Ordering::SeqCst) + 1;
        // No reader may see a number before it is written.
        last.store(next, Ordering::SeqCst);
        let mut tx = partition.replica().begin();
        for key in 0..KEYS {
            numbers
                .set(&mut tx, format!("key {key}"), next)
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_does_not_own_a_partition_reads_whole_states_of_it() {
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    let nodes = [start("a", &url).await, start("b", &url).await];
    for node in &nodes {
        serves(node, 2).await;
    }
    let [owner, other] = &nodes;
    let there = owner.partitioned("state", scheme()).await.unwrap();
    let here = other.partitioned("state", scheme()).await.unwrap();
    let mut own = None;
    for name in NAMES {
        if let Ok(partition) = there.partition(PartitionKey::Name(name)).await {
            own = Some((name, partition));
        }
    }
    let (name, partition) = own.unwrap();
    let refused = here.partition(PartitionKey::Name(name)).await;
    assert_eq!(refused.err().unwrap().code().0, "STF-4001");
    let last = Arc::new(AtomicU64::new(0));
    let writing = tokio::spawn(write(partition, Arc::clone(&last)));
    let copy = here.secondary(PartitionKey::Name(name)).unwrap();
    assert_eq!(copy.replica().role(), ReplicaRole::ActiveSecondary);
    let reading = async {
        let (mut states, mut before) = (0, None);
        while states < 5 {
            tokio::task::yield_now().await;
            let Ok(Some(numbers)) = copy
                .state()
                .try_get::<Dictionary<String, u64>>("numbers")
                .await
            else {
                continue;
            };
            let mut tx = copy.replica().begin();
            let seen = match numbers.entries(&mut tx, DictionaryQuery::all()).await {
                Ok(seen) => seen,
                // A flush came between two reads.
                Err(error) => {
                    assert_eq!(error.code().0, "STF-3003", "{error}");
                    continue;
                }
            };
            let Some((_, first)) = seen.first() else {
                continue;
            };
            let value = **first;
            let now = (tx.snapshot_lsn().unwrap(), value);
            assert_eq!(seen.len(), KEYS);
            assert!(seen.iter().all(|(_, found)| **found == value), "{seen:?}");
            assert!(value <= last.load(Ordering::SeqCst));
            assert!(
                before.is_none_or(|before| before <= now),
                "{before:?} {now:?}"
            );
            states += u32::from(before != Some(now));
            before = Some(now);
        }
        let numbers: Dictionary<String, u64> = loop {
            // A flush may have come between.
            if let Ok(Some(numbers)) = copy.state().try_get("numbers").await {
                break numbers;
            }
        };
        let mut tx = copy.replica().begin();
        let refused = numbers.set(&mut tx, "key 0", 0).await;
        assert_eq!(refused.unwrap_err().code().0, "STF-3002");
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    writing.abort();
    read.unwrap();
    // What only memory holds is read where it is.
    let cache = other.volatile_service("cache", scheme()).await.unwrap();
    let refused = cache.secondary(PartitionKey::Name(name));
    assert_eq!(refused.err().unwrap().code().0, "STF-3019");
}
