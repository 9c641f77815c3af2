//! One consumer group with processors in five languages.
//!
//! Each SDK decides by its own settings when an ownership of another one has expired.
//! Their defaults, as interval of balancing and expiry: 30 s and 180 s in Python
//! (azure-eventhub 5.15.0), 10 s and 60 s in JavaScript (@azure/event-hubs 6.0.4) and Go
//! (azeventhubs 2.0.2), 30 s and 120 s in Java (azure-messaging-eventhubs 5.21.3), 30 s
//! and 60 s in Rust (azure_messaging_eventhubs 0.15.0). Here all expire after the same
//! seconds, which is the bound of the group: the first processor that sees an expired
//! ownership takes it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use processors::{Kind, RUST_INTERVAL, Scene};

mod clients;
mod processors;

const PARTITIONS: u32 = 32;
/// Python, JavaScript, Java, Go and Rust.
const LANGUAGES: [Kind; 5] = [Kind::Asyncio, Kind::Node, Kind::Java, Kind::Go, Kind::Rust];
/// Seconds after which an ownership expires.
const EXPIRY: u64 = 6;
/// An ownership expires, the slowest SDK sees it an interval later and opens the partition
/// within another, and the sender comes to the partition once a second. Times of blobs
/// are whole seconds. Five runtimes share the processors of the machine with the server,
/// and one of them starts: that may take as long as an ownership lasts.
const BOUND: Duration = Duration::from_secs(2 * EXPIRY + 2 * RUST_INTERVAL + 2);

#[tokio::test(flavor = "multi_thread")]
async fn events_41_42_processors_in_five_languages_share_a_group_and_lose_nothing() {
    let mut scene = Scene::start(PARTITIONS).await;
    scene.start_sender();
    for kind in LANGUAGES {
        scene.join_with(kind, EXPIRY);
    }
    scene.balanced(LANGUAGES.len()).await;
    scene.measure_pauses();
    for (number, kind) in LANGUAGES.into_iter().enumerate() {
        scene.kill(number).await;
        scene.balanced(LANGUAGES.len() - 1).await;
        check_pauses(&scene, kind);
        scene.join_with(kind, EXPIRY);
        scene.balanced(LANGUAGES.len()).await;
    }
    check_pauses(&scene, Kind::Rust);
    scene.stop_sender().await;
    // A processor that was killed may have kept an event and not said so any more.
    scene.all_came().await;
    scene.check();
    scene.end().await;
}

/// No partition stood still for longer than the bound.
fn check_pauses(scene: &Scene, killed: Kind) {
    let (pause, before, after, partition) = scene.longest_pause();
    assert!(
        pause <= BOUND,
        "{killed:?} was killed last, and partition {partition} stood still for {pause:?} between \
         processors {before} and {after}: {:?}",
        scene.lines_of(&partition)
    );
}
