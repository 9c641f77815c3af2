//! A server in a region pair, or as its witness.
//!
//! Features `cluster` and `scheduler` together.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_cluster_rpc::{ClusterClient, Credentials};
use steadfast_core::clock::{Clock, SleeplessClock};
use steadfast_core::task::name_task;
use steadfast_jobs::JobClient;
use steadfast_jobs::region::RegionMap;
use steadfast_net::access::Secret;
use steadfast_net::listen::Listener;
use steadfast_partition::region::{
    PairStatus, RegionAction, RegionPeer, RegionRequest, RegionTransport, VoteStore,
};
use steadfast_scheduler::{HomePair, JobHome};
use steadfast_storage::Engine;
use uuid::Uuid;

use super::error::Result;
use super::job_calls::CallOptions;
use super::job_home::{JobHomeOptions, JobHomeReplica, SPACES};
use crate::config::{Config, RegionRole};

/// The cluster name of all regions; the cluster key separates the pairs.
const CLUSTER: &str = "regions";

/// This server's membership in a region pair, with the jobs of both homes.
pub(super) struct PairMember {
    region: String,
    pair: String,
    /// In an order that is the same in both regions.
    homes: [Arc<JobHomeReplica>; 2],
}

/// What came of moving the jobs of a home.
pub(super) struct MovedHome {
    pub(super) home: String,
    pub(super) to: String,
    pub(super) result: std::result::Result<(), String>,
}

impl PairMember {
    /// This server's region.
    pub(super) fn region(&self) -> &str {
        &self.region
    }

    /// The other region.
    pub(super) fn other(&self) -> &str {
        &self.pair
    }

    /// The names of both homes.
    pub(super) fn home_names(&self) -> [&str; 2] {
        self.homes.each_ref().map(|home| home.name())
    }

    /// The status of both homes.
    pub(super) fn statuses(&self) -> Vec<PairStatus> {
        let homes = self.homes.iter();
        homes.map(|home| home.pairing.status()).collect()
    }

    /// Moves the jobs of homes to regions. Each move completes even if the caller disconnects.
    pub(super) async fn transfer(
        &self,
        moves: Vec<(String, String)>,
        accepts_loss: bool,
    ) -> Vec<MovedHome> {
        let find = |(name, to): (String, String)| {
            let home = self.homes.iter().find(|home| home.name() == name);
            Some((Arc::clone(home?), to))
        };
        let start = |(home, to): (Arc<JobHomeReplica>, String)| {
            tokio::spawn(name_task(async move {
                MovedHome {
                    result: home.pairing.transfer(&to, accepts_loss).await,
                    home: home.name().to_owned(),
                    to,
                }
            }))
        };
        let moving: Vec<_> = moves.into_iter().filter_map(find).map(start).collect();
        let mut moved = Vec::with_capacity(moving.len());
        for one in moving {
            moved.extend(one.await.ok());
        }
        moved
    }

    /// The jobs of this server's region.
    pub(super) fn jobs(&self) -> &JobClient {
        let mut homes = self.homes.iter();
        let own = homes.find(|home| home.name() == self.region);
        &own.unwrap_or(&self.homes[0]).jobs
    }

    /// The jobs of both homes, for the REST interface.
    pub(super) fn pair(&self) -> HomePair {
        let [one, other] = &self.homes;
        HomePair {
            region: self.region.clone(),
            homes: [
                Arc::clone(one) as Arc<dyn JobHome>,
                Arc::clone(other) as Arc<dyn JobHome>,
            ],
        }
    }

    /// The home whose jobs are in a space.
    pub(super) fn home(&self, space: &str) -> Option<&JobHomeReplica> {
        let mut homes = self.homes.iter();
        homes.find(|home| home.space == space).map(|home| &**home)
    }

    /// Hands both homes over to the other region, if its replica is up to date.
    pub(super) async fn leave(&self) {
        let [one, other] = &self.homes;
        tokio::join!(one.pairing.leave(), other.pairing.leave());
    }
}

/// Sends requests to the other region and to the witness.
struct NetworkRegionTransport {
    wire: ClusterClient,
    pair: String,
    witness: Option<String>,
}

#[async_trait]
impl RegionTransport for NetworkRegionTransport {
    async fn send(&self, to: RegionPeer, word: &RegionRequest, limit: Duration) -> Option<Bytes> {
        let address = match to {
            RegionPeer::Pair => &self.pair,
            RegionPeer::Witness => self.witness.as_ref()?,
        };
        let answer = self.wire.ask(address, word.encode(), limit).await?;
        // An empty response means that the peer has no answer.
        (!answer.is_empty()).then_some(answer)
    }
}

/// The port of other regions, and the peers that may use it.
pub(super) struct RegionListener {
    pub(super) listener: Listener,
    pub(super) credentials: Credentials,
    pub(super) peers: AuthorizedRegions,
}

/// The regions that may send requests.
pub(super) enum AuthorizedRegions {
    /// The other region.
    Pair(String),
    /// The regions of the pairs that this witness votes for, as far as it knows them.
    Voting(RegionMap, Arc<VoteStore>),
}

