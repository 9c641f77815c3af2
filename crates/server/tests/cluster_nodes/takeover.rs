//! Occurrences that a region misses while it takes over.

use serde_json::json;

use crate::regions::{Heard, Pair, jobs};
use crate::running;

/// Seconds between two occurrences.
const INTERVAL: i64 = 2;

/// Occurrences that a region was called for, in the order of the calls.
fn occurrences(pair: &Pair, region: usize) -> Vec<i64> {
    let heard = pair.heard();
    let of_region = heard
        .iter()
        .filter(|one| one.path == "/held/missed" && one.region == pair.name(region));
    of_region.map(|one: &Heard| one.expected).collect()
}

fn wall_seconds() -> i64 {
    jobs::seconds(&jobs::in_seconds(0))
}

/// Whether one occurrence waits for the one that is under way.
fn is_one_held(pair: &Pair, region: usize) -> bool {
    let (_, _, history) = pair.get(region, "/jobs/missed/history");
    let items = history["value"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .any(|item| item["properties"]["status"] == "Postponed")
}

#[test]
fn a_region_that_takes_over_runs_every_missed_occurrence_in_order_behind_one_that_waits() {
    let mut pair = Pair::start();
    let home = pair.home();
    let other = 1 - home;
    pair.collection(home, "c");
    // At home the first call gets no answer: the second occurrence waits for it, and the
    // third merges into that.
    pair.put(
        home,
        "missed",
        json!({"properties": {
            "action": pair.action("/held/missed"),
            "recurrence": {"frequency": "Second", "interval": INTERVAL},
        }}),
    );
    pair.heard_from(home, &["/held/missed"]);
    running::until("one occurrence waits", || {
        is_one_held(&pair, home).then_some(())
    });
    pair.synced(home);
    let killed = wall_seconds();
    pair.kill(home);
    pair.heard_from(other, &["/held/missed"]);
    let back = wall_seconds();
    let first = occurrences(&pair, home)[0];
    // Everything that came due until then was missed, and nothing else is asked for.
    let is_through = || {
        occurrences(&pair, other)
            .last()
            .is_some_and(|at| *at > back)
    };
    running::until("what was missed has run", || is_through().then_some(()));
    let mut found = occurrences(&pair, other);
    found.retain(|at| *at < back);
    println!("from {first}: killed at {killed}, back at {back}, ran {found:?}");
    assert_eq!(occurrences(&pair, home), [first], "one was under way");
    assert_eq!(
        found[..2],
        [first, first + INTERVAL],
        "it, and the one that waits"
    );
    let missed = &found[2..];
    assert!(missed.len() >= 3, "there was a downtime: {missed:?}");
    assert!(missed[0] <= killed + INTERVAL, "the first one is there");
    let gaps = missed.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap == INTERVAL), "{missed:?}");
    assert!(
        missed[missed.len() - 1] + INTERVAL >= back,
        "the last one is there"
    );
}
