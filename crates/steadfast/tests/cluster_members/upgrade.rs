//! Nodes of two versions work together, and no others do.
//!
//! The nodes are replaced one by one, while collections of jobs are made and read
//! through each of them.

use std::time::Duration;

use steadfast::Node;
use steadfast_harness::postgres::PostgresCluster;
use steadfast_jobs::{CollectionDraft, CollectionId, Precondition};
use steadfast_partition::cluster::{PROTOCOL, SCHEMA};

use crate::members::{PATIENCE, config_with, serves};

const PARTITIONS: usize = 6;

async fn start(name: &str, url: &str, protocol: u32, schema: u32) -> steadfast::Result<Node> {
    let node = Node::builder().config(config_with(name, url, PARTITIONS, &["cluster.lease=10s"]));
    node.versions(protocol, schema).start().await
}

/// Waits until each node has its share.
async fn shared_out(nodes: &[Node]) {
    for node in nodes {
        serves(node, PARTITIONS / nodes.len()).await;
    }
}

/// Makes collections through each node, and reads all of them through each.
async fn work(nodes: &[Node], made: &mut Vec<CollectionId>) {
    for node in nodes {
        for _ in 0..PARTITIONS {
            let id = CollectionId::new("s", "g", &format!("c{}", made.len())).unwrap();
            let draft = CollectionDraft {
                id: id.clone(),
                document: "{}".into(),
                most_jobs: None,
                is_enabled: None,
            };
            let put = node
                .jobs()
                .put_collection(draft, Precondition::Nothing)
                .await;
            put.unwrap();
            made.push(id);
        }
    }
    for node in nodes {
        for id in &*made {
            assert_eq!(node.jobs().collection(id).await.unwrap().id, *id);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_are_replaced_one_by_one_by_the_next_version() {
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    let former = (PROTOCOL - 1, SCHEMA - 1);
    let mut nodes = vec![
        start("a", &url, former.0, former.1).await.unwrap(),
        start("b", &url, former.0, former.1).await.unwrap(),
    ];
    let mut made = Vec::new();
    shared_out(&nodes).await;
    work(&nodes, &mut made).await;
    for name in ["c", "d"] {
        nodes.push(start(name, &url, PROTOCOL, SCHEMA).await.unwrap());
        shared_out(&nodes).await;
        work(&nodes, &mut made).await;
        // One of the former version leaves; all that it had goes over.
        let leaving = nodes.remove(0);
        let sheet = leaving.drain(Duration::from_secs(10)).await;
        assert_eq!((sheet.moved, sheet.left, sheet.cut_off), (2, 0, 0));
        leaving.stop(PATIENCE).await;
        shared_out(&nodes).await;
        work(&nodes, &mut made).await;
    }
    // Too far apart, in either.
    for (protocol, schema) in [(PROTOCOL + 2, SCHEMA), (PROTOCOL, SCHEMA + 2)] {
        let refused = start("e", &url, protocol, schema).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.code().0, "STF-7012", "{refused}");
    }
    // But the one after this may come.
    let next = start("e", &url, PROTOCOL + 1, SCHEMA + 1).await.unwrap();
    nodes.push(next);
    shared_out(&nodes).await;
    work(&nodes, &mut made).await;
}
