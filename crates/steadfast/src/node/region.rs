//! This server in a pair of regions, or as the witness of one.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::{Clock, SleeplessClock};
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_jobs::region::Atlas;
use steadfast_jobs::{Jobs, Runner, Scheduler};
use steadfast_partition::region::{CopyWay, Hands, Pairing, Polls, Setup, To, Ways, Word};
use steadfast_partition::{Alone, Options, Performer, Router, Runtime, Services, Space};
use steadfast_protocols::access::Secret;
use steadfast_protocols::cluster::{Credentials, Wire};
use steadfast_protocols::listen::Listener;
use steadfast_protocols::outbound::Permit;
use steadfast_protocols::scheduler::{Regional, Replication};
use steadfast_storage::local::{self, Local};
use steadfast_storage::mirror::{Follower, Mirror, Seat};
use steadfast_storage::{Engine, Options as StoreOptions, Store};
use uuid::Uuid;

use super::error::Result;
use super::performers::{Maker, Performers};
use crate::config::{Config, Role};

/// In front of the home of a pair, in the name of its space.
const SPACES: &str = "jobs@";

/// The number of the space of a pair's jobs.
const SPACE: u16 = 1;

/// What all regions say that they belong to; the key tells them apart.
const CLUSTER: &str = "regions";

/// How long a request to the owner may take.
const PROXIED: Duration = Duration::from_secs(25);

/// How long a read may take before what was copied is shown.
const READ: Duration = Duration::from_secs(4);

/// How long a region is waited for that has not answered lately.
const UNHEARD_OF: Duration = Duration::from_secs(1);

/// What exists of a region before its runtime.
pub(super) struct Prepared {
    seat: Arc<Seat>,
    region: String,
}

impl Prepared {
    /// A seat, if this server keeps jobs of a pair.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let Some(Role::Region { region, .. }) = &config.regions.role else {
            return None;
        };
        let clock = Arc::new(SleeplessClock::default());
        Some(Self {
            seat: Arc::new(Seat::new(clock)),
            region: region.clone(),
        })
    }

    /// What every call of a job says of where it runs.
    pub(super) fn region(&self) -> String {
        self.region.clone()
    }

    /// Calls are made only while the seat is ours.
    pub(super) fn permit(&self) -> Permit {
        let seat = Arc::clone(&self.seat);
        Permit::region(move || seat.epoch())
    }
}

/// This server's part in a pair.
pub(super) struct Paired {
    pub(super) pairing: Pairing,
    pub(super) runtime: Arc<Runtime>,
    requires_sync: bool,
    jobs: OnceLock<Jobs>,
}

/// Everything that the other region is told goes through here.
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
        // It has heard, and has no answer to this.
        (!answer.is_empty()).then_some(answer)
    }
}

/// Makes calls, or rests.
struct Callers(Arc<OnceLock<Runner>>);

#[async_trait]
impl Hands for Callers {
    async fn rest(&self, limit: Duration) -> usize {
        match self.0.get() {
            Some(runner) => runner.rest(limit).await,
            None => 0,
        }
    }

    fn resume(&self) {
        if let Some(runner) = self.0.get() {
            runner.resume();
        }
    }

    fn stop(&self) {
        if let Some(runner) = self.0.get() {
            runner.stop();
        }
    }

    fn work(&self) {
        if let Some(runner) = self.0.get() {
            runner.work();
        }
    }
}

/// Where others come in, and what they find there.
pub(super) struct Entrance {
    pub(super) listener: Listener,
    pub(super) credentials: Credentials,
    pub(super) polls: Arc<Polls>,
    pub(super) peers: Peers,
}

/// Who may come in.
pub(super) enum Peers {
    /// The other region.
    Pair(String),
    /// Regions that this server votes on, as far as it knows which are pairs.
    Voting(Atlas),
}

impl Peers {
    /// Whether a word of `from`, which has proven its name, is heard.
    pub(super) fn may_say(&self, from: &str, word: &Word) -> bool {
        match (self, word) {
            // A region asks for itself.
            (_, Word::Vote(_, ask)) if ask.owner() != from => false,
            (Self::Pair(pair), _) => pair == from,
            (Self::Voting(atlas), Word::Vote(space, _)) => {
                let home = space.strip_prefix(SPACES).unwrap_or_default();
                let known = atlas.find(home).or_else(|| atlas.find(from));
                let is_pair = known.is_none_or(|known| {
                    let other = if known.name == from { home } else { from };
                    known.pair.as_deref() == Some(other)
                });
                !home.is_empty() && (from == home || is_pair)
            }
            (Self::Voting(_), _) => false,
        }
    }
}

