//! The jobs of one home of a region pair.
//!
//! Both regions keep the jobs of both homes. Each home has its own folder, log and runtime,
//! so that it fails over independently of the other.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::{Clock, SleeplessClock};
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_jobs::{JobClient, JobRunner, JobScheduler};
use steadfast_partition::region::{
    CopyTransport, ExternalWork, PairSetup, RegionPair, RegionTransport, VoteStore,
};
use steadfast_partition::{Options, Performer, Router, Runtime, Services, SingleNode, Space};
use steadfast_scheduler::outbound::CallPermit;
use steadfast_scheduler::{JobHome, Replication};
use steadfast_storage::{Engine, Options as StoreOptions, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use steadfast_storage_replicated::mirror::{LeaderLease, Mirror, MirrorFollower};
use uuid::Uuid;

use super::built_in_services;
use super::error::Result;
use super::job_calls::{self, CallOptions};
use super::performers::Performers;
use crate::config::Config;

/// The prefix of a home in the name of its space.
pub(super) const SPACES: &str = "jobs@";

/// The number of the space of a home's jobs.
const SPACE: u16 = 1;

/// How long a request to the owner may take.
const PROXIED: Duration = Duration::from_secs(25);

/// How long a read waits for the owner before it is served from the local copy.
const READ: Duration = Duration::from_secs(4);

/// How long a request waits for a region that has not answered lately.
const UNHEARD_OF: Duration = Duration::from_secs(1);

/// What this server needs to keep the jobs of a home.
pub(super) struct JobHomeOptions<'a> {
    pub(super) config: &'a Config,
    /// This server's region, the other one, and the home: one of both.
    pub(super) region: &'a str,
    pub(super) pair: &'a str,
    pub(super) home: &'a str,
    pub(super) has_witness: bool,
    pub(super) requires_sync: bool,
    pub(super) transport: Arc<dyn RegionTransport>,
    /// Options and clock of outgoing calls.
    pub(super) calls: &'a CallOptions,
    pub(super) clock: &'a Arc<dyn Clock>,
}

/// This server's replica of the jobs of a home.
pub(super) struct JobHomeReplica {
    name: String,
    pub(super) space: String,
    pub(super) pairing: RegionPair,
    runtime: Arc<Runtime>,
    pub(super) jobs: JobClient,
    requires_sync: bool,
}

/// Starts and pauses the job runner with the ownership of its home.
struct JobRunnerWork(JobRunner);

#[async_trait]
impl ExternalWork for JobRunnerWork {
    async fn pause(&self, limit: Duration) -> usize {
        self.0.drain(limit).await
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn start(&self) {
        self.0.activate();
    }
}

impl JobHomeOptions<'_> {
    /// Opens the local replica of the home's jobs and takes part in electing its owner.
    pub(super) async fn open(self) -> Result<JobHomeReplica> {
        let clock: Arc<dyn Clock> = Arc::new(SleeplessClock::default());
        let engine = self.engine(&clock).await?;
        let wanted = Space {
            number: SPACE,
            name: format!("{SPACES}{}", self.home),
            partitions: self.config.partitions,
            incarnation: incarnation(self.home),
        };
        let space = Space::open(&*engine, wanted).await?;
        let name = space.name.clone();
        let seat = Arc::new(LeaderLease::new(Arc::clone(&clock)));
        let way = CopyTransport {
            transport: Arc::clone(&self.transport),
            space: name.clone(),
        };
        let mirror = Mirror::new(Arc::clone(&engine), Arc::clone(&seat), Arc::new(way));
        let mirror = Arc::new(mirror);
        let follower = MirrorFollower::new(
            Arc::clone(&engine),
            Store::start(Arc::clone(&engine), self.store_options(&clock, 1)),
            space.all().collect(),
        );
        let leased = StoreOptions {
            lease: Some(seat.lease()),
            ..self.store_options(&clock, 2)
        };
        let store = Arc::new(Store::start(Arc::clone(&mirror) as Arc<dyn Engine>, leased));
        let (runtime, runner) = self.runtime(&store, space, &seat, &clock)?;
        let pairing = RegionPair::start(PairSetup {
            region: self.region.to_owned(),
            pair: self.pair.to_owned(),
            home: self.home.to_owned(),
            space: name.clone(),
            has_witness: self.has_witness,
            votes: Arc::new(VoteStore::new(Arc::clone(&engine), clock)),
            engine,
            lease: seat,
            mirror,
            store,
            runtime: Arc::clone(&runtime),
            follower: Arc::new(follower),
            transport: self.transport,
            external_work: Arc::new(JobRunnerWork(runner.clone())),
        });
        Ok(JobHomeReplica {
            name: self.home.to_owned(),
            space: name,
            pairing: pairing.await?,
            jobs: JobClient::new(&runtime, runner).shared(),
            runtime,
            requires_sync: self.requires_sync,
        })
    }

