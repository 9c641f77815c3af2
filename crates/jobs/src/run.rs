//! Running occurrences: start, attempt, retry, end.
//!
//! An occurrence is claimed by the commit that starts it; its first byte is sent after
//! that commit. The result of an attempt is recorded by a later commit. So a crash
//! between the two repeats that attempt, and nothing else runs twice. For an
//! at-most-once job another commit before the first byte records the start of the
//! attempt, so that it is not repeated either.

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_partition::{Address, Envelope, Message, ServiceKind, Turn, TurnError};

use crate::command::{AttemptResult, JobCommand};
use crate::definition::{InFlight, JobAction, JobDefinition, JobRetry, Target};
use crate::delivery_request::{DeliveryRequest, JobEffect, work_id};
use crate::history::{self, JobHistoryItem, JobHistoryStatus};
use crate::recurrence::OccurrencePlan;
use crate::status::{AttemptId, JobStatus, OccurrenceRun, OccurrenceSource, RunPhase, State};
use steadfast_core::iso;

/// A job loaded for one turn: definition, status and row key.
pub(crate) struct LoadedJob<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) definition: &'a JobDefinition,
    pub(crate) plan: &'a OccurrencePlan,
    pub(crate) status: &'a mut JobStatus,
}

/// Writes the time of an occurrence into the placeholders of a body.
fn write_times(body: &mut [u8], places: &[u32], time: Timestamp) {
    let text = iso::format_seconds(time) + "Z";
    for place in places {
        let start = *place as usize;
        if let Some(room) = body.get_mut(start..start + text.len()) {
            room.copy_from_slice(text.as_bytes());
        }
    }
}

/// The tag of the timer that deletes a finished job.
const EXPIRE_TAG: u64 = u64::MAX;

