//! What a publication becomes.

use steadfast_core::limits;
use steadfast_events::{
    ErrorKind, EventDataBatch, EventHubDefinition, ProducerOptions, ProducerSequence,
};

use crate::setup::{bodies, one, open, start};

#[tokio::test]
async fn events_11_a_batch_of_500_lands_in_one_partition_without_gaps() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("telemetry", 4))
        .await
        .unwrap();
    let sender = node.hubs.sender("telemetry", None).await.unwrap();
    for _ in 0..3 {
        let mut batch = EventDataBatch::keyed("house-42").unwrap();
        for number in 0..500u32 {
            batch.push(&number.to_be_bytes()).unwrap();
        }
        let published = sender.send(batch).await.unwrap();
        assert_eq!(published.partition, 3);
    }
    let events = node.all("telemetry", 3).await;
    let numbers: Vec<_> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (0..1500).collect::<Vec<_>>());
    assert!(
        events
            .windows(2)
            .all(|pair| pair[0].offset < pair[1].offset)
    );
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
    for partition in 0..3 {
        assert!(node.all("telemetry", partition).await.is_empty());
    }
}

#[tokio::test]
async fn events_12_a_single_event_and_a_batch_of_one_look_the_same() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    let sender = node.hubs.sender("a", None).await.unwrap();
    sender.send(one("x")).await.unwrap();
    let mut batch = EventDataBatch::new();
    batch.push(b"x").unwrap();
    sender.send(batch).await.unwrap();
    let events = node.all("a", 0).await;
    assert_eq!(events[0].body, events[1].body);
    assert_eq!(bodies(&events), ["x", "x"]);
}

#[tokio::test]
async fn events_13_keys_go_where_their_hash_says() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("keyed", 16))
        .await
        .unwrap();
    let sender = node.hubs.sender("keyed", None).await.unwrap();
    for (key, partition) in [("", 0), ("a", 12), ("pk1", 13), ("Straße", 14)] {
        let mut batch = EventDataBatch::keyed(key).unwrap();
        batch.push(key.as_bytes()).unwrap();
        assert_eq!(
            sender.send(batch).await.unwrap().partition,
            partition,
            "{key}"
        );
        assert_eq!(bodies(&node.all("keyed", partition).await), [key]);
    }
}

#[tokio::test]
async fn events_14_a_named_partition_wins_over_a_key() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 4))
        .await
        .unwrap();
    let sender = node.hubs.sender("a", Some(1)).await.unwrap();
    let mut batch = EventDataBatch::keyed("house-42").unwrap();
    batch.push(b"x").unwrap();
    assert_eq!(sender.send(batch).await.unwrap().partition, 1);
    assert_eq!(node.all("a", 1).await.len(), 1);
    assert!(node.all("a", 3).await.is_empty());
    let missing = node.hubs.sender("a", Some(4)).await.err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::PartitionNotFound);
}

#[tokio::test]
async fn events_15_publications_without_a_key_spread_evenly() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 7))
        .await
        .unwrap();
    let mut senders = Vec::new();
    for _ in 0..3 {
        senders.push(node.hubs.sender("a", None).await.unwrap());
    }
    for turn in 0..70 {
        // All senders share one counter.
        senders[turn % 3].send(one("x")).await.unwrap();
    }
    for partition in 0..7 {
        assert_eq!(node.all("a", partition).await.len(), 10);
    }
}

#[tokio::test]
async fn events_16_a_publication_over_the_limit_is_refused_and_the_next_is_not() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    let sender = node.hubs.sender("a", None).await.unwrap();
    let error = EventDataBatch::of(&vec![0; 1_100_000]).unwrap_err();
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::TooLarge, "STF-5006")
    );
    let large = vec![7; 1_048_000];
    sender
        .send(EventDataBatch::of(&large).unwrap())
        .await
        .unwrap();
    let most = vec![7; limits::PUBLICATION_BYTES];
    sender
        .send(EventDataBatch::of(&most).unwrap())
        .await
        .unwrap();
    let events = node.all("a", 0).await;
    assert_eq!(events[0].body, large);
    assert_eq!(events[1].body.len(), limits::PUBLICATION_BYTES);
    let empty = sender.send(EventDataBatch::new()).await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::BadPublication);
}

