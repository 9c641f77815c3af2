//! A whole run: faults, then healing, then judgement.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::id::Partition;
use steadfast_partition::{Mailbox, Space};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Visibility};
use tokio::time::Instant;

use crate::clock::Jumping;
use crate::net::Net;
use crate::node::{Ground, Node};
use crate::oracle::{Life, Oracle};
use crate::story::{Happen, INSTANCES, STATE, State, instance};

const NODES: u32 = 3;
const PARTITIONS: u16 = 4;
const OPERATIONS: u64 = 60;

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    operations: u64,
    acknowledged: u64,
    crashes: u64,
    moves: u64,
    lost: u64,
    repeated: u64,
    messages: u64,
    timers: u64,
    cancelled: u64,
    rollbacks: u64,
    missed: u64,
    effects: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, more) in self.all_mut().into_iter().zip(other.clone().all_mut()) {
            *mine += *more;
        }
    }

    pub(crate) fn are_all_seen(&self) -> bool {
        self.clone().all_mut().into_iter().all(|count| *count > 0)
    }

    fn all_mut(&mut self) -> [&mut u64; 12] {
        [
            &mut self.operations,
            &mut self.acknowledged,
            &mut self.crashes,
            &mut self.moves,
            &mut self.lost,
            &mut self.repeated,
            &mut self.messages,
            &mut self.timers,
            &mut self.cancelled,
            &mut self.rollbacks,
            &mut self.missed,
            &mut self.effects,
        ]
    }
}

struct World {
    ground: Ground,
    rng: Rng,
    nodes: Vec<Option<Node>>,
    lives: Life,
    totals: Totals,
}

/// Runs a seed; answers what happened, or what must not have.
pub(crate) fn run(seed: u64) -> Result<Totals, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed).await;
        world.trouble().await;
        world.heal().await;
        world.judge().await
    })
}