impl LoadedJob<'_> {
    /// Claims an occurrence and starts its first attempt.
    pub(crate) fn begin(
        &mut self,
        turn: &mut Turn<'_>,
        occurrence: i64,
        source: OccurrenceSource,
    ) -> Result<(), TurnError> {
        let status = &mut *self.status;
        status.ordinal += 1;
        status.executions += 1;
        status.last_execution = Some(turn.time().0);
        if source == OccurrenceSource::Schedule {
            status.dispatched += 1;
        }
        let run = OccurrenceRun {
            ordinal: status.ordinal,
            occurrence,
            source,
            phase: RunPhase::Main,
            attempt: 0,
            retry_at: None,
            is_faulted: false,
            last: String::new(),
            begun: None,
        };
        status.runs.push(run.clone());
        self.attempt(turn, &run)
    }

    /// Starts the current attempt of a run.
    fn attempt(&mut self, turn: &mut Turn<'_>, run: &OccurrenceRun) -> Result<(), TurnError> {
        match self.target(run.phase).cloned() {
            Some(Target::Outside(target)) => {
                let id = work_id(self.key, run.ordinal, run.phase, run.attempt);
                let order = DeliveryRequest {
                    job: self.definition.id.clone(),
                    occurrence: run.occurrence,
                    source: run.source,
                    ordinal: run.ordinal,
                    phase: run.phase,
                    attempt: run.attempt,
                    target,
                    timeout_ms: self.definition.policy.timeout_ms,
                    last: (run.phase == RunPhase::DeadLetter).then(|| run.last.clone()),
                    epoch: 0,
                    is_once: self.definition.policy.in_flight == InFlight::Skip,
                };
                turn.open_work(id, JobEffect::Attempt(Box::new(order)).encode());
                Ok(())
            }
            Some(Target::Inside {
                kind,
                name,
                key,
                mut body,
                times,
            }) => {
                write_times(&mut body, &times, Timestamp(run.occurrence));
                // The message and this turn share one commit, so it is done.
                let to = Address::new(ServiceKind(kind), name, key);
                turn.send(Envelope::new(to, body));
                let now = turn.time().0;
                self.ended(
                    turn,
                    &AttemptResult {
                        claim: run.attempt_id(),
                        is_success: true,
                        message: "sent in the commit that claimed the occurrence".into(),
                        started: now,
                        ended: now,
                    },
                )
            }
            // This part was removed from the definition.
            None => self.end(turn, run.ordinal),
        }
    }

    fn action(&self, phase: RunPhase) -> Option<&JobAction> {
        match phase {
            RunPhase::Main => Some(&self.definition.main),
            RunPhase::Error => self.definition.error.as_ref(),
            RunPhase::DeadLetter => None,
        }
    }

    fn target(&self, phase: RunPhase) -> Option<&Target> {
        match phase {
            RunPhase::DeadLetter => self.definition.dead_letter.as_ref(),
            _ => self.action(phase).map(|action| &action.target),
        }
    }

    fn retry(&self, phase: RunPhase) -> JobRetry {
        self.action(phase)
            .map_or(JobRetry::default(), |action| action.retry)
    }

    /// Handles the result of an attempt.
    pub(crate) fn ended(
        &mut self,
        turn: &mut Turn<'_>,
        ended: &AttemptResult,
    ) -> Result<(), TurnError> {
        let Some(run) = self.under_way(ended.claim) else {
            // The attempt was cancelled, or its result is recorded already.
            return Ok(());
        };
        self.attempt_ended(turn, run, ended, true)
    }

    /// Whether an at-most-once attempt may start. If it was started before, it is
    /// recorded as failed instead, because its result is unknown.
    pub(crate) fn may_begin(
        &mut self,
        turn: &mut Turn<'_>,
        claim: AttemptId,
    ) -> Result<bool, TurnError> {
        let Some(mut run) = self.under_way(claim) else {
            return Ok(false);
        };
        let now = turn.time().0;
        let Some(begun) = run.begun else {
            run.begun = Some(now);
            self.replace(run);
            return Ok(true);
        };
        let lost = AttemptResult {
            claim,
            is_success: false,
            message: "it was started, and its result was not recorded; not repeated, \
                      because inFlight is skip"
                .into(),
            started: begun,
            ended: now,
        };
        self.attempt_ended(turn, run, &lost, false)?;
        Ok(false)
    }

    /// The run whose current attempt this is, without a result yet.
    fn under_way(&self, claim: AttemptId) -> Option<OccurrenceRun> {
        let is_it = |run: &&OccurrenceRun| run.attempt_id() == claim && run.retry_at.is_none();
        self.status.runs.iter().find(is_it).cloned()
    }

    /// Handles the result of a run's current attempt.
    fn attempt_ended(
        &mut self,
        turn: &mut Turn<'_>,
        mut run: OccurrenceRun,
        ended: &AttemptResult,
        may_repeat: bool,
    ) -> Result<(), TurnError> {
        turn.close_work(&work_id(self.key, run.ordinal, run.phase, run.attempt));
        self.record(turn, &run, ended)?;
        if ended.is_success {
            return self.end(turn, run.ordinal);
        }
        if run.phase == RunPhase::Main {
            self.status.failures += 1;
        }
        run.last = ended.message.clone();
        history::truncate(&mut run.last, limits::HISTORY_MESSAGE_BYTES);
        self.after_failure(turn, run, ended.ended, may_repeat)
    }

    /// Continues after a failed attempt: retry, next phase, or end.
    fn after_failure(
        &mut self,
        turn: &mut Turn<'_>,
        mut run: OccurrenceRun,
        ended: i64,
        may_repeat: bool,
    ) -> Result<(), TurnError> {
        // A scheduled run is not retried if the job is no longer enabled.
        let is_wanted =
            self.status.state == State::Enabled || run.source != OccurrenceSource::Schedule;
        let retry = self.retry(run.phase);
        run.begun = None;
        if is_wanted && may_repeat && run.attempt < retry.count {
            let wait = retry.wait_ms(run.attempt).min(i64::MAX as u64 / 4) as i64;
            let at = ended.saturating_add(wait);
            run.retry_at = Some(at);
            turn.schedule(
                Timestamp(at),
                run.ordinal,
                JobCommand::RetryDue(run.ordinal).encode(),
            );
            self.replace(run);
            return Ok(());
        }
        if run.phase == RunPhase::Main && is_wanted {
            run.is_faulted = true;
            self.status.faults += 1;
        }
        let next = match run.phase {
            RunPhase::Main if self.definition.error.is_some() => Some(RunPhase::Error),
            RunPhase::Main | RunPhase::Error if self.definition.dead_letter.is_some() => {
                Some(RunPhase::DeadLetter)
            }
            _ => None,
        };
        let Some(phase) = next.filter(|_| is_wanted) else {
            self.replace(run.clone());
            return self.end(turn, run.ordinal);
        };
        (run.phase, run.attempt) = (phase, 0);
        self.replace(run.clone());
        self.attempt(turn, &run)
    }

    /// Retries after the wait for a failed attempt.
    pub(crate) fn again(&mut self, turn: &mut Turn<'_>, ordinal: u64) -> Result<(), TurnError> {
        let waits = |run: &&OccurrenceRun| run.ordinal == ordinal && run.retry_at.is_some();
        let Some(mut run) = self.status.runs.iter().find(waits).cloned() else {
            return Ok(());
        };
        run.retry_at = None;
        run.attempt += 1;
        self.replace(run.clone());
        self.attempt(turn, &run)
    }

    fn replace(&mut self, run: OccurrenceRun) {
        let place = self
            .status
            .runs
            .iter_mut()
            .find(|known| known.ordinal == run.ordinal);
        if let Some(place) = place {
            *place = run;
        }
    }

    fn record(
        &mut self,
        turn: &mut Turn<'_>,
        run: &OccurrenceRun,
        ended: &AttemptResult,
    ) -> Result<(), TurnError> {
        let item = JobHistoryItem {
            number: 0,
            started: ended.started,
            ended: ended.ended,
            expected: run.occurrence,
            phase: run.phase,
            verdict: if ended.is_success {
                JobHistoryStatus::Completed
            } else {
                JobHistoryStatus::Failed
            },
            message: ended.message.clone(),
            retry: run.attempt,
            repeat: run.ordinal,
        };
        history::add(turn, self.key, self.status, item)
    }

    /// Ends a run, successful or not, and starts waiting occurrences.
    fn end(&mut self, turn: &mut Turn<'_>, ordinal: u64) -> Result<(), TurnError> {
        let Some(at) = self
            .status
            .runs
            .iter()
            .position(|run| run.ordinal == ordinal)
        else {
            return Ok(());
        };
        let run = self.status.runs.remove(at);
        if run.source == OccurrenceSource::Schedule {
            self.judge(turn, &run);
        }
        self.next_waiting(turn)?;
        self.complete(turn);
        Ok(())
    }

    /// Updates the job's faults after a scheduled occurrence.
    fn judge(&mut self, turn: &mut Turn<'_>, run: &OccurrenceRun) {
        let status = &mut *self.status;
        status.faults_in_a_row = if run.is_faulted {
            status.faults_in_a_row.saturating_add(1)
        } else {
            0
        };
        let limit = self.definition.policy.faults;
        let is_too_much = limit.is_some_and(|limit| status.faults_in_a_row >= limit);
        if run.is_faulted && (!self.plan.is_recurring() || is_too_much) {
            self.finish(turn, State::Faulted);
        } else if !self.plan.is_recurring() {
            self.finish(turn, State::Completed);
        }
    }

    /// Starts the next waiting occurrence, if the policy allows it.
    pub(crate) fn next_waiting(&mut self, turn: &mut Turn<'_>) -> Result<(), TurnError> {
        let is_running = self
            .status
            .runs
            .iter()
            .any(|run| run.source != OccurrenceSource::Manual);
        if is_running || self.status.state.is_final() {
            return Ok(());
        }
        if !self.status.queue.is_empty() {
            let waiting = self.status.queue.remove(0);
            return self.begin(turn, waiting.occurrence, waiting.source);
        }
        match self.status.held.take() {
            Some(occurrence) => self.begin(turn, occurrence, OccurrenceSource::Schedule),
            None => Ok(()),
        }
    }

    /// A recurring job without another occurrence is complete.
    pub(crate) fn complete(&mut self, turn: &mut Turn<'_>) {
        let status = &*self.status;
        let is_over = status.next.is_none() && status.is_quiet() && status.paused.is_none();
        if status.state == State::Enabled && self.plan.is_recurring() && is_over {
            self.finish(turn, State::Completed);
        }
    }

    /// Finishes the job, and schedules its deletion.
    pub(crate) fn finish(&mut self, turn: &mut Turn<'_>, state: State) {
        self.stop(turn);
        let now = turn.time();
        self.status.state = state;
        self.status.finished = Some(now.0);
        let due = now.plus(limits::HISTORY_AGE);
        turn.schedule(due, EXPIRE_TAG, JobCommand::Expire.encode());
    }

    /// Cancels the timer, waiting occurrences, and pending retries. Running attempts
    /// complete.
    pub(crate) fn stop(&mut self, turn: &mut Turn<'_>) {
        let status = &mut *self.status;
        if let Some(due) = status.due.take() {
            turn.cancel(Timestamp(due), 0);
        }
        status.next = None;
        status.queue.clear();
        status.held = None;
        status.runs.retain(|run| match run.retry_at {
            Some(at) => {
                turn.cancel(Timestamp(at), run.ordinal);
                false
            }
            None => true,
        });
    }

    /// Cancels everything that is running.
    pub(crate) fn give_up(&mut self, turn: &mut Turn<'_>, why: &str) -> Result<(), TurnError> {
        for run in std::mem::take(&mut self.status.runs) {
            if let Some(at) = run.retry_at {
                turn.cancel(Timestamp(at), run.ordinal);
                continue;
            }
            let id = work_id(self.key, run.ordinal, run.phase, run.attempt);
            turn.close_work(&id);
            turn.push(JobEffect::Cancel(id).encode());
            let now = turn.time().0;
            self.record(
                turn,
                &run,
                &AttemptResult {
                    claim: run.attempt_id(),
                    is_success: false,
                    message: why.into(),
                    started: now,
                    ended: now,
                },
            )?;
        }
        Ok(())
    }

    /// Cancels the timer that deletes a finished job.
    pub(crate) fn unexpire(&mut self, turn: &mut Turn<'_>) {
        if let Some(finished) = self.status.finished {
            turn.cancel(Timestamp(finished).plus(limits::HISTORY_AGE), EXPIRE_TAG);
        }
    }
}
