//! An instance loaded for one command.

use std::collections::VecDeque;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Envelope, Message, Turn, TurnError};
use xxhash_rust::xxh3::xxh3_128;

use super::record::InstanceRecord;
use crate::command::{Command, ExternalMessage, NewExecution, WorkRequest};
use crate::event::{EventKind, ExecutionStart, InstanceEvent};
use crate::id;
use crate::moment::Moment;
use crate::rows::{self, BY_CREATED, INBOX, INSTANCES, PAYLOADS, TASKS, key_of, marked, numbered};
use crate::status::InstanceStatus;

/// The two payloads of an instance.
pub(crate) const INPUT: u8 = b'i';
pub(crate) const OUTPUT: u8 = b'o';

/// An instance that exists, its rows, and the turn that changes them.
pub(crate) struct LoadedInstance<'a, 't> {
    pub(crate) turn: &'a mut Turn<'t>,
    pub(crate) to: &'a Address,
    /// The prefix of all its keys.
    pub(crate) key: Vec<u8>,
    pub(crate) row: InstanceRecord,
    /// Inbox events that have no rows yet.
    pub(crate) fresh: VecDeque<InboxRecord>,
    /// The status at load.
    before: Option<InstanceStatus>,
}

impl<'a, 't> LoadedInstance<'a, 't> {
    /// Loads the instance, if it exists.
    pub(crate) fn find(turn: &'a mut Turn<'t>, to: &'a Address) -> Result<Option<Self>, TurnError> {
        let key = key_of(to);
        let row: Option<InstanceRecord> = rows::read(turn, INSTANCES, &key)?;
        Ok(row.map(|row| Self {
            turn,
            to,
            key,
            before: Some(row.status),
            row,
            fresh: VecDeque::new(),
        }))
    }

    /// Creates an instance, with its first event in the inbox.
    pub(crate) fn make(
        turn: &'a mut Turn<'t>,
        to: &'a Address,
        begin: &NewExecution,
        clock: Timestamp,
    ) -> Self {
        let (now, task) = (turn.time(), &begin.task);
        let row = InstanceRecord {
            name: task.name.clone(),
            version: task.version.clone(),
            execution: begin.execution.clone(),
            status: InstanceStatus::Pending,
            created: now,
            updated: now,
            completed: None,
            scheduled: begin.scheduled,
            custom_status: None,
            failure: None,
            parent: begin.parent.clone(),
            is_reported: begin.is_reported,
            tags: task.tags.clone(),
            span: None,
            clock,
            turns: 0,
            inbox: 0,
            inbox_end: 0,
            tasks: 0,
            tasks_end: 0,
            sections: Default::default(),
            generation: 0,
            is_open: false,
            is_turn_due: false,
            rounds: 0,
            kept_ms: begin.kept_ms,
            rewrites: 0,
            trace: task.trace.clone(),
            events: 0,
        };
        let key = key_of(to);
        let mut made = Self {
            turn,
            to,
            key,
            row,
            fresh: VecDeque::new(),
            before: None,
        };
        made.payload(INPUT, task.input.as_deref());
        let index = rows::timed(&to.name, now.0, &to.key);
        made.turn.put(BY_CREATED, &index, Bytes::new());
        let start = ExecutionStart {
            instance: made.id(),
            execution: begin.execution.clone(),
            task: task.clone(),
            parent: begin.parent.clone(),
            scheduled: begin.scheduled,
        };
        made.push(Some(begin.execution.clone()), EventKind::Started(start));
        if let Some(due) = begin.scheduled.map(Moment::due).filter(|due| *due > now) {
            let wake = Command::Wake(begin.execution.clone());
            made.turn.schedule(due, WAKE, wake.encode());
        }
        made
    }

    /// Its id.
    pub(crate) fn id(&self) -> String {
        String::from_utf8_lossy(&self.to.key).into_owned()
    }

    /// Sends a command to another instance.
    pub(crate) fn send(&mut self, instance: &str, ask: &Command) {
        let to = id::sibling_address(self.to, instance);
        self.turn.send(Envelope::new(to, ask.encode()));
    }

    /// Sets or removes a payload.
    pub(crate) fn payload(&mut self, side: u8, text: Option<&str>) {
        let key = marked(&self.key, side);
        match text {
            Some(text) => self.turn.put(PAYLOADS, &key, text.to_owned()),
            None => self.turn.delete(PAYLOADS, &key),
        }
    }

    /// Appends an event to the inbox.
    pub(crate) fn push(&mut self, execution: Option<String>, what: EventKind) {
        let at = self.turn.time();
        self.keep(InboxRecord {
            execution,
            event: InstanceEvent::plain(at, what),
        });
    }

    /// Appends an event to the inbox; it gets a row unless a turn takes it in this commit.
    pub(crate) fn keep(&mut self, stored: InboxRecord) {
        if self.fresh.capacity() == 0 {
            // Most commands add one event, and it is large.
            self.fresh.reserve_exact(1);
        }
        self.fresh.push_back(stored);
        self.row.inbox_end += 1;
    }

    /// The first number of the inbox that has no row.
    pub(crate) fn first_fresh(&self) -> u64 {
        self.row.inbox_end - self.fresh.len() as u64
    }

