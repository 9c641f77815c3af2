//! Two regions and a witness, on a paused clock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::id::Owner;
use steadfast_partition::region::{
    CopyTransport, ExternalWork, PairSetup, PairStatus, RegionAction, RegionPair, RegionPeer,
    RegionRequest, RegionTransport, VoteStore,
};
use steadfast_partition::{
    Address, NoopPerformer, Options, Router, Runtime, Service, ServiceKind, Services, SingleNode,
    Space, Turn, TurnError, TurnOutcome, service_table,
};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Options as StoreOptions, Store};
use steadfast_storage_replicated::mirror::{
    CopyStep, LeaderLease, Mirror, MirrorFollower, VoteResponse,
};
use tokio::time::Instant;

/// Tokio's clock, which tests stop and move.
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000).plus(self.0.elapsed())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(1000) + self.0.elapsed()
    }
}

const KIND: ServiceKind = ServiceKind(1);

/// Keeps how often it was called.
struct Visits;

impl Service for Visits {
    type Command = ();
    type Response = Bytes;

    fn kind(&self) -> ServiceKind {
        KIND
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        _: &(),
    ) -> Result<TurnOutcome<Bytes>, TurnError> {
        let table = service_table(KIND, 0);
        let former = turn.get(table, &to.key)?.unwrap_or_default();
        let visits = Bytes::from([&former[..], b"I"].concat());
        turn.put(table, &to.key, visits.clone());
        Ok(TurnOutcome::Now(visits))
    }
}

/// The lines of one region; each can be cut.
struct Lines {
    pair: Arc<OnceLock<Arc<RegionPair>>>,
    witness: Arc<VoteStore>,
    across: Arc<AtomicBool>,
    up: AtomicBool,
    /// No copy comes to its end.
    never_whole: AtomicBool,
}

#[async_trait]
impl RegionTransport for Lines {
    async fn send(&self, to: RegionPeer, word: &RegionRequest, limit: Duration) -> Option<Bytes> {
        let is_end =
            matches!(&word.action, RegionAction::Copy(copy) if copy.step == CopyStep::Whole);
        let is_cut = match to {
            _ if is_end && self.never_whole.load(Ordering::Relaxed) => true,
            RegionPeer::Pair => self.across.load(Ordering::Relaxed),
            RegionPeer::Witness => self.up.load(Ordering::Relaxed),
        };
        if is_cut {
            tokio::time::sleep(limit).await;
            return None;
        }
        match to {
            RegionPeer::Pair => Some(self.pair.get()?.answer(word.action.clone()).await),
            RegionPeer::Witness => {
                let RegionAction::Vote(ask) = &word.action else {
                    return None;
                };
                let say: Option<VoteResponse> = self.witness.vote(&word.space, ask).await.unwrap();
                say.map(|say| say.encode())
            }
        }
    }
}

/// Work that takes as long as it is told.
#[derive(Default)]
struct Workers {
    rests: AtomicUsize,
    busy_ms: AtomicUsize,
    is_resting: AtomicBool,
    /// Rests at whose end the seat was gone.
    lapsed: AtomicUsize,
    seat: OnceLock<Arc<LeaderLease>>,
}

#[async_trait]
impl ExternalWork for Workers {
    async fn pause(&self, limit: Duration) -> usize {
        self.rests.fetch_add(1, Ordering::Relaxed);
        self.is_resting.store(true, Ordering::Relaxed);
        let busy = Duration::from_millis(self.busy_ms.load(Ordering::Relaxed) as u64);
        tokio::time::sleep(busy.min(limit)).await;
        let is_gone = self.seat.get().unwrap().epoch().is_none();
        self.lapsed
            .fetch_add(usize::from(is_gone), Ordering::Relaxed);
        usize::from(busy > limit)
    }

    fn resume(&self) {
        self.is_resting.store(false, Ordering::Relaxed);
    }

    fn stop(&self) {
        self.is_resting.store(true, Ordering::Relaxed);
    }

    fn start(&self) {
        self.is_resting.store(false, Ordering::Relaxed);
    }
}

struct Region {
    pairing: Arc<RegionPair>,
    runtime: Arc<Runtime>,
    lines: Arc<Lines>,
    engine: Arc<dyn Engine>,
    workers: Arc<Workers>,
}

