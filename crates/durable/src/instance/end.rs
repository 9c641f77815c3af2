//! Ends executions, and deletes instances.

use std::time::Duration;

use bytes::Bytes;
use steadfast_partition::Message;

use super::living::{EXPIRE, INPUT, Living, OUTPUT, WAKE};
use crate::command::{Ask, Letter};
use crate::event::What;
use crate::failure::Failure;
use crate::moment::Moment;
use crate::rows::{self, BY_CREATED, BY_ENDED, HISTORY, INSTANCES, numbered};
use crate::status::Status;

impl Living<'_, '_> {
    /// Ends the instance in a final state.
    pub(crate) fn end(&mut self, status: Status, result: Option<&str>, failure: Option<&Failure>) {
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
            (Status::Completed, _) => Ok(result),
            (Status::Failed, Some(failure)) => Err(failure.clone()),
            (Status::Failed, None) => Err(Failure::new("OrchestrationFailed", "")),
            _ => Err(super::begin::terminated(result)),
        };
        self.report(&outcome);
        if self.row.kept_ms > 0 {
            let due = now.plus(Duration::from_millis(self.row.kept_ms));
            let expire = Ask::Expire(self.row.execution.clone());
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
            let release = Ask::Release {
                section,
                set: kept.set,
                position: 0,
            };
            self.send(&first, &release);
        }
    }

    /// Sends the outcome to the parent.
    pub(crate) fn report(&mut self, outcome: &Result<Option<&str>, Failure>) {
        let Some(parent) = self.row.parent.clone().filter(|_| self.row.is_reported) else {
            return;
        };
        let task = parent.task;
        let what = match outcome {
            Ok(result) => What::ChildCompleted {
                task,
                result: result.map(str::to_owned),
            },
            Err(failure) => What::ChildFailed {
                task,
                failure: failure.clone(),
            },
        };
        let letter = Letter {
            execution: parent.execution,
            what,
        };
        self.send(&parent.instance, &Ask::Deliver(letter));
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
