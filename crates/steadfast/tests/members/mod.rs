//! Nodes of one process on one database.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;

use steadfast::Node;
use steadfast::config::{Config, Layers};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node of a cluster with so many partitions.
pub(crate) fn config(name: &str, url: &str, partitions: usize) -> Config {
    config_with(name, url, partitions, &[])
}

/// The same with more settings.
pub(crate) fn config_with(name: &str, url: &str, partitions: usize, more: &[&str]) -> Config {
    let own = [
        &format!("name={name}"),
        "engine=postgres",
        &format!("postgres.url={url}"),
        &format!("partitions={partitions}"),
        "cluster.port=0",
        "cluster.key=0123456789abcdef0123456789abcdef",
        "cluster.lease=3s",
    ];
    let mut all = own.iter().chain(more);
    let layers = all.try_fold(Layers::new(), |layers, flag| layers.flag(flag));
    Config::new(&layers.expect("settings")).expect("a config")
}

/// Waits until a node serves so many partitions.
pub(crate) async fn serves(node: &Node, count: usize) {
    let mut changes = node.runtime().changes();
    let runtime = node.runtime();
    // Those that are just being taken do not count.
    let served = || {
        let all = runtime.serving().into_iter();
        all.filter(|partition| runtime.router().mailbox(*partition).is_some())
            .count()
    };
    let served = async {
        while served() != count {
            changes.changed().await.expect("the node runs");
        }
    };
    let served = tokio::time::timeout(PATIENCE, served).await;
    served.unwrap_or_else(|_| panic!("{:?}", node.runtime().serving()));
}
