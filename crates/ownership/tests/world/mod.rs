//! A group whose members share one slow store.
//!
//! Everything is decided by a seed: when members wake, how long writes and answers
//! take, how old a listing is, whose answer is lost. The world checks on its own that
//! every write follows exactly the version it names, that no claim meets an owner who
//! still serves, and how long each partition goes without a living owner.

#![allow(dead_code, reason = "each test uses its own part of the world")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use fastrand::Rng;
use steadfast_core::clock::Timestamp;
use steadfast_ownership::balance::{Action, Kind};
use steadfast_ownership::census::Census;
use steadfast_ownership::listing::Listing;
use steadfast_ownership::member::{Answer, Change, Member};
use steadfast_ownership::record::{OwnerId, PartitionIndex, Version};
use steadfast_ownership::strategy::{Strategy, Timing};

/// How the store behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// A write or answer takes up to this long.
    pub(crate) delay_ms: i64,
    /// A listing is up to this old.
    pub(crate) stale_ms: i64,
    /// Of 1000 writes, so many end unknown; half of these are applied.
    pub(crate) unknown: u32,
}

impl Weather {
    pub(crate) const FAIR: Self = Self {
        delay_ms: 500,
        stale_ms: 1_000,
        unknown: 0,
    };
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Partitions that changed hands.
    pub(crate) moves: u64,
    pub(crate) conflicts: u64,
    pub(crate) unknown: u64,
    pub(crate) adopted: u64,
    /// The longest time that a partition was without a living owner.
    pub(crate) ownerless_ms: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    /// Gives up what it has, and still hears answers.
    Leaving,
    Dead,
}

struct Actor {
    member: Member,
    state: State,
    /// When its last cycle began.
    began_ms: i64,
}

enum Event {
    Cycle(usize),
    List(usize),
    Write(usize, Vec<Action>),
    Answer(usize, Vec<(PartitionIndex, Answer)>),
}

/// The store as it was at one moment, counted when first needed.
struct Snapshot {
    at_ms: i64,
    listing: Listing,
    census: Option<Rc<Census>>,
}

pub(crate) struct World {
    pub(crate) now_ms: i64,
    pub(crate) weather: Weather,
    pub(crate) tally: Tally,
    pub(crate) store: Listing,
    /// How often the store is photographed.
    tick_ms: i64,
    strategy: Strategy,
    timing: Timing,
    rng: Rng,
    actors: Vec<Actor>,
    by_id: HashMap<OwnerId, usize>,
    queue: BTreeMap<(i64, u64), Event>,
    sent: u64,
    snapshots: VecDeque<Snapshot>,
    /// The version of each record, kept by the world itself.
    versions: Vec<u64>,
    ownerless_since: Vec<Option<i64>>,
}

impl World {
    pub(crate) fn new(partitions: u32, strategy: Strategy, timing: Timing, seed: u64) -> Self {
        Self {
            now_ms: 0,
            weather: Weather::FAIR,
            tally: Tally::default(),
            store: Listing::new(partitions),
            tick_ms: timing.interval.as_millis() as i64 / 20,
            strategy,
            timing,
            rng: Rng::with_seed(seed),
            actors: Vec::new(),
            by_id: HashMap::new(),
            queue: BTreeMap::new(),
            sent: 0,
            snapshots: VecDeque::new(),
            versions: vec![0; partitions as usize],
            ownerless_since: vec![Some(0); partitions as usize],
        }
    }

    pub(crate) fn interval_ms(&self) -> i64 {
        self.timing.interval.as_millis() as i64
    }

    pub(crate) fn expiration_ms(&self) -> i64 {
        self.timing.expiration.as_millis() as i64
    }

    /// A member joins; its first cycle begins some time within an interval.
    pub(crate) fn join(&mut self) -> usize {
        let id = OwnerId::new(&format!("member-{}", self.actors.len()));
        let after = self.rng.i64(0..self.interval_ms());
        self.enter(id, after)
    }

    /// A crashed member comes back under its old id and knows nothing.
    pub(crate) fn restart(&mut self, old: usize) -> usize {
        assert!(!self.lives(old), "it has not crashed");
        let id = self.actors[old].member.id().clone();
        self.enter(id, 0)
    }

