//! A pair under random faults loses nothing acknowledged.
//!
//! Two regions and a witness in one thread, on a virtual clock. A seed decides which
//! links are cut, who stands still, who is killed, and what is written when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, Timestamp, VirtualClock};
use steadfast_core::id::{Epoch, Owner, Partition, TableId};
use steadfast_storage::body::{EntryBody, Writes};
use steadfast_storage::engine::{AcquireOutcome, Engine, Entry, Outcome, Scan};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Options, Store, Visibility};

use super::*;

const TABLE: TableId = TableId(7);
const SECOND: Duration = Duration::from_secs(1);

fn ballot(epoch: u64, owner: &str, in_sync: bool, serial: u64) -> Ballot {
    Ballot {
        epoch,
        owner: owner.to_owned(),
        in_sync,
        serial,
    }
}

fn renew(ballot: Ballot) -> VoteRequest {
    VoteRequest::Renew {
        ballot,
        is_agreed: false,
    }
}

fn claim(epoch: u64, owner: &str) -> VoteRequest {
    VoteRequest::Claim {
        epoch,
        owner: owner.to_owned(),
        is_first: false,
        accepts_loss: false,
    }
}

/// Asks a voter and adopts its decision.
fn ask(voter: &mut Voter, ask: &VoteRequest, now: Duration) -> bool {
    let verdict = voter.decide(ask, now);
    voter.adopt(&verdict);
    verdict.response == VoteResponse::Granted
}

#[test]
fn a_promised_seat_is_given_to_nobody_else() {
    let mut voter = Voter::new(ballot(3, "a", true, 1), Duration::ZERO, TTL);
    // The voter has just started, and does not know what it has promised.
    assert!(!ask(&mut voter, &claim(4, "b"), TTL - SECOND));
    assert!(ask(
        &mut voter,
        &renew(ballot(3, "a", true, 2)),
        TTL - SECOND
    ));
    assert!(!ask(&mut voter, &claim(4, "b"), TTL * 2 - SECOND * 2));
    assert!(ask(&mut voter, &claim(4, "b"), TTL * 2 - SECOND));
    assert!(!ask(&mut voter, &renew(ballot(3, "a", true, 9)), TTL * 4));
    assert_eq!(*voter.ballot(), ballot(4, "b", false, 0));
    // A released lease is free at once.
    let release = VoteRequest::Release {
        epoch: 4,
        owner: "b".to_owned(),
    };
    assert!(ask(&mut voter, &renew(ballot(4, "b", true, 1)), TTL * 2));
    assert!(ask(&mut voter, &release, TTL * 2));
    assert!(ask(&mut voter, &claim(5, "a"), TTL * 2));
}

#[test]
fn who_works_alone_is_followed_by_nobody_unless_a_loss_is_accepted() {
    let mut voter = Voter::new(ballot(3, "a", true, 1), Duration::ZERO, TTL);
    assert!(ask(&mut voter, &renew(ballot(3, "a", false, 5)), SECOND));
    // It was sent earlier and arrives later.
    assert!(!ask(&mut voter, &renew(ballot(3, "a", true, 4)), SECOND));
    assert!(!ask(&mut voter, &claim(4, "b"), TTL * 9));
    assert!(ask(&mut voter.clone(), &claim(4, "a"), TTL * 9));
    let forced = VoteRequest::Claim {
        epoch: 4,
        owner: "b".to_owned(),
        is_first: false,
        accepts_loss: true,
    };
    assert!(!ask(&mut voter.clone(), &forced, TTL));
    assert!(ask(&mut voter, &forced, TTL * 9));
}

#[test]
fn a_voter_without_memory_believes_only_what_two_agree_on() {
    let blank = Voter::new(Ballot::default(), Duration::ZERO, TTL);
    assert!(!ask(&mut blank.clone(), &claim(4, "a"), TTL));
    assert!(!ask(
        &mut blank.clone(),
        &renew(ballot(4, "a", true, 1)),
        TTL
    ));
    let agreed = VoteRequest::Renew {
        ballot: ballot(4, "a", true, 1),
        is_agreed: true,
    };
    assert!(ask(&mut blank.clone(), &agreed, TTL));
    let first = VoteRequest::Claim {
        epoch: 1,
        owner: "a".to_owned(),
        is_first: true,
        accepts_loss: false,
    };
    assert!(ask(&mut blank.clone(), &first, TTL));
    // Or what an operator forces.
    let forced = VoteRequest::Claim {
        epoch: 4,
        owner: "a".to_owned(),
        is_first: false,
        accepts_loss: true,
    };
    assert!(ask(&mut blank.clone(), &forced, TTL));
    let mut known = Voter::new(ballot(1, "b", true, 0), Duration::ZERO, TTL);
    assert!(!ask(&mut known, &first, TTL * 9));
}

