//! What holds for every group of changing members.
//!
//! Small worlds with random strategies, weather and disturbances. The world itself
//! checks each write: it follows exactly the version it names, versions ascend, so no
//! version has two owners, and no claim meets an owner that still serves.

use std::time::Duration;

use proptest::prelude::*;
use steadfast_ownership::strategy::{GroupTiming, Strategy as Balancing};

use crate::world::{Weather, World};

const TIMING: GroupTiming = GroupTiming::new(Duration::from_secs(30), Duration::from_secs(120));

/// Something that happens to a group.
#[derive(Clone, Debug)]
enum Happening {
    Join,
    Crash,
    Leave,
    Restart,
    /// Time passes, in seconds.
    Pass(i64),
    Weather(Weather),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Join),
        2 => Just(Happening::Crash),
        1 => Just(Happening::Leave),
        1 => Just(Happening::Restart),
        4 => (0..200i64).prop_map(Happening::Pass),
        1 => (100..4_000i64, 0..8_000i64, 0..50u32).prop_map(|(delay_ms, stale_ms, unknown)| {
            Happening::Weather(Weather { delay_ms, stale_ms, unknown })
        }),
    ]
}

fn balancing() -> impl Strategy<Value = Balancing> {
    prop_oneof![
        Just(Balancing::BALANCED),
        Just(Balancing::GREEDY),
        Just(Balancing::GREEDY_AT_ONCE),
        Just(Balancing::SHARE),
    ]
}

/// Plays a script; at least one member lives at its end.
fn play(world: &mut World, script: &[Happening]) {
    world.join();
    let mut dead = Vec::new();
    for happening in script {
        let can_go = world.living().len() > 1;
        match happening {
            Happening::Join => {
                world.join();
            }
            Happening::Crash if can_go => {
                let victim = world.anyone();
                world.crash(victim);
                dead.push(victim);
            }
            Happening::Leave if can_go => {
                let leaver = world.anyone();
                world.leave(leaver);
            }
            Happening::Restart => {
                if let Some(back) = dead.pop() {
                    world.restart(back);
                }
            }
            Happening::Pass(seconds) => world.run_for(seconds * 1_000),
            Happening::Weather(weather) => world.weather = *weather,
            Happening::Crash | Happening::Leave => {}
        }
    }
}

/// A balanced member takes one partition per interval, and may lose some races.
fn limit_ms(world: &World) -> i64 {
    let rounds = 8 + 2 * i64::from(world.store.partitions());
    world.expiration_ms() + rounds * world.interval_ms()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every start converges, counts differ by at most one, nothing of a leaver is left,
    /// and each partition is served by exactly one member.
    #[test]
    fn every_group_comes_to_rest_and_stays_there(
        partitions in 1..40u32,
        balancing in balancing(),
        script in prop::collection::vec(happening(), 0..25),
        seed: u64,
    ) {
        let mut world = World::new(partitions, balancing, TIMING, seed);
        play(&mut world, &script);
        world.weather = Weather::FAIR;
        let limit = limit_ms(&world);
        prop_assert!(world.balance_within(limit).is_some(), "not balanced in {} ms", limit);
        // What was asked for before may still be answered; then nothing moves any more.
        world.settle();
        prop_assert!(world.is_balanced());
        world.check_at_rest();
        let moves = world.tally.moves;
        world.run_for(20 * TIMING.interval.as_millis() as i64);
        prop_assert_eq!(world.tally.moves, moves, "moves at rest");
        world.check_at_rest();
    }

    /// What a member had is free at once if it leaves, and after its expiration if it dies.
    /// Then it takes an interval until every member has run a cycle. Members that share may
    /// lose a race and retry soon; the rest, which take an extra only when no member lacks
    /// any, may need another interval.
    #[test]
    fn what_a_leaver_had_is_taken_in_time(
        partitions in 1..40u32,
        members in 2..8usize,
        balancing in prop_oneof![Just(Balancing::GREEDY_AT_ONCE), Just(Balancing::SHARE)],
        crashes: bool,
        seed: u64,
    ) {
        let mut world = World::new(partitions, balancing, TIMING, seed);
        for _ in 0..members {
            world.join();
        }
        let limit = limit_ms(&world);
        prop_assert!(world.balance_within(limit).is_some());
        world.settle();
        let goer = world.anyone();
        world.reset_ownerless();
        if crashes {
            world.crash(goer);
        } else {
            world.leave(goer);
        }
        prop_assert!(world.balance_within(limit).is_some());
        // The last renewal, the release, then a cycle: write, list and write again, each with
        // its answer, and a photograph that is one tick too old.
        let slowness = 6 * Weather::FAIR.delay_ms + Weather::FAIR.stale_ms + 1_500;
        let expiration = if crashes { world.expiration_ms() } else { 0 };
        let again = if balancing == Balancing::SHARE { 2 } else { 1 };
        let bound = expiration + world.interval_ms() + world.interval_ms() / again + slowness;
        let worst = world.ownerless_ms();
        prop_assert!(worst <= bound, "{} ms without an owner, {} allowed", worst, bound);
    }
}

/// The part of checklist item 39 of event hubs that needs no server.
#[test]
fn sixteen_partitions_and_a_changing_number_of_processors() {
    let mut world = World::new(16, Balancing::GREEDY, TIMING, 39);
    let mut members = vec![world.join()];
    let two_intervals = 2 * world.interval_ms();
    // 1 -> 2 -> 4 -> 3 -> 1 processors.
    for (joins, crashes) in [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)] {
        members.extend((0..joins).map(|_| world.join()).collect::<Vec<_>>());
        for _ in 0..crashes {
            world.crash(members.pop().unwrap());
        }
        let limit = two_intervals + world.expiration_ms();
        let took = world.balance_within(limit);
        assert!(took.is_some(), "{} members are not balanced", members.len());
        world.settle();
        world.check_at_rest();
    }
    let bound = world.expiration_ms() + world.interval_ms();
    assert!(world.ownerless_ms() <= bound, "{}", world.ownerless_ms());
}

/// The part of item 40 that needs no server.
#[test]
fn a_stable_set_changes_nothing_in_twenty_intervals() {
    for balancing in [
        Balancing::BALANCED,
        Balancing::GREEDY,
        Balancing::GREEDY_AT_ONCE,
        Balancing::SHARE,
    ] {
        let mut world = World::new(16, balancing, TIMING, 40);
        for _ in 0..3 {
            world.join();
        }
        let limit = limit_ms(&world);
        assert!(world.balance_within(limit).is_some());
        world.settle();
        let moves = world.tally.moves;
        world.run_for(20 * world.interval_ms());
        assert_eq!(world.tally.moves, moves, "{balancing:?}");
        world.check_at_rest();
    }
}