    fn enter(&mut self, id: OwnerId, after_ms: i64) -> usize {
        let actor = self.actors.len();
        self.by_id.insert(id.clone(), actor);
        self.actors.push(Actor {
            member: Member::new(id, self.strategy, self.timing),
            state: State::Alive,
            began_ms: 0,
        });
        self.send(after_ms, Event::Cycle(actor));
        actor
    }

    /// A member dies; what it has sent still arrives.
    pub(crate) fn crash(&mut self, actor: usize) {
        for index in self.recorded_of(actor) {
            self.ownerless_since[index].get_or_insert(self.now_ms);
        }
        self.actors[actor].state = State::Dead;
    }

    /// A member gives up all it has and goes. It is not counted among the living any more.
    pub(crate) fn leave(&mut self, actor: usize) {
        for index in self.recorded_of(actor) {
            self.ownerless_since[index].get_or_insert(self.now_ms);
        }
        self.actors[actor].state = State::Leaving;
        self.release(actor);
    }

    fn release(&mut self, actor: usize) {
        let now = Timestamp(self.now_ms);
        let actions = self.actors[actor].member.release(now);
        self.write(actor, actions);
    }

    pub(crate) fn living(&self) -> Vec<usize> {
        let all = 0..self.actors.len();
        all.filter(|actor| self.lives(*actor)).collect()
    }

    fn lives(&self, actor: usize) -> bool {
        self.actors[actor].state == State::Alive
    }

    /// A living member, by chance.
    pub(crate) fn anyone(&mut self) -> usize {
        let living = self.living();
        living[self.rng.usize(..living.len())]
    }

    /// How many records have the member's id.
    pub(crate) fn records_of(&self, actor: usize) -> usize {
        self.recorded_of(actor).len()
    }

    /// Lets the weather clear and all answers come in, and doubts be resolved.
    pub(crate) fn settle(&mut self) {
        self.weather = Weather::FAIR;
        self.run_for(2 * self.interval_ms());
    }

    fn recorded_of(&self, actor: usize) -> Vec<usize> {
        let id = self.actors[actor].member.id();
        let all = 0..self.store.partitions();
        let own = all.filter(|index| self.store.owner(PartitionIndex(*index)) == id);
        own.map(|index| index as usize).collect()
    }

    /// Lets time pass.
    pub(crate) fn run_for(&mut self, span_ms: i64) {
        let end = self.now_ms + span_ms;
        while let Some(((at, _), _)) = self.queue.first_key_value() {
            let at = *at;
            self.photograph_until(at.min(end));
            if at > end {
                break;
            }
            self.now_ms = at;
            let (_, event) = self.queue.pop_first().unwrap();
            self.handle(event);
        }
        self.now_ms = end;
    }

    /// Runs until balanced; the time it took, or none if it takes longer than the limit.
    pub(crate) fn balance_within(&mut self, limit_ms: i64) -> Option<i64> {
        let start = self.now_ms;
        let pause = self.interval_ms() / 4;
        while self.now_ms - start < limit_ms {
            self.run_for(pause);
            if self.is_balanced() {
                return Some(self.now_ms - start);
            }
        }
        None
    }

    fn photograph_until(&mut self, until_ms: i64) {
        let next = self
            .snapshots
            .back()
            .map_or(0, |last| last.at_ms + self.tick_ms);
        if next > until_ms {
            return;
        }
        // Nothing has happened in between: only the last photograph can differ.
        let at_ms = until_ms - until_ms % self.tick_ms;
        self.snapshots.push_back(Snapshot {
            at_ms,
            listing: self.store.clone(),
            census: None,
        });
        let oldest = self.now_ms - self.weather.stale_ms - self.tick_ms;
        while self.snapshots.len() > 1 && self.snapshots[1].at_ms <= oldest {
            self.snapshots.pop_front();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Cycle(actor) => self.cycle(actor),
            Event::List(actor) => self.list(actor),
            Event::Write(actor, actions) => self.store_all(actor, &actions),
            Event::Answer(actor, answers) => self.answer(actor, &answers),
        }
    }