/// Takes this server's part in a pair, or as a witness. Nobody is answered yet.
pub(super) async fn start(
    config: &Config,
    engine: &Arc<dyn Engine>,
    listener: Option<Listener>,
    prepared: Option<Prepared>,
    makers: &mut BTreeMap<steadfast_partition::Kind, Maker>,
    runner: &Arc<OnceLock<Runner>>,
) -> Result<(Option<Arc<Paired>>, Option<Entrance>)> {
    let (Some(role), Some(listener)) = (&config.regions.role, listener) else {
        return Ok((None, None));
    };
    let clock: Arc<dyn Clock> = Arc::new(SleeplessClock::default());
    let secret = Secret::new(config.cluster_key.as_deref().unwrap_or_default());
    let name = match role {
        Role::Witness => "witness",
        Role::Region { region, .. } => region,
    };
    let address = listener.address().to_string();
    let mut credentials = Credentials::new(name, &address, CLUSTER, &secret);
    credentials.incarnation = Uuid::new_v4().as_u128();
    let is_encrypted = listener.is_encrypted();
    let entrance = |polls, peers| Entrance {
        listener,
        credentials: credentials.clone(),
        polls,
        peers,
    };
    let (
        Role::Region {
            region,
            pair,
            home,
            address,
            witness,
            requires_sync,
        },
        Some(prepared),
    ) = (role, prepared)
    else {
        let polls = Arc::new(Polls::new(Arc::clone(engine), clock));
        return Ok((
            None,
            Some(entrance(polls, Peers::Voting(config.regions.atlas.clone()))),
        ));
    };
    let lines = Arc::new(Lines {
        wire: Wire::new(credentials.clone(), is_encrypted),
        pair: address.clone(),
        witness: witness.clone(),
    });
    let local = open(config, &clock).await?;
    let wanted = Space {
        number: SPACE,
        name: format!("{SPACES}{home}"),
        partitions: config.partitions,
        incarnation: incarnation(home),
    };
    let space = Space::open(&*local, wanted).await?;
    let polls = Arc::new(Polls::new(Arc::clone(&local), Arc::clone(&clock)));
    let seat = prepared.seat;
    let pair_way = Arc::new(CopyWay(Arc::clone(&lines) as Arc<dyn Ways>));
    let mirror = Arc::new(Mirror::new(Arc::clone(&local), Arc::clone(&seat), pair_way));
    let follower = Follower::new(
        Arc::clone(&local),
        Store::start(Arc::clone(&local), options(config, &clock, 1)),
        space.all().collect(),
    );
    let leased = StoreOptions {
        lease: Some(seat.lease()),
        ..options(config, &clock, 2)
    };
    let store = Arc::new(Store::start(Arc::clone(&mirror) as Arc<dyn Engine>, leased));
    let performers = Arc::new(Performers::default());
    let runtime_options = Options {
        services: Services::new().with(Scheduler),
        performer: Arc::clone(&performers) as Arc<dyn Performer>,
        router: Arc::new(Router::new(Arc::new(Alone))),
        clock: Arc::clone(&clock),
    };
    let name = space.name.clone();
    let runtime = Arc::new(Runtime::new(Arc::clone(&store), space, runtime_options));
    let kind = steadfast_jobs::KIND;
    let maker = makers.remove(&kind);
    performers.make(
        maker.map(|maker| (kind, maker)).into_iter().collect(),
        &runtime,
    );
    let pairing = Pairing::start(Setup {
        region: region.clone(),
        pair: pair.clone(),
        home: home.clone(),
        space: name,
        has_witness: witness.is_some(),
        engine: local,
        seat,
        mirror,
        store,
        runtime: Arc::clone(&runtime),
        follower: Arc::new(follower),
        polls: Arc::clone(&polls),
        ways: lines,
        hands: Arc::new(Callers(Arc::clone(runner))),
    });
    let paired = Paired {
        pairing: pairing.await?,
        runtime,
        requires_sync: *requires_sync,
        jobs: OnceLock::new(),
    };
    Ok((
        Some(Arc::new(paired)),
        Some(entrance(polls, Peers::Pair(pair.clone()))),
    ))
}

