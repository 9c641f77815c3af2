//! Members, their store, and what happens between them.
//!
//! Everything is decided by a seed: when members wake, how long writes and answers
//! take, how old a listing is, whose answer is lost. Every write is checked to follow
//! exactly the version it names.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;
use steadfast_core::clock::Timestamp;
use steadfast_ownership::balance::{ConditionalWrite, Kind};
use steadfast_ownership::listing::OwnershipListing;
use steadfast_ownership::member::{GroupMember, OwnershipChange, WriteOutcome};
use steadfast_ownership::record::{OwnerId, PartitionIndex};
use steadfast_ownership::strategy::{GroupTiming, Strategy};

use super::album::Album;

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
pub(super) enum State {
    Alive,
    /// Gives up what it has, and still hears answers.
    Leaving,
    Dead,
}

pub(super) struct Actor {
    pub(super) member: GroupMember,
    pub(super) state: State,
    /// When its last cycle began.
    began_ms: i64,
}

enum Event {
    Cycle(usize),
    List(usize),
    Write(usize, Vec<ConditionalWrite>),
    Answer(usize, Vec<(PartitionIndex, WriteOutcome)>),
}

pub(crate) struct World {
    pub(crate) now_ms: i64,
    pub(crate) weather: Weather,
    pub(crate) tally: Tally,
    pub(crate) store: OwnershipListing,
    strategy: Strategy,
    pub(super) timing: GroupTiming,
    rng: Rng,
    pub(super) actors: Vec<Actor>,
    pub(super) by_id: HashMap<OwnerId, usize>,
    queue: BTreeMap<(i64, u64), Event>,
    sent: u64,
    album: Album,
    /// The version of each record, kept by the world itself.
    pub(super) versions: Vec<u64>,
    pub(super) ownerless_since: Vec<Option<i64>>,
}

impl World {
    pub(crate) fn new(partitions: u32, strategy: Strategy, timing: GroupTiming, seed: u64) -> Self {
        Self {
            now_ms: 0,
            weather: Weather::FAIR,
            tally: Tally::default(),
            store: OwnershipListing::new(partitions),
            strategy,
            timing,
            rng: Rng::with_seed(seed),
            actors: Vec::new(),
            by_id: HashMap::new(),
            queue: BTreeMap::new(),
            sent: 0,
            album: Album::new(timing),
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
            member: GroupMember::new(id, self.strategy, self.timing),
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

    pub(super) fn lives(&self, actor: usize) -> bool {
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
            self.album
                .photograph(&self.store, at.min(end), self.weather.stale_ms);
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
        member.expire(now);
        let renewals = member.renewals(now);
        self.write(actor, renewals);
        // By then the renewals are answered.
        self.send(2 * self.weather.delay_ms, Event::List(actor));
    }

    fn list(&mut self, actor: usize) {
        if !self.lives(actor) {
            return;
        }
        let age = self.rng.i64(0..=self.weather.stale_ms);
        let census = self.album.census(self.now_ms - age);
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

    fn write(&mut self, actor: usize, actions: Vec<ConditionalWrite>) {
        if !actions.is_empty() {
            let delay = self.delay();
            self.send(delay, Event::Write(actor, actions));
        }
    }

    fn store_all(&mut self, actor: usize, actions: &[ConditionalWrite]) {
        let answers = actions
            .iter()
            .map(|action| (action.partition, self.store_one(actor, action)))
            .collect();
        let delay = self.delay();
        self.send(delay, Event::Answer(actor, answers));
    }

    fn store_one(&mut self, actor: usize, action: &ConditionalWrite) -> WriteOutcome {
        let is_unknown = self.rng.u32(..1000) < self.weather.unknown;
        self.tally.unknown += u64::from(is_unknown);
        if is_unknown && self.rng.bool() {
            return WriteOutcome::Unknown;
        }
        let (partition, index) = (action.partition, action.partition.0 as usize);
        let before = self.store.owner(partition).clone();
        let owner = match &action.kind {
            Kind::Release => OwnerId::empty(),
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
                WriteOutcome::Unknown
            } else {
                WriteOutcome::Conflict
            };
        };
        assert!(version.0 > self.versions[index], "versions ascend");
        self.versions[index] = version.0;
        self.book(action, &before, &owner);
        if is_unknown {
            return WriteOutcome::Unknown;
        }
        WriteOutcome::Written(version)
    }

    fn answer(&mut self, actor: usize, answers: &[(PartitionIndex, WriteOutcome)]) {
        if self.actors[actor].state == State::Dead {
            return;
        }
        let mut late = false;
        for (partition, answer) in answers {
            let change = self.actors[actor]
                .member
                .record_outcome(*partition, *answer);
            late |= change == OwnershipChange::Late;
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
}
