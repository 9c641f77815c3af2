//! Leaving in four phases: offline, hooks, leave, close.
//!
//! The same state machine empties an app server of its clients and a node of its
//! partitions; both are called guests here. Events go in, actions come out; the
//! phases only ever go forward, and one limit (30 s by default) spans the first
//! three. At the limit the machine closes, whatever phase it is in. Events that are
//! late, repeated or about unknown guests change nothing, and every guest is
//! counted exactly once: moved, completed or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::limits::{DRAIN_LIMIT, DRAIN_MOVES};

/// What happens to the guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainMode {
    /// No hooks run; each guest is asked to end.
    Off,
    /// Guests leave by themselves.
    Wait,
    /// Guests are moved elsewhere.
    Migrate,
}

/// How to drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What happens to the guests.
    pub mode: DrainMode,
    /// How long offline, hooks and leave may take together.
    pub limit: Duration,
    /// How many hooks there are; they run one after another, in their order.
    pub hooks: u32,
    /// How many moves run at a time.
    pub moves: usize,
}

impl Options {
    /// The default limit, and no hooks.
    pub const fn new(mode: DrainMode) -> Self {
        Self {
            mode,
            limit: DRAIN_LIMIT,
            hooks: 0,
            moves: DRAIN_MOVES,
        }
    }
}

/// The phases of a drain, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DrainPhase {
    /// No new guests are sent here any more; waiting for this to be confirmed.
    Offline,
    /// Hooks run.
    Hooks,
    /// Guests leave, end or are moved.
    Leave,
    /// Everything is closed: the drain has ended.
    Close,
}

/// An input of the state machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DrainEvent<G> {
    /// All sources of new guests have confirmed that this server is offline.
    Offline,
    /// This hook has ended, well or not.
    HookEnded(u32),
    /// A guest arrived, sent before this server was offline.
    Arrived(G),
    /// A guest left by itself or ended.
    Left(G),
    /// A guest was moved.
    Moved(G),
    /// A guest could not be moved, for instance because no target is available.
    Stayed(G),
    /// There is a new target to move to.
    TargetAppeared,
    /// Time has passed.
    Tick,
}

/// An output of the state machine: an action for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DrainAction<G> {
    /// Announce to all sources of new guests that this server is offline.
    GoOffline,
    /// Run this hook.
    RunHook(u32),
    /// Ask this guest to end.
    End(G),
    /// Move this guest elsewhere.
    Move(G),
    /// Reject this guest: it arrived too late.
    Refuse(G),
    /// Close everything. The remaining guests are cut off.
    Close {
        /// The guests that are cut off.
        lost: Vec<G>,
    },
}

/// How many guests ended in which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DrainCounts {
    /// Moved elsewhere.
    pub moved: u64,
    /// Left by themselves, or ended on request.
    pub completed: u64,
    /// Cut off at the end.
    pub lost: u64,
}

/// The progress of one guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GuestStage {
    Here,
    Moving,
    /// Could not be moved; retried when there is a new target.
    Stuck,
}

/// A drain that runs, or has ended.
#[derive(Clone, Debug)]
pub struct DrainMachine<G> {
    options: Options,
    deadline: Duration,
    phase: DrainPhase,
    /// The hook that runs now.
    hook: u32,
    guests: BTreeMap<G, GuestStage>,
    /// Guests to be moved when there is room.
    waiting: BTreeSet<G>,
    moving: usize,
    counts: DrainCounts,
}

impl<G: Ord + Clone> DrainMachine<G> {
    /// Begins at monotonic time `now`.
    pub fn begin(
        options: Options,
        guests: impl IntoIterator<Item = G>,
        now: Duration,
    ) -> (Self, Vec<DrainAction<G>>) {
        let guests = guests.into_iter().map(|guest| (guest, GuestStage::Here));
        let drain = Self {
            options,
            deadline: now.saturating_add(options.limit),
            phase: DrainPhase::Offline,
            hook: 0,
            guests: guests.collect(),
            waiting: BTreeSet::new(),
            moving: 0,
            counts: DrainCounts::default(),
        };
        (drain, vec![DrainAction::GoOffline])
    }

    /// Handles an event at monotonic time `now`.
    pub fn on(&mut self, event: DrainEvent<G>, now: Duration) -> Vec<DrainAction<G>> {
        let mut actions = Vec::new();
        if self.phase == DrainPhase::Close {
            if let DrainEvent::Arrived(guest) = event {
                actions.push(DrainAction::Refuse(guest));
            }
            return actions;
        }
        if now < self.deadline {
            self.take_in(event, &mut actions);
            self.go_on(&mut actions);
            return actions;
        }
        // Too late to begin anything; but a guest that has left is not lost.
        match event {
            DrainEvent::Arrived(guest) => actions.push(DrainAction::Refuse(guest)),
            DrainEvent::Left(_) | DrainEvent::Moved(_) => self.take_in(event, &mut actions),
            _ => {}
        }
        self.close(&mut actions);
        actions
    }