#[test]
fn messages_come_back_as_written() {
    let asks = [
        renew(ballot(7, "West US", true, 9)),
        claim(8, "East US"),
        VoteRequest::Release {
            epoch: 1,
            owner: "a".to_owned(),
        },
    ];
    for ask in asks {
        let bytes = ask.encode();
        assert_eq!(VoteRequest::decode(bytes.clone()), Ok(ask));
        for end in 0..bytes.len() {
            assert!(VoteRequest::decode(bytes.slice(..end)).is_err());
        }
    }
    let says = [
        VoteResponse::Granted,
        VoteResponse::Refused {
            ballot: ballot(2, "b", false, 3),
            left: SECOND,
        },
    ];
    for say in says {
        assert_eq!(VoteResponse::decode(say.encode()), Ok(say));
    }
    for step in [
        CopyStep::Begin,
        CopyStep::Whole,
        CopyStep::Changes(vec![(Partition(3), "redo".into())]),
    ] {
        let copy = CopyRequest {
            epoch: 4,
            session: 5,
            number: 6,
            step,
        };
        let bytes = copy.encode();
        assert_eq!(CopyRequest::decode(bytes.clone()), Ok(copy));
        for end in 0..bytes.len() {
            assert!(CopyRequest::decode(bytes.slice(..end)).is_err());
        }
    }
    for reply in [
        CopyResponse::Done,
        CopyResponse::Strange,
        CopyResponse::Deposed(3),
        CopyResponse::Failed("full".to_owned()),
    ] {
        assert_eq!(CopyResponse::decode(reply.encode()), Ok(reply));
    }
}

/// A region: its engine, its copy, its leader lease and its vote.
struct MirrorTestRegion {
    name: &'static str,
    local: Arc<MemoryEngine>,
    seat: Arc<LeaderLease>,
    mirror: Arc<Mirror>,
    store: Arc<Store>,
    follower: Arc<MirrorFollower>,
    voter: Mutex<Voter>,
    serial: Mutex<u64>,
    cut: Arc<AtomicBool>,
}

/// The connection to the other region's follower, unless it is cut.
struct MirrorTestLink {
    to: Mutex<Option<Arc<MirrorFollower>>>,
    cut: Arc<AtomicBool>,
    /// Loses answers, by the seed.
    rng: Mutex<Rng>,
}

#[async_trait]
impl PeerRegion for MirrorTestLink {
    async fn copy(&self, copy: &CopyRequest) -> Option<CopyResponse> {
        tokio::task::yield_now().await;
        if self.cut.load(Ordering::Relaxed) {
            return None;
        }
        let to = self.to.lock().clone()?;
        let reply = to.apply(copy.clone()).await;
        let is_lost = self.rng.lock().u8(..) < 20;
        (!is_lost).then_some(reply)
    }
}

const PARTITIONS: u16 = 2;

fn partitions() -> Vec<Partition> {
    (0..PARTITIONS)
        .map(|index| Partition::new(1, index))
        .collect()
}

impl MirrorTestRegion {
    fn new(
        name: &'static str,
        clock: &VirtualClock,
        cut: &Arc<AtomicBool>,
        seed: u64,
    ) -> (Self, Arc<MirrorTestLink>) {
        let clock: Arc<dyn Clock> = Arc::new(clock.clone());
        let local = Arc::new(MemoryEngine::with_clock(Arc::clone(&clock)));
        let seat = Arc::new(LeaderLease::new(Arc::clone(&clock)));
        let way = Arc::new(MirrorTestLink {
            to: Mutex::new(None),
            cut: Arc::clone(cut),
            rng: Mutex::new(Rng::with_seed(seed)),
        });
        let engine = Arc::clone(&local) as Arc<dyn Engine>;
        let pair = Arc::clone(&way) as Arc<dyn PeerRegion>;
        let mirror = Arc::new(Mirror::new(Arc::clone(&engine), Arc::clone(&seat), pair));
        let options = |node| Options {
            clock: Arc::clone(&clock),
            background: false,
            ..Options::new(Owner {
                node,
                incarnation: 1,
            })
        };
        let leased = Options {
            lease: Some(seat.lease()),
            ..options(2)
        };
        let region = Self {
            name,
            store: Arc::new(Store::start(Arc::clone(&mirror) as Arc<dyn Engine>, leased)),
            follower: Arc::new(MirrorFollower::new(
                Arc::clone(&engine),
                Store::start(engine, options(1)),
                partitions(),
            )),
            local,
            seat,
            mirror,
            voter: Mutex::new(Voter::new(Ballot::default(), Duration::ZERO, TTL)),
            serial: Mutex::new(0),
            cut: Arc::clone(cut),
        };
        (region, way)
    }

