//! Results of workers.

use steadfast_core::limits;

use super::task_hub::TaskHub;
use crate::action::{self, ActionKind, TurnAction};
use crate::command::{
    ActivityCompletion, BatchCompletion, Command, CompletedOperation, Reply, TurnCompletion,
};
use crate::dispatch::{
    DeliveredWork, DeliveryToken, Key, RemoteResult, ResultClaim, WorkerMessage,
};
use crate::entity::{Outcome, log_failure};
use crate::error::{ErrorKind, Result};
use crate::event::NO_ACTION;
use crate::failure::FailureDetails;
use crate::id::EntityId;
use crate::rows;
use crate::status::InstanceStatus;
use crate::work::{
    ActivityResult, ActivityRun, BatchResult, EntityAction, TurnResult, result_size,
};

impl TaskHub {
    /// Commits the result of a turn. `false`: the result is out of date. Without a token it
    /// is for the assigned turn of `instance`.
    pub async fn complete_turn(
        &self,
        token: &str,
        instance: &str,
        mut result: TurnResult,
    ) -> Result<bool> {
        result.bound();
        if !self.is_here(instance) {
            let turn = RemoteResult::Turn(result);
            return self.result_there(token, instance, turn).await;
        }
        let Some((key, token)) = self.turn_key(token, instance, b't') else {
            return Ok(false);
        };
        if result.needs_history {
            return Ok(self.queue.resend_whole(&key, token.as_ref()));
        }
        if let Some(failure) = result.only_failure()
            && self.queue.offer_to_others(&key, token.as_ref(), failure)
        {
            return Ok(true);
        }
        let Some(mut claim) = self.queue.claim(&key, token.as_ref()) else {
            return Ok(false);
        };
        let done = turn_done(&mut claim, result);
        let is_over = done.actions.iter().any(TurnAction::is_end);
        let give_up = Command::GiveUp {
            execution: done.execution.clone(),
            failure: turn_too_large(),
        };
        let said = if done.commit_bytes() > limits::TURN_COMMIT_BYTES {
            self.keep(instance, give_up).await
        } else {
            match self.keep(instance, Command::TurnDone(done)).await {
                // A retry would be as large.
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    self.keep(instance, give_up).await
                }
                said => said,
            }
        };
        if is_over && said.is_ok() {
            let key = rows::key(self.name.as_bytes(), instance.as_bytes());
            self.queue.ended(&key);
        }
        claim.settle(&said);
        Ok(said? == Reply::Done)
    }

    /// Accepts a part of a result; the last part goes to [`TaskHub::complete_turn`].
    pub async fn complete_chunk(
        &self,
        token: &str,
        instance: &str,
        index: u32,
        mut part: TurnResult,
    ) -> Result<bool> {
        part.bound();
        if !self.is_here(instance) {
            let chunk = RemoteResult::Chunk { index, part };
            return self.result_there(token, instance, chunk).await;
        }
        let Some((key, token)) = self.turn_key(token, instance, b't') else {
            return Ok(false);
        };
        Ok(self.queue.chunk(&key, token.as_ref(), index, part))
    }

    /// Commits the result of a batch.
    pub async fn complete_batch(
        &self,
        token: &str,
        entity: &str,
        result: BatchResult,
    ) -> Result<bool> {
        if !self.is_here(entity) {
            let batch = if result.is_too_large() {
                RemoteResult::TooLarge
            } else {
                RemoteResult::Batch(result.into())
            };
            return self.result_there(token, entity, batch).await;
        }
        let Some((key, token)) = self.turn_key(token, entity, b'b') else {
            return Ok(false);
        };
        if result.needs_state {
            return Ok(self.queue.resend_whole(&key, token.as_ref()));
        }
        let Some(mut claim) = self.queue.claim(&key, token.as_ref()) else {
            return Ok(false);
        };
        let (given, _) = claim.open();
        if result.is_too_large() {
            self.run_fewer(claim, entity, given).await
        } else {
            self.bring_batch(claim, entity, given, result).await
        }
    }

    async fn bring_batch(
        &self,
        claim: ResultClaim,
        entity: &str,
        given: DeliveredWork,
        result: BatchResult,
    ) -> Result<bool> {
        let count = given.operations();
        let alone = (count == 1).then(|| given.clone());
        let Some(done) = batch_done(given, result) else {
            return Ok(false);
        };
        match (self.keep(entity, Command::BatchDone(done)).await, alone) {
            (Err(error), alone) if error.kind() == ErrorKind::TooLarge => match alone {
                Some(given) => self.run_fewer(claim, entity, given).await,
                None => {
                    claim.retry_with(count / 2);
                    Ok(true)
                }
            },
            (said, _) => {
                claim.settle(&said);
                Ok(said? == Reply::Done)
            }
        }
    }

    /// The result of a batch is too large: runs half of it again. An operation that ran alone
    /// has failed, and its result is discarded.
    async fn run_fewer(
        &self,
        claim: ResultClaim,
        entity: &str,
        given: DeliveredWork,
    ) -> Result<bool> {
        let count = given.operations();
        if count > 1 {
            claim.retry_with(count / 2);
            return Ok(true);
        }
        let failed = BatchResult {
            failure: Some(result_too_large()),
            ..BatchResult::default()
        };
        let Some(done) = batch_done(given, failed) else {
            return Ok(false);
        };
        let said = self.keep(entity, Command::BatchDone(done)).await;
        claim.settle(&said);
        Ok(said? == Reply::Done)
    }

    /// A worker was sent only the first `count` events or operations of an item: the others
    /// follow later. `false`: the item is no longer assigned to it.
    pub async fn cut(&self, token: &str, instance: &str, count: usize) -> Result<bool> {
        if !self.is_here(instance) {
            let count = count as u64;
            let cut = RemoteResult::Cut { count };
            return self.result_there(token, instance, cut).await;
        }
        let mark = match EntityId::parse(instance) {
            Ok(_) => b'b',
            Err(_) => b't',
        };
        let Some((key, token)) = self.turn_key(token, instance, mark) else {
            return Ok(false);
        };
        Ok(self.queue.cut(&key, token.as_ref(), count))
    }

    /// Commits the result of an activity; the first result of an open activity counts, from
    /// any of its deliveries.
    pub async fn complete_activity(
        &self,
        token: &str,
        instance: &str,
        id: i32,
        result: ActivityResult,
    ) -> Result<bool> {
        self.complete_activity_run(token, instance, id, result.into())
            .await
    }

    /// The same for an activity that sends messages with its result.
    pub async fn complete_activity_run(
        &self,
        token: &str,
        instance: &str,
        id: i32,
        run: ActivityRun,
    ) -> Result<bool> {
        let ActivityRun { result, messages } = if result_size(&run.result) > limits::PAYLOAD_BYTES {
            Err(result_too_large()).into()
        } else {
            run
        };
        if !self.is_here(instance) {
            let outcome = Outcome::from(result);
            let activity = RemoteResult::Activity {
                id,
                outcome,
                messages,
            };
            return self.result_there(token, instance, activity).await;
        }
        let token = if token.is_empty() {
            self.queue.activity(instance, id)
        } else {
            DeliveryToken::parse(token)
        };
        let Some(DeliveryToken::Activity {
            execution,
            number,
            attempt,
        }) = token
        else {
            return Ok(false);
        };
        let key = self.key(instance, |key| {
            let mut id = rows::marked(&key, b'a');
            id.extend_from_slice(&number.to_be_bytes());
            id
        });
        let token = DeliveryToken::Activity {
            execution: execution.clone(),
            number,
            attempt,
        };
        if let Err(failure) = &result
            && self.queue.offer_to_others(&key, Some(&token), failure)
        {
            return Ok(true);
        }
        // An activity has no lease: if this future is dropped, it is assigned again.
        let on_its_way = self.queue.abandon_guard(token);
        let (result, failure) = match result {
            Ok(result) => (result, None),
            Err(failure) => (None, Some(failure)),
        };
        let done = ActivityCompletion {
            execution,
            number,
            result,
            failure,
            messages,
        };
        let said = self.keep(instance, Command::TaskDone(done)).await?;
        on_its_way.disarm();
        self.queue.done(&key);
        Ok(said == Reply::Done)
    }

    /// Abandons an item, for other workers or a later retry.
    pub async fn abandon(&self, token: &str) -> Result<bool> {
        if self.abandon_here(token) {
            return Ok(true);
        }
        // The token does not name its node.
        let Some(others) = self.inner.peers.get() else {
            return Ok(false);
        };
        let word = rows::encode(&WorkerMessage::Abandon {
            hub: self.name().to_owned(),
            token: token.to_owned(),
        });
        for name in others.names() {
            if let Ok(answer) = others.request(&name, word.clone()).await
                && answer.first() == Some(&1)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn abandon_here(&self, token: &str) -> bool {
        let token = DeliveryToken::parse(token);
        token.is_some_and(|token| self.queue.abandon(&token))
    }

    /// Accepts the result of a worker of another node.
    pub(super) async fn take_result(
        &self,
        token: &str,
        instance: &str,
        brought: RemoteResult,
    ) -> Result<bool> {
        match brought {
            RemoteResult::Turn(result) => self.complete_turn(token, instance, result).await,
            RemoteResult::Chunk { index, part } => {
                self.complete_chunk(token, instance, index, part).await
            }
            RemoteResult::Activity {
                id,
                outcome,
                messages,
            } => {
                let result = outcome.into_result();
                let run = ActivityRun { result, messages };
                self.complete_activity_run(token, instance, id, run).await
            }
            RemoteResult::Batch(result) => {
                self.complete_batch(token, instance, result.into()).await
            }
            RemoteResult::Cut { count } => self.cut(token, instance, count as usize).await,
            RemoteResult::TooLarge => self.batch_too_large(token, instance).await,
        }
    }

    /// The result of a batch was too large for a message.
    async fn batch_too_large(&self, token: &str, entity: &str) -> Result<bool> {
        let Some((key, token)) = self.turn_key(token, entity, b'b') else {
            return Ok(false);
        };
        match self.queue.claim(&key, token.as_ref()) {
            Some(mut claim) => {
                let (given, _) = claim.open();
                self.run_fewer(claim, entity, given).await
            }
            None => Ok(false),
        }
    }

    /// The key of an instance's work, and the token if there is one; `None` if the token
    /// is not valid.
    fn turn_key(
        &self,
        token: &str,
        instance: &str,
        mark: u8,
    ) -> Option<(Key, Option<DeliveryToken>)> {
        let token = if token.is_empty() {
            None
        } else {
            Some(DeliveryToken::parse(token)?)
        };
        let key = self.key(instance, |key| rows::marked(&key, mark));
        Some((key, token))
    }

    pub(super) fn key(&self, instance: &str, work: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Key {
        let partition = self.inner.space.partition(&self.address(instance));
        let key = rows::key(self.name.as_bytes(), instance.as_bytes());
        (partition, work(key).into())
    }
}

/// The command for the result of a turn, with all its parts.
fn turn_done(claim: &mut ResultClaim, last: TurnResult) -> TurnCompletion {
    let (given, chunks) = claim.open();
    let DeliveredWork::Turn {
        execution,
        generation,
        at,
        mut taken,
    } = given
    else {
        unreachable!("a turn's key names a turn");
    };
    let is_whole = chunks.is_empty();
    let mut actions: Vec<TurnAction> = Vec::new();
    for part in chunks.into_values() {
        actions.extend(part.actions);
    }
    actions.extend(last.actions);
    if let Some(processed) = last.processed.filter(|_| is_whole) {
        taken.truncate(processed as usize);
    }
    TurnCompletion {
        execution,
        generation,
        at,
        taken,
        actions,
        custom_status: last.custom_status,
        span: last.span,
    }
}

impl TurnResult {
    /// The failure of a turn that does nothing else.
    fn only_failure(&self) -> Option<&FailureDetails> {
        match self.actions.as_slice() {
            [action] => match &action.kind {
                ActionKind::Complete { failure, .. } => failure.as_ref(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Replaces a result that is too large by the failure of the instance.
    fn bound(&mut self) {
        let status = self.custom_status.as_ref().map_or(0, String::len);
        let is_short = status <= limits::PAYLOAD_BYTES
            && action::are_payloads_short(&self.actions)
            && action::commit_bytes(&self.actions) <= limits::TURN_COMMIT_BYTES;
        if is_short {
            return;
        }
        self.custom_status = None;
        self.actions = vec![TurnAction {
            id: NO_ACTION,
            kind: ActionKind::Complete {
                status: InstanceStatus::Failed,
                result: None,
                failure: Some(turn_too_large()),
            },
        }];
    }
}

fn turn_too_large() -> FailureDetails {
    let (payload, commit) = (limits::PAYLOAD_BYTES >> 20, limits::TURN_COMMIT_BYTES >> 20);
    FailureDetails::lasting(
        "TurnTooLarge",
        format!(
            "a turn exceeds the limit of one commit: {payload} MiB in a payload, {commit} \
             MiB with all copies; do less in one turn, or pass references to payloads"
        ),
    )
}

fn result_too_large() -> FailureDetails {
    let most = limits::PAYLOAD_BYTES >> 20;
    FailureDetails::lasting(
        "ResultTooLarge",
        format!(
            "a result or a state exceeds {most} MiB and is discarded; store large payloads \
             elsewhere and return references to them"
        ),
    )
}

/// The command for the result of a batch; `None` if nothing was run.
fn batch_done(given: DeliveredWork, result: BatchResult) -> Option<BatchCompletion> {
    let DeliveredWork::Batch {
        generation,
        mut front,
        mut main,
        requests,
    } = given
    else {
        unreachable!("a batch's key names a batch");
    };
    let is_nothing = result.results.is_empty() && result.state.is_none();
    let mut outcomes: Vec<Outcome> = result.results.into_iter().map(Outcome::from).collect();
    if let Some(failure) = &result.failure {
        let failed = || Outcome::Failure(failure.clone());
        outcomes.resize_with(requests.len().max(outcomes.len()), failed);
    }
    let mut done = Vec::with_capacity(requests.len());
    for ((request, front_end, main_end), outcome) in requests.into_iter().zip(outcomes) {
        (front, main) = (front_end, main_end);
        log_failure(&request, &outcome);
        done.push(CompletedOperation { request, outcome });
    }
    if done.is_empty() {
        return None;
    }
    let actions: Vec<EntityAction> = result.actions;
    Some(BatchCompletion {
        generation,
        front,
        main,
        done,
        actions,
        is_changed: !(result.failure.is_some() && is_nothing),
        state: result.state,
    })
}