    /// Creates the runtime that runs the jobs while this region owns them.
    fn runtime(
        &self,
        store: &Arc<Store>,
        space: Space,
        seat: &Arc<LeaderLease>,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Arc<Runtime>, JobRunner)> {
        let mut calls = self.calls.clone();
        calls.region = self.region.to_owned();
        // Calls are permitted only while this region holds the leader lease.
        let permitted = Arc::clone(seat);
        calls.permit = Some(CallPermit::region(move || permitted.epoch()));
        let runner = Arc::new(OnceLock::new());
        let deliverer = job_calls::deliverer(calls, self.clock)?;
        let maker = built_in_services::runner(deliverer, self.clock, &runner);
        let performers = Arc::new(Performers::default());
        let options = Options {
            services: Services::new().with(JobScheduler),
            performer: Arc::clone(&performers) as Arc<dyn Performer>,
            router: Arc::new(Router::new(Arc::new(SingleNode))),
            clock: Arc::clone(clock),
        };
        let runtime = Arc::new(Runtime::new(Arc::clone(store), space, options));
        performers.make([(steadfast_jobs::KIND, maker)].into(), &runtime);
        let runner = runner.get().cloned();
        Ok((runtime, runner.expect("performers were made")))
    }

    /// The folder of the home's jobs.
    async fn engine(&self, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Engine>> {
        let folder = if self.home == self.region {
            "own"
        } else {
            "pair"
        };
        let folder = self.config.data.join("region").join(folder);
        let options = local::Options {
            clock: Arc::clone(clock),
            ..local::Options::default()
        };
        let opening = tokio::task::spawn_blocking(move || LocalEngine::open(&folder, &options));
        Ok(Arc::new(opening.await.expect("opening does not panic")?))
    }

    fn store_options(&self, clock: &Arc<dyn Clock>, node: u32) -> StoreOptions {
        StoreOptions {
            clock: Arc::clone(clock),
            log_target: self.config.log_target,
            log_limit: self.config.log_limit(),
            row_cache: self.config.memory / 32,
            event_tail: 0,
            ..StoreOptions::new(Owner {
                node,
                incarnation: Uuid::new_v4().as_u128(),
            })
        }
    }
}

/// Stable and equal in both regions (FNV-1a).
fn incarnation(home: &str) -> u128 {
    let step = |hash: u128, byte: u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    home.bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

#[async_trait]
impl JobHome for JobHomeReplica {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_owner(&self) -> bool {
        self.pairing.epoch().is_some()
    }

    fn replication(&self) -> Replication {
        let standing = self.pairing.status();
        Replication {
            owner: standing.owner,
            epoch: standing.epoch,
            lag_ms: standing.lag_ms,
            mode: standing.mode.to_owned(),
        }
    }

    fn requires_sync(&self) -> bool {
        self.requires_sync
    }

    async fn forward(&self, errand: Bytes, is_read: bool) -> Option<Bytes> {
        if errand.len() > limits::NODE_MESSAGE_BYTES {
            return None;
        }
        // A read can fall back to the local copy, so its time-out is shorter.
        let limit = match (self.pairing.status().reaches_pair, is_read) {
            (false, _) => UNHEARD_OF,
            (true, true) => READ,
            (true, false) => PROXIED,
        };
        self.pairing.ask_owner(errand, limit).await
    }

    fn jobs(&self) -> &JobClient {
        &self.jobs
    }

    fn copies(&self) -> Option<JobClient> {
        let all = self.runtime.space().all();
        let all: Option<Vec<_>> = all.map(|one| self.pairing.stale(one)).collect();
        Some(self.jobs.of_copies(Router::of_copies(all?)))
    }
}