    fn ballot(&self, in_sync: bool) -> Ballot {
        let mut serial = self.serial.lock();
        *serial += 1;
        let epoch = self.voter.lock().ballot().epoch;
        ballot(epoch, self.name, in_sync, *serial)
    }

    /// Makes this region the owner of its content.
    async fn take(&self, epoch: u64, now: Duration) {
        let generation = self.follower.close(epoch).await;
        self.mirror.reset(generation).await;
        self.seat.acquire(epoch, now + USED);
        for partition in partitions() {
            self.store.acquire(partition).await.unwrap();
        }
    }

    async fn step_down(&self) {
        self.seat.release();
        self.store.abandon_all();
        let epoch = self.voter.lock().ballot().epoch;
        self.follower.open(epoch).await.unwrap();
    }
}

/// Two regions and a witness.
struct MirrorTestPair {
    clock: VirtualClock,
    regions: [MirrorTestRegion; 2],
    witness: Voter,
    /// The witness is not reached by this region.
    apart: [bool; 2],
    link: Arc<AtomicBool>,
    /// What was acknowledged, and with which epoch.
    acknowledged: BTreeMap<u64, u64>,
    epochs: BTreeSet<(u64, &'static str)>,
}

impl MirrorTestPair {
    async fn new(seed: u64) -> Self {
        let clock = VirtualClock::starting_at(Timestamp(1_000_000));
        clock.advance(SECOND);
        let link = Arc::new(AtomicBool::new(false));
        let (a, to_b) = MirrorTestRegion::new("a", &clock, &link, seed);
        let (b, to_a) = MirrorTestRegion::new("b", &clock, &link, seed ^ 1);
        *to_b.to.lock() = Some(Arc::clone(&b.follower));
        *to_a.to.lock() = Some(Arc::clone(&a.follower));
        for region in [&a, &b] {
            region.follower.initialize().await.unwrap();
            region.follower.open(0).await.unwrap();
        }
        Self {
            clock,
            regions: [a, b],
            witness: Voter::new(Ballot::default(), Duration::ZERO, TTL),
            apart: [false; 2],
            link,
            acknowledged: BTreeMap::new(),
            epochs: BTreeSet::new(),
        }
    }

    fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// An owner asks both voters to renew its lease.
    async fn renew(&mut self, index: usize) {
        let region = &self.regions[index];
        let now = self.clock.monotonic();
        let Some(epoch) = region.seat.epoch() else {
            if region.seat.mode() != LeaderMode::Away {
                region.step_down().await;
            }
            return;
        };
        let wants_alone = region.seat.is_alone_requested();
        let in_sync = region.seat.mode() == LeaderMode::Synced && !wants_alone;
        let asked = renew(region.ballot(in_sync));
        let mut granted = false;
        if !region.cut.load(Ordering::Relaxed) {
            granted |= ask(&mut self.regions[1 - index].voter.lock(), &asked, now);
        }
        if !self.apart[index] {
            let by_witness = ask(&mut self.witness, &asked, now);
            granted |= by_witness;
            if by_witness && wants_alone {
                region.seat.mark_alone(epoch);
            }
        }
        if granted {
            region.seat.extend(epoch, now + USED);
        }
    }

