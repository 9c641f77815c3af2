//! Replicates an owner's entries to one holder, in order.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::{EntryNumber, Owner};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::replica_content::{CopyBase, ReplicaPosition};

use super::leader_state::{LeaderState, ReplicationStream};
use super::message::{Message, ReplicationEnvelope, Response};
use super::peers::ReplicationContext;

/// Time-out after which a holder that does not answer is dropped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Delay before a message is sent again.
const AGAIN: Duration = Duration::from_millis(50);

/// Bytes of one message.
const STEP_BYTES: usize = limits::GROUP_BYTES;

/// The stream cannot continue.
struct StreamBrokenError;

/// Opens the stream to a holder. If the holder reported position `same` it keeps its
/// content, otherwise it gets a full copy.
pub(super) fn open(
    common: &Arc<ReplicationContext>,
    seat: &Arc<LeaderState>,
    to: Owner,
    same: Option<ReplicaPosition>,
) {
    let mut state = seat.state.lock();
    if state.is_deposed || state.stream(to).is_some() {
        return;
    }
    // No entry is written while the state is locked.
    let base = common.local.base(seat.partition);
    state
        .streams
        .push(ReplicationStream::new(to, base.number, &base.log));
    drop(state);
    let line = StreamSender {
        common: Arc::clone(common),
        leader: Arc::clone(seat),
        to,
    };
    let task = tokio::spawn(name_task(async move {
        if line.run(base, same).await.is_err() {
            line.break_off();
        }
    }));
    seat.adopt_task(task.abort_handle());
}

struct StreamSender {
    common: Arc<ReplicationContext>,
    leader: Arc<LeaderState>,
    to: Owner,
}

impl StreamSender {
    async fn run(
        &self,
        base: CopyBase,
        same: Option<ReplicaPosition>,
    ) -> Result<(), StreamBrokenError> {
        let floor = match same {
            Some(same) if self.is_same(same).await? => base.number,
            _ => self.copy(base).await?,
        };
        let bell = self.with(|line| {
            line.whole_from = Some(floor);
            Arc::clone(&line.bell)
        })?;
        self.leader.notify_progress();
        self.leader.bell.notify_one();
        loop {
            let entries = self.with(|line| line.take(STEP_BYTES))?;
            let Some((last, _)) = entries.last() else {
                bell.notified().await;
                continue;
            };
            let last = *last;
            self.send(Message::Append { entries }).await?;
            let is_whole_now = self.with(|line| {
                let was_ready = line.is_ready();
                line.acked = last;
                !was_ready && line.is_ready()
            })?;
            self.leader.notify_progress();
            if is_whole_now {
                self.leader.bell.notify_one();
            }
        }
    }

    /// Whether the holder still has the content at `same`.
    async fn is_same(&self, base: ReplicaPosition) -> Result<bool, StreamBrokenError> {
        let answer = self.ask(Message::Adopt { base }).await?;
        Ok(answer == Response::Done)
    }

    /// Sends a full copy. Rows may be newer than where it begins: later entries are
    /// applied again, and from the returned entry on the copy is complete.
    async fn copy(&self, base: CopyBase) -> Result<EntryNumber, StreamBrokenError> {
        let session = self.common.session();
        self.send(Message::Begin { session }).await?;
        let (mut part, mut after) = (1, None);
        let local = &self.common.local;
        loop {
            let rows = local.page(self.leader.partition, after.take(), STEP_BYTES);
            let Some((table, key, _)) = rows.last() else {
                break;
            };
            after = Some((*table, key.clone()));
            self.send(Message::Rows {
                session,
                part,
                rows,
            })
            .await?;
            part += 1;
        }
        let floor = local.last(self.leader.partition);
        let whole = Message::Whole {
            session,
            part,
            number: base.number,
            hash: base.hash,
            meta: base.meta,
        };
        self.send(whole).await?;
        Ok(floor)
    }

    /// Sends a message that changes the holder.
    async fn send(&self, word: Message) -> Result<(), StreamBrokenError> {
        match self.ask(word).await? {
            Response::Done => Ok(()),
            _ => Err(StreamBrokenError),
        }
    }

    /// Sends a message until there is a response or the holder is dropped.
    async fn ask(&self, word: Message) -> Result<Response, StreamBrokenError> {
        let (seat, common) = (&self.leader, &self.common);
        let letter = ReplicationEnvelope {
            partition: seat.partition,
            epoch: seat.epoch,
            message: word,
        };
        let began = common.clock.monotonic();
        loop {
            match common.send(self.to, &letter).await {
                Some(Response::Deposed(_)) => {
                    seat.depose();
                    return Err(StreamBrokenError);
                }
                Some(answer) => return Ok(answer),
                None => {}
            }
            let waited = common.clock.monotonic().saturating_sub(began);
            if waited >= PATIENCE || !common.peers.is_living(self.to) {
                return Err(StreamBrokenError);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut ReplicationStream) -> T,
    ) -> Result<T, StreamBrokenError> {
        let mut state = self.leader.state.lock();
        let line = state.stream(self.to).filter(|line| !line.is_broken);
        line.map(work).ok_or(StreamBrokenError)
    }

    fn break_off(&self) {
        let mut state = self.leader.state.lock();
        if let Some(line) = state.stream(self.to) {
            line.break_off();
        }
        drop(state);
        self.leader.notify_progress();
        self.leader.bell.notify_one();
    }
}
