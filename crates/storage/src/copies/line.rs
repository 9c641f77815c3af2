//! Replicates an owner's entries to one holder, in order.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::{EntryNumber, Owner};
use steadfast_core::limits;
use steadfast_core::task::named;

use super::peers::Common;
use super::seat::{Line, Seat};
use super::word::{Answer, Letter, Word};
use crate::copied::{Base, Position};

/// Time-out after which a holder that does not answer is dropped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Delay before a message is sent again.
const AGAIN: Duration = Duration::from_millis(50);

/// Bytes of one message.
const STEP_BYTES: usize = limits::GROUP_BYTES;

/// The stream cannot continue.
struct Broken;

/// Opens the stream to a holder. If the holder reported position `same` it keeps its
/// content, otherwise it gets a full copy.
pub(super) fn open(common: &Arc<Common>, seat: &Arc<Seat>, to: Owner, same: Option<Position>) {
    let mut state = seat.state.lock();
    if state.is_deposed || state.line(to).is_some() {
        return;
    }
    // No entry is written while the state is locked.
    let base = common.local.base(seat.partition);
    state.lines.push(Line::new(to, base.number, &base.log));
    drop(state);
    let line = Way {
        common: Arc::clone(common),
        seat: Arc::clone(seat),
        to,
    };
    let task = tokio::spawn(named(async move {
        if line.run(base, same).await.is_err() {
            line.break_off();
        }
    }));
    seat.adopt_task(task.abort_handle());
}

struct Way {
    common: Arc<Common>,
    seat: Arc<Seat>,
    to: Owner,
}

impl Way {
    async fn run(&self, base: Base, same: Option<Position>) -> Result<(), Broken> {
        let floor = match same {
            Some(same) if self.is_same(same).await? => base.number,
            _ => self.copy(base).await?,
        };
        let bell = self.with(|line| {
            line.whole_from = Some(floor);
            Arc::clone(&line.bell)
        })?;
        self.seat.moved();
        self.seat.bell.notify_one();
        loop {
            let entries = self.with(|line| line.take(STEP_BYTES))?;
            let Some((last, _)) = entries.last() else {
                bell.notified().await;
                continue;
            };
            let last = *last;
            self.send(Word::Append { entries }).await?;
            let is_whole_now = self.with(|line| {
                let was_ready = line.is_ready();
                line.acked = last;
                !was_ready && line.is_ready()
            })?;
            self.seat.moved();
            if is_whole_now {
                self.seat.bell.notify_one();
            }
        }
    }

    /// Whether the holder still has the content at `same`.
    async fn is_same(&self, base: Position) -> Result<bool, Broken> {
        let answer = self.ask(Word::Adopt { base }).await?;
        Ok(answer == Answer::Done)
    }

    /// Sends a full copy. Rows may be newer than where it begins: later entries are
    /// applied again, and from the returned entry on the copy is complete.
    async fn copy(&self, base: Base) -> Result<EntryNumber, Broken> {
        let session = self.common.session();
        self.send(Word::Begin { session }).await?;
        let (mut part, mut after) = (1, None);
        let local = &self.common.local;
        loop {
            let rows = local.page(self.seat.partition, after.take(), STEP_BYTES);
            let Some((table, key, _)) = rows.last() else {
                break;
            };
            after = Some((*table, key.clone()));
            self.send(Word::Rows {
                session,
                part,
                rows,
            })
            .await?;
            part += 1;
        }
        let floor = local.last(self.seat.partition);
        let whole = Word::Whole {
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
    async fn send(&self, word: Word) -> Result<(), Broken> {
        match self.ask(word).await? {
            Answer::Done => Ok(()),
            _ => Err(Broken),
        }
    }

    /// Sends a message until there is a response or the holder is dropped.
    async fn ask(&self, word: Word) -> Result<Answer, Broken> {
        let (seat, common) = (&self.seat, &self.common);
        let letter = Letter {
            partition: seat.partition,
            epoch: seat.epoch,
            word,
        };
        let began = common.clock.monotonic();
        loop {
            match common.tell(self.to, &letter).await {
                Some(Answer::Deposed(_)) => {
                    seat.depose();
                    return Err(Broken);
                }
                Some(answer) => return Ok(answer),
                None => {}
            }
            let waited = common.clock.monotonic().saturating_sub(began);
            if waited >= PATIENCE || !common.peers.is_living(self.to) {
                return Err(Broken);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Line) -> T) -> Result<T, Broken> {
        let mut state = self.seat.state.lock();
        let line = state.line(self.to).filter(|line| !line.is_broken);
        line.map(work).ok_or(Broken)
    }

    fn break_off(&self) {
        let mut state = self.seat.state.lock();
        if let Some(line) = state.line(self.to) {
            line.break_off();
        }
        drop(state);
        self.seat.moved();
        self.seat.bell.notify_one();
    }
}
