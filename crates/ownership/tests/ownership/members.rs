//! A thousand members share 32,768 partitions.
//!
//! They join, crash, leave and come back while the store is slow: writes and answers
//! are delayed, listings are old, some answers never come. A seed decides everything;
//! `STEADFAST_SEED` repeats one.

use steadfast_ownership::strategy::{GroupTiming, Strategy};

use crate::world::{Weather, World};

const PARTITIONS: u32 = 32_768;
const MEMBERS: usize = 1_000;

/// Moves beyond the necessary ones, in percent of these, at most.
const SURPLUS_PERCENT: u64 = 10;

/// A slow store: an answer takes 2 s on average, a listing is up to a fifth of an interval
/// old, and of 200 answers one never comes.
const SLOW: Weather = Weather {
    delay_ms: 2_000,
    stale_ms: 6_000,
    unknown: 5,
};

/// Rounds (intervals) within which the members are balanced, after some came or after the
/// records of those who went have expired.
const ROUNDS: i64 = 6;
const ROUNDS_WHEN_SLOW: i64 = 10;

/// A disturbance that ends in balance.
struct Stage {
    name: &'static str,
    weather: Weather,
    disturb: fn(&mut World),
    /// Whether members die, who are missed only when their records expire.
    deaths: bool,
}

#[test]
fn a_thousand_members_balance_with_few_moves() {
    let mut world = new_world("a_thousand");
    let (mut moves, mut needed) = (0, 0);
    for stage in stages() {
        let (made, necessary) = play(&mut world, &stage);
        moves += made;
        needed += necessary;
    }
    println!("{moves} moves, {needed} necessary: {:?}", world.tally);
    assert!(world.tally.conflicts > 1_000, "the store was too kind");
    assert!(world.tally.adopted > 100, "no lost answer was taken up");
}

#[test]
fn members_come_and_go_all_the_time() {
    let mut world = new_world("members_come");
    join(&mut world, MEMBERS);
    let start = ROUNDS * world.interval_ms();
    assert!(world.balance_within(start).is_some(), "no balance at first");
    let moves_before = world.tally.moves;
    world.weather = SLOW;
    let mut necessary = 0;
    let mut dead = Vec::new();
    for round in 0..12 {
        // What each of these would need alone: a newcomer its share, a victim's records a
        // new owner. Together they may need less, when the one takes what the other left.
        let living = world.living().len() as u64;
        join(&mut world, 10);
        necessary += 10 * u64::from(PARTITIONS) / (living + 10);
        for _ in 0..10 {
            let victim = world.anyone();
            necessary += world.records_of(victim) as u64;
            world.crash(victim);
            dead.push(victim);
        }
        if round % 4 == 3 {
            // One that died just now is back before anybody has missed it.
            let back = dead.pop().unwrap();
            necessary -= world.records_of(back) as u64;
            world.restart(back);
        }
        let pause = world.interval_ms() / 2;
        world.run_for(pause);
    }
    let limit = world.expiration_ms() + ROUNDS_WHEN_SLOW * world.interval_ms();
    let took = world.balance_within(limit);
    let moves = world.tally.moves - moves_before;
    println!(
        "{took:?} ms, {moves} moves, {necessary} necessary: {:?}",
        world.tally
    );
    assert!(took.is_some(), "not balanced in time");
    check(&mut world, moves, necessary);
}

fn new_world(test: &str) -> World {
    let seed = std::env::var("STEADFAST_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!(
        "again: STEADFAST_SEED={seed} cargo test -p steadfast-ownership --test ownership members::{test}"
    );
    World::new(PARTITIONS, Strategy::SHARE, GroupTiming::DOTNET, seed)
}

#[rustfmt::skip]
fn stages() -> Vec<Stage> {
    let stage = |name, weather, deaths, disturb| Stage { name, weather, disturb, deaths };
    vec![
        stage("all but 100 start", Weather::FAIR, false, |world| join(world, MEMBERS - 100)),
        stage("100 join", Weather::FAIR, false, |world| join(world, 100)),
        stage("one crashes", Weather::FAIR, true, |world| crash(world, 1)),
        stage("99 crash", Weather::FAIR, true, |world| crash(world, 99)),
        stage("100 join", Weather::FAIR, false, |world| join(world, 100)),
        stage("100 crash, slow store", SLOW, true, |world| crash(world, 100)),
        stage("100 join, slow store", SLOW, false, |world| join(world, 100)),
        stage("100 leave", Weather::FAIR, false, |world| leave(world, 100)),
    ]
}

fn join(world: &mut World, count: usize) {
    for _ in 0..count {
        world.join();
    }
}

fn crash(world: &mut World, count: usize) {
    for _ in 0..count {
        let victim = world.anyone();
        world.crash(victim);
    }
}

fn leave(world: &mut World, count: usize) {
    for _ in 0..count {
        let leaver = world.anyone();
        world.leave(leaver);
    }
}

/// One disturbance until balance: moves made and necessary.
fn play(world: &mut World, stage: &Stage) -> (u64, u64) {
    let is_slow = stage.weather.stale_ms > Weather::FAIR.stale_ms;
    let rounds = if is_slow { ROUNDS_WHEN_SLOW } else { ROUNDS };
    let expiration = i64::from(stage.deaths) * world.expiration_ms();
    let limit = expiration + rounds * world.interval_ms();
    let moves_before = world.tally.moves;
    world.weather = stage.weather;
    (stage.disturb)(world);
    let necessary = world.moves_needed();
    let took = world.balance_within(limit);
    let moves = world.tally.moves - moves_before;
    println!(
        "{}: {took:?} ms of {limit}, {moves} moves, {necessary} necessary, {} ms without owner",
        stage.name,
        world.ownerless_ms(),
    );
    assert!(took.is_some(), "{}: not balanced in time", stage.name);
    assert!(moves >= necessary, "the world cannot count");
    check(world, moves, necessary);
    (moves, necessary)
}

/// Few surplus moves, nothing without owner for long, one server for each partition.
fn check(world: &mut World, moves: u64, necessary: u64) {
    let surplus = moves.saturating_sub(necessary);
    assert!(
        surplus * 100 <= necessary * SURPLUS_PERCENT,
        "{surplus} surplus moves"
    );
    let bound = world.expiration_ms() + world.interval_ms();
    let worst = world.ownerless_ms();
    assert!(worst <= bound, "{worst} ms without an owner");
    world.settle();
    world.check_at_rest();
}
