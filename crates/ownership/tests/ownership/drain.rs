//! A drain under any order of events.
//!
//! Random scripts, with repeated and late events, moved forward by time. Whatever
//! happens, phases run in order, nothing begins before its phase, the end comes by
//! the limit, and every guest is booked once.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use steadfast_ownership::drain::{
    DrainAction, DrainCounts, DrainEvent, DrainMachine, DrainMode, DrainPhase, Options,
};

const LIMIT: Duration = Duration::from_secs(30);

fn event() -> impl Strategy<Value = DrainEvent<u8>> {
    let guest = 0..12u8;
    prop_oneof![
        2 => Just(DrainEvent::Offline),
        4 => (0..4u32).prop_map(DrainEvent::HookEnded),
        1 => guest.clone().prop_map(DrainEvent::Arrived),
        4 => guest.clone().prop_map(DrainEvent::Left),
        4 => guest.clone().prop_map(DrainEvent::Moved),
        2 => guest.prop_map(DrainEvent::Stayed),
        1 => Just(DrainEvent::TargetAppeared),
        1 => Just(DrainEvent::Tick),
    ]
}

fn mode() -> impl Strategy<Value = DrainMode> {
    prop_oneof![
        Just(DrainMode::Off),
        Just(DrainMode::Wait),
        Just(DrainMode::Migrate)
    ]
}

/// What a watcher of the actions knows.
#[derive(Default)]
struct Watch {
    offline_asked: bool,
    offline_confirmed: bool,
    hooks_begun: u32,
    hooks_ended: u32,
    moving: BTreeSet<u8>,
    closed: u32,
    lost: usize,
}

impl Watch {
    fn saw(&mut self, event: &DrainEvent<u8>) {
        match event {
            DrainEvent::Offline => self.offline_confirmed = true,
            DrainEvent::HookEnded(hook) if hook + 1 == self.hooks_begun => {
                self.hooks_ended = self.hooks_begun;
            }
            DrainEvent::Left(guest) | DrainEvent::Moved(guest) | DrainEvent::Stayed(guest) => {
                self.moving.remove(guest);
            }
            _ => {}
        }
    }

    fn check(&mut self, action: &DrainAction<u8>, options: &Options) -> Result<(), TestCaseError> {
        if !matches!(action, DrainAction::Refuse(_)) {
            prop_assert_eq!(self.closed, 0, "{:?} after the end", action);
        }
        let hooks_are_over = self.hooks_ended == options.hooks && self.offline_confirmed;
        match action {
            DrainAction::GoOffline => {
                prop_assert!(!std::mem::replace(&mut self.offline_asked, true))
            }
            DrainAction::RunHook(hook) => {
                prop_assert!(self.offline_confirmed, "a hook before offline");
                prop_assert_ne!(options.mode, DrainMode::Off);
                prop_assert_eq!(*hook, self.hooks_begun);
                prop_assert_eq!(self.hooks_begun, self.hooks_ended, "two hooks at once");
                self.hooks_begun += 1;
            }
            DrainAction::Move(guest) => {
                prop_assert_eq!(options.mode, DrainMode::Migrate);
                prop_assert!(hooks_are_over, "a move before the hooks have ended");
                prop_assert!(self.moving.insert(*guest), "moved twice at a time");
                prop_assert!(self.moving.len() <= options.moves);
            }
            DrainAction::End(_) => {
                prop_assert_eq!(options.mode, DrainMode::Off);
                prop_assert!(self.offline_confirmed);
            }
            DrainAction::Refuse(_) => prop_assert!(self.offline_confirmed || self.closed > 0),
            DrainAction::Close { lost } => {
                prop_assert!(
                    hooks_are_over || options.mode == DrainMode::Off,
                    "closed early"
                );
                prop_assert!(lost.is_empty(), "cut off before the limit");
                self.closed += 1;
            }
        }
        Ok(())
    }

