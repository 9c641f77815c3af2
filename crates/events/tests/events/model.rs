//! Random publications and readers against a list.
//!
//! Publications of any size, flushes, restarts and trims; then readers from anywhere.
//! `STEADFAST_SEED` repeats one, `STEADFAST_SEEDS` says how many are tried.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use steadfast_core::clock::{Clock, Timestamp, VirtualClock};
use steadfast_events::{
    ErrorKind, EventData, EventDataBatch, EventHubDefinition, EventPosition, EventRetention,
    ReaderOptions,
};

use crate::setup::{Node, open_with, rest};

/// What a partition should hold: every event that was ever accepted.
#[derive(Default)]
struct Model {
    bodies: Vec<Vec<u8>>,
    /// By publication: first event, and the offset of its last.
    publications: Vec<(usize, i64)>,
}

#[test]
fn readers_from_anywhere_see_what_the_list_says() {
    let read = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text: String| text.parse().ok())
    };
    let seeds: u64 = read("STEADFAST_SEEDS").unwrap_or(8);
    let first: u64 = read("STEADFAST_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    for seed in first..first + seeds {
        println!(
            "again: STEADFAST_SEED={seed} cargo test -p steadfast-events --test events model::"
        );
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
        runtime.block_on(play(seed));
    }
}

async fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::starting_at(Timestamp(1_800_000_000_000));
    let bytes = rng.bool().then(|| rng.u64(20_000..400_000));
    let retention = EventRetention { age: None, bytes };
    let mut node = start(folder.path(), &clock).await;
    let definition = EventHubDefinition::new("a", 1).retention(retention);
    node.hubs.create(definition).await.unwrap();
    let mut model = Model::default();
    for _ in 0..rng.u32(10..60) {
        match rng.u8(0..10) {
            0 => node.store.flush().await.unwrap(),
            1 => {
                node.stop().await;
                node = start(folder.path(), &clock).await;
            }
            2 => clock.advance(Duration::from_millis(rng.u64(0..50))),
            _ => publish(&node, &mut model, &mut rng).await,
        }
    }
    check(&node, &model, bytes, &mut rng).await;
}

async fn start(folder: &Path, clock: &VirtualClock) -> Node {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    open_with(folder, clock).await
}

async fn publish(node: &Node, model: &mut Model, rng: &mut Rng) {
    let mut batch = EventDataBatch::new();
    let first = model.bodies.len();
    // Small ones go through the log, large ones past it.
    let most = if rng.u8(0..4) == 0 { 60_000 } else { 400 };
    for _ in 0..rng.usize(1..12) {
        let body: Vec<u8> = (0..rng.usize(0..most)).map(|_| rng.u8(..)).collect();
        batch.push(&body).unwrap();
        model.bodies.push(body);
    }
    let sender = node.hubs.sender("a", None).await.unwrap();
    let published = sender.send(batch).await.unwrap();
    assert_eq!(published.sequence, first as i64);
    model.publications.push((first, published.last_offset));
}

async fn check(node: &Node, model: &Model, bytes: Option<u64>, rng: &mut Rng) {
    let kept = node.all("a", 0).await;
    let properties = node.hubs.partition("a", 0).await.unwrap();
    let last_offset = model.publications.last().map_or(-1, |(_, offset)| *offset);
    assert_eq!(properties.last_offset, last_offset);
    assert_eq!(properties.last_sequence, model.bodies.len() as i64 - 1);
    let first = kept
        .first()
        .map_or(model.bodies.len(), |event| event.sequence as usize);
    assert_eq!(kept.len(), model.bodies.len() - first, "the end is missing");
    for (event, body) in kept.iter().zip(&model.bodies[first..]) {
        assert_eq!(event.body, body);
    }
    for (first, offset) in model.publications.iter().filter(|(_, offset)| *offset >= 0) {
        // The last event of each publication has the offset that its sender was told.
        let next = model
            .publications
            .iter()
            .map(|(next, _)| *next)
            .find(|next| next > first);
        let last = next.unwrap_or(model.bodies.len()) as i64 - 1;
        if let Some(event) = kept.iter().find(|event| event.sequence == last) {
            assert_eq!(event.offset, *offset);
        }
    }
    match bytes {
        None => assert_eq!(first, 0, "events are gone"),
        Some(most) => {
            let held: usize = kept.iter().map(|event| event.body.len()).sum();
            let newest = model.publications.last().map_or(0, |(first, _)| {
                model.bodies[*first..].iter().map(Vec::len).sum()
            });
            assert!(
                held as u64 <= most.max(newest as u64),
                "{held} bytes are kept"
            );
        }
    }
    for _ in 0..60 {
        read_from_anywhere(node, model, &kept, rng).await;
    }
}

async fn read_from_anywhere(node: &Node, model: &Model, kept: &[EventData], rng: &mut Rng) {
    let inclusive = rng.bool();
    let last = model.bodies.len() as i64 - 1;
    let last_offset = model.publications.last().map_or(-1, |(_, offset)| *offset);
    let time = kept.first().map_or(0, |event| event.time.0);
    type Fits = Box<dyn Fn(&&EventData) -> bool>;
    let (position, is_beyond, fits): (EventPosition, bool, Fits) = match rng.u8(0..3) {
        0 => {
            let sequence = rng.i64(-2..last + 4);
            let fits = move |e: &&EventData| e.sequence > sequence - i64::from(inclusive);
            let position = EventPosition::Sequence {
                sequence,
                inclusive,
            };
            (position, sequence > last, Box::new(fits))
        }
        1 => {
            // Near an event, or anywhere.
            let near = rng.usize(..kept.len().max(1));
            let near = kept
                .get(near)
                .map_or(0, |event| event.offset + rng.i64(-2..=2));
            let offset = if rng.bool() {
                near
            } else {
                rng.i64(-2..last_offset + 100)
            };
            let fits = move |e: &&EventData| e.offset > offset - i64::from(inclusive);
            let position = EventPosition::Offset { offset, inclusive };
            (position, offset > last_offset, Box::new(fits))
        }
        _ => {
            let time = Timestamp(time + rng.i64(-5..300));
            let fits = move |e: &&EventData| e.time.0 > time.0 - i64::from(inclusive);
            (
                EventPosition::Time { time, inclusive },
                false,
                Box::new(fits),
            )
        }
    };
    let reader = node
        .hubs
        .reader("a", "$Default", 0, ReaderOptions::at(position))
        .await;
    let is_first = model.bodies.is_empty() && inclusive;
    let reader = match reader {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::PositionBeyondEnd);
            return assert!(is_beyond, "{position:?} was refused");
        }
        Ok(reader) => reader,
    };
    assert!(!is_beyond || is_first, "{position:?} was accepted");
    let expected: Vec<EventData> = kept.iter().filter(|event| fits(event)).cloned().collect();
    let found = rest(reader).await;
    let numbers = |events: &[EventData]| events.iter().map(|e| e.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(&found), numbers(&expected), "{position:?}");
    assert_eq!(found, expected);
}