    fn cycle(&mut self, actor: usize) {
        if !self.lives(actor) {
            return;
        }
        let now = Timestamp(self.now_ms);
        self.actors[actor].began_ms = self.now_ms;
        let member = &mut self.actors[actor].member;
        member.lapse(now);
        let renewals = member.renewals(now);
        self.write(actor, renewals);
        // By then the renewals are answered.
        self.send(2 * self.weather.delay_ms, Event::List(actor));
    }

    fn list(&mut self, actor: usize) {
        if !self.lives(actor) {
            return;
        }
        let census = self.census();
        let now = Timestamp(self.now_ms);
        let rng = &mut self.rng;
        let mut chance = |bound| rng.u32(..bound);
        let plan = self.actors[actor].member.plan(&census, now, &mut chance);
        let wait = self.actors[actor].member.wait(&plan, &mut chance);
        let again = self.actors[actor].began_ms + wait.as_millis() as i64;
        for action in plan.actions {
            self.write(actor, vec![action]);
        }
        // Not before the writes are answered.
        let pause = (again - self.now_ms).max(2 * self.weather.delay_ms);
        self.send(pause, Event::Cycle(actor));
    }

    /// A listing that is as old as it may be, or younger.
    fn census(&mut self) -> Rc<Census> {
        let age = self.rng.i64(0..=self.weather.stale_ms);
        let wanted = self.now_ms - age;
        let found = self
            .snapshots
            .iter()
            .rposition(|snapshot| snapshot.at_ms <= wanted);
        let snapshot = &mut self.snapshots[found.unwrap_or(0)];
        let (listing, timing) = (&snapshot.listing, &self.timing);
        let asked = Timestamp(snapshot.at_ms);
        let count = || Rc::new(Census::take(listing.clone(), asked, timing));
        Rc::clone(snapshot.census.get_or_insert_with(count))
    }

    fn write(&mut self, actor: usize, actions: Vec<Action>) {
        if !actions.is_empty() {
            let delay = self.delay();
            self.send(delay, Event::Write(actor, actions));
        }
    }

    fn store_all(&mut self, actor: usize, actions: &[Action]) {
        let answers = actions
            .iter()
            .map(|action| (action.partition, self.store_one(actor, action)))
            .collect();
        let delay = self.delay();
        self.send(delay, Event::Answer(actor, answers));
    }

    fn store_one(&mut self, actor: usize, action: &Action) -> Answer {
        let is_unknown = self.rng.u32(..1000) < self.weather.unknown;
        self.tally.unknown += u64::from(is_unknown);
        if is_unknown && self.rng.bool() {
            return Answer::Unknown;
        }
        let (partition, index) = (action.partition, action.partition.0 as usize);
        let before = self.store.owner(partition).clone();
        let owner = match &action.kind {
            Kind::Release => OwnerId::nobody(),
            Kind::Give { to } => to.clone(),
            _ => self.actors[actor].member.id().clone(),
        };
        let now = Timestamp(self.now_ms);
        let fits = self.versions[index] == action.expected.0;
        let result = self.store.swap(partition, action.expected, &owner, now);
        assert_eq!(result.is_ok(), fits, "{action:?} against the wrong version");
        let Ok(version) = result else {
            self.tally.conflicts += u64::from(!is_unknown);
            return if is_unknown {
                Answer::Unknown
            } else {
                Answer::Conflict
            };
        };
        assert!(version.0 > self.versions[index], "versions ascend");
        self.versions[index] = version.0;
        self.book(action, &before, &owner);
        if is_unknown {
            return Answer::Unknown;
        }
        Answer::Written(version)
    }

    /// Counts a write that succeeded.
    fn book(&mut self, action: &Action, before: &OwnerId, owner: &OwnerId) {
        let index = action.partition.0 as usize;
        let changed = !owner.is_nobody() && before != owner;
        self.tally.moves += u64::from(changed);
        self.tally.adopted += u64::from(action.kind == Kind::Adopt);
        if action.kind == Kind::Claim {
            self.nobody_serves(action.partition, before);
        }
        let lives = self
            .by_id
            .get(owner)
            .is_some_and(|actor| self.lives(*actor));
        if !lives {
            // What the dead have sent still counts: the store cannot know better.
            self.ownerless_since[index] = Some(self.now_ms);
        } else if let Some(since) = self.ownerless_since[index].take() {
            let ownerless = self.now_ms - since;
            self.tally.ownerless_ms = self.tally.ownerless_ms.max(ownerless);
        }
    }

