//! Several nodes in one thread, on a seed.
//!
//! Nodes crash between any two steps, the network loses, delays and repeats, the
//! engine is as hostile as the seam allows, clocks jump, owners change. At the end
//! everything heals, and the rows must tell one story.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "simulation/clock.rs"]
mod clock;
#[path = "simulation/net.rs"]
mod net;
#[path = "simulation/node.rs"]
mod node;
#[path = "simulation/oracle.rs"]
mod oracle;
#[path = "simulation/story.rs"]
mod story;
#[path = "simulation/wire.rs"]
mod wire;
#[path = "simulation/world.rs"]
mod world;

use std::process::Command;

/// Seeds that the test command runs; `cargo xtask soak simulation` runs more.
const SEEDS: u64 = 1_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn revision() -> String {
    let asked = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    text.unwrap_or_default()
}

#[test]
fn everything_heals_and_nothing_is_lost_or_doubled() {
    let seeds = match number("STEADFAST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STEADFAST_SEEDS").unwrap_or(SEEDS),
    };
    let mut totals = world::Totals::default();
    for seed in seeds.clone() {
        match world::run(seed) {
            Ok(of_seed) => totals.add(&of_seed),
            Err(violation) => panic!(
                "seed {seed} at revision {}: {violation}\nrepeat it with\n  STEADFAST_SEED={seed} \
                 cargo test -p steadfast-partition --test simulation",
                revision()
            ),
        }
    }
    println!("{} seeds: {totals:?}", seeds.end - seeds.start);
    // A simulation in which nothing goes wrong would show nothing.
    if seeds.end - seeds.start >= 100 {
        assert!(totals.are_all_seen(), "some fault never struck: {totals:?}");
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in [1, 2, 3] {
        let first = world::run(seed).unwrap();
        let second = world::run(seed).unwrap();
        assert_eq!(first, second, "seed {seed} went differently");
    }
}