    /// At the limit nothing begins any more.
    fn check_late(&mut self, action: &DrainAction<u8>) -> Result<(), TestCaseError> {
        match action {
            DrainAction::Refuse(_) => {}
            DrainAction::Close { lost } => {
                self.closed += 1;
                self.lost = lost.len();
            }
            _ => return Err(TestCaseError::fail(format!("{action:?} at the limit"))),
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_drain_runs_in_order_and_ends_by_its_limit(
        mode in mode(),
        hooks in 0..4u32,
        moves in 1..4usize,
        guests in prop::collection::btree_set(0..10u8, 0..10),
        script in prop::collection::vec((event(), 0..1_500u64), 0..60),
    ) {
        let options = Options { mode, limit: LIMIT, hooks, moves };
        let begin = Duration::from_secs(100);
        let (mut drain, first) = DrainMachine::begin(options, guests.clone(), begin);
        let mut watch = Watch::default();
        prop_assert_eq!(&first, &[DrainAction::GoOffline]);
        watch.check(&first[0], &options)?;
        let mut now = begin;
        let mut admitted = guests;
        for (event, pause) in script {
            let deadline = drain.deadline();
            now += Duration::from_millis(pause);
            if deadline.is_some_and(|deadline| now >= deadline) {
                // The end comes at the deadline, whatever comes with it.
                now = deadline.unwrap_or(now);
            }
            step(&mut drain, &mut watch, &options, &mut admitted, &event, now)?;
        }
        if let Some(deadline) = drain.deadline() {
            step(&mut drain, &mut watch, &options, &mut admitted, &DrainEvent::Tick, deadline)?;
        }
        prop_assert_eq!(drain.phase(), DrainPhase::Close);
        prop_assert_eq!(watch.closed, 1);
        let DrainCounts { moved, completed, lost } = drain.counts();
        prop_assert_eq!(lost as usize, watch.lost);
        prop_assert_eq!((moved + completed + lost) as usize, admitted.len());
    }
}

fn options(mode: DrainMode) -> Options {
    Options {
        hooks: 2,
        ..Options::new(mode)
    }
}

/// A drain in its third phase, with the guests 0 to 2, and what it did on entering it.
fn leaving(options: Options) -> (DrainMachine<u8>, Vec<DrainAction<u8>>) {
    let (mut drain, actions) = DrainMachine::begin(options, 0..3, Duration::ZERO);
    assert_eq!(actions, [DrainAction::GoOffline]);
    let mut actions = drain.on(DrainEvent::Offline, Duration::ZERO);
    if options.mode != DrainMode::Off {
        for hook in 0..options.hooks {
            assert_eq!(drain.phase(), DrainPhase::Hooks);
            assert_eq!(actions, [DrainAction::RunHook(hook)]);
            actions = drain.on(DrainEvent::HookEnded(hook), Duration::ZERO);
        }
    }
    assert_eq!(drain.phase(), DrainPhase::Leave);
    (drain, actions)
}

#[test]
fn migrating_moves_each_guest_and_loses_none() {
    let (mut drain, actions) = leaving(options(DrainMode::Migrate));
    assert_eq!(actions, [0, 1, 2].map(DrainAction::Move));
    let now = Duration::from_secs(1);
    assert_eq!(drain.on(DrainEvent::Moved(0), now), []);
    assert_eq!(drain.on(DrainEvent::Moved(0), now), [], "repeated");
    assert_eq!(drain.on(DrainEvent::Left(1), now), []);
    let end = drain.on(DrainEvent::Moved(2), now);
    assert_eq!(end, [DrainAction::Close { lost: vec![] }]);
    let sheet = DrainCounts {
        moved: 2,
        completed: 1,
        lost: 0,
    };
    assert_eq!((drain.counts(), drain.deadline()), (sheet, None));
}

#[test]
fn a_guest_that_stayed_is_moved_again_when_there_is_a_place() {
    let (mut drain, _) = leaving(options(DrainMode::Migrate));
    let now = Duration::from_secs(1);
    assert_eq!(drain.on(DrainEvent::Stayed(1), now), []);
    assert_eq!(
        drain.on(DrainEvent::TargetAppeared, now),
        [DrainAction::Move(1)]
    );
    assert_eq!(
        drain.on(DrainEvent::TargetAppeared, now),
        [],
        "already on its way"
    );
}

#[test]
fn moves_wait_for_room() {
    let (mut drain, actions) = leaving(Options {
        moves: 2,
        ..options(DrainMode::Migrate)
    });
    assert_eq!(actions, [0, 1].map(DrainAction::Move));
    assert_eq!(
        drain.on(DrainEvent::Moved(1), Duration::ZERO),
        [DrainAction::Move(2)]
    );
}

#[test]
fn waiting_guests_are_cut_off_at_thirty_seconds() {
    let (mut drain, actions) = leaving(options(DrainMode::Wait));
    assert_eq!(actions, []);
    assert_eq!(drain.deadline(), Some(LIMIT));
    drain.on(DrainEvent::Left(1), Duration::from_secs(3));
    let before = LIMIT - Duration::from_nanos(1);
    assert_eq!(drain.on(DrainEvent::Tick, before), []);
    let end = drain.on(DrainEvent::Tick, LIMIT);
    assert_eq!(end, [DrainAction::Close { lost: vec![0, 2] }]);
    assert_eq!(
        drain.counts(),
        DrainCounts {
            moved: 0,
            completed: 1,
            lost: 2
        }
    );
}

#[test]
fn who_has_left_at_the_limit_is_not_lost() {
    let (mut drain, _) = leaving(options(DrainMode::Wait));
    let end = drain.on(DrainEvent::Left(1), LIMIT);
    assert_eq!(end, [DrainAction::Close { lost: vec![0, 2] }]);
    assert_eq!(drain.counts().completed, 1);
}

#[test]
fn off_runs_no_hooks_and_ends_each_guest() {
    let (_, actions) = leaving(options(DrainMode::Off));
    assert_eq!(actions, [0, 1, 2].map(DrainAction::End));
}

#[test]
fn guests_come_in_until_offline_is_confirmed() {
    let (mut drain, _) = DrainMachine::begin(options(DrainMode::Wait), [0u8], Duration::ZERO);
    assert_eq!(drain.on(DrainEvent::Arrived(1), Duration::ZERO), []);
    assert_eq!(drain.guests(), 2);
    drain.on(DrainEvent::Offline, Duration::ZERO);
    assert_eq!(
        drain.on(DrainEvent::Arrived(2), Duration::ZERO),
        [DrainAction::Refuse(2)]
    );
    assert_eq!(drain.guests(), 2);
}

#[test]
fn hooks_run_though_nobody_is_here() {
    let (mut drain, _) = DrainMachine::<u8>::begin(options(DrainMode::Wait), [], Duration::ZERO);
    assert_eq!(
        drain.on(DrainEvent::Offline, Duration::ZERO),
        [DrainAction::RunHook(0)]
    );
    assert_eq!(
        drain.on(DrainEvent::HookEnded(1), Duration::ZERO),
        [],
        "not yet begun"
    );
    assert_eq!(
        drain.on(DrainEvent::HookEnded(0), Duration::ZERO),
        [DrainAction::RunHook(1)]
    );
    let end = drain.on(DrainEvent::HookEnded(1), Duration::ZERO);
    assert_eq!(end, [DrainAction::Close { lost: vec![] }]);
}

fn step(
    drain: &mut DrainMachine<u8>,
    watch: &mut Watch,
    options: &Options,
    admitted: &mut BTreeSet<u8>,
    event: &DrainEvent<u8>,
    now: Duration,
) -> Result<(), TestCaseError> {
    let before = drain.phase();
    let had = drain.guests();
    let in_time = drain.deadline().is_some_and(|deadline| now < deadline);
    if in_time {
        watch.saw(event);
    }
    let is_over = before == DrainPhase::Close;
    let sheet = drain.counts();
    let actions = drain.on(event.clone(), now);
    for action in &actions {
        if in_time || is_over {
            watch.check(action, options)?;
        } else {
            watch.check_late(action)?;
        }
    }
    prop_assert!(drain.phase() >= before, "a phase came back");
    if let DrainEvent::Arrived(guest) = event
        && drain.guests() > had
    {
        prop_assert_eq!(before, DrainPhase::Offline, "let in too late");
        // A guest that left and came again is another one.
        if !admitted.insert(*guest) {
            return Err(TestCaseError::reject("came again"));
        }
    }
    if is_over {
        prop_assert_eq!(drain.counts(), sheet, "booked after the end");
    } else if !in_time {
        prop_assert_eq!(drain.phase(), DrainPhase::Close, "went on after the limit");
    }
    Ok(())
}