    /// A region that is not the owner tries to become it.
    async fn claim(&mut self, index: usize) {
        let region = &self.regions[index];
        let now = self.clock.monotonic();
        let is_whole = region.follower.is_whole().await.unwrap();
        if region.seat.mode() != LeaderMode::Away || self.apart[index] || !is_whole {
            return;
        }
        let own = region.voter.lock().clone();
        if own.remaining(now) > Duration::ZERO && own.ballot().owner != region.name {
            return;
        }
        let is_first = own.ballot().epoch == 0 && self.witness.ballot().epoch == 0 && index == 0;
        let epoch = own.ballot().epoch.max(self.witness.ballot().epoch) + 1;
        let asked = VoteRequest::Claim {
            epoch,
            owner: region.name.to_owned(),
            is_first,
            accepts_loss: false,
        };
        if ask(&mut self.witness, &asked, now) {
            *region.voter.lock() = Voter::new(ballot(epoch, region.name, false, 0), now, TTL);
            assert!(self.epochs.insert((epoch, region.name)));
            region.take(epoch, now).await;
            self.check(index).await;
        }
    }

    /// Checks that the owner has everything acknowledged.
    async fn check(&self, index: usize) {
        let region = &self.regions[index];
        let ledgers = region.store.owned();
        for (key, epoch) in &self.acknowledged {
            let ledger = &ledgers[(key % u64::from(PARTITIONS)) as usize];
            let found = ledger
                .get(TABLE, &key.to_be_bytes(), Visibility::Durable)
                .await;
            let found = found.unwrap();
            assert!(
                found.is_some(),
                "{key} of epoch {epoch} is lost in {}",
                region.name
            );
        }
    }

    /// Writes to the region that accepts it. The owner's lease renewal goes on meanwhile.
    async fn write(&mut self, index: usize, key: u64) {
        let ledgers = self.regions[index].store.owned();
        let Some(ledger) = ledgers.get((key % u64::from(PARTITIONS)) as usize) else {
            return;
        };
        let Some(epoch) = self.regions[index].seat.epoch() else {
            return;
        };
        let mut writes = Writes::new();
        writes.put(TABLE, &key.to_be_bytes(), b"x");
        let mut committing = tokio::spawn(ledger.commit(writes));
        for _ in 0..60 {
            let done = tokio::time::timeout(Duration::from_millis(300), &mut committing).await;
            if let Ok(done) = done {
                if done.unwrap().is_ok() {
                    self.acknowledged.insert(key, epoch);
                    // No region acknowledges in an epoch older than the newest.
                    assert_eq!(self.witness.ballot().epoch, epoch);
                }
                return;
            }
            self.clock.advance(Duration::from_millis(300));
            self.renew(index).await;
        }
        committing.abort();
    }

    async fn sync(&mut self, index: usize) {
        let region = &self.regions[index];
        if region.seat.mode() == LeaderMode::Alone && region.seat.epoch().is_some() {
            let copying = region
                .mirror
                .copy_all(&region.store, usize::from(PARTITIONS));
            // The test moves this clock: without a link it would never end.
            let _ = tokio::time::timeout(SECOND * 2, copying).await;
        }
    }

    async fn step(&mut self, rng: &mut Rng, key: u64) {
        let index = rng.usize(0..2);
        match rng.u8(0..12) {
            0 => self.link.store(rng.bool(), Ordering::Relaxed),
            1 => self.apart[index] = rng.bool(),
            // Everything stands still, as after SIGSTOP.
            2 if rng.u8(0..4) == 0 => self.clock.advance(SECOND * rng.u32(6..14)),
            2..=4 => self.write(index, key).await,
            5 | 6 => self.write(rng.usize(0..2), key).await,
            7 => self.sync(index).await,
            8 => self.claim(index).await,
            _ => {
                self.clock.advance(SECOND);
                self.renew(0).await;
                self.renew(1).await;
            }
        }
    }
}

async fn run(seed: u64) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let mut world = MirrorTestPair::new(seed).await;
    world.claim(0).await;
    for key in 0..120 {
        world.step(&mut rng, key).await;
        let seated = world.regions.iter();
        let seated = seated.filter(|region| region.seat.epoch().is_some());
        assert!(seated.count() <= 1, "seed {seed}: two owners at a time");
    }
    // All faults end: one region serves, and has everything.
    world.link.store(false, Ordering::Relaxed);
    world.apart = [false; 2];
    for _ in 0..30 {
        world.clock.advance(SECOND);
        for index in 0..2 {
            world.renew(index).await;
            world.claim(index).await;
        }
    }
    let owners: Vec<_> = (0..2)
        .filter(|index| world.regions[*index].seat.epoch().is_some())
        .collect();
    assert_eq!(owners.len(), 1, "seed {seed}: {} owners", owners.len());
    world.check(owners[0]).await;
    for _ in 0..20 {
        world.sync(owners[0]).await;
    }
    assert_eq!(
        world.regions[owners[0]].seat.mode(),
        LeaderMode::Synced,
        "seed {seed}"
    );
    let _ = world.now();
    (world.acknowledged.len(), world.epochs.len())
}

