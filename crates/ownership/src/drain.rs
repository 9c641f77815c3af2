//! Leaving in four phases: offline, hooks, leave, close.
//!
//! The same machine empties an app server of its clients and a node of its
//! partitions; both are guests here. Events go in, actions come out; the phases only
//! ever go forward, and one limit (30 s by default) spans the first three. At the
//! limit the machine closes, whatever phase it is in. Events that are late, repeated
//! or about strangers change nothing, and every guest is booked exactly once: moved,
//! completed or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::limits::{DRAIN_LIMIT, DRAIN_MOVES};

/// What happens to the guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
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
    pub mode: Mode,
    /// How long offline, hooks and leave may take together.
    pub limit: Duration,
    /// How many hooks there are; they run one after another, in their order.
    pub hooks: u32,
    /// How many moves run at a time.
    pub moves: usize,
}

impl Options {
    /// The default limit, and no hooks.
    pub const fn new(mode: Mode) -> Self {
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
pub enum Phase {
    /// No new guests are sent here any more; waiting for this to be confirmed.
    Offline,
    /// Hooks run.
    Hooks,
    /// Guests leave, end or are moved.
    Leave,
    /// All is closed; the end.
    Close,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event<G> {
    /// All sources of new guests have confirmed that this server is offline.
    Offline,
    /// This hook has ended, well or not.
    HookEnded(u32),
    /// A guest came, sent before we were offline.
    Came(G),
    /// A guest left by itself or ended.
    Left(G),
    /// A guest was moved.
    Moved(G),
    /// A guest could not be moved, for instance because no target is available.
    Stayed(G),
    /// There is a new target to move to.
    PlaceAppeared,
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<G> {
    /// Announce to all sources of new guests that this server is offline.
    GoOffline,
    /// Run this hook.
    RunHook(u32),
    /// Ask this guest to end.
    End(G),
    /// Move this guest elsewhere.
    Move(G),
    /// Send this guest away: it came too late.
    Refuse(G),
    /// Close everything. The remaining guests are cut off.
    Close {
        /// The guests that are cut off.
        lost: Vec<G>,
    },
}

/// How many guests ended in which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sheet {
    /// Moved elsewhere.
    pub moved: u64,
    /// Left by themselves, or ended on request.
    pub completed: u64,
    /// Cut off at the end.
    pub lost: u64,
}

/// The progress of one guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Here,
    Moving,
    /// Could not be moved; retried when there is a new target.
    Stuck,
}

/// A drain that runs, or has ended.
#[derive(Clone, Debug)]
pub struct Drain<G> {
    options: Options,
    deadline: Duration,
    phase: Phase,
    /// The hook that runs now.
    hook: u32,
    guests: BTreeMap<G, Stage>,
    /// Guests to be moved when there is room.
    waiting: BTreeSet<G>,
    moving: usize,
    sheet: Sheet,
}

impl<G: Ord + Clone> Drain<G> {
    /// Begins at monotonic time `now`.
    pub fn begin(
        options: Options,
        guests: impl IntoIterator<Item = G>,
        now: Duration,
    ) -> (Self, Vec<Action<G>>) {
        let guests = guests.into_iter().map(|guest| (guest, Stage::Here));
        let drain = Self {
            options,
            deadline: now.saturating_add(options.limit),
            phase: Phase::Offline,
            hook: 0,
            guests: guests.collect(),
            waiting: BTreeSet::new(),
            moving: 0,
            sheet: Sheet::default(),
        };
        (drain, vec![Action::GoOffline])
    }

    /// Takes in an event at monotonic time `now`.
    pub fn on(&mut self, event: Event<G>, now: Duration) -> Vec<Action<G>> {
        let mut actions = Vec::new();
        if self.phase == Phase::Close {
            if let Event::Came(guest) = event {
                actions.push(Action::Refuse(guest));
            }
            return actions;
        }
        if now < self.deadline {
            self.take_in(event, &mut actions);
            self.go_on(&mut actions);
            return actions;
        }
        // Too late to begin anything; but a guest that has gone is not lost.
        match event {
            Event::Came(guest) => actions.push(Action::Refuse(guest)),
            Event::Left(_) | Event::Moved(_) => self.take_in(event, &mut actions),
            _ => {}
        }
        self.close(&mut actions);
        actions
    }

    /// When to call with [`Event::Tick`] at the latest; none once it has ended.
    pub fn deadline(&self) -> Option<Duration> {
        (self.phase != Phase::Close).then_some(self.deadline)
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many guests are still here.
    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    /// The counts so far; final in the last phase.
    pub fn sheet(&self) -> Sheet {
        self.sheet
    }

    fn take_in(&mut self, event: Event<G>, actions: &mut Vec<Action<G>>) {
        match event {
            Event::Offline if self.phase == Phase::Offline => self.enter_hooks(actions),
            Event::HookEnded(hook) if self.phase == Phase::Hooks && hook == self.hook => {
                self.hook += 1;
                self.run_hook(actions);
            }
            Event::Came(guest) => self.admit(guest, actions),
            Event::Left(guest) => {
                let left = self.forget(&guest);
                self.sheet.completed += u64::from(left);
            }
            Event::Moved(guest) => {
                let moved = self.forget(&guest);
                self.sheet.moved += u64::from(moved);
            }
            Event::Stayed(guest) => self.keep(&guest),
            Event::PlaceAppeared => self.retry(),
            Event::Offline | Event::HookEnded(_) | Event::Tick => {}
        }
    }

    fn enter_hooks(&mut self, actions: &mut Vec<Action<G>>) {
        self.phase = Phase::Hooks;
        if self.options.mode == Mode::Off {
            return self.enter_leave(actions);
        }
        self.run_hook(actions);
    }

    /// Runs the next hook, or goes on after the last.
    fn run_hook(&mut self, actions: &mut Vec<Action<G>>) {
        if self.hook < self.options.hooks {
            actions.push(Action::RunHook(self.hook));
        } else {
            self.enter_leave(actions);
        }
    }

    fn enter_leave(&mut self, actions: &mut Vec<Action<G>>) {
        self.phase = Phase::Leave;
        match self.options.mode {
            Mode::Off => actions.extend(self.guests.keys().cloned().map(Action::End)),
            Mode::Wait => {}
            Mode::Migrate => self.waiting = self.guests.keys().cloned().collect(),
        }
    }

    /// In the phase leave: starts moves while there is room, closes when all are gone.
    fn go_on(&mut self, actions: &mut Vec<Action<G>>) {
        if self.phase != Phase::Leave {
            return;
        }
        while self.moving < self.options.moves.max(1) {
            let Some(guest) = self.waiting.pop_first() else {
                break;
            };
            self.guests.insert(guest.clone(), Stage::Moving);
            self.moving += 1;
            actions.push(Action::Move(guest));
        }
        if self.guests.is_empty() {
            self.close(actions);
        }
    }

    /// Guests that were sent before all sources had confirmed are let in; later ones are
    /// not.
    fn admit(&mut self, guest: G, actions: &mut Vec<Action<G>>) {
        if self.guests.contains_key(&guest) {
            return;
        }
        if self.phase == Phase::Offline {
            self.guests.insert(guest, Stage::Here);
        } else {
            actions.push(Action::Refuse(guest));
        }
    }

    /// Whether the guest was still here.
    fn forget(&mut self, guest: &G) -> bool {
        let stage = self.guests.remove(guest);
        self.moving -= usize::from(stage == Some(Stage::Moving));
        self.waiting.remove(guest);
        stage.is_some()
    }

    /// A move has failed: the guest stays until there is a new target, or the end.
    fn keep(&mut self, guest: &G) {
        let Some(stage) = self.guests.get_mut(guest) else {
            return;
        };
        if *stage == Stage::Moving {
            *stage = Stage::Stuck;
            self.moving -= 1;
        }
    }

    fn retry(&mut self) {
        let stuck = self
            .guests
            .iter_mut()
            .filter(|(_, stage)| **stage == Stage::Stuck);
        for (guest, stage) in stuck {
            *stage = Stage::Here;
            self.waiting.insert(guest.clone());
        }
    }

    fn close(&mut self, actions: &mut Vec<Action<G>>) {
        self.phase = Phase::Close;
        self.waiting.clear();
        let lost: Vec<_> = std::mem::take(&mut self.guests).into_keys().collect();
        self.sheet.lost = lost.len() as u64;
        actions.push(Action::Close { lost });
    }
}