impl AuthorizedRegions {
    /// Whether `from`, which has proven its name, may send this request.
    pub(super) fn is_authorized(&self, from: &str, word: &RegionRequest) -> bool {
        match (self, &word.action) {
            // A region requests votes for itself only.
            (_, RegionAction::Vote(ask)) if ask.owner() != from => false,
            (Self::Pair(pair), _) => pair == from,
            (Self::Voting(atlas, _), RegionAction::Vote(_)) => {
                let home = word.space.strip_prefix(SPACES).unwrap_or_default();
                let known = atlas.find(home).or_else(|| atlas.find(from));
                let is_pair = known.is_none_or(|known| {
                    let other = if known.name == from { home } else { from };
                    known.pair.as_deref() == Some(other)
                });
                !home.is_empty() && (from == home || is_pair)
            }
            (Self::Voting(..), _) => false,
        }
    }
}

/// Starts this server as a member of a pair or as a witness. It serves no request yet.
pub(super) async fn start(
    config: &Config,
    engine: &Arc<dyn Engine>,
    listener: Option<Listener>,
    calls: &CallOptions,
    clock: &Arc<dyn Clock>,
) -> Result<(Option<Arc<PairMember>>, Option<RegionListener>)> {
    let (Some(role), Some(listener)) = (&config.regions.role, listener) else {
        return Ok((None, None));
    };
    let secret = Secret::new(config.cluster_key.as_deref().unwrap_or_default());
    let name = match role {
        RegionRole::Witness => "witness",
        RegionRole::Region { region, .. } => region,
    };
    let address = listener.address().to_string();
    let mut credentials = Credentials::new(name, &address, CLUSTER, &secret);
    credentials.incarnation = Uuid::new_v4().as_u128();
    let (paired, peers) = match role {
        RegionRole::Witness => {
            let clock = Arc::new(SleeplessClock::default());
            let polls = Arc::new(VoteStore::new(Arc::clone(engine), clock));
            (
                None,
                AuthorizedRegions::Voting(config.regions.atlas.clone(), polls),
            )
        }
        RegionRole::Region {
            region,
            pair,
            address,
            witness,
            requires_sync,
        } => {
            let lines = Arc::new(NetworkRegionTransport {
                wire: ClusterClient::new(credentials.clone(), listener.is_encrypted()),
                pair: address.clone(),
                witness: witness.clone(),
            });
            let open = |home| {
                let place = JobHomeOptions {
                    config,
                    region,
                    pair,
                    home,
                    has_witness: witness.is_some(),
                    requires_sync: *requires_sync,
                    transport: Arc::clone(&lines) as Arc<dyn RegionTransport>,
                    calls,
                    clock,
                };
                place.open()
            };
            let mut names = [region, pair];
            names.sort();
            let homes = [open(names[0]).await?, open(names[1]).await?];
            let paired = PairMember {
                region: region.clone(),
                pair: pair.clone(),
                homes: homes.map(Arc::new),
            };
            (
                Some(Arc::new(paired)),
                AuthorizedRegions::Pair(pair.clone()),
            )
        }
    };
    let entrance = RegionListener {
        listener,
        credentials,
        peers,
    };
    Ok((paired, Some(entrance)))
}

#[cfg(test)]
mod tests {
    use steadfast_storage::memory::MemoryEngine;
    use steadfast_storage_replicated::mirror::{Ballot, VoteRequest};

    use super::*;

    fn vote(home: &str, owner: &str) -> RegionRequest {
        let ballot = Ballot {
            epoch: 1,
            owner: owner.to_owned(),
            ..Ballot::default()
        };
        let is_agreed = false;
        about(
            home,
            RegionAction::Vote(VoteRequest::Renew { ballot, is_agreed }),
        )
    }

    fn about(home: &str, wish: RegionAction) -> RegionRequest {
        let space = format!("jobs@{home}");
        RegionRequest {
            space,
            action: wish,
        }
    }

    #[test]
    fn only_the_pair_is_heard() {
        let peers = AuthorizedRegions::Pair("West US".to_owned());
        for wish in [
            RegionAction::Status,
            RegionAction::HandOver,
            RegionAction::Take(1),
            RegionAction::Proxy(Bytes::new()),
        ] {
            let word = about("East US", wish);
            assert!(peers.is_authorized("West US", &word));
            assert!(!peers.is_authorized("North Europe", &word));
            assert!(!peers.is_authorized("witness", &word));
        }
        assert!(peers.is_authorized("West US", &vote("East US", "West US")));
        // Not on behalf of another region.
        assert!(!peers.is_authorized("West US", &vote("East US", "East US")));
        assert!(!peers.is_authorized("East US", &vote("East US", "East US")));
    }

    #[test]
    fn a_witness_hears_votes_of_the_two_regions_of_a_space() {
        let clock = Arc::new(SleeplessClock::default());
        let polls = VoteStore::new(Arc::new(MemoryEngine::new()), clock);
        let peers = AuthorizedRegions::Voting(RegionMap::default(), Arc::new(polls));
        for from in ["East US", "West US"] {
            assert!(peers.is_authorized(from, &vote("East US", from)), "{from}");
            assert!(!peers.is_authorized(from, &about("East US", RegionAction::HandOver)));
        }
        assert!(!peers.is_authorized("East US", &vote("East US", "West US")));
        assert!(!peers.is_authorized("North Europe", &vote("East US", "North Europe")));
        assert!(!peers.is_authorized("Bremen", &vote("East US", "Bremen")));
        assert!(!peers.is_authorized("West US", &vote("Bremen", "West US")));
        // These are not declared, so the witness does not know the pairs.
        assert!(peers.is_authorized("Jena", &vote("Bremen", "Jena")));
        assert!(!peers.is_authorized("Jena", &vote("", "Jena")));
    }
}
