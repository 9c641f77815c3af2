//! Ends executions, and deletes instances.

use std::time::Duration;

use bytes::Bytes;
use steadfast_partition::Message;

use super::loaded_instance::{EXPIRE, INPUT, LoadedInstance, OUTPUT, WAKE};
use crate::command::{Command, ExternalMessage};
use crate::event::EventKind;
use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::rows::{self, BY_CREATED, BY_ENDED, HISTORY, INSTANCES, numbered};
use crate::status::InstanceStatus;

impl LoadedInstance<'_, '_> {
    /// Ends the instance in a final state.
    pub(crate) fn end(
        &mut self,
        status: InstanceStatus,
        result: Option<&str>,
        failure: Option<&FailureDetails>,
    ) {
        let now = self.turn.time();
        self.row.status = status;
        self.row.updated = now;
        self.row.completed = Some(now);
        self.row.failure = failure.cloned();
        self.payload(OUTPUT, result);
        self.release();
        self.take(u64::MAX - self.row.inbox);
        let index = rows::timed(&self.to.name, now.0, &self.to.key);
        self.turn.put(BY_ENDED, &index, Bytes::new());
        let outcome = match (status, failure) {
            (InstanceStatus::Completed, _) => Ok(result),
            (InstanceStatus::Failed, Some(failure)) => Err(failure.clone()),
            (InstanceStatus::Failed, None) => Err(FailureDetails::new("OrchestrationFailed", "")),
            _ => Err(super::start::terminated(result)),
        };
        self.report(&outcome);
        if self.row.kept_ms > 0 {
            let due = now.plus(Duration::from_millis(self.row.kept_ms));
            let expire = Command::Expire(self.row.execution.clone());
            self.turn.schedule(due, EXPIRE, expire.encode());
        }
    }

    /// Releases what an execution holds: its turn, its activities, its locks.
    pub(crate) fn release(&mut self) {
        self.withdraw();
        self.drop_tasks();
        self.row.is_turn_due = false;
        for (section, kept) in std::mem::take(&mut self.row.sections) {
            let Some(first) = kept.set.first().cloned() else {
                continue;
            };
            let release = Command::Release {
                section,
                set: kept.set,
                position: 0,
            };
            self.send(&first, &release);
        }
    }

    /// Sends the outcome to the parent.
    pub(crate) fn report(&mut self, outcome: &Result<Option<&str>, FailureDetails>) {
        let Some(parent) = self.row.parent.clone().filter(|_| self.row.is_reported) else {
            return;
        };
        let task = parent.task;
        let what = match outcome {
            Ok(result) => EventKind::ChildCompleted {
                task,
                result: result.map(str::to_owned),
            },
            Err(failure) => EventKind::ChildFailed {
                task,
                failure: failure.clone(),
            },
        };
        let letter = ExternalMessage {
            execution: parent.execution,
            what,
        };
        self.send(&parent.instance, &Command::Deliver(letter));
    }

    /// Deletes the history.
    pub(crate) fn drop_history(&mut self) {
        for number in 0..self.row.turns {
            self.turn.delete(HISTORY, &numbered(&self.key, number));
        }
        self.row.turns = 0;
        self.row.events = 0;
        self.row.rewrites += 1;
    }

    /// Deletes all rows of the instance.
    pub(crate) fn erase(mut self) {
        self.drop_history();
        self.take(u64::MAX - self.row.inbox);
        self.payload(INPUT, None);
        self.payload(OUTPUT, None);
        let row = &self.row;
        let index = rows::timed(&self.to.name, row.created.0, &self.to.key);
        self.turn.delete(BY_CREATED, &index);
        if let Some(due) = row.scheduled.map(Moment::due) {
            self.turn.cancel(due, WAKE);
        }
        if let Some(ended) = row.completed {
            let index = rows::timed(&self.to.name, ended.0, &self.to.key);
            self.turn.delete(BY_ENDED, &index);
            let due = ended.plus(Duration::from_millis(row.kept_ms));
            self.turn.cancel(due, EXPIRE);
        }
        self.turn.delete(INSTANCES, &self.key);
    }
}
