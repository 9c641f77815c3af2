//! What a client of release 0.16 does, and what it must see.

use std::time::{Duration, SystemTime};

use azure_messaging_eventhubs::error::ErrorKind;
use azure_messaging_eventhubs::models::{EventData, MessageId, ReceivedEventData};
use azure_messaging_eventhubs::{
    ConsumerClient, EventDataBatchOptions, OpenReceiverOptions, ProducerClient, RetryOptions,
    SendBatchOptions, SendEventOptions, StartLocation, StartPosition,
};
use futures::StreamExt;

use crate::Outcome;
use crate::server::{Channel, Server};

/// Key, and its partition of 16.
const VECTORS: [(&str, &str); 10] = [
    ("a", "12"),
    ("alphabet", "6"),
    ("pk1", "13"),
    ("house-42", "15"),
    ("house-99999", "3"),
    ("123456789012", "5"),
    ("1234567890123", "10"),
    ("abcdefghijklmnopqrstuvwx", "4"),
    ("Straße", "14"),
    ("partition-key-that-is-longer-than-24-bytes", "5"),
];
/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn run(server: &Server, scenario: &str) -> Outcome {
    match scenario {
        "properties" => properties(server).await,
        "batch_of_500" => batch_of_500(server).await,
        "keyed_sends" => keyed_sends(server).await,
        "typed_properties" => typed_properties(server).await,
        "every_kind_of_position" => every_kind_of_position(server).await,
        "unknown_event_hub" => unknown_event_hub(server).await,
        "bad_key" => bad_key(server).await,
        "too_large" => too_large(server).await,
        "stolen_by_owner_level" => stolen_by_owner_level(server).await,
        "over_tls" => sent_and_read(&server.over(Channel::Tls)).await,
        "over_websocket" => sent_and_read(&server.over(Channel::WebSocket)).await,
        _ => Err(format!("there is no scenario '{scenario}'").into()),
    }
}

async fn producer(server: &Server, hub: &str) -> azure_messaging_eventhubs::Result<ProducerClient> {
    let builder = ProducerClient::builder().with_custom_endpoint(server.address());
    let builder = builder.with_transport(server.transport());
    let builder = builder.with_retry_options(no_retry());
    builder
        .open_with_connection_string(&server.connection_string(), Some(hub))
        .await
}

async fn consumer(server: &Server, hub: &str) -> azure_messaging_eventhubs::Result<ConsumerClient> {
    let builder = ConsumerClient::builder().with_custom_endpoint(server.address());
    let builder = builder.with_transport(server.transport());
    let builder = builder.with_retry_options(no_retry());
    builder
        .open_with_connection_string(&server.connection_string(), Some(hub))
        .await
}

fn no_retry() -> RetryOptions {
    RetryOptions {
        max_retries: 0,
        ..RetryOptions::default()
    }
}

fn to_partition(partition: &str) -> Option<EventDataBatchOptions> {
    Some(EventDataBatchOptions {
        partition_id: Some(partition.into()),
        ..EventDataBatchOptions::default()
    })
}

fn from(location: StartLocation, inclusive: bool) -> OpenReceiverOptions {
    OpenReceiverOptions {
        start_position: Some(StartPosition {
            location,
            inclusive,
        }),
        ..OpenReceiverOptions::default()
    }
}

/// So many events of a partition.
async fn read(
    server: &Server,
    hub: &str,
    partition: &str,
    options: OpenReceiverOptions,
    count: usize,
) -> azure_messaging_eventhubs::Result<Vec<ReceivedEventData>> {
    let client = consumer(server, hub).await?;
    let receiver = client
        .open_receiver_on_partition(partition.into(), Some(options))
        .await?;
    let mut events = Vec::new();
    {
        let mut stream = Box::pin(receiver.stream_events());
        while events.len() < count {
            let next = tokio::time::timeout(PATIENCE, stream.next()).await;
            let event = next.unwrap_or_else(|_| panic!("{} of {count}", events.len()));
            events.push(event.expect("the stream goes on")?);
        }
    }
    leave(receiver.close()).await;
    leave(client.close()).await;
    Ok(events)
}

/// This library reports the end of a link that it ends itself as a failure, mostly.
async fn leave(closing: impl Future<Output = azure_messaging_eventhubs::Result<()>>) {
    let _ = closing.await;
}

fn text(event: &ReceivedEventData) -> String {
    String::from_utf8_lossy(event.event_data().body().unwrap_or_default()).into_owned()
}

fn texts(events: &[ReceivedEventData]) -> Vec<String> {
    events.iter().map(text).collect()
}