/// Nothing acknowledged is lost by a takeover, and no old epoch writes.
#[tokio::test(start_paused = true)]
async fn a_pair_loses_nothing_in_any_weather() {
    let seeds = std::env::var("STEADFAST_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let (mut acknowledged, mut epochs) = (0, 0);
    for seed in 0..seeds {
        let (some, more) = run(seed).await;
        acknowledged += some;
        epochs += more;
    }
    // There were many faults, but not so many that nothing was acknowledged.
    assert!(acknowledged as u64 > seeds * 5, "{acknowledged}");
    assert!(epochs as u64 > seeds, "{epochs}");
}

/// The fence in the other region: what comes late from an old epoch changes nothing.
#[tokio::test(start_paused = true)]
async fn a_copy_takes_nothing_of_an_old_epoch() {
    let mut world = MirrorTestPair::new(3).await;
    world.claim(0).await;
    world.write(0, 0).await;
    let follower = Arc::clone(&world.regions[1].follower);
    let copy = |epoch, session, number, step| CopyRequest {
        epoch,
        session,
        number,
        step,
    };
    let mut writes = Writes::new();
    writes.put(TABLE, b"late", b"x");
    let change = || {
        let redo = writes.clone().into_redo();
        CopyStep::Changes(vec![(partitions()[0], redo)])
    };
    assert_eq!(
        follower.apply(copy(1, 9, 1, change())).await,
        CopyResponse::Strange
    );
    assert_eq!(
        follower.apply(copy(1, 9, 1, CopyStep::Begin)).await,
        CopyResponse::Done
    );
    assert!(follower.is_catching_up().await.unwrap(), "a copy has begun");
    assert_eq!(
        follower.apply(copy(1, 9, 3, change())).await,
        CopyResponse::Strange
    );
    for _ in 0..2 {
        // Its answer may be lost; it is applied once.
        assert_eq!(
            follower.apply(copy(1, 9, 2, CopyStep::Whole)).await,
            CopyResponse::Done
        );
    }
    assert!(!follower.is_catching_up().await.unwrap());
    let bad = CopyStep::Changes(vec![(partitions()[0], "no redo".into())]);
    let refused = follower.apply(copy(1, 9, 3, bad)).await;
    assert!(matches!(refused, CopyResponse::Failed(_)), "{refused:?}");
    // The region is about to own the space.
    follower.close(2).await;
    assert_eq!(
        follower.apply(copy(1, 9, 3, change())).await,
        CopyResponse::Deposed(2)
    );
    assert_eq!(
        follower.apply(copy(1, 9, 1, CopyStep::Begin)).await,
        CopyResponse::Deposed(2)
    );
    assert!(follower.is_whole().await.unwrap());
}

/// The fence inside the append: an owner whose time is over writes nothing.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_time_is_over_writes_nothing() {
    let mut world = MirrorTestPair::new(1).await;
    world.claim(0).await;
    world.write(0, 0).await;
    world.sync(0).await;
    assert_eq!(world.acknowledged.len(), 1);
    let region = &world.regions[0];
    let before = region.store.owned()[0].epoch();
    world.clock.advance(TTL);
    let entry = Entry {
        partition: partitions()[0],
        epoch: before,
        number: steadfast_core::id::EntryNumber(2),
        body: EntryBody::default().encode(),
        batches: Vec::new(),
    };
    let outcomes = region.mirror.append(&[entry]).await.unwrap();
    assert_eq!(outcomes, [Outcome::Fenced]);
    assert_eq!(region.mirror.fenced(), 1);
    let log = region
        .local
        .replay(partitions()[0], steadfast_core::id::EntryNumber(2), 1 << 20);
    assert!(log.await.unwrap().len() <= 1);
}

fn copy(epoch: u64, session: u64, number: u64, step: CopyStep) -> CopyRequest {
    CopyRequest {
        epoch,
        session,
        number,
        step,
    }
}