struct World {
    regions: Vec<Region>,
    across: Arc<AtomicBool>,
    doors: [Arc<OnceLock<Arc<RegionPair>>>; 2],
    witness: Arc<VoteStore>,
    has_witness: bool,
    clock: Arc<dyn Clock>,
}

const NAMES: [&str; 2] = ["East US", "West US"];

async fn region(world: &World, index: usize, engine: Arc<dyn Engine>) -> Region {
    let clock = Arc::clone(&world.clock);
    let lines = Arc::new(Lines {
        pair: Arc::clone(&world.doors[1 - index]),
        witness: Arc::clone(&world.witness),
        across: Arc::clone(&world.across),
        up: AtomicBool::new(false),
        never_whole: AtomicBool::new(false),
    });
    let seat = Arc::new(LeaderLease::new(Arc::clone(&clock)));
    let way = Arc::new(CopyTransport {
        transport: Arc::clone(&lines) as Arc<dyn RegionTransport>,
        space: "jobs@East US".into(),
    });
    let mirror = Arc::new(Mirror::new(Arc::clone(&engine), Arc::clone(&seat), way));
    let options = |node| StoreOptions {
        clock: Arc::clone(&clock),
        background: false,
        ..StoreOptions::new(Owner {
            node,
            incarnation: 1,
        })
    };
    let wanted = Space {
        number: 1,
        name: "jobs@East US".into(),
        partitions: 4,
        incarnation: 7,
    };
    let space = Space::open(&*engine, wanted).await.unwrap();
    let follower = MirrorFollower::new(
        Arc::clone(&engine),
        Store::start(Arc::clone(&engine), options(1)),
        space.all().collect(),
    );
    let leased = StoreOptions {
        lease: Some(seat.lease()),
        ..options(2)
    };
    let store = Arc::new(Store::start(Arc::clone(&mirror) as Arc<dyn Engine>, leased));
    let runtime_options = Options {
        services: Services::new().with(Visits),
        performer: Arc::new(NoopPerformer),
        router: Arc::new(Router::new(Arc::new(SingleNode))),
        clock: Arc::clone(&clock),
    };
    let runtime = Arc::new(Runtime::new(Arc::clone(&store), space, runtime_options));
    let polls = Arc::new(VoteStore::new(Arc::clone(&engine), clock));
    let workers = Arc::new(Workers::default());
    let _ = workers.seat.set(Arc::clone(&seat));
    let pairing = RegionPair::start(PairSetup {
        region: NAMES[index].into(),
        pair: NAMES[1 - index].into(),
        home: NAMES[0].into(),
        space: "jobs@East US".into(),
        has_witness: world.has_witness,
        engine: Arc::clone(&engine),
        lease: seat,
        mirror,
        store,
        runtime: Arc::clone(&runtime),
        follower: Arc::new(follower),
        votes: polls,
        transport: Arc::clone(&lines) as Arc<dyn RegionTransport>,
        external_work: Arc::clone(&workers) as Arc<dyn ExternalWork>,
    });
    let pairing = Arc::new(pairing.await.unwrap());
    let _ = world.doors[index].set(Arc::clone(&pairing));
    Region {
        pairing,
        runtime,
        lines,
        engine,
        workers,
    }
}

impl World {
    async fn start() -> Self {
        Self::start_as(true).await
    }