impl World {
    async fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let began = Instant::now();
        let clock = Arc::new(Jumping::new(began));
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(clock));
        let oracle = Arc::new(Oracle::default());
        let space = Space {
            number: 0,
            name: "main".into(),
            partitions: PARTITIONS,
            incarnation: u128::from(seed),
        };
        let space = Space::open(&*engine, space).await.unwrap();
        let net = Arc::new(Net::new(Arc::clone(&oracle), rng.u64(..)));
        let ground = Ground {
            engine,
            oracle,
            net,
            space,
            began,
        };
        Self {
            ground,
            rng,
            nodes: (0..NODES).map(|_| None).collect(),
            lives: 0,
            totals: Totals::default(),
        }
    }

    /// Operations and faults, in any order.
    async fn trouble(&mut self) {
        let mut op = 0;
        while op < OPERATIONS {
            self.bury();
            match self.rng.u8(0..100) {
                0..50 => {
                    op += 1;
                    self.operate(op);
                }
                50..62 => self.start_one(),
                62..80 => self.take_one(),
                80..83 => self.hand_over_one(),
                83..85 => self.jump_one(),
                _ => {}
            }
            let wait_ms = self.rng.u64(0..15);
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
        self.totals.operations = op;
    }

    /// Lets the dead go: their tasks end where they stand.
    fn bury(&mut self) {
        for (number, slot) in self.nodes.iter_mut().enumerate() {
            let is_dead = slot.as_ref().is_some_and(|node| {
                let died = std::pin::pin!(node.wire.died.notified());
                futures_util::FutureExt::now_or_never(died).is_some()
            });
            if is_dead {
                *slot = None;
                self.ground.net.leave(number as u32);
                self.totals.crashes += 1;
            }
        }
    }

    fn start_one(&mut self) {
        let number = self.rng.u32(0..NODES);
        if self.nodes[number as usize].is_some() {
            return;
        }
        self.lives += 1;
        let steps = self.rng.u64(20..1_500);
        let seed = self.rng.u64(..);
        let node = Node::start(&self.ground, number, self.lives, seed, steps);
        self.nodes[number as usize] = Some(node);
    }

    fn any_node(&mut self) -> Option<usize> {
        let up: Vec<_> = (0..self.nodes.len())
            .filter(|n| self.nodes[*n].is_some())
            .collect();
        let any = (!up.is_empty()).then(|| self.rng.usize(0..up.len()))?;
        Some(up[any])
    }

    /// A node acquires a partition, from its owner if there is one.
    fn take_one(&mut self) {
        let partition = self.any_partition();
        let Some(index) = self.any_node() else {
            return;
        };
        let Some(node) = &mut self.nodes[index] else {
            return;
        };
        self.totals.moves += 1;
        node.ask(async move |runtime| drop(runtime.serve(partition).await));
    }

    fn hand_over_one(&mut self) {
        let partition = self.any_partition();
        let Some(index) = self.any_node() else {
            return;
        };
        if let Some(node) = &mut self.nodes[index] {
            let limit = Duration::from_millis(100);
            node.ask(async move |runtime| drop(runtime.hand_over(partition, limit).await));
        }
    }

    fn jump_one(&mut self) {
        let offset = self.rng.i64(-60_000..60_000);
        if let Some(index) = self.any_node()
            && let Some(node) = &self.nodes[index]
        {
            node.clock.jump(offset);
        }
    }

    fn any_partition(&mut self) -> Partition {
        Partition::new(0, self.rng.u16(0..PARTITIONS))
    }

    /// A client calls through any node, and remembers whether it was answered.
    fn operate(&mut self, op: u64) {
        let to = instance(self.rng.u64(0..INSTANCES));
        let count = self.rng.usize(0..4);
        let targets = (0..count).map(|_| self.rng.u64(0..INSTANCES)).collect();
        let Some(index) = self.any_node() else {
            return;
        };
        let Some(node) = &self.nodes[index] else {
            return;
        };
        let due = node.clock.now().0 + self.rng.i64(-5..400);
        let happen = Happen::Op {
            op,
            targets,
            timer: self.rng.bool().then_some(Timestamp(due)),
            cancel: self.rng.u8(0..4) == 0,
            work: self.rng.u8(0..3) == 0,
        };
        let handle = node.handle();
        let oracle = Arc::clone(&self.ground.oracle);
        tokio::spawn(async move {
            if handle.call(to, happen).await.is_ok() {
                oracle.acknowledged(op);
            }
        });
    }

    /// Everything is up again and stays up.
    async fn heal(&mut self) {
        self.ground.net.calm();
        self.bury();
        for number in 0..NODES {
            if self.nodes[number as usize].is_none() {
                self.lives += 1;
                let node = Node::start(&self.ground, number, self.lives, 0, u64::MAX);
                self.nodes[number as usize] = Some(node);
            }
        }
        for node in self.nodes.iter().flatten() {
            node.heal();
        }
        // Long enough for every pause between attempts, and for every timer.
        for _ in 0..120 {
            self.place_all().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            if self.is_at_rest().await {
                return;
            }
        }
    }

    /// Every partition has an owner that answers. An owner that was overtaken is
    /// told so, as membership does in a cluster: it may have nothing to commit, and
    /// then never notices.
    async fn place_all(&self) {
        for node in self.nodes.iter().flatten() {
            for door in node.runtime.router().mailboxes() {
                if self.is_stale(&door) {
                    node.runtime.abandon(door.partition());
                }
            }
        }
        for partition in self.ground.space.all() {
            let nodes = || self.nodes.iter().flatten();
            if !nodes().any(|node| node.runtime.router().mailbox(partition).is_some()) {
                let index = usize::from(partition.index()) % NODES as usize;
                if let Some(node) = &self.nodes[index] {
                    let _ = node.runtime.serve(partition).await;
                }
            }
        }
    }

    fn is_stale(&self, door: &Mailbox) -> bool {
        let epoch = door.ledger().epoch();
        self.ground.oracle.is_stale(door.partition(), epoch)
    }

    /// Whether nothing is on its way any more: messages, timers, work.
    async fn is_at_rest(&self) -> bool {
        let Ok(states) = self.states().await else {
            return false;
        };
        let is_done = |state: &State| state.timers.is_empty() && state.work.is_empty();
        states.iter().all(is_done) && misfits(&states).is_none()
    }

    /// The rows of all instances, as their owners read them.
    async fn states(&self) -> Result<Vec<State>, String> {
        let mut states = Vec::new();
        for number in 0..INSTANCES {
            let address = instance(number);
            let partition = self.ground.space.partition(&address);
            let doors = self.nodes.iter().flatten();
            let mut doors = doors.filter_map(|node| node.runtime.router().mailbox(partition));
            // One that was still loading when it was overtaken may not know it yet.
            let is_owner = |door: &Mailbox| !self.is_stale(door);
            let door = doors.find(is_owner);
            let door = door.ok_or(format!("no node serves partition {partition}"))?;
            let row = door
                .ledger()
                .get(STATE, &address.key, Visibility::Durable)
                .await;
            let row = row.map_err(|error| error.to_string())?;
            let state = row.map_or(Ok(State::default()), State::decode);
            states.push(state.map_err(|error| error.to_string())?);
        }
        Ok(states)
    }

    /// The rows of all instances. A partition may just be changing hands.
    async fn settled_states(&self) -> Result<Vec<State>, String> {
        let mut states = self.states().await;
        for _ in 0..20 {
            if states.is_ok() {
                break;
            }
            self.place_all().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            states = self.states().await;
        }
        states
    }

    async fn judge(mut self) -> Result<Totals, String> {
        if let Some(violation) = self.ground.oracle.first_violation() {
            return Err(violation);
        }
        let states = self.settled_states().await?;
        if let Some(misfit) = misfits(&states) {
            return Err(misfit);
        }
        let mut ops = BTreeSet::new();
        for (number, state) in states.iter().enumerate() {
            if let Some(fault) = state.faults.first() {
                return Err(fault.clone());
            }
            for op in &state.ops {
                if !ops.insert(*op) {
                    return Err(format!("operation {op} happened twice"));
                }
            }
            if !state.timers.is_empty() || !state.work.is_empty() {
                return Err(format!(
                    "something of {number} never came to its end: {state:?}"
                ));
            }
            if let Some(op) = state.cancelled.intersection(&state.fired).next() {
                return Err(format!("timer {op} was taken back and fired"));
            }
            self.totals.timers += state.fired.len() as u64;
            self.totals.cancelled += state.cancelled.len() as u64;
            self.totals.messages += state.got.values().sum::<u64>();
        }
        let acknowledged = self.ground.oracle.all_acknowledged();
        if let Some(op) = acknowledged.difference(&ops).next() {
            return Err(format!("operation {op} was acknowledged and is lost"));
        }
        self.totals.acknowledged = acknowledged.len() as u64;
        self.totals.effects = self.ground.oracle.effects();
        (self.totals.lost, self.totals.repeated) = self.ground.net.faults();
        for node in self.nodes.iter().flatten() {
            for door in node.runtime.router().mailboxes() {
                let counts = door.metrics().counts();
                self.totals.rollbacks += counts.rollbacks;
                self.totals.missed += counts.missed;
            }
        }
        Ok(self.totals)
    }
}

/// What was sent and what was got must be the same.
fn misfits(states: &[State]) -> Option<String> {
    for (source, state) in states.iter().enumerate() {
        for (target, sent) in &state.sent {
            let got = states[*target as usize].got.get(&(source as u64));
            if got != Some(sent) {
                return Some(format!(
                    "{source} sent {sent} messages to {target}, which got {got:?}"
                ));
            }
        }
    }
    None
}
