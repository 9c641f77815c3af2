//! A database whose primary dies under the nodes.
//!
//! By hand a standby is promoted by the rule as soon as the primary is dead; with a
//! manager no one intervenes.

use std::thread;
use std::time::{Duration, Instant};

use steadfast_harness::postgres::{Manager, PostgresCluster};

use super::now;

/// Three servers of PostgreSQL, and who looks after them.
pub(crate) enum Database {
    ByHand(PostgresCluster),
    Managed(Manager),
}

/// What befalls the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Kill,
    /// It stands still, and comes back believing that it still is the primary.
    Freeze,
}

impl Database {
    pub(crate) fn start(is_managed: bool) -> Self {
        let cluster = PostgresCluster::start().unwrap();
        if is_managed {
            Self::Managed(Manager::start(cluster).unwrap())
        } else {
            Self::ByHand(cluster)
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::ByHand(cluster) => cluster.url(),
            Self::Managed(manager) => manager.cluster().url(),
        }
    }

    /// Takes the primary away; answers when a standby was promoted.
    pub(crate) fn fail(&mut self, blow: Blow) -> Instant {
        match self {
            Self::ByHand(cluster) => {
                strike(cluster, blow);
                cluster.promote_by_rule().unwrap();
            }
            Self::Managed(manager) => {
                let before = manager.failovers();
                // A standby that is made anew in this moment would be missing.
                wait("a database that may lose one", || {
                    let mut cluster = manager.cluster();
                    let is_whole = cluster.has_standbys(2);
                    if is_whole {
                        strike(&mut cluster, blow);
                    }
                    is_whole
                });
                wait("a standby to be promoted", || manager.failovers() > before);
            }
        }
        now()
    }

    /// Brings back a primary that was frozen, and makes everything whole again.
    pub(crate) fn heal(&mut self) {
        match self {
            Self::ByHand(cluster) => {
                for index in cluster.standbys() {
                    if !cluster.server(index).is_running() {
                        cluster.rebuild(index).unwrap();
                    }
                }
                cluster.wait_for_standbys(2).unwrap();
            }
            Self::Managed(manager) => {
                for index in 0..3 {
                    let mut cluster = manager.cluster();
                    let server = cluster.server(index);
                    if server.is_running() {
                        server.thaw().unwrap();
                    }
                }
                // It needs the cluster itself to do that.
                wait("a whole database", || manager.cluster().has_standbys(2));
            }
        }
    }
}

fn strike(cluster: &mut PostgresCluster, blow: Blow) {
    let primary = cluster.primary();
    match blow {
        Blow::Kill => cluster.server(primary).kill().unwrap(),
        Blow::Freeze => cluster.server(primary).freeze().unwrap(),
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..900 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("in vain: {what}");
}
