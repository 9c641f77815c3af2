//! The stream that work travels on.
//!
//! It begins with a ping, and a silence is broken by one: workers that hear nothing
//! for two minutes take the channel for dead, and some take an empty stream for a
//! broken one. It ends with OK, never cancelled: older workers stop for good on
//! that.

use std::sync::Arc;

use futures_util::stream;
use steadfast_core::limits;
use steadfast_durable::{Item, Work, Worker};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::work_item_request::Request;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;

use super::context::{Caller, Context};
use super::convert::{can, item_sent, terms};
use super::refused::leaving;
use crate::grpc::Messages;

/// Opens a stream of work.
pub(super) async fn get_work_items(
    caller: &Caller,
    mut request: wire::GetWorkItemsRequest,
) -> Result<Messages<wire::WorkItem>, Status> {
    if caller.context.leaving.is_cancelled() {
        return Err(leaving());
    }
    let named = [
        caller.name.clone(),
        std::mem::take(&mut request.worker_instance_id),
    ];
    let name = named.into_iter().find(|name| !name.is_empty());
    let can_fetch = can(&request, wire::WorkerCapability::HistoryStreaming);
    let terms = terms(name.unwrap_or_default(), request);
    let open = Open::new(caller, terms, can_fetch);
    Ok(Box::pin(stream::unfold(open, Open::next)))
}

/// An open stream.
struct Open {
    context: Arc<Context>,
    worker: Worker,
    /// Whether the worker fetches long histories itself.
    can_fetch: bool,
    /// Whether it asks for a history only because it has forgotten it.
    is_mindful: bool,
    is_greeted: bool,
    _open: TaskTrackerToken,
}

impl Open {
    fn new(caller: &Caller, terms: steadfast_durable::Terms, can_fetch: bool) -> Self {
        let context = Arc::clone(&caller.context);
        Self {
            _open: context.counts.open().token(),
            context,
            is_mindful: terms.is_mindful,
            worker: caller.hub.worker(terms),
            can_fetch,
            is_greeted: false,
        }
    }

    async fn next(mut self) -> Option<(Result<wire::WorkItem, Status>, Self)> {
        if !self.is_greeted {
            self.is_greeted = true;
            return Some((Ok(ping()), self));
        }
        let next = tokio::time::timeout(limits::WORK_PING, self.worker.next());
        let message = match next.await {
            Ok(Some(item)) => self.written(&item),
            Ok(None) => return None,
            Err(_) => ping(),
        };
        Some((Ok(message), self))
    }

    fn written(&self, item: &Item) -> wire::WorkItem {
        let mut is_past_left_out = false;
        if let Work::Turn(turn) = &item.work {
            let is_long = turn.past_bytes > limits::STREAMED_HISTORY_BYTES;
            // Others that ask for all of it could do nothing with the way to fetch it.
            let may_fetch = self.can_fetch && (self.is_mindful || !turn.is_whole);
            is_past_left_out = may_fetch && is_long;
            if !is_past_left_out && turn.past_bytes > limits::LONG_HISTORY_BYTES {
                let (instance, bytes) = (&turn.instance, turn.past_bytes);
                tracing::warn!(event = "durable.long_history", instance, bytes);
                self.worker.sent_long(&item.token);
            }
        }
        item_sent(item, self.context.clock.now(), is_past_left_out)
    }
}

fn ping() -> wire::WorkItem {
    wire::WorkItem {
        request: Some(Request::HealthPing(wire::Empty {})),
        completion_token: String::new(),
    }
}