/// Opens the folder of the pair's jobs.
async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Engine>> {
    let folder = config.data.join("region");
    let options = local::Options {
        clock: Arc::clone(clock),
        ..local::Options::default()
    };
    let opening = tokio::task::spawn_blocking(move || Local::open(&folder, &options));
    Ok(Arc::new(opening.await.expect("opening does not panic")?))
}

fn options(config: &Config, clock: &Arc<dyn Clock>, node: u32) -> StoreOptions {
    StoreOptions {
        clock: Arc::clone(clock),
        log_target: config.log_target,
        log_limit: config.log_limit(),
        row_cache: config.memory / 16,
        event_tail: 0,
        ..StoreOptions::new(Owner {
            node,
            incarnation: Uuid::new_v4().as_u128(),
        })
    }
}

/// The same in both regions, for ever (FNV-1a).
fn incarnation(home: &str) -> u128 {
    let step = |hash: u128, byte: u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    home.bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

impl Paired {
    /// The way to the jobs, once there is one.
    pub(super) fn lend(&self, jobs: &Jobs) {
        let _ = self.jobs.set(jobs.clone());
    }
}

#[async_trait]
impl Regional for Paired {
    fn is_owner(&self) -> bool {
        self.pairing.epoch().is_some()
    }

    fn replication(&self) -> Replication {
        let standing = self.pairing.standing();
        Replication {
            owner: standing.owner,
            epoch: standing.epoch,
            lag_ms: standing.lag_ms,
            mode: standing.mode.to_owned(),
        }
    }

    fn regions(&self) -> [String; 2] {
        let standing = self.pairing.standing();
        [standing.region, standing.pair]
    }

    fn requires_sync(&self) -> bool {
        self.requires_sync
    }

    async fn forward(&self, request: Bytes, is_read: bool) -> Option<Bytes> {
        if request.len() > limits::NODE_MESSAGE_BYTES {
            return None;
        }
        // A copy can be read at once, so the owner is not waited for as long.
        let limit = match (self.pairing.standing().reaches_pair, is_read) {
            (false, _) => UNHEARD_OF,
            (true, true) => READ,
            (true, false) => PROXIED,
        };
        self.pairing.ask_owner(request, limit).await
    }

    fn copies(&self) -> Option<Jobs> {
        let all = self.runtime.space().all();
        let all: Option<Vec<_>> = all.map(|one| self.pairing.stale(one)).collect();
        let jobs = self.jobs.get()?;
        Some(jobs.of_copies(Router::of_copies(all?)))
    }
}

#[cfg(test)]
mod tests {
    use steadfast_storage::mirror::{Ask, Ballot};

    use super::*;

    fn vote(home: &str, owner: &str) -> Word {
        let ballot = Ballot {
            epoch: 1,
            owner: owner.to_owned(),
            ..Ballot::default()
        };
        let is_agreed = false;
        Word::Vote(format!("jobs@{home}"), Ask::Renew { ballot, is_agreed })
    }

    #[test]
    fn only_the_pair_is_heard() {
        let peers = Peers::Pair("West US".to_owned());
        for word in [
            Word::Look,
            Word::Give,
            Word::Take(1),
            Word::Proxy(Bytes::new()),
        ] {
            assert!(peers.may_say("West US", &word));
            assert!(!peers.may_say("North Europe", &word));
            assert!(!peers.may_say("witness", &word));
        }
        assert!(peers.may_say("West US", &vote("East US", "West US")));
        // Not for somebody else.
        assert!(!peers.may_say("West US", &vote("East US", "East US")));
        assert!(!peers.may_say("East US", &vote("East US", "East US")));
    }

    #[test]
    fn a_witness_hears_votes_of_the_two_regions_of_a_space() {
        let peers = Peers::Voting(Atlas::default());
        for from in ["East US", "West US"] {
            assert!(peers.may_say(from, &vote("East US", from)), "{from}");
            assert!(!peers.may_say(from, &Word::Give));
        }
        assert!(!peers.may_say("East US", &vote("East US", "West US")));
        assert!(!peers.may_say("North Europe", &vote("East US", "North Europe")));
        assert!(!peers.may_say("Bremen", &vote("East US", "Bremen")));
        assert!(!peers.may_say("West US", &vote("Bremen", "West US")));
        // It was not told of these, so it cannot know who is whose pair.
        assert!(peers.may_say("Jena", &vote("Bremen", "Jena")));
        assert!(!peers.may_say("Jena", &vote("", "Jena")));
    }
}
