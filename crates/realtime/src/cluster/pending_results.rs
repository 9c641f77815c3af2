//! Pending results of calls from a hub to its clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::message::Outcome;
use tokio::sync::oneshot;

use crate::dispatch::gateway::{read_value, write_value};
use crate::error::{Error, ErrorKind, Result};

/// All pending results of one hub dispatcher.
#[derive(Default)]
pub(crate) struct PendingResults {
    next: AtomicU64,
    open: Mutex<HashMap<String, PendingCall>>,
}

struct PendingCall {
    connection: String,
    answer: oneshot::Sender<Result<(Protocol, Bytes)>>,
}

/// Receives the result of one call. Dropping it abandons the call.
pub(crate) struct ResultReceiver {
    id: String,
    asked: Arc<PendingResults>,
    answer: oneshot::Receiver<Result<(Protocol, Bytes)>>,
}

impl PendingResults {
    /// Registers a call to this connection.
    pub(crate) fn ask(self: &Arc<Self>, server: &str, connection: &str) -> ResultReceiver {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{server}-{number}");
        let (answer, waiting) = oneshot::channel();
        let question = PendingCall {
            connection: connection.to_owned(),
            answer,
        };
        self.open.lock().insert(id.clone(), question);
        ResultReceiver {
            id,
            asked: Arc::clone(self),
            answer: waiting,
        }
    }

    /// Completes a call. False if the connection has no such pending call.
    pub(crate) fn answer(
        &self,
        connection: &str,
        id: &str,
        protocol: Protocol,
        said: Outcome,
    ) -> bool {
        let question = {
            let mut open = self.open.lock();
            match open.get(id) {
                Some(question) if question.connection == connection => open.remove(id),
                _ => None,
            }
        };
        let Some(question) = question else {
            return false;
        };
        let said = match said {
            Outcome::Value(value) => Ok((protocol, value)),
            Outcome::Void => write_value(protocol, &()).map(|value| (protocol, value)),
            Outcome::Error(why) => Err(Error::new(ErrorKind::Client(why))),
        };
        // The receiver may have been dropped.
        let _ = question.answer.send(said);
        true
    }

    /// Fails all pending calls of a closed connection.
    pub(crate) fn gone(&self, connection: &str) {
        let mut open = self.open.lock();
        let ids: Vec<_> = open
            .iter()
            .filter(|(_, question)| question.connection == connection)
            .map(|(id, _)| id.clone())
            .collect();
        let questions: Vec<_> = ids.iter().filter_map(|id| open.remove(id)).collect();
        drop(open);
        for question in questions {
            let _ = question.answer.send(Err(Error::new(ErrorKind::Gone)));
        }
    }
}

impl ResultReceiver {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) async fn answer<T: DeserializeOwned>(mut self) -> Result<T> {
        let answer = tokio::time::timeout(limits::CLIENT_ANSWER, &mut self.answer).await;
        let answer = answer.map_err(|_| Error::new(ErrorKind::Silent))?;
        let (protocol, value) = answer.map_err(|_| Error::new(ErrorKind::Gone))??;
        read_value(protocol, &value)
    }
}

impl Drop for ResultReceiver {
    fn drop(&mut self) {
        self.asked.open.lock().remove(&self.id);
    }
}