    /// When to call with [`DrainEvent::Tick`] at the latest; none once it has ended.
    pub fn deadline(&self) -> Option<Duration> {
        (self.phase != DrainPhase::Close).then_some(self.deadline)
    }

    /// The current phase.
    pub fn phase(&self) -> DrainPhase {
        self.phase
    }

    /// How many guests are still here.
    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    /// The counts so far; final in the last phase.
    pub fn counts(&self) -> DrainCounts {
        self.counts
    }

    fn take_in(&mut self, event: DrainEvent<G>, actions: &mut Vec<DrainAction<G>>) {
        match event {
            DrainEvent::Offline if self.phase == DrainPhase::Offline => self.enter_hooks(actions),
            DrainEvent::HookEnded(hook) if self.phase == DrainPhase::Hooks && hook == self.hook => {
                self.hook += 1;
                self.run_hook(actions);
            }
            DrainEvent::Arrived(guest) => self.admit(guest, actions),
            DrainEvent::Left(guest) => {
                let left = self.forget(&guest);
                self.counts.completed += u64::from(left);
            }
            DrainEvent::Moved(guest) => {
                let moved = self.forget(&guest);
                self.counts.moved += u64::from(moved);
            }
            DrainEvent::Stayed(guest) => self.keep(&guest),
            DrainEvent::TargetAppeared => self.retry(),
            DrainEvent::Offline | DrainEvent::HookEnded(_) | DrainEvent::Tick => {}
        }
    }

    fn enter_hooks(&mut self, actions: &mut Vec<DrainAction<G>>) {
        self.phase = DrainPhase::Hooks;
        if self.options.mode == DrainMode::Off {
            return self.enter_leave(actions);
        }
        self.run_hook(actions);
    }

    /// Runs the next hook, or goes on after the last.
    fn run_hook(&mut self, actions: &mut Vec<DrainAction<G>>) {
        if self.hook < self.options.hooks {
            actions.push(DrainAction::RunHook(self.hook));
        } else {
            self.enter_leave(actions);
        }
    }

    fn enter_leave(&mut self, actions: &mut Vec<DrainAction<G>>) {
        self.phase = DrainPhase::Leave;
        match self.options.mode {
            DrainMode::Off => actions.extend(self.guests.keys().cloned().map(DrainAction::End)),
            DrainMode::Wait => {}
            DrainMode::Migrate => self.waiting = self.guests.keys().cloned().collect(),
        }
    }

    /// In the phase leave: starts moves while there is room, closes when all have left.
    fn go_on(&mut self, actions: &mut Vec<DrainAction<G>>) {
        if self.phase != DrainPhase::Leave {
            return;
        }
        while self.moving < self.options.moves.max(1) {
            let Some(guest) = self.waiting.pop_first() else {
                break;
            };
            self.guests.insert(guest.clone(), GuestStage::Moving);
            self.moving += 1;
            actions.push(DrainAction::Move(guest));
        }
        if self.guests.is_empty() {
            self.close(actions);
        }
    }

    /// Guests that were sent before all sources had confirmed are let in; later ones are
    /// not.
    fn admit(&mut self, guest: G, actions: &mut Vec<DrainAction<G>>) {
        if self.guests.contains_key(&guest) {
            return;
        }
        if self.phase == DrainPhase::Offline {
            self.guests.insert(guest, GuestStage::Here);
        } else {
            actions.push(DrainAction::Refuse(guest));
        }
    }

    /// Removes a guest; answers whether it was still here.
    fn forget(&mut self, guest: &G) -> bool {
        let stage = self.guests.remove(guest);
        self.moving -= usize::from(stage == Some(GuestStage::Moving));
        self.waiting.remove(guest);
        stage.is_some()
    }

    /// Keeps a guest whose move has failed, until there is a new target or the drain ends.
    fn keep(&mut self, guest: &G) {
        let Some(stage) = self.guests.get_mut(guest) else {
            return;
        };
        if *stage == GuestStage::Moving {
            *stage = GuestStage::Stuck;
            self.moving -= 1;
        }
    }

    fn retry(&mut self) {
        let stuck = self
            .guests
            .iter_mut()
            .filter(|(_, stage)| **stage == GuestStage::Stuck);
        for (guest, stage) in stuck {
            *stage = GuestStage::Here;
            self.waiting.insert(guest.clone());
        }
    }

    fn close(&mut self, actions: &mut Vec<DrainAction<G>>) {
        self.phase = DrainPhase::Close;
        self.waiting.clear();
        let lost: Vec<_> = std::mem::take(&mut self.guests).into_keys().collect();
        self.counts.lost = lost.len() as u64;
        actions.push(DrainAction::Close { lost });
    }
}
