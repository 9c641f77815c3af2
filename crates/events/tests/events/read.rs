//! What readers get, and from where.

use std::time::Duration;

use futures_util::FutureExt as _;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_events::{
    ErrorKind, EventData, EventDataBatch, EventHubDefinition, EventPosition, ReaderOptions,
};

use crate::setup::{Node, bodies, one, rest, start};

const LETTERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Six events, two of them in one publication, at different times.
async fn letters() -> (Node, Vec<EventData>) {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("letters", 2))
        .await
        .unwrap();
    node.send("letters", 0, &["a", "b"]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let sender = node.hubs.sender("letters", Some(0)).await.unwrap();
    let mut pair = EventDataBatch::new();
    pair.push(b"c").unwrap();
    pair.push(b"d").unwrap();
    sender.send(pair).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    node.send("letters", 0, &["e", "f"]).await;
    let events = node.all("letters", 0).await;
    assert_eq!(bodies(&events), LETTERS);
    (node, events)
}

async fn from(node: &Node, start: EventPosition) -> Vec<String> {
    bodies(&rest(node.read("letters", 0, start).await).await)
}

#[tokio::test]
async fn events_21_reading_starts_behind_or_at_an_offset() {
    let (node, events) = letters().await;
    for (index, event) in events.iter().enumerate() {
        let offset = event.offset;
        let behind = EventPosition::Offset {
            offset,
            inclusive: false,
        };
        assert_eq!(from(&node, behind).await, LETTERS[index + 1..]);
        let at = EventPosition::Offset {
            offset,
            inclusive: true,
        };
        assert_eq!(from(&node, at).await, LETTERS[index..]);
        // Between two events means at the second.
        let between = EventPosition::Offset {
            offset: offset - 1,
            inclusive: false,
        };
        assert_eq!(from(&node, between).await, LETTERS[index..]);
    }
    let text = events[1].offset.to_string();
    let position = EventPosition::at_offset(&text, false).unwrap();
    assert_eq!(from(&node, position).await, LETTERS[2..]);
    let position = EventPosition::at_offset("-1", false).unwrap();
    assert_eq!(from(&node, position).await, LETTERS);
    let position = EventPosition::at_offset("@latest", false).unwrap();
    assert!(from(&node, position).await.is_empty());
    assert!(EventPosition::at_offset("x", false).is_err());
}

#[tokio::test]
async fn events_21_reading_starts_behind_or_at_a_sequence_number() {
    let (node, _) = letters().await;
    for sequence in 0..6 {
        let index = sequence as usize;
        let behind = EventPosition::Sequence {
            sequence,
            inclusive: false,
        };
        assert_eq!(from(&node, behind).await, LETTERS[index + 1..]);
        let at = EventPosition::Sequence {
            sequence,
            inclusive: true,
        };
        assert_eq!(from(&node, at).await, LETTERS[index..]);
    }
    let before = EventPosition::Sequence {
        sequence: -1,
        inclusive: false,
    };
    assert_eq!(from(&node, before).await, LETTERS);
}

#[tokio::test]
async fn events_21_reading_starts_behind_or_at_a_time() {
    let (node, events) = letters().await;
    for event in &events {
        let time = event.time;
        let first = |is_in: &dyn Fn(&&EventData) -> bool| {
            let kept: Vec<_> = events.iter().filter(is_in).cloned().collect();
            bodies(&kept)
        };
        let behind = EventPosition::Time {
            time,
            inclusive: false,
        };
        assert_eq!(from(&node, behind).await, first(&|e| e.time > time));
        let at = EventPosition::Time {
            time,
            inclusive: true,
        };
        assert_eq!(from(&node, at).await, first(&|e| e.time >= time));
    }
    let long_ago = EventPosition::Time {
        time: Timestamp(5),
        inclusive: true,
    };
    assert_eq!(from(&node, long_ago).await, LETTERS);
}