    async fn start_as(has_witness: bool) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(Paused(Instant::now()));
        let witness = MemoryEngine::with_clock(Arc::clone(&clock));
        let witness = Arc::new(VoteStore::new(Arc::new(witness), Arc::clone(&clock)));
        let mut world = Self {
            regions: Vec::new(),
            across: Arc::default(),
            doors: [Arc::default(), Arc::default()],
            witness,
            has_witness,
            clock,
        };
        for index in [0, 1] {
            let engine = MemoryEngine::with_clock(Arc::clone(&world.clock));
            let one = region(&world, index, Arc::new(engine)).await;
            world.regions.push(one);
        }
        world.until(0, |standing| standing.mode == "synced").await;
        world
    }

    fn standing(&self, index: usize) -> PairStatus {
        self.regions[index].pairing.status()
    }

    /// Waits until a region stands like this; answers how long that took.
    async fn until(&self, index: usize, is_so: impl Fn(&PairStatus) -> bool) -> Duration {
        let began = Instant::now();
        for _ in 0..6000 {
            if is_so(&self.standing(index)) {
                return began.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("in vain: {:?} {:?}", self.standing(0), self.standing(1));
    }

    async fn visit(&self, index: usize, key: &str) -> Result<Bytes, String> {
        let handle = self.regions[index].runtime.handle::<Visits>();
        let to = Address::new(KIND, "visits", key.to_owned());
        let visited = handle.call(to, ()).await;
        visited.map_err(|error| error.to_string())
    }
}

const LATEST: Duration = Duration::from_secs(12);

#[tokio::test(start_paused = true)]
async fn a_region_that_is_lost_is_followed_and_gets_its_space_back() {
    let world = World::start().await;
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.visit(0, key).await.unwrap(), "I");
    }
    assert!(
        world.visit(1, "a").await.is_err(),
        "the other one is not the owner"
    );
    // The owner reaches no other node.
    world.across.store(true, Ordering::Relaxed);
    world.regions[0].lines.up.store(true, Ordering::Relaxed);
    let took = world.until(1, |standing| standing.is_owner).await;
    assert!(took < LATEST, "{took:?}");
    assert!(!world.standing(0).is_owner, "it has stopped before");
    assert!(world.visit(0, "a").await.is_err());
    assert_eq!(world.standing(1).epoch, 2);
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.visit(1, key).await.unwrap(), "II", "{key}");
    }
    world.across.store(false, Ordering::Relaxed);
    world.regions[0].lines.up.store(false, Ordering::Relaxed);
    world.until(1, |standing| standing.mode == "synced").await;
    world
        .until(0, |standing| standing.mode == "following")
        .await;
    assert_eq!(world.standing(0).owner, NAMES[1]);
    // After five minutes home has it again, by itself, however long the last work takes.
    let workers = &world.regions[1].workers;
    workers.busy_ms.store(15_000, Ordering::Relaxed);
    let took = world.until(0, |standing| standing.is_owner);
    assert!(
        tokio::time::timeout(Duration::from_secs(60), took)
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_secs(260)).await;
    world.until(0, |standing| standing.mode == "synced").await;
    assert_eq!(world.standing(0).epoch, 3, "it was handed over");
    assert_eq!(workers.rests.load(Ordering::Relaxed), 1);
    assert_eq!(workers.lapsed.load(Ordering::Relaxed), 0, "it owned it");
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.visit(0, key).await.unwrap(), "III", "{key}");
    }
}

/// It stops at 8 s of its promise, and the other region follows after 10 s at the earliest.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_cut_off_stops_before_anybody_follows() {
    let world = World::start().await;
    world.visit(0, "a").await.unwrap();
    world.across.store(true, Ordering::Relaxed);
    world.regions[0].lines.up.store(true, Ordering::Relaxed);
    let stopped = world.until(0, |standing| !standing.is_owner).await;
    assert!(world.visit(0, "a").await.is_err());
    assert!(!world.standing(1).is_owner);
    assert!(stopped <= Duration::from_millis(8100), "{stopped:?}");
    let between = world.until(1, |standing| standing.is_owner).await;
    assert!(between >= Duration::from_millis(1900), "{between:?}");
}

/// Both regions are up and the witness is unreachable: the owner continues by the other
/// region's vote.
#[tokio::test(start_paused = true)]
async fn a_pair_goes_on_without_its_witness() {
    let world = World::start().await;
    for region in &world.regions {
        region.lines.up.store(true, Ordering::Relaxed);
    }
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.visit(0, "a").await.unwrap();
    }
    let (owner, other) = (world.standing(0), world.standing(1));
    assert!(owner.is_owner && !other.is_owner, "{owner:?} {other:?}");
    assert_eq!((owner.epoch, owner.mode), (1, "synced"));
    assert!(!owner.reaches_witness && owner.reaches_pair);
}