    /// A claim finds that the last owner has stopped by itself.
    fn nobody_serves(&mut self, partition: PartitionIndex, last: &OwnerId) {
        let Some(actor) = self.by_id.get(last) else {
            return;
        };
        let last = &mut self.actors[*actor];
        last.member.lapse(Timestamp(self.now_ms));
        let serves = last.state == State::Alive && last.member.held().any(|held| held == partition);
        assert!(!serves, "{partition} is claimed while its owner serves");
    }

    fn answer(&mut self, actor: usize, answers: &[(PartitionIndex, Answer)]) {
        if self.actors[actor].state == State::Dead {
            return;
        }
        let mut late = false;
        for (partition, answer) in answers {
            let change = self.actors[actor].member.answer(*partition, *answer);
            late |= change == Change::Late;
        }
        if late {
            self.release(actor);
        }
    }

    fn delay(&mut self) -> i64 {
        self.rng.i64(0..=self.weather.delay_ms)
    }

    fn send(&mut self, after_ms: i64, event: Event) {
        self.sent += 1;
        self.queue
            .insert((self.now_ms + after_ms, self.sent), event);
    }

    /// How many records each living member has, and how many have expired or are of others.
    fn counts(&self) -> (Vec<u32>, u32) {
        let mut counts = vec![0; self.actors.len()];
        let mut orphans = 0;
        for partition in (0..self.store.partitions()).map(PartitionIndex) {
            let age = self.now_ms - self.store.modified(partition).0;
            let owner = self.by_id.get(self.store.owner(partition));
            match owner {
                Some(actor) if self.lives(*actor) && age < self.expiration_ms() => {
                    counts[*actor] += 1;
                }
                _ => orphans += 1,
            }
        }
        let living = self.living().into_iter().map(|actor| counts[actor]);
        (living.collect(), orphans)
    }

    /// All partitions have a living owner, and the counts differ by at most one.
    pub(crate) fn is_balanced(&self) -> bool {
        let (counts, orphans) = self.counts();
        let most = counts.iter().max().unwrap();
        let fewest = counts.iter().min().unwrap();
        orphans == 0 && most - fewest <= 1
    }

    /// The fewest moves that make it so.
    pub(crate) fn moves_needed(&self) -> u64 {
        let (mut counts, _) = self.counts();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let members = counts.len() as u32;
        let partitions = self.store.partitions();
        let share = |place: u32| partitions / members + u32::from(place < partitions % members);
        let lacks = |(place, count): (usize, &u32)| share(place as u32).saturating_sub(*count);
        counts.iter().enumerate().map(lacks).map(u64::from).sum()
    }

    /// Every partition is served by exactly one member, with the record's own version.
    pub(crate) fn check_at_rest(&mut self) {
        let mut served = vec![0; self.store.partitions() as usize];
        for actor in self.living() {
            let member = &self.actors[actor].member;
            for partition in member.held() {
                served[partition.0 as usize] += 1;
                assert_eq!(self.store.owner(partition), member.id(), "{partition}");
            }
        }
        assert!(served.iter().all(|servers| *servers == 1), "{served:?}");
        let unowned = |index: &u32| self.store.version(PartitionIndex(*index)) == Version::ABSENT;
        assert_eq!((0..self.store.partitions()).find(unowned), None);
    }

    /// Forgets how long partitions were without an owner until now.
    pub(crate) fn reset_ownerless(&mut self) {
        self.tally.ownerless_ms = 0;
    }

    /// The longest time without an owner, those included that still have none.
    pub(crate) fn ownerless_ms(&self) -> i64 {
        let open = self.ownerless_since.iter().flatten();
        let longest = open.map(|since| self.now_ms - since).max().unwrap_or(0);
        longest.max(self.tally.ownerless_ms)
    }
}