    /// Accepts an event of another instance, unless it is for an execution that has ended.
    pub(crate) fn deliver(&mut self, letter: &ExternalMessage) -> bool {
        let is_stale = |execution: &String| *execution != self.row.execution;
        if self.row.status.is_final() || letter.execution.as_ref().is_some_and(is_stale) {
            return false;
        }
        self.push(letter.execution.clone(), letter.what.clone());
        true
    }

    /// Removes events from the front of the inbox.
    pub(crate) fn take(&mut self, count: u64) {
        let end = (self.row.inbox + count).min(self.row.inbox_end);
        let first_fresh = self.first_fresh();
        for number in self.row.inbox..end.min(first_fresh) {
            self.turn.delete(INBOX, &numbered(&self.key, number));
        }
        self.fresh.drain(..end.saturating_sub(first_fresh) as usize);
        self.row.inbox = end;
    }

    /// All events of the inbox.
    pub(crate) fn inbox(&mut self) -> Result<Vec<InboxRecord>, TurnError> {
        let keys: Vec<_> = (self.row.inbox..self.first_fresh())
            .map(|number| numbered(&self.key, number))
            .collect();
        let needed: Vec<_> = keys.iter().map(|key| (INBOX, &key[..])).collect();
        self.turn.need(&needed)?;
        let mut found = Vec::with_capacity(keys.len());
        for key in &keys {
            found.extend(rows::read::<InboxRecord>(self.turn, INBOX, key)?);
        }
        found.extend(self.fresh.iter().cloned());
        Ok(found)
    }

    /// A new id for the next execution.
    pub(crate) fn next_execution(&self) -> String {
        let seed = (&self.to.name, &self.to.key, &self.row.execution);
        let seed = format!("{seed:?} {} {}", self.row.generation, self.row.clock);
        format!("{:032x}", xxh3_128(seed.as_bytes()))
    }

    /// The id of its turn's work request.
    fn turn_id(&self) -> Vec<u8> {
        marked(&self.key, b't')
    }

    /// Closes the request for a turn.
    pub(crate) fn close(&mut self) {
        if self.row.is_open {
            let id = self.turn_id();
            self.turn.close_work(&id);
            self.row.is_open = false;
        }
    }

    /// Cancels the request for a turn, and removes it from the work queue.
    pub(crate) fn withdraw(&mut self) {
        if self.row.is_open {
            self.close();
            self.turn.push(WorkRequest::Closed.encode());
        }
    }

    /// Deletes all activities of this execution.
    pub(crate) fn drop_tasks(&mut self) {
        for number in self.row.tasks..self.row.tasks_end {
            self.turn.delete(TASKS, &numbered(&self.key, number));
            let id = task_id(&self.key, number);
            self.turn.close_work(&id);
        }
        self.row.tasks = self.row.tasks_end;
    }

    /// Whether there is something for a turn to do.
    fn is_runnable(&self) -> bool {
        let row = &self.row;
        let has_reason = row.is_turn_due || row.inbox < row.inbox_end;
        let is_early = row.status == InstanceStatus::Pending
            && row
                .scheduled
                .is_some_and(|due| due.due() > self.turn.time());
        let is_resting = row.status.is_final() || row.status == InstanceStatus::Suspended;
        has_reason && !is_early && !is_resting
    }

    /// Writes the row. If a turn is due, runs it inline in the same commit, or requests a
    /// worker.
    pub(crate) fn save(mut self) -> Result<(), TurnError> {
        if !self.row.is_open
            && self.is_runnable()
            && let Some(turned) = self.run_turn_inline()?
        {
            return self.commit(&turned);
        }
        self.store();
        Ok(())
    }

    /// Writes the row, and requests a worker if a turn is due.
    pub(crate) fn store(mut self) {
        let first = self.first_fresh();
        for (number, stored) in (first..).zip(std::mem::take(&mut self.fresh)) {
            let key = numbered(&self.key, number);
            self.turn.put(INBOX, &key, rows::encode(&stored));
        }
        if !self.row.is_open && self.is_runnable() {
            self.row.is_open = true;
            self.row.generation += 1;
            let wish = WorkRequest::Turn {
                generation: self.row.generation,
                name: self.row.name.clone(),
                version: self.row.version.clone(),
            };
            let id = self.turn_id();
            self.turn.open_work(id, wish.encode());
        }
        if self.before != Some(self.row.status) {
            self.turn.push(WorkRequest::Changed.encode());
        }
        self.turn.put(INSTANCES, &self.key, rows::encode(&self.row));
    }
}

/// An event in the inbox, and the execution that it is for.
#[derive(steadfast_collections::schema::Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct InboxRecord {
    #[n(0)]
    pub(crate) execution: Option<String>,
    #[n(1)]
    pub(crate) event: InstanceEvent,
}

/// The id of an activity's work request.
pub(crate) fn task_id(key: &[u8], number: u64) -> Vec<u8> {
    let mut id = marked(key, b'a');
    id.extend_from_slice(&number.to_be_bytes());
    id
}

/// Tags of internal timers; timers of orchestrations have lower tags.
pub(crate) const WAKE: u64 = 1 << 40;
pub(crate) const EXPIRE: u64 = 1 << 41;
