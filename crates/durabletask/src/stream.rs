//! The stream of work items to a worker.
//!
//! It begins with a ping and sends another after each silence: workers that receive
//! nothing for two minutes close the channel, and some treat an empty stream as broken.
//! It ends with OK, never with CANCELLED: older workers stop permanently on that.

use std::sync::Arc;

use futures_util::stream;
use prost::Message;
use steadfast_core::limits;
use steadfast_durable::{TaskHub, WorkDelivery, WorkPayload, WorkerStream};
use steadfast_durabletask_messages::{can, encode_item, terms};
use steadfast_net::access::AuditClient;
use steadfast_net::grpc::GrpcStream;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::work_item::Request;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;

use super::context::{Context, GrpcCaller};
use super::fit::{Fit, OversizedItem, fit, instance, is_fetchable};
use super::status::leaving;

/// Opens a work stream.
pub(super) async fn get_work_items(
    caller: &GrpcCaller,
    mut request: wire::GetWorkItemsRequest,
) -> Result<GrpcStream<wire::WorkItem>, Status> {
    if caller.context.leaving.is_cancelled() {
        return Err(leaving());
    }
    let named = [
        caller.name.clone(),
        std::mem::take(&mut request.worker_instance_id),
    ];
    let name = named.into_iter().find(|name| !name.is_empty());
    let can_fetch = can(&request, wire::WorkerCapability::HistoryStreaming);
    let terms = steadfast_durable::WorkerOptions {
        address: AuditClient::current().address.map(|own| own.to_string()),
        ..terms(name.unwrap_or_default(), request)
    };
    let open = WorkItemStream::new(caller, terms, can_fetch);
    Ok(Box::pin(stream::unfold(open, WorkItemStream::next)))
}

/// An open work stream.
struct WorkItemStream {
    context: Arc<Context>,
    worker: WorkerStream,
    /// Whether the worker fetches long histories itself.
    can_fetch: bool,
    /// Whether it requests a history only after it lost its cached one.
    is_mindful: bool,
    is_greeted: bool,
    hub: TaskHub,
    /// The longest message that the worker accepts.
    message_bytes: usize,
    _open: TaskTrackerToken,
}

impl WorkItemStream {
    fn new(caller: &GrpcCaller, terms: steadfast_durable::WorkerOptions, can_fetch: bool) -> Self {
        let context = Arc::clone(&caller.context);
        Self {
            _open: context.counts.open().token(),
            context,
            is_mindful: terms.caches_instances,
            worker: caller.hub.worker(terms),
            hub: caller.hub.clone(),
            message_bytes: caller.message_bytes,
            can_fetch,
            is_greeted: false,
        }
    }

    async fn next(mut self) -> Option<(Result<wire::WorkItem, Status>, Self)> {
        if !self.is_greeted {
            self.is_greeted = true;
            return Some((Ok(ping()), self));
        }
        let message = loop {
            let next = tokio::time::timeout(limits::WORK_PING, self.worker.next());
            let item = match next.await {
                Ok(Some(item)) => item,
                Ok(None) => return None,
                Err(_) => break ping(),
            };
            if let Some(message) = self.written(&item).await {
                break message;
            }
        };
        Some((Ok(message), self))
    }

    /// The message for an item; `None` if it is not sent. A message over the worker's
    /// limit would end its stream repeatedly, with all its other work items.
    async fn written(&self, item: &WorkDelivery) -> Option<wire::WorkItem> {
        let mut message = self.shortest(item);
        let fit = if is_fetchable(item, &message, self.message_bytes) {
            fit(&mut message, self.message_bytes)
        } else {
            Fit::Nothing { count: usize::MAX }
        };
        match fit {
            Fit::Whole => {}
            Fit::Part(count) => {
                let cut = self.hub.cut(&item.token, instance(&item.work), count);
                match cut.await {
                    Ok(true) => {}
                    // The item is no longer leased to this worker.
                    Ok(false) => return None,
                    Err(_) => {
                        // Without this the item would wait until its lease expires.
                        let _ = self.hub.abandon(&item.token).await;
                        return None;
                    }
                }
            }
            Fit::Nothing { count } => {
                let refusal = OversizedItem::new(self.hub.clone(), item, count, self.message_bytes);
                // In the background: it must not delay other items of this worker.
                tokio::spawn(refusal.submit_failure());
                return None;
            }
        }
        let bytes = message.encoded_len();
        if let WorkPayload::Turn(turn) = &item.work
            && bytes > limits::LONG_TURN_BYTES
            && self.message_bytes <= limits::WORKER_MESSAGE_BYTES
        {
            let instance = &turn.instance;
            tracing::warn!(event = "durable.long_history", instance, bytes);
            self.worker.sent_long(&item.token);
        }
        Some(message)
    }

    /// Encodes an item. The history is left for the worker to fetch if the worker supports
    /// that and the history is long or exceeds the message.
    fn shortest(&self, item: &WorkDelivery) -> wire::WorkItem {
        let now = self.context.clock.now();
        let WorkPayload::Turn(turn) = &item.work else {
            return encode_item(item, now, false);
        };
        // Other workers that request the whole history expect it in the item.
        let may_fetch = self.can_fetch && (self.is_mindful || !turn.is_whole);
        let is_long = turn.past_bytes > limits::STREAMED_HISTORY_BYTES;
        let message = encode_item(item, now, may_fetch && is_long);
        let is_short = is_long || message.encoded_len() <= self.message_bytes;
        if may_fetch && !is_short && !turn.past.is_empty() {
            encode_item(item, now, true)
        } else {
            message
        }
    }
}

fn ping() -> wire::WorkItem {
    wire::WorkItem {
        request: Some(Request::HealthPing(wire::HealthPing {})),
        completion_token: String::new(),
    }
}
