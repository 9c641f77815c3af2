//! Handlers whose transactions meet others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast_collections::Dictionary;
use steadfast_events::{
    Context, EventHubDefinition, Guarantee, HUB_PARTITION, Handler, HandlerResult,
    ProcessorOptions, ReceivedEvent,
};
use tokio::sync::Notify;

use crate::setup::start;

const PATIENCE: Duration = Duration::from_secs(20);

type Words = Dictionary<String, u64>;

/// Writes two keys, one after the other.
#[derive(Default)]
struct Writer {
    calls: AtomicUsize,
    has_first: Notify,
}

impl Handler for Writer {
    async fn handle(&self, _: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
        let words: Words = context.state()?.get_or_add("words").await?;
        let tx = context.transaction()?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        words.set(tx, "first", 1).await?;
        self.has_first.notify_one();
        words.set(tx, "second", 1).await?;
        Ok(())
    }
}

/// The processor is the youngest in the cycle and is given up. Every failure of its
/// handler would park the event.
#[tokio::test]
async fn an_event_whose_handler_is_given_up_in_a_deadlock_is_handled_again_and_not_parked() {
    let node = start().await;
    let hub = node
        .hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    let place = node.runtime.space().partition_of(HUB_PARTITION, "a", 0);
    let replica = node.replicas.of(place).await.unwrap();
    let scope = replica.scope(&format!("events/{}/$default/0", hub.id));
    let words: Words = scope.get_or_add("words").await.unwrap();
    let mut older = replica.begin();
    words.set(&mut older, "second", 7).await.unwrap();

    node.send("a", 0, &["event"]).await;
    let options = ProcessorOptions {
        guarantee: Guarantee::ExactlyOnce(Arc::clone(&node.replicas)),
        attempts: Some(1),
        ..ProcessorOptions::default()
    };
    let writer = Arc::new(Writer::default());
    let started = node
        .hubs
        .process("a", "$Default", options, Arc::clone(&writer));
    let processor = started.await.unwrap();
    let meeting = async {
        writer.has_first.notified().await;
        words.set(&mut older, "first", 7).await.unwrap();
        older.commit().await.unwrap();
        while node
            .hubs
            .checkpoint("a", "$Default", 0)
            .await
            .unwrap()
            .is_none()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, meeting).await.unwrap();
    processor.stop().await;
    let parked = node
        .hubs
        .dead_letters("a", "$Default", 0, 0, 100)
        .await
        .unwrap();
    assert_eq!(parked.len(), 0, "{parked:?}");
    assert_eq!(writer.calls.load(Ordering::Relaxed), 2);
    let mut tx = replica.begin();
    for key in ["first", "second"] {
        let found = words.get(&mut tx, &key.to_owned()).await.unwrap();
        assert_eq!(found.map(|value| *value), Some(1));
    }
}