#[tokio::test]
async fn a_time_in_the_future_waits_for_events_of_that_time() {
    let (node, events) = letters().await;
    let time = Timestamp(events[5].time.0 + 3000);
    let mut reader = node
        .read(
            "letters",
            0,
            EventPosition::Time {
                time,
                inclusive: true,
            },
        )
        .await;
    node.send("letters", 0, &["too early"]).await;
    let late = async {
        tokio::time::sleep(Duration::from_millis(3200)).await;
        node.send("letters", 0, &["in time"]).await;
    };
    let (publication, ()) = tokio::join!(reader.next(), late);
    let event = publication.unwrap().next_event().unwrap().unwrap();
    assert_eq!(&event.body[..], b"in time");
}

#[tokio::test]
async fn events_22_what_is_sent_after_the_attach_reaches_a_reader_at_the_end() {
    let (node, _) = letters().await;
    for round in 0..50 {
        let mut reader = node.read("letters", 0, EventPosition::Latest).await;
        let body = round.to_string();
        node.send("letters", 0, &[&body]).await;
        let next = tokio::time::timeout(Duration::from_secs(10), reader.next());
        let mut publication = next.await.expect("it never came").unwrap();
        let event = publication.next_event().unwrap().unwrap();
        assert_eq!(event.body, body);
    }
}

#[tokio::test]
async fn events_23_behind_the_last_event_is_refused_in_the_services_words() {
    let (node, events) = letters().await;
    let attach = |start| {
        node.hubs
            .reader("letters", "$Default", 0, ReaderOptions::at(start))
    };
    let last = events[5].offset;
    for inclusive in [false, true] {
        let offset = last + 1;
        let error = attach(EventPosition::Offset { offset, inclusive })
            .await
            .err()
            .unwrap();
        assert_eq!(
            (error.kind(), error.code().0),
            (ErrorKind::PositionBeyondEnd, "STF-5008")
        );
        let words = format!(
            "The supplied offset '{offset}' is invalid. The last offset in the system is '{last}'"
        );
        assert_eq!(error.message(), words);
        let position = EventPosition::Sequence {
            sequence: 6,
            inclusive,
        };
        let error = attach(position).await.err().unwrap();
        let words = "The supplied sequence number '6' is invalid. The last sequence number in \
                     the system is '5'";
        assert_eq!(error.message(), words);
    }
    // The last itself is as good a place to wait as any.
    let position = EventPosition::Sequence {
        sequence: 5,
        inclusive: false,
    };
    let mut reader = attach(position).await.unwrap();
    assert!(reader.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn events_24_order_is_strict_under_eight_producers() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("busy", 1))
        .await
        .unwrap();
    let mut tasks = Vec::new();
    for producer in 0..8 {
        let sender = node.hubs.sender("busy", Some(0)).await.unwrap();
        tasks.push(tokio::spawn(async move {
            for number in 0..100 {
                let mut batch = EventDataBatch::new();
                batch
                    .push(format!("{producer} {number} a").as_bytes())
                    .unwrap();
                batch
                    .push(format!("{producer} {number} b").as_bytes())
                    .unwrap();
                sender.send(batch).await.unwrap();
            }
        }));
    }
    let mut reader = node.read("busy", 0, EventPosition::Earliest).await;
    let (mut current, mut seen) = (None, Vec::new());
    let mut last = [-1; 8];
    while seen.len() < 1600 {
        let event = reader.next_event(&mut current).await.unwrap();
        assert_eq!(event.sequence, seen.len() as i64);
        let text = String::from_utf8(event.body.to_vec()).unwrap();
        let words: Vec<_> = text.split(' ').collect();
        let (producer, number): (usize, i32) =
            (words[0].parse().unwrap(), words[1].parse().unwrap());
        match words[2] {
            "a" => assert_eq!(number, last[producer] + 1),
            _ => assert_eq!(seen.last(), Some(&format!("{producer} {number} a"))),
        }
        last[producer] = number;
        seen.push(text);
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn an_empty_partition_says_so() {
    let (node, events) = letters().await;
    let hub = node.hubs.get("letters").await.unwrap();
    let empty = node.hubs.partition("letters", 1).await.unwrap();
    assert_eq!((empty.last_sequence, empty.last_offset), (-1, -1));
    assert_eq!((empty.is_empty, empty.last_time), (true, hub.created));
    let full = node.hubs.partition("letters", 0).await.unwrap();
    assert_eq!((full.first_sequence, full.last_sequence), (0, 5));
    assert_eq!((full.is_empty, full.last_time), (false, events[5].time));
    assert_eq!(full.last_offset, events[5].offset);
    assert!(node.hubs.partition("letters", 2).await.is_err());
    let first = EventPosition::Sequence {
        sequence: 0,
        inclusive: true,
    };
    node.read("letters", 1, first).await;
}

#[tokio::test]
async fn a_reader_that_lags_gets_everything_in_order() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("much", 1))
        .await
        .unwrap();
    let mut reader = node.read("much", 0, EventPosition::Earliest).await;
    let sender = node.hubs.sender("much", None).await.unwrap();
    for number in 0..200u32 {
        let mut body = vec![0; 10_000];
        body[..4].copy_from_slice(&number.to_be_bytes());
        sender
            .send(EventDataBatch::of(&body).unwrap())
            .await
            .unwrap();
    }
    node.store.flush().await.unwrap();
    let mut current = None;
    for number in 0..200u32 {
        let event = reader.next_event(&mut current).await.unwrap();
        assert_eq!(event.body[..4], number.to_be_bytes());
    }
    let more = tokio::time::timeout(Duration::from_millis(50), reader.next()).await;
    assert!(more.is_err(), "there is nothing more");
    sender.send(one("end")).await.unwrap();
    let event = reader.next_event(&mut current).await.unwrap();
    assert_eq!(&event.body[..], b"end");
}