#[tokio::test]
async fn submitted_publications_keep_their_order() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    let sender = node.hubs.sender("a", Some(0)).await.unwrap();
    let mut submitted = Vec::new();
    for number in 0..300 {
        submitted.push(sender.submit(one(&number.to_string())).await.unwrap());
    }
    for (number, one) in submitted.into_iter().enumerate() {
        assert_eq!(one.published().await.unwrap().sequence, number as i64);
    }
    let expected: Vec<_> = (0..300).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&node.all("a", 0).await), expected);
}

#[tokio::test]
async fn events_and_their_numbers_are_there_after_a_restart() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("Mixed-Case", 2))
        .await
        .unwrap();
    node.send("mixed-case", 1, &["a", "b", "c"]).await;
    let before = node.all("MIXED-CASE", 1).await;
    let folder = node.stop().await.unwrap();
    let node = open(folder.path()).await;
    assert_eq!(
        node.hubs.get("mixed-case").await.unwrap().name,
        "Mixed-Case"
    );
    assert_eq!(node.all("mixed-case", 1).await, before);
    node.send("mixed-case", 1, &["d"]).await;
    let events = node.all("mixed-case", 1).await;
    assert_eq!(events.last().unwrap().sequence, 3);
    assert!(events[3].offset > events[2].offset && events[3].time >= events[2].time);
}

#[tokio::test]
async fn a_producer_that_repeats_itself_is_not_heard_twice() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 2))
        .await
        .unwrap();
    let sender = node.hubs.sender("a", Some(1)).await.unwrap();
    let producer = sender.producer(ProducerOptions::default()).await.unwrap();
    assert_eq!((producer.epoch, producer.last), (0, -1));
    let publish = |epoch, first, bodies: &'static [&'static str]| {
        let sender = sender.clone();
        async move {
            let mut batch = EventDataBatch::new();
            bodies
                .iter()
                .for_each(|body| batch.push(body.as_bytes()).unwrap());
            let stamp = ProducerSequence {
                id: producer.id,
                epoch,
                first,
            };
            sender
                .submit_as(Some(stamp), batch)
                .await?
                .published()
                .await
        }
    };
    assert_eq!(publish(0, 0, &["a", "b"]).await.unwrap().sequence, 0);
    let again = publish(0, 0, &["a", "b"]).await.unwrap();
    assert!(again.is_repeated);
    assert_eq!(
        publish(0, 3, &["d"]).await.unwrap_err().kind(),
        ErrorKind::OutOfOrder
    );
    assert_eq!(publish(0, 2, &["c"]).await.unwrap().sequence, 2);
    let wish = ProducerOptions {
        id: Some(producer.id),
        ..ProducerOptions::default()
    };
    let next = sender.producer(wish).await.unwrap();
    assert_eq!((next.epoch, next.last), (1, 2));
    assert_eq!(
        publish(0, 3, &["d"]).await.unwrap_err().kind(),
        ErrorKind::ProducerStolen
    );
    assert_eq!(publish(1, 3, &["d"]).await.unwrap().sequence, 3);
    assert_eq!(bodies(&node.all("a", 1).await), ["a", "b", "c", "d"]);
    let elsewhere = node.hubs.sender("a", Some(0)).await.unwrap();
    let stamp = ProducerSequence {
        id: producer.id,
        epoch: 1,
        first: 4,
    };
    let unknown = elsewhere
        .submit_as(Some(stamp), one("x"))
        .await
        .unwrap()
        .published()
        .await;
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::UnknownProducer);
}

#[tokio::test]
async fn a_producer_is_recognised_after_a_restart() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    let sender = node.hubs.sender("a", Some(0)).await.unwrap();
    let producer = sender.producer(ProducerOptions::default()).await.unwrap();
    let stamp = ProducerSequence {
        id: producer.id,
        epoch: 0,
        first: 0,
    };
    sender
        .submit_as(Some(stamp), one("a"))
        .await
        .unwrap()
        .published()
        .await
        .unwrap();
    drop(sender);
    let folder = node.stop().await.unwrap();
    let node = open(folder.path()).await;
    let sender = node.hubs.sender("a", Some(0)).await.unwrap();
    let again = sender
        .submit_as(Some(stamp), one("a"))
        .await
        .unwrap()
        .published()
        .await;
    assert!(again.unwrap().is_repeated);
    assert_eq!(node.all("a", 0).await.len(), 1);
}