async fn properties(server: &Server) -> Outcome {
    let client = producer(server, "HOUSES").await?;
    let hub = client.get_eventhub_properties().await?;
    assert_eq!(hub.name, "houses");
    assert_eq!(hub.partition_ids, ["0", "1", "2", "3"]);
    assert!(hub.created_on.is_some_and(|time| time <= SystemTime::now()));
    let empty = client.get_partition_properties("3").await?;
    assert!(empty.is_empty);
    assert_eq!(
        (empty.id.as_str(), empty.eventhub.as_str()),
        ("3", "houses")
    );
    assert_eq!(empty.last_enqueued_sequence_number, -1);
    assert_eq!(empty.last_enqueued_offset, "-1");
    leave(client.close()).await;
    Ok(())
}

async fn batch_of_500(server: &Server) -> Outcome {
    let client = producer(server, "houses").await?;
    let batch = client.create_batch(to_partition("0")).await?;
    for number in 0..500 {
        assert!(batch.try_add_event_data(number.to_string().as_str(), None)?);
    }
    client.send_batch(batch, None::<SendBatchOptions>).await?;
    leave(client.close()).await;
    let events = read(
        server,
        "houses",
        "0",
        from(StartLocation::Earliest, true),
        500,
    )
    .await?;
    for (number, event) in events.iter().enumerate() {
        assert_eq!(text(event), number.to_string());
        assert_eq!(event.sequence_number(), Some(number as i64));
        assert!(event.offset().is_some() && event.enqueued_time().is_some());
    }
    Ok(())
}

async fn keyed_sends(server: &Server) -> Outcome {
    let client = producer(server, "keys").await?;
    for (key, partition) in VECTORS {
        let before = client.get_partition_properties(partition).await?;
        let options = EventDataBatchOptions {
            partition_key: Some(key.into()),
            ..EventDataBatchOptions::default()
        };
        let batch = client.create_batch(Some(options)).await?;
        assert!(batch.try_add_event_data(key, None)?);
        client.send_batch(batch, None).await?;
        let after = client.get_partition_properties(partition).await?;
        let grown = after.last_enqueued_sequence_number - before.last_enqueued_sequence_number;
        assert_eq!(grown, 1, "{key}");
    }
    leave(client.close()).await;
    let events = read(server, "keys", "15", from(StartLocation::Earliest, true), 1).await?;
    assert_eq!(events[0].partition_key().as_deref(), Some("house-42"));
    Ok(())
}

async fn typed_properties(server: &Server) -> Outcome {
    let client = producer(server, "typed").await?;
    let event = EventData::builder()
        .with_body(vec![0u8, 1, 254, 255])
        .with_content_type("application/octet-stream".into())
        .with_message_id("m".to_string())
        .add_property("text".into(), "Straße".to_string())
        .add_property("whole".into(), 1i64 << 40)
        .add_property("real".into(), 1.5f64)
        .add_property("yes".into(), true)
        .build();
    let sent = event.properties().cloned();
    client.send_event(event, None).await?;
    leave(client.close()).await;
    let events = read(server, "typed", "0", from(StartLocation::Earliest, true), 1).await?;
    let got = events[0].event_data();
    assert_eq!(got.body(), Some(&[0u8, 1, 254, 255][..]));
    assert_eq!(got.content_type(), Some("application/octet-stream"));
    assert!(matches!(got.message_id(), Some(MessageId::String(id)) if id == "m"));
    assert_eq!(got.properties().cloned(), sent);
    Ok(())
}

async fn every_kind_of_position(server: &Server) -> Outcome {
    let client = producer(server, "positions").await?;
    for number in 0..3 {
        let batch = client.create_batch(to_partition("0")).await?;
        for letter in ["a", "b"] {
            assert!(batch.try_add_event_data(format!("{number}-{letter}"), None)?);
        }
        client.send_batch(batch, None).await?;
        // The batches must differ in their time.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let all = read(
        server,
        "positions",
        "0",
        from(StartLocation::Earliest, true),
        6,
    )
    .await?;
    let third = &all[2];
    let offset = third.offset().clone().expect("it has one");
    let sequence = third.sequence_number().expect("it has one");
    let before = third.enqueued_time().expect("it has one") - Duration::from_millis(1);
    let cases = [
        (from(StartLocation::Offset(offset.clone()), false), 3),
        (from(StartLocation::Offset(offset), true), 2),
        (from(StartLocation::SequenceNumber(sequence), false), 3),
        (from(StartLocation::SequenceNumber(sequence), true), 2),
        (from(StartLocation::EnqueuedTime(before), false), 2),
    ];
    for (start, first) in cases {
        let events = read(server, "positions", "0", start, 6 - first).await?;
        assert_eq!(texts(&events), texts(&all[first..]));
    }
    latest_sees_what_comes(server, &client).await?;
    leave(client.close()).await;
    Ok(())
}