/// Puts values of one row, one after another.
fn puts(values: &[&[u8]]) -> CopyStep {
    let redo = |value: &&[u8]| {
        let mut writes = Writes::new();
        writes.put(TABLE, b"row", value);
        (partitions()[0], writes.into_redo())
    };
    CopyStep::Changes(values.iter().map(redo).collect())
}

async fn row(region: &MirrorTestRegion) -> Option<Bytes> {
    let ledger = region.follower.ledger(partitions()[0]).unwrap();
    ledger
        .get(TABLE, b"row", Visibility::Durable)
        .await
        .unwrap()
}

/// A late or repeated `Begin` removes nothing.
#[tokio::test(start_paused = true)]
async fn a_late_beginning_is_not_obeyed() {
    let world = MirrorTestPair::new(4).await;
    let region = &world.regions[1];
    let follower = &region.follower;
    for session in [1, 2] {
        let begun = follower.apply(copy(1, session, 1, CopyStep::Begin)).await;
        assert_eq!(begun, CopyResponse::Done);
    }
    assert_eq!(
        follower.apply(copy(1, 2, 2, puts(&[b"x"]))).await,
        CopyResponse::Done
    );
    assert_eq!(
        follower.apply(copy(1, 2, 3, CopyStep::Whole)).await,
        CopyResponse::Done
    );
    // Of this copy: its answer was lost. Of an earlier one: it comes late.
    let again = follower.apply(copy(1, 2, 1, CopyStep::Begin)).await;
    assert_eq!(again, CopyResponse::Done);
    let late = follower.apply(copy(1, 1, 1, CopyStep::Begin)).await;
    assert_eq!(late, CopyResponse::Strange);
    assert_eq!(row(region).await.unwrap(), "x");
    assert!(follower.is_whole().await.unwrap());
    assert_eq!(
        follower.apply(copy(1, 2, 4, puts(&[b"y"]))).await,
        CopyResponse::Done
    );
    assert_eq!(row(region).await.unwrap(), "y");
    // A later epoch counts anew, and the previous copy stays until the new one is complete.
    let begun = follower.apply(copy(2, 1, 1, CopyStep::Begin)).await;
    assert_eq!(
        (begun, row(region).await.unwrap()),
        (CopyResponse::Done, "y".into())
    );
    let former = follower.ledger(partitions()[0]).unwrap();
    let whole = follower.apply(copy(2, 1, 2, CopyStep::Whole)).await;
    assert_eq!((whole, row(region).await), (CopyResponse::Done, None));
    // Readers of the former copy finish; then it is emptied.
    let read = async || {
        former
            .get(TABLE, b"row", Visibility::Durable)
            .await
            .unwrap()
    };
    assert_eq!(read().await.unwrap(), "y");
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!((read().await, former.tables().unwrap()), (None, vec![]));
}

/// A late step of the previous copy is refused, also after a restart.
#[tokio::test(start_paused = true)]
async fn a_copy_that_was_replaced_is_not_gone_on_with() {
    let world = MirrorTestPair::new(9).await;
    let region = &world.regions[1];
    for session in [1, 2] {
        for (number, step) in [
            (1, CopyStep::Begin),
            (2, puts(&[session.to_string().as_bytes()])),
            (3, CopyStep::Whole),
        ] {
            let done = region.follower.apply(copy(1, session, number, step)).await;
            assert_eq!(done, CopyResponse::Done);
        }
    }
    // The restart comes before the former one was emptied.
    let follower = restarted(&world, region).await;
    let late = follower.apply(copy(1, 1, 3, CopyStep::Whole)).await;
    assert_eq!(late, CopyResponse::Strange);
    let ledger = follower.ledger(partitions()[0]).unwrap();
    let found = ledger.get(TABLE, b"row", Visibility::Durable).await;
    assert_eq!(found.unwrap().unwrap(), "2");
    // The complete copy continues.
    let next = follower.apply(copy(1, 2, 4, puts(&[b"3"]))).await;
    assert_eq!(next, CopyResponse::Done);
}

/// A record of a later version is not taken for an empty one.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_understood_is_not_overwritten() {
    let world = MirrorTestPair::new(10).await;
    let region = &world.regions[1];
    let word = Bytes::from_static(b"third");
    write_record(&*region.local, "mirror/stock", word)
        .await
        .unwrap();
    let error = region.follower.is_whole().await.unwrap_err();
    assert!(error.to_string().contains("'third'"), "{error}");
    assert!(region.follower.open(1).await.is_err());
}

