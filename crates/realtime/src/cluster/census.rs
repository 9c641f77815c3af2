//! The hubs of all nodes, for operators.
//!
//! Every node returns the names of its hubs; then all are asked for the clients and
//! servers of each hub of the page. Nodes that do not answer are named.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast_core::limits;

use crate::cluster::messages::{PeerRequest, PeerResponse};
use crate::service::Realtime;

/// A hub on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubCensus {
    pub name: String,
    /// Connected clients.
    pub clients: u64,
    /// The servers that accept clients, by name.
    pub servers: Vec<String>,
}

/// A page of hubs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubPage {
    pub hubs: Vec<HubCensus>,
    /// The last name, if there are more.
    pub next: Option<String>,
    /// Nodes that did not answer.
    pub missing: Vec<String>,
}

impl Realtime {
    /// Lists hubs with clients or servers on any node: `limit` at most of those that are
    /// visible, after a name.
    pub async fn page(
        &self,
        after: &str,
        limit: usize,
        is_visible: impl Fn(&str) -> bool,
    ) -> HubPage {
        let count = limit.saturating_add(1).min(limits::GROUP_PAGE);
        let mut missing = BTreeSet::new();
        let (mut names, mut next) = (Vec::new(), None);
        let mut after = after.to_owned();
        'all: loop {
            let found = self.names_after(&after, count, &mut missing).await;
            let is_end = found.len() < count;
            for name in found {
                after.clone_from(&name);
                if !is_visible(&name) {
                    continue;
                }
                if names.len() == limit {
                    next = names.last().cloned();
                    break 'all;
                }
                names.push(name);
            }
            if is_end {
                break;
            }
        }
        let hubs = self.censuses(names, &mut missing).await;
        HubPage {
            hubs,
            next,
            missing: missing.into_iter().collect(),
        }
    }

    /// The names of this node's hubs that have clients or servers, in order.
    pub(crate) fn hubs_here(&self, after: &str, count: usize) -> Vec<String> {
        let lobbies = self.lobbies();
        let used = lobbies
            .iter()
            .filter(|lobby| lobby.name() > after)
            .filter(|lobby| lobby.count() > 0 || !lobby.backends().is_empty());
        let names: BTreeSet<_> = used.map(|lobby| lobby.name().to_owned()).collect();
        names.into_iter().take(count).collect()
    }

    /// The first names of all nodes, `count` at most.
    async fn names_after(
        &self,
        after: &str,
        count: usize,
        missing: &mut BTreeSet<String>,
    ) -> BTreeSet<String> {
        let word = PeerRequest::Hubs {
            after: after.to_owned(),
            count: count as u64,
        };
        let answers = self.ask_all(&word.encode(), missing).await;
        let names = answers.into_iter().flat_map(|answer| answer.servers);
        let names: BTreeSet<_> = names.chain(self.hubs_here(after, count)).collect();
        // Every node has returned its first names only.
        names.into_iter().take(count).collect()
    }

    async fn censuses(&self, names: Vec<String>, missing: &mut BTreeSet<String>) -> Vec<HubCensus> {
        let asked = names.into_iter().map(|name| async move {
            let mut silent = BTreeSet::new();
            let word = PeerRequest::Census { hub: name.clone() };
            let mut all = self.ask_all(&word.encode(), &mut silent).await;
            all.extend(self.connections(&name).map(|own| own.census()));
            let clients = all.iter().map(|answer| answer.count).sum();
            let servers: BTreeSet<_> = all.into_iter().flat_map(|own| own.servers).collect();
            let servers = servers.into_iter().collect();
            let hub = HubCensus {
                name,
                clients,
                servers,
            };
            (hub, silent)
        });
        let mut hubs = Vec::new();
        for (hub, silent) in join_all(asked).await {
            hubs.push(hub);
            missing.extend(silent);
        }
        hubs
    }

    /// Sends all peer nodes a request; adds the nodes without an answer to `missing`.
    async fn ask_all(&self, word: &Bytes, missing: &mut BTreeSet<String>) -> Vec<PeerResponse> {
        let nodes = &self.shared.nodes;
        let names = nodes.names();
        let answers = nodes.request_all(word).await.into_iter();
        let answers: BTreeMap<_, _> = answers
            .filter_map(|(node, answer)| Some((node, PeerResponse::decode(answer).ok()?)))
            .collect();
        let silent = names.into_iter().filter(|name| !answers.contains_key(name));
        missing.extend(silent);
        answers.into_values().collect()
    }
}
