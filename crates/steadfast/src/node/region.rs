//! A server in a region pair, or as its witness.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::{Clock, SleeplessClock};
use steadfast_jobs::Jobs;
use steadfast_jobs::region::Atlas;
use steadfast_partition::region::{Polls, To, Ways, Wish, Word};
use steadfast_protocols::access::Secret;
use steadfast_protocols::cluster::{Credentials, Wire};
use steadfast_protocols::listen::Listener;
use steadfast_protocols::outbound;
use steadfast_protocols::scheduler::{Home, Pair};
use steadfast_storage::Engine;
use uuid::Uuid;

use super::error::Result;
use super::home::{Kept, Place, SPACES};
use crate::config::{Config, Role};

/// The cluster name of all regions; the cluster key separates the pairs.
const CLUSTER: &str = "regions";

/// This server's membership in a region pair, with the jobs of both homes.
pub(super) struct Paired {
    pub(super) region: String,
    pub(super) pair: String,
    /// In an order that is the same in both regions.
    pub(super) homes: [Arc<Kept>; 2],
}

impl Paired {
    /// The jobs of this server's region.
    pub(super) fn jobs(&self) -> &Jobs {
        let mut homes = self.homes.iter();
        let own = homes.find(|home| home.name() == self.region);
        &own.unwrap_or(&self.homes[0]).jobs
    }

    /// The jobs of both homes, for the REST interface.
    pub(super) fn pair(&self) -> Pair {
        let [one, other] = &self.homes;
        Pair {
            region: self.region.clone(),
            homes: [
                Arc::clone(one) as Arc<dyn Home>,
                Arc::clone(other) as Arc<dyn Home>,
            ],
        }
    }

    /// The home whose jobs are in a space.
    pub(super) fn home(&self, space: &str) -> Option<&Kept> {
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
struct Lines {
    wire: Wire,
    pair: String,
    witness: Option<String>,
}

#[async_trait]
impl Ways for Lines {
    async fn send(&self, to: To, word: &Word, limit: Duration) -> Option<Bytes> {
        let address = match to {
            To::Pair => &self.pair,
            To::Witness => self.witness.as_ref()?,
        };
        let answer = self.wire.ask(address, word.encode(), limit).await?;
        // An empty response means that the peer has no answer.
        (!answer.is_empty()).then_some(answer)
    }
}

/// The port of other regions, and the peers that may use it.
pub(super) struct Entrance {
    pub(super) listener: Listener,
    pub(super) credentials: Credentials,
    pub(super) peers: Peers,
}

/// The regions that may send requests.
pub(super) enum Peers {
    /// The other region.
    Pair(String),
    /// The regions of the pairs that this witness votes for, as far as it knows them.
    Voting(Atlas, Arc<Polls>),
}

impl Peers {
    /// Whether `from`, which has proven its name, may send this request.
    pub(super) fn may_say(&self, from: &str, word: &Word) -> bool {
        match (self, &word.wish) {
            // A region requests votes for itself only.
            (_, Wish::Vote(ask)) if ask.owner() != from => false,
            (Self::Pair(pair), _) => pair == from,
            (Self::Voting(atlas, _), Wish::Vote(_)) => {
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
    outbound: &outbound::Options,
    clock: &Arc<dyn Clock>,
) -> Result<(Option<Arc<Paired>>, Option<Entrance>)> {
    let (Some(role), Some(listener)) = (&config.regions.role, listener) else {
        return Ok((None, None));
    };
    let secret = Secret::new(config.cluster_key.as_deref().unwrap_or_default());
    let name = match role {
        Role::Witness => "witness",
        Role::Region { region, .. } => region,
    };
    let address = listener.address().to_string();
    let mut credentials = Credentials::new(name, &address, CLUSTER, &secret);
    credentials.incarnation = Uuid::new_v4().as_u128();
    let (paired, peers) = match role {
        Role::Witness => {
            let clock = Arc::new(SleeplessClock::default());
            let polls = Arc::new(Polls::new(Arc::clone(engine), clock));
            (None, Peers::Voting(config.regions.atlas.clone(), polls))
        }
        Role::Region {
            region,
            pair,
            address,
            witness,
            requires_sync,
        } => {
            let lines = Arc::new(Lines {
                wire: Wire::new(credentials.clone(), listener.is_encrypted()),
                pair: address.clone(),
                witness: witness.clone(),
            });
            let open = |home| {
                let place = Place {
                    config,
                    region,
                    pair,
                    home,
                    has_witness: witness.is_some(),
                    requires_sync: *requires_sync,
                    ways: Arc::clone(&lines) as Arc<dyn Ways>,
                    outbound,
                    clock,
                };
                place.open()
            };
            let mut names = [region, pair];
            names.sort();
            let homes = [open(names[0]).await?, open(names[1]).await?];
            let paired = Paired {
                region: region.clone(),
                pair: pair.clone(),
                homes: homes.map(Arc::new),
            };
            (Some(Arc::new(paired)), Peers::Pair(pair.clone()))
        }
    };
    let entrance = Entrance {
        listener,
        credentials,
        peers,
    };
    Ok((paired, Some(entrance)))
}

#[cfg(test)]
mod tests {
    use steadfast_storage::memory::Memory;
    use steadfast_storage::mirror::{Ask, Ballot};

    use super::*;

    fn vote(home: &str, owner: &str) -> Word {
        let ballot = Ballot {
            epoch: 1,
            owner: owner.to_owned(),
            ..Ballot::default()
        };
        let is_agreed = false;
        about(home, Wish::Vote(Ask::Renew { ballot, is_agreed }))
    }

    fn about(home: &str, wish: Wish) -> Word {
        let space = format!("jobs@{home}");
        Word { space, wish }
    }

    #[test]
    fn only_the_pair_is_heard() {
        let peers = Peers::Pair("West US".to_owned());
        for wish in [
            Wish::Look,
            Wish::Give,
            Wish::Take(1),
            Wish::Proxy(Bytes::new()),
        ] {
            let word = about("East US", wish);
            assert!(peers.may_say("West US", &word));
            assert!(!peers.may_say("North Europe", &word));
            assert!(!peers.may_say("witness", &word));
        }
        assert!(peers.may_say("West US", &vote("East US", "West US")));
        // Not on behalf of another region.
        assert!(!peers.may_say("West US", &vote("East US", "East US")));
        assert!(!peers.may_say("East US", &vote("East US", "East US")));
    }

    #[test]
    fn a_witness_hears_votes_of_the_two_regions_of_a_space() {
        let clock = Arc::new(SleeplessClock::default());
        let polls = Polls::new(Arc::new(Memory::new()), clock);
        let peers = Peers::Voting(Atlas::default(), Arc::new(polls));
        for from in ["East US", "West US"] {
            assert!(peers.may_say(from, &vote("East US", from)), "{from}");
            assert!(!peers.may_say(from, &about("East US", Wish::Give)));
        }
        assert!(!peers.may_say("East US", &vote("East US", "West US")));
        assert!(!peers.may_say("North Europe", &vote("East US", "North Europe")));
        assert!(!peers.may_say("Bremen", &vote("East US", "Bremen")));
        assert!(!peers.may_say("West US", &vote("Bremen", "West US")));
        // These are not declared, so the witness does not know the pairs.
        assert!(peers.may_say("Jena", &vote("Bremen", "Jena")));
        assert!(!peers.may_say("Jena", &vote("", "Jena")));
    }
}