/// An unused copy does not hold up the log of a region that owns the space.
#[tokio::test(start_paused = true)]
async fn a_takeover_leaves_nothing_in_the_log_of_the_other_generation() {
    let world = MirrorTestPair::new(11).await;
    let region = &world.regions[1];
    for (number, step) in [(1, CopyStep::Begin), (2, puts(&[b"half of it"]))] {
        let done = region.follower.apply(copy(1, 1, number, step)).await;
        assert_eq!(done, CopyResponse::Done);
    }
    region.take(2, world.now()).await;
    tokio::time::sleep(SECOND * 20).await;
    let place = CopyGeneration::Second.place(partitions()[0]);
    let first = steadfast_core::id::EntryNumber(1);
    let log = region.local.replay(place, first, 1 << 20).await.unwrap();
    assert_eq!(log, []);
    let rows = region.local.scan(place, TABLE, Scan::all(9)).await.unwrap();
    assert_eq!(rows, []);
}

/// The owner and its disk are lost before a new copy is complete: the previous one remains.
#[tokio::test(start_paused = true)]
async fn the_copy_before_stays_until_the_next_one_is_whole() {
    let mut world = MirrorTestPair::new(7).await;
    world.claim(0).await;
    world.sync(0).await;
    for round in 0..4u64 {
        let epoch = 1 + 2 * round;
        // Everything that is acknowledged now is in both regions.
        assert_eq!(world.regions[0].seat.mode(), LeaderMode::Synced);
        world.write(0, round * 2).await;
        world.write(0, round * 2 + 1).await;
        assert_eq!(world.acknowledged.len() as u64, round * 2 + 2);
        let follower = Arc::clone(&world.regions[1].follower);
        // Another copy is begun, and gets far.
        let session = 100 * (round + 1);
        for (number, step) in [(1, CopyStep::Begin), (2, puts(&[b"new"]))] {
            assert_eq!(
                follower.apply(copy(epoch, session, number, step)).await,
                CopyResponse::Done
            );
        }
        assert!(follower.is_catching_up().await.unwrap());
        assert!(follower.is_whole().await.unwrap());
        assert_eq!(row(&world.regions[1]).await, None);
        let lost = world.now();
        let region = &world.regions[1];
        region.take(epoch + 1, lost).await;
        world.check(1).await;
        // It writes in that generation, and its rows are there after a restart.
        let ledger = region.store.owned().remove(0);
        let mut writes = Writes::new();
        writes.put(TABLE, b"row", b"own");
        ledger.commit(writes).await.unwrap();
        region.seat.release();
        region.store.abandon_all();
        region.follower.open(0).await.unwrap();
        assert_eq!(row(region).await.unwrap(), "own");
        return_to_the_owner(&mut world, epoch + 2).await;
    }
}

/// The store above compares hashes to find out whether an entry in doubt was
/// committed, and knows nothing of generations.
#[tokio::test(start_paused = true)]
async fn an_entry_in_doubt_is_known_in_either_generation() {
    let world = MirrorTestPair::new(8).await;
    let region = &world.regions[0];
    region.seat.acquire(1, world.now() + USED);
    let owner = Owner {
        node: 9,
        incarnation: 1,
    };
    let partition = partitions()[0];
    for generation in [CopyGeneration::First, CopyGeneration::Second] {
        region.mirror.reset(generation).await;
        let acquire = async |expect| {
            let acquired = region.mirror.acquire(partition, owner, expect).await;
            match acquired.unwrap() {
                AcquireOutcome::Granted(tenure) => tenure,
                AcquireOutcome::Refused { epoch, .. } => panic!("{generation:?} is at {epoch}"),
            }
        };
        let place = generation.place(partition);
        let AcquireOutcome::Granted(before) =
            (region.local.acquire(place, owner, Epoch(1)).await).unwrap()
        else {
            panic!("the follower had it");
        };
        let tenure = acquire(before.epoch).await;
        let entry = Entry {
            partition,
            epoch: tenure.epoch,
            number: tenure.last.next(),
            body: EntryBody::default().encode(),
            batches: Vec::new(),
        };
        let outcomes = region.mirror.append(std::slice::from_ref(&entry)).await;
        assert_eq!(outcomes.unwrap(), [Outcome::Committed]);
        let again = acquire(tenure.epoch).await;
        assert_eq!((again.last, again.last_hash), (entry.number, entry.hash()));
        let replayed = region.mirror.replay(partition, entry.number, 1).await;
        assert_eq!(replayed.unwrap(), [entry]);
    }
}