async fn latest_sees_what_comes(server: &Server, client: &ProducerClient) -> Outcome {
    let reading = read(
        server,
        "positions",
        "0",
        from(StartLocation::Latest, false),
        1,
    );
    let mut reading = Box::pin(reading);
    // There is no signal that the reader is attached: send until it receives an event.
    loop {
        let pause = tokio::time::sleep(Duration::from_millis(200));
        tokio::select! {
            events = &mut reading => {
                assert_eq!(text(&events?[0]), "late");
                return Ok(());
            }
            () = pause => client.send_event("late", None).await?,
        }
    }
}

async fn unknown_event_hub(server: &Server) -> Outcome {
    let client = producer(server, "nowhere").await?;
    let error = client.get_eventhub_properties().await.err();
    let error = format!("{:?}", error.expect("it is not there"));
    assert!(
        error.contains("NotFound") || error.contains("404"),
        "{error}"
    );
    let error = client.send_event("x", None).await.err();
    let error = format!("{:?}", error.expect("it is not there"));
    let words = "The messaging entity 'nowhere' could not be found";
    assert!(
        error.contains(words) || error.contains("amqp:not-found"),
        "{error}"
    );
    Ok(())
}

async fn bad_key(server: &Server) -> Outcome {
    let builder = ProducerClient::builder().with_custom_endpoint(server.address());
    let opened = builder
        .with_retry_options(no_retry())
        .open_with_connection_string(&server.connection_string_with("wrong"), Some("houses"))
        .await;
    let error = match opened {
        Ok(client) => client.send_event("x", None).await.err(),
        Err(error) => Some(error),
    };
    let error = format!("{:?}", error.expect("the key is wrong"));
    assert!(
        error.contains("STF-6003") || error.contains("401"),
        "{error}"
    );
    Ok(())
}

async fn too_large(server: &Server) -> Outcome {
    let client = producer(server, "large").await?;
    let batch = client.create_batch(to_partition("0")).await?;
    assert!(
        !batch.try_add_event_data(vec![0u8; 1_100_000], None)?,
        "the client knows the limit"
    );
    let options = || {
        let partition_id = Some("0".into());
        Some(SendEventOptions { partition_id })
    };
    client.send_event(vec![0u8; 1_047_000], options()).await?;
    let refused = client.send_event(vec![0u8; 1_100_000], options()).await;
    let error = format!("{:?}", refused.err().expect("it is too large"));
    assert!(
        error.contains("message-size-exceeded") || error.contains("size"),
        "{error}"
    );
    client.send_event("again", options()).await?;
    leave(client.close()).await;
    let events = read(server, "large", "0", from(StartLocation::Earliest, true), 2).await?;
    assert_eq!(text(&events[1]), "again");
    Ok(())
}

async fn stolen_by_owner_level(server: &Server) -> Outcome {
    let client = producer(server, "epochs").await?;
    client.send_event("x", None).await?;
    let level = |level| OpenReceiverOptions {
        owner_level: Some(level),
        ..from(StartLocation::Earliest, true)
    };
    let first = consumer(server, "epochs").await?;
    let receiver = first
        .open_receiver_on_partition("0".into(), Some(level(1)))
        .await?;
    let mut stream = Box::pin(receiver.stream_events());
    assert_eq!(text(&stream.next().await.expect("it goes on")?), "x");
    let second = consumer(server, "epochs").await?;
    let stronger = second
        .open_receiver_on_partition("0".into(), Some(level(2)))
        .await?;
    let mut others = Box::pin(stronger.stream_events());
    assert_eq!(text(&others.next().await.expect("it goes on")?), "x");
    let next = tokio::time::timeout(PATIENCE, stream.next()).await?;
    let error = next.expect("it is told").err().expect("it was stolen");
    assert!(
        matches!(error.kind, ErrorKind::ConsumerDisconnected(_)),
        "{error:?}"
    );
    // A lower level is refused, and the owner goes on.
    let refused = read(server, "epochs", "0", level(1), 1).await;
    let error = refused.err().expect("it is refused");
    assert!(
        matches!(error.kind, ErrorKind::ConsumerDisconnected(_)),
        "{error:?}"
    );
    client.send_event("y", None).await?;
    assert_eq!(text(&others.next().await.expect("it goes on")?), "y");
    Ok(())
}

async fn sent_and_read(server: &Server) -> Outcome {
    let client = producer(server, "houses").await?;
    let partition_id = Some("2".into());
    let options = SendEventOptions { partition_id };
    client.send_event("secret", Some(options)).await?;
    leave(client.close()).await;
    let events = read(server, "houses", "2", from(StartLocation::Earliest, true), 1).await?;
    assert_eq!(texts(&events), ["secret"]);
    Ok(())
}
