//! Due occurrences, on time or late.
//!
//! The commit that claims an occurrence also advances the schedule. After a downtime
//! recent occurrences are caught up one after the other; older ones merge into one.

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Message, Turn, TurnError};

use crate::command::JobCommand;
use crate::definition::{Misfire, Overlap};
use crate::history::{self, JobHistoryItem, JobHistoryStatus};
use crate::run::LoadedJob;
use crate::status::{OccurrenceSource, QueuedOccurrence, RunPhase, State};

impl LoadedJob<'_> {
    /// Sets the timer for the next occurrence, if any.
    pub(crate) fn wait_for(&mut self, turn: &mut Turn<'_>, next: Option<Timestamp>) {
        if let Some(due) = self.status.due.take() {
            turn.cancel(Timestamp(due), 0);
        }
        let count = self
            .definition
            .timing
            .recurrence
            .as_ref()
            .and_then(|r| r.count);
        let is_used_up = count.is_some_and(|count| self.status.taken() >= u64::from(count));
        let next = next.filter(|_| !is_used_up);
        self.status.next = next.map(|next| next.0);
        if let Some(next) = next {
            let due = next.0.saturating_add(self.jitter_ms(next.0));
            self.status.due = Some(due);
            turn.schedule(Timestamp(due), 0, JobCommand::Due(next.0).encode());
        }
    }

    /// Deterministic: the same for an occurrence on every node and after a restart.
    fn jitter_ms(&self, occurrence: i64) -> i64 {
        let most = self.definition.timing.jitter_ms;
        if most == 0 {
            return 0;
        }
        // FNV-1a: its bits are mixed well enough to spread jobs.
        let bytes = self.key.iter().copied().chain(occurrence.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        ((hash ^ hash >> 32) % most.saturating_add(1)) as i64
    }

    /// Handles the timer of an occurrence.
    pub(crate) fn due(&mut self, turn: &mut Turn<'_>, occurrence: i64) -> Result<(), TurnError> {
        let is_wanted = self.status.state == State::Enabled && self.status.paused.is_none();
        if !is_wanted || self.status.next != Some(occurrence) {
            return Ok(());
        }
        // The timer has fired; there is nothing to cancel.
        self.status.due = None;
        let now = turn.time().0;
        let mut missed = self.missed(occurrence, now);
        if let Some(count) = self
            .definition
            .timing
            .recurrence
            .as_ref()
            .and_then(|r| r.count)
        {
            let left = u64::from(count).saturating_sub(self.status.taken());
            missed.truncate(left as usize);
        }
        if missed.is_empty() {
            self.leave_out(turn, occurrence)?;
        } else if self.is_made_up(&missed, now) {
            self.queue_up(missed);
        } else {
            let mut missed = missed.into_iter();
            if let Some(first) = missed.next() {
                self.take_up(turn, first)?;
            }
            self.queue_up(missed.collect());
        }
        let next = self.plan.after(turn.time().max(Timestamp(occurrence)));
        if !self.status.state.is_final() {
            self.wait_for(turn, next);
            self.next_waiting(turn)?;
            self.complete(turn);
        }
        Ok(())
    }

    /// The occurrences to run of those due from `first` to `now`, in order.
    fn missed(&self, first: i64, now: i64) -> Vec<i64> {
        let policy = &self.definition.policy;
        let window = match policy.misfire {
            Misfire::CatchUp => policy.catch_up_ms.min(i64::MAX as u64 / 4) as i64,
            Misfire::RunOnce => 0,
            Misfire::Skip => return self.on_time(first, now).into_iter().collect(),
        };
        let begin = now.saturating_sub(window);
        let mut list = Vec::new();
        if first < begin {
            let older = self.plan.last_between(Timestamp(first), Timestamp(begin));
            list.push(older.map_or(first, |older| older.0));
        }
        let most = match policy.misfire {
            Misfire::RunOnce => 1,
            _ => limits::WAITING_RUNS,
        };
        // The first one is due, even if the plan has changed.
        if first >= begin {
            list.push(first);
        }
        let from = Timestamp(begin.max(first.saturating_add(1)));
        let until = Timestamp(now.saturating_add(1));
        let recent = self.plan.last_ones(from, until, most);
        list.extend(recent.into_iter().map(|at| at.0));
        list.split_off(list.len().saturating_sub(most))
    }

    /// The latest occurrence due from `first` to `now`, unless it is late: of two due
    /// occurrences the earlier one always is.
    fn on_time(&self, first: i64, now: i64) -> Option<i64> {
        let (from, until) = (Timestamp(first), Timestamp(now.saturating_add(1)));
        let latest = self.plan.last_between(from, until);
        let latest = latest.map_or(first, |latest| latest.0);
        let late = self.late_ms(latest, now) > limits::MISFIRE.as_millis() as i64;
        (!late).then_some(latest)
    }

    /// How late an occurrence is.
    fn late_ms(&self, occurrence: i64, now: i64) -> i64 {
        let due = occurrence.saturating_add(self.jitter_ms(occurrence));
        now.saturating_sub(due)
    }

    /// Whether occurrences were missed while others run or wait: then they run after
    /// those, without merging.
    fn is_made_up(&self, due: &[i64], now: i64) -> bool {
        let overlap = self.definition.policy.overlap;
        let is_missed = match due {
            // The policy skips a late occurrence while another is running.
            [_] if overlap == Overlap::Skip => false,
            [one] => self.late_ms(*one, now) > limits::ON_TIME.as_millis() as i64,
            _ => true,
        };
        let gives_up = overlap == Overlap::CancelOther;
        is_missed && self.status.is_busy() && !gives_up
    }

    /// Queues missed occurrences one after the other, after all waiting ones.
    fn queue_up(&mut self, missed: Vec<i64>) {
        if missed.is_empty() {
            return;
        }
        let waiting = |occurrence| QueuedOccurrence {
            occurrence,
            source: OccurrenceSource::Schedule,
        };
        let held = self.status.held.take();
        self.status.queue.extend(held.map(waiting));
        let room = limits::WAITING_RUNS.saturating_sub(self.status.queue.len());
        let over = missed.len().saturating_sub(room);
        let kept = missed.into_iter().skip(over);
        self.status.queue.extend(kept.map(waiting));
    }

    /// Records a skipped occurrence that was too late; completes a job that runs once.
    fn leave_out(&mut self, turn: &mut Turn<'_>, occurrence: i64) -> Result<(), TurnError> {
        if self.definition.policy.misfire != Misfire::Skip {
            return Ok(());
        }
        let late = limits::MISFIRE.as_secs();
        let why = format!("skipped: it was more than {late} s late, and misfirePolicy is skip");
        self.postpone(turn, occurrence, &why)?;
        if !self.plan.is_recurring() {
            self.finish(turn, State::Completed);
        }
        Ok(())
    }

    /// Starts an occurrence, or applies the overlap policy if another is running.
    fn take_up(&mut self, turn: &mut Turn<'_>, occurrence: i64) -> Result<(), TurnError> {
        let overlap = self.definition.policy.overlap;
        let is_crowded = self.status.runs.len() >= limits::OPEN_RUNS;
        if !self.status.is_busy() || (overlap == Overlap::AllowAll && !is_crowded) {
            return self.begin(turn, occurrence, OccurrenceSource::Schedule);
        }
        match overlap {
            Overlap::CancelOther => {
                self.status.queue.clear();
                self.status.held = None;
                self.give_up(turn, "cancelled for the next occurrence")?;
                self.begin(turn, occurrence, OccurrenceSource::Schedule)
            }
            Overlap::Skip => {
                self.postpone(turn, occurrence, "skipped: another occurrence is running")
            }
            Overlap::BufferOne | Overlap::AllowAll => {
                if self.status.held.is_some() {
                    return Ok(());
                }
                self.status.held = Some(occurrence);
                self.postpone(turn, occurrence, "waits for the previous occurrence")
            }
        }
    }

    fn postpone(
        &mut self,
        turn: &mut Turn<'_>,
        occurrence: i64,
        why: &str,
    ) -> Result<(), TurnError> {
        let now = turn.time().0;
        let item = JobHistoryItem {
            number: 0,
            started: now,
            ended: now,
            expected: occurrence,
            phase: RunPhase::Main,
            verdict: JobHistoryStatus::Postponed,
            message: why.into(),
            retry: 0,
            repeat: self.status.ordinal + 1,
        };
        history::add(turn, self.key, self.status, item)
    }

    /// Sets the timer of a job that is enabled or resumed: missed occurrences are not
    /// caught up.
    pub(crate) fn wait_from_now(&mut self, turn: &mut Turn<'_>) {
        let now = turn.time();
        let next = if self.plan.is_recurring() {
            self.plan.at_or_after(now)
        } else if self.status.dispatched == 0 {
            self.plan.first(now)
        } else {
            None
        };
        self.wait_for(turn, next);
    }
}
