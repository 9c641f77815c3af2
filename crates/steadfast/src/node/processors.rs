//! Event processors that run as long as the node.

use std::pin::Pin;
use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_events::{EventHubs, Guarantee, Handler, Processor, ProcessorOptions};
use steadfast_partition::CollectionReplicas;

use super::error::Result;
use super::inner::Inner;

/// What a processor is started with.
pub(super) struct ProcessorEnvironment {
    hubs: EventHubs,
    replicas: Arc<CollectionReplicas>,
    clock: Arc<dyn Clock>,
}

type ProcessorFuture = Pin<Box<dyn Future<Output = steadfast_events::Result<Processor>> + Send>>;

/// Starts a processor, once the node serves.
pub(super) type ProcessorStarter = Box<dyn FnOnce(ProcessorEnvironment) -> ProcessorFuture + Send>;

/// A processor with exactly-once effects: checkpoint and state are one commit.
pub(super) fn exactly_once<H: Handler>(hub: String, group: String, handler: H) -> ProcessorStarter {
    Box::new(move |ground| {
        let options = ProcessorOptions {
            guarantee: Guarantee::ExactlyOnce(Arc::clone(&ground.replicas)),
            clock: Arc::clone(&ground.clock),
            ..ProcessorOptions::default()
        };
        start(ground.hubs, hub, group, options, handler)
    })
}

/// A processor with options of its user.
pub(super) fn with_options<H: Handler>(
    hub: String,
    group: String,
    options: ProcessorOptions,
    handler: H,
) -> ProcessorStarter {
    Box::new(move |ground| start(ground.hubs, hub, group, options, handler))
}

fn start<H: Handler>(
    hubs: EventHubs,
    hub: String,
    group: String,
    options: ProcessorOptions,
    handler: H,
) -> ProcessorFuture {
    let handler = Arc::new(handler);
    Box::pin(async move { hubs.process(&hub, &group, options, handler).await })
}

/// Starts all processors. They stop in order when the node drains, before its partitions
/// are handed over; if the node is dropped, they stop with it.
pub(super) async fn run(inner: &Inner, starts: Vec<ProcessorStarter>) -> Result<()> {
    for start in starts {
        let ground = ProcessorEnvironment {
            hubs: inner.services.hubs.clone(),
            replicas: Arc::clone(&inner.services.replicas),
            clock: Arc::clone(&inner.session_clock),
        };
        let processor = start(ground).await?;
        let leave = async move { processor.stop().await };
        inner.hooks.lock().push(Box::pin(leave));
    }
    Ok(())
}