/// The first region owns the space again, with what it had, and copies it.
async fn return_to_the_owner(world: &mut MirrorTestPair, epoch: u64) {
    let now = world.now();
    for region in &world.regions {
        *region.voter.lock() = Voter::new(ballot(epoch, "a", false, 0), now, TTL);
    }
    world.witness = Voter::new(ballot(epoch, "a", false, 0), now, TTL);
    world.regions[0].take(epoch, now).await;
    world.sync(0).await;
    assert_eq!(row(&world.regions[1]).await, None);
}

/// What a step changes in a partition is one transaction there.
#[tokio::test(start_paused = true)]
async fn a_step_is_done_at_once_in_each_partition() {
    let world = MirrorTestPair::new(5).await;
    let region = &world.regions[1];
    let follower = &region.follower;
    for (number, step) in [(1, CopyStep::Begin), (2, CopyStep::Whole)] {
        assert_eq!(
            follower.apply(copy(1, 1, number, step)).await,
            CopyResponse::Done
        );
    }
    let ledger = follower.ledger(partitions()[0]).unwrap();
    let before = *ledger.durable().borrow();
    let step = puts(&[b"first", b"second", b"third"]);
    assert_eq!(
        follower.apply(copy(1, 1, 3, step)).await,
        CopyResponse::Done
    );
    assert_eq!(ledger.durable().borrow().0, before.0 + 1);
    assert_eq!(row(region).await.unwrap(), "third");
}

/// A follower that has just started, on the state that the previous one left.
async fn restarted(world: &MirrorTestPair, region: &MirrorTestRegion) -> MirrorFollower {
    let engine = Arc::clone(&region.local) as Arc<dyn Engine>;
    let options = Options {
        clock: Arc::new(world.clock.clone()),
        background: false,
        ..Options::new(Owner {
            node: 1,
            incarnation: fastrand::u128(2..),
        })
    };
    let store = Store::start(Arc::clone(&engine), options);
    let follower = MirrorFollower::new(engine, store, partitions());
    follower.open(1).await.unwrap();
    follower
}

/// A restarted copy continues where it was, and applies the last step again.
#[tokio::test(start_paused = true)]
async fn a_copy_goes_on_after_a_restart() {
    let world = MirrorTestPair::new(6).await;
    let region = &world.regions[1];
    let follower = &region.follower;
    follower.apply(copy(1, 1, 1, CopyStep::Begin)).await;
    let step = puts(&[b"first"]);
    assert_eq!(
        follower.apply(copy(1, 1, 2, step)).await,
        CopyResponse::Done
    );
    // Another session, another epoch, and a step that is missing.
    for (epoch, session, number) in [(1, 2, 3), (2, 1, 3), (1, 1, 4), (1, 1, 1)] {
        let step = puts(&[b"strange"]);
        let follower = restarted(&world, region).await;
        let reply = follower.apply(copy(epoch, session, number, step)).await;
        assert_eq!(reply, CopyResponse::Strange, "{epoch} {session} {number}");
    }
    // Its answer was lost, or it was done in part.
    let follower = restarted(&world, region).await;
    let step = || puts(&[b"first", b"second"]);
    assert_eq!(
        follower.apply(copy(1, 1, 2, step())).await,
        CopyResponse::Done
    );
    let follower = restarted(&world, region).await;
    assert!(follower.is_catching_up().await.unwrap());
    let whole = follower.apply(copy(1, 1, 3, CopyStep::Whole)).await;
    assert_eq!(whole, CopyResponse::Done);
    let follower = restarted(&world, region).await;
    assert!(!follower.is_catching_up().await.unwrap());
    let step = puts(&[b"third"]);
    assert_eq!(
        follower.apply(copy(1, 1, 4, step)).await,
        CopyResponse::Done
    );
    let ledger = follower.ledger(partitions()[0]).unwrap();
    let found = ledger.get(TABLE, b"row", Visibility::Durable).await;
    assert_eq!(found.unwrap().unwrap(), "third");
    // After an ownership in between, no session can be resumed.
    follower.close(2).await;
    follower.open(2).await.unwrap();
    let step = puts(&[b"fourth"]);
    assert_eq!(
        follower.apply(copy(2, 1, 5, step)).await,
        CopyResponse::Strange
    );
}
