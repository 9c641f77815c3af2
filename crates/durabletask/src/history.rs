//! Streams histories in chunks.

use std::sync::Arc;

use futures_util::stream;
use prost::Message;
use steadfast_core::limits;
use steadfast_durable::{EventKind, InstanceEvent};
use steadfast_durabletask_messages::encode_event;
use steadfast_net::grpc::GrpcStream;
use steadfast_wire::durabletask as wire;
use tonic::Status;

use super::context::GrpcCaller;
use super::status::refused;

/// Sends the events of an execution in order.
pub(super) async fn stream(
    caller: &GrpcCaller,
    request: wire::StreamInstanceHistoryRequest,
) -> Result<GrpcStream<wire::HistoryChunk>, Status> {
    let execution = request.execution_id.filter(|id| !id.is_empty());
    let history = caller
        .hub
        .history(&request.instance_id, execution.as_deref());
    let history = history.await.map_err(|error| refused(&error))?;
    let chunks = HistoryChunks {
        history,
        turn: 0,
        event: 0,
        is_whole: request.for_work_item_processing,
    };
    Ok(Box::pin(stream::iter(chunks.map(Ok))))
}

/// A history in chunks that workers accept.
struct HistoryChunks {
    history: Vec<Arc<Vec<InstanceEvent>>>,
    turn: usize,
    event: usize,
    /// Workers get all events. Other readers do not get the ends of turns, like on the
    /// hosted service: an SDK's tests count the events.
    is_whole: bool,
}

impl Iterator for HistoryChunks {
    type Item = wire::HistoryChunk;

    fn next(&mut self) -> Option<wire::HistoryChunk> {
        let mut chunk = wire::HistoryChunk::default();
        let mut bytes = 0;
        while let Some(turn) = self.history.get(self.turn) {
            let Some(event) = turn.get(self.event) else {
                (self.turn, self.event) = (self.turn + 1, 0);
                continue;
            };
            if !self.is_whole && event.what == EventKind::TurnCompleted {
                self.event += 1;
                continue;
            }
            let event = encode_event(event);
            // Tag and length precede an event.
            bytes += event.encoded_len() + 6;
            if bytes > limits::HISTORY_CHUNK_BYTES && !chunk.events.is_empty() {
                break;
            }
            chunk.events.push(event);
            self.event += 1;
        }
        (!chunk.events.is_empty()).then_some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use steadfast_durable::Moment;

    use super::*;

    #[test]
    fn chunks_are_short_and_lose_nothing() {
        let event = |number: usize| {
            let input = Some("x".repeat(number * 700));
            let name = number.to_string();
            InstanceEvent::plain(Moment::default(), EventKind::EventRaised { name, input })
        };
        let turns = [0..0, 0..120, 120..121, 121..400];
        let history = turns.map(|turn| Arc::new(turn.map(event).collect()));
        let chunks = HistoryChunks {
            history: history.into(),
            turn: 0,
            event: 0,
            is_whole: true,
        };
        let mut number = 0;
        for chunk in chunks {
            let is_short = chunk.encoded_len() <= limits::HISTORY_CHUNK_BYTES;
            assert!(is_short || chunk.events.len() == 1);
            for found in &chunk.events {
                assert_eq!(found, &encode_event(&event(number)));
                number += 1;
            }
        }
        assert_eq!(number, 400);
    }
}