#[tokio::test]
async fn a_slow_reader_holds_little_whatever_lies_behind_it() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("much", 1))
        .await
        .unwrap();
    let sender = node.hubs.sender("much", None).await.unwrap();
    let body = vec![7; 20_000];
    for _ in 0..500 {
        sender
            .send(EventDataBatch::of(&body).unwrap())
            .await
            .unwrap();
    }
    // From memory, and from files.
    for is_flushed in [false, true] {
        if is_flushed {
            node.store.flush().await.unwrap();
        }
        let mut reader = node.read("much", 0, EventPosition::Earliest).await;
        for count in 1..=500 {
            let publication = reader.next().await.unwrap();
            assert_eq!(publication.next_sequence(), count - 1);
            let held = reader.held_bytes();
            assert!(held <= limits::READER_BYTES, "{held} bytes are held");
        }
        assert_eq!(reader.held_bytes(), 0);
    }
}

/// The caller of the deletion drops its future.
#[tokio::test]
async fn readers_learn_that_an_event_hub_went_also_if_nobody_waits() {
    let (node, _) = letters().await;
    let mut reader = node.read("letters", 0, EventPosition::Latest).await;
    let next = tokio::spawn(async move { reader.next().await.map(drop) });
    assert!(node.hubs.delete("letters").now_or_never().is_none());
    let told = tokio::time::timeout(Duration::from_secs(10), next).await;
    let error = told.expect("it is told").unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HubNotFound);
}

#[tokio::test]
async fn a_reader_learns_that_its_partition_went_and_can_come_back() {
    let (node, _) = letters().await;
    let mut reader = node.read("letters", 0, EventPosition::Latest).await;
    let kind = steadfast_events::HUB_PARTITION;
    let place = node.runtime.space().partition_of(kind, "letters", 0);
    let second = Duration::from_secs(1);
    let (next, handed_over) = tokio::join!(reader.next(), node.runtime.hand_over(place, second));
    handed_over.unwrap();
    let error = next.unwrap_err();
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::Unavailable, "STF-5024")
    );
    assert!(error.is_passing());
    let sender = node.hubs.sender("letters", Some(0)).await.unwrap();
    assert!(sender.send(one("x")).await.unwrap_err().is_passing());
    drop(reader);
    node.runtime.serve(place).await.unwrap();
    let mut reader = node.read("letters", 0, EventPosition::Latest).await;
    sender.send(one("again")).await.unwrap();
    let mut publication = reader.next().await.unwrap();
    let event = publication.next_event().unwrap().unwrap();
    assert_eq!((event.sequence, &event.body[..]), (6, &b"again"[..]));
}