#[tokio::test(start_paused = true)]
async fn a_region_that_leaves_hands_its_space_over() {
    let world = World::start().await;
    world.visit(0, "a").await.unwrap();
    let began = Instant::now();
    world.regions[0].pairing.leave().await;
    world.until(1, |standing| standing.is_owner).await;
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(world.standing(1).epoch, 2);
    assert_eq!(world.visit(1, "a").await.unwrap(), "II");
}

/// Home gets its space back when it has followed for five minutes without a break.
#[tokio::test(start_paused = true)]
async fn a_break_begins_the_five_minutes_anew() {
    let world = World::start().await;
    let other = &world.regions[1].pairing;
    other.transfer(NAMES[1], false).await.unwrap();
    world.until(1, |standing| standing.mode == "synced").await;
    tokio::time::sleep(Duration::from_secs(240)).await;
    world.across.store(true, Ordering::Relaxed);
    world.visit(1, "a").await.unwrap();
    assert_eq!(world.standing(1).mode, "degraded");
    world.across.store(false, Ordering::Relaxed);
    world.until(1, |standing| standing.mode == "synced").await;
    let again = Instant::now();
    tokio::time::sleep(Duration::from_secs(280)).await;
    assert!(world.standing(1).is_owner, "it was given back too soon");
    world.until(0, |standing| standing.is_owner).await;
    let waited = again.elapsed();
    assert!(waited >= Duration::from_secs(295), "{waited:?}");
    assert!(waited <= Duration::from_secs(320), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_works_alone_once_the_witness_knows_and_catches_up_later() {
    let world = World::start().await;
    world.visit(0, "a").await.unwrap();
    world.across.store(true, Ordering::Relaxed);
    let began = Instant::now();
    assert_eq!(world.visit(0, "a").await.unwrap(), "II");
    let waited = began.elapsed();
    assert!(
        waited >= Duration::from_secs(4) && waited < LATEST,
        "{waited:?}"
    );
    assert_eq!(world.standing(0).mode, "degraded");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.standing(0).is_owner && !world.standing(1).is_owner);
    assert!(world.standing(0).lag_ms > 1000);
    // Without the other region and the witness it stops, and no region may take over.
    world.regions[0].lines.up.store(true, Ordering::Relaxed);
    world.until(0, |standing| !standing.is_owner).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!world.standing(1).is_owner);
    let refused = world.regions[1].pairing.transfer(NAMES[1], false).await;
    assert!(refused.unwrap_err().contains("worked alone"));
    world.regions[0].lines.up.store(false, Ordering::Relaxed);
    world.across.store(false, Ordering::Relaxed);
    world.until(0, |standing| standing.mode == "synced").await;
    // And the other way round: what only one had is in both now.
    world.regions[1]
        .pairing
        .transfer(NAMES[1], false)
        .await
        .unwrap();
    world.until(1, |standing| standing.mode == "synced").await;
    assert_eq!(world.visit(1, "a").await.unwrap(), "III");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_accepted_by_a_person_only() {
    let world = World::start().await;
    world.visit(0, "a").await.unwrap();
    world.across.store(true, Ordering::Relaxed);
    world.visit(0, "a").await.unwrap();
    world.regions[0].lines.up.store(true, Ordering::Relaxed);
    world.until(0, |standing| !standing.is_owner).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    world.regions[1]
        .pairing
        .transfer(NAMES[1], true)
        .await
        .unwrap();
    assert_eq!(
        world.visit(1, "a").await.unwrap(),
        "II",
        "the second visit was lost"
    );
    // The first owner comes back, and takes over what it finds.
    world.across.store(false, Ordering::Relaxed);
    world.regions[0].lines.up.store(false, Ordering::Relaxed);
    world.until(1, |standing| standing.mode == "synced").await;
    let took = Instant::now();
    world.regions[0]
        .pairing
        .transfer(NAMES[0], false)
        .await
        .unwrap();
    assert!(
        took.elapsed() < Duration::from_secs(2),
        "{:?}",
        took.elapsed()
    );
    assert_eq!(world.visit(0, "a").await.unwrap(), "III");
    let stale = world.regions[1]
        .pairing
        .stale(world.regions[1].runtime.space().all().next().unwrap());
    assert!(stale.is_some(), "what it has can be read");
    assert!(world.regions[1].engine.list("mirror/").await.unwrap().len() == 1);
}

/// Of an owner that is lost while it copies, everything is there that was acknowledged
/// before it worked alone.
#[tokio::test(start_paused = true)]
async fn a_copy_that_does_not_come_to_its_end_costs_nothing() {
    let world = World::start().await;
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.visit(0, key).await.unwrap(), "I");
    }
    let owner = &world.regions[0].lines;
    owner.never_whole.store(true, Ordering::Relaxed);
    world.across.store(true, Ordering::Relaxed);
    assert_eq!(world.visit(0, "a").await.unwrap(), "II");
    world.across.store(false, Ordering::Relaxed);
    let catching_up = |standing: &PairStatus| standing.mode == "catching-up";
    world.until(1, catching_up).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(catching_up(&world.standing(1)) && world.standing(0).is_owner);
    // The owner is lost.
    world.across.store(true, Ordering::Relaxed);
    owner.up.store(true, Ordering::Relaxed);
    world.until(0, |standing| !standing.is_owner).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(!world.standing(1).is_owner, "the loss was not accepted");
    let taken = world.regions[1].pairing.transfer(NAMES[1], true).await;
    taken.unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.visit(1, key).await.unwrap(), "II", "{key}");
    }
    // And it has them for the next owner, too.
    owner.up.store(false, Ordering::Relaxed);
    world.across.store(false, Ordering::Relaxed);
    world.until(1, |standing| standing.mode == "synced").await;
    let given = world.regions[0].pairing.transfer(NAMES[0], false).await;
    given.unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.visit(0, key).await.unwrap(), "III", "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_goes_on_when_nobody_waits_for_it() {
    let world = World::start().await;
    world.visit(0, "a").await.unwrap();
    world.regions[0]
        .workers
        .busy_ms
        .store(15_000, Ordering::Relaxed);
    let moving = world.regions[0].pairing.transfer(NAMES[1], false);
    let limit = Duration::from_secs(10);
    assert!(tokio::time::timeout(limit, moving).await.is_err());
    assert!(world.standing(0).is_owner, "it waits for its work");
    world.until(1, |standing| standing.mode == "synced").await;
    assert!(!world.standing(0).is_owner);
    assert_eq!(world.visit(1, "a").await.unwrap(), "II");
    assert!(!world.regions[1].workers.is_resting.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_space_stays_where_it_is_while_work_does_not_end() {
    let world = World::start().await;
    world.visit(0, "a").await.unwrap();
    let workers = &world.regions[0].workers;
    workers.busy_ms.store(60_000, Ordering::Relaxed);
    // Asked for here and there.
    for index in [0, 1] {
        let refused = world.regions[index].pairing.transfer(NAMES[1], false).await;
        let refused = refused.unwrap_err();
        assert!(refused.contains("still ran after 20 s"), "{refused}");
        assert!(!workers.is_resting.load(Ordering::Relaxed), "it goes on");
    }
    assert!(world.standing(0).is_owner && !world.standing(1).is_owner);
    assert_eq!(world.standing(0).mode, "synced");
    assert_eq!(world.visit(0, "a").await.unwrap(), "II");
    workers.busy_ms.store(0, Ordering::Relaxed);
    let pairing = &world.regions[1].pairing;
    pairing.transfer(NAMES[1], false).await.unwrap();
    assert_eq!(world.visit(1, "a").await.unwrap(), "III");
}

#[tokio::test(start_paused = true)]
async fn without_a_witness_a_takeover_is_a_loss_that_a_person_accepts() {
    let world = World::start_as(false).await;
    world.visit(0, "a").await.unwrap();
    world.across.store(true, Ordering::Relaxed);
    // The owner goes on alone, and no voter has recorded it.
    assert_eq!(world.visit(0, "a").await.unwrap(), "II");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let other = &world.regions[1].pairing;
    let refused = other.transfer(NAMES[1], false).await.unwrap_err();
    assert!(refused.contains("no witness"), "{refused}");
    assert!(!world.standing(1).is_owner);
    other.transfer(NAMES[1], true).await.unwrap();
    assert!(world.standing(1).is_owner);
}
