//! An instance in the hands of one command.

use std::collections::VecDeque;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Envelope, Halt, Message, Turn};
use xxhash_rust::xxh3::xxh3_128;

use super::record::Instance;
use crate::command::{Ask, Begin, Letter, Wish};
use crate::event::{Event, Start, What};
use crate::id;
use crate::moment::Moment;
use crate::rows::{self, BY_CREATED, INBOX, INSTANCES, PAYLOADS, TASKS, key_of, marked, numbered};
use crate::status::Status;

/// The two payloads of an instance.
pub(crate) const INPUT: u8 = b'i';
pub(crate) const OUTPUT: u8 = b'o';

/// An instance that exists, its rows, and the turn that changes them.
pub(crate) struct Living<'a, 't> {
    pub(crate) turn: &'a mut Turn<'t>,
    pub(crate) to: &'a Address,
    /// In front of all its keys.
    pub(crate) key: Vec<u8>,
    pub(crate) row: Instance,
    /// The end of the inbox, as far as it has no rows yet.
    pub(crate) fresh: VecDeque<Stored>,
    /// The state in which it was found.
    before: Option<Status>,
}

impl<'a, 't> Living<'a, 't> {
    /// The instance, if there is one.
    pub(crate) fn find(turn: &'a mut Turn<'t>, to: &'a Address) -> Result<Option<Self>, Halt> {
        let key = key_of(to);
        let row: Option<Instance> = rows::read(turn, INSTANCES, &key)?;
        Ok(row.map(|row| Self {
            turn,
            to,
            key,
            before: Some(row.status),
            row,
            fresh: VecDeque::new(),
        }))
    }

    /// A new instance, whose first event is in its inbox.
    pub(crate) fn make(
        turn: &'a mut Turn<'t>,
        to: &'a Address,
        begin: &Begin,
        clock: Timestamp,
    ) -> Self {
        let (now, task) = (turn.time(), &begin.task);
        let row = Instance {
            name: task.name.clone(),
            version: task.version.clone(),
            execution: begin.execution.clone(),
            status: Status::Pending,
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
        let start = Start {
            instance: made.id(),
            execution: begin.execution.clone(),
            task: task.clone(),
            parent: begin.parent.clone(),
            scheduled: begin.scheduled,
        };
        made.push(Some(begin.execution.clone()), What::Started(start));
        if let Some(due) = begin.scheduled.map(Moment::due).filter(|due| *due > now) {
            let wake = Ask::Wake(begin.execution.clone());
            made.turn.schedule(due, WAKE, wake.encode());
        }
        made
    }

    /// Its id.
    pub(crate) fn id(&self) -> String {
        String::from_utf8_lossy(&self.to.key).into_owned()
    }

    /// Tells another instance something.
    pub(crate) fn send(&mut self, instance: &str, ask: &Ask) {
        let to = id::neighbour(self.to, instance);
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

    /// Puts something into the inbox.
    pub(crate) fn push(&mut self, execution: Option<String>, what: What) {
        let at = self.turn.time();
        self.keep(Stored {
            execution,
            event: Event::plain(at, what),
        });
    }

    /// The same; it gets a row if no turn takes it in this commit.
    pub(crate) fn keep(&mut self, stored: Stored) {
        if self.fresh.capacity() == 0 {
            // Most commands bring one, and it is large.
            self.fresh.reserve_exact(1);
        }
        self.fresh.push_back(stored);
        self.row.inbox_end += 1;
    }

    /// The first number of the inbox that has no row.
    pub(crate) fn first_fresh(&self) -> u64 {
        self.row.inbox_end - self.fresh.len() as u64
    }

    /// Takes in what another instance says, unless it is for an execution that is
    /// over.
    pub(crate) fn deliver(&mut self, letter: &Letter) -> bool {
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

    /// What is in the inbox.
    pub(crate) fn inbox(&mut self) -> Result<Vec<Stored>, Halt> {
        let keys: Vec<_> = (self.row.inbox..self.first_fresh())
            .map(|number| numbered(&self.key, number))
            .collect();
        let needed: Vec<_> = keys.iter().map(|key| (INBOX, &key[..])).collect();
        self.turn.need(&needed)?;
        let mut found = Vec::with_capacity(keys.len());
        for key in &keys {
            found.extend(rows::read::<Stored>(self.turn, INBOX, key)?);
        }
        found.extend(self.fresh.iter().cloned());
        Ok(found)
    }

    /// An id for the next execution: no other has had it.
    pub(crate) fn next_execution(&self) -> String {
        let seed = (&self.to.name, &self.to.key, &self.row.execution);
        let seed = format!("{seed:?} {} {}", self.row.generation, self.row.clock);
        format!("{:032x}", xxh3_128(seed.as_bytes()))
    }

    /// The name of its turn's work.
    fn turn_id(&self) -> Vec<u8> {
        marked(&self.key, b't')
    }

    /// Wants no turn any more.
    pub(crate) fn close(&mut self) {
        if self.row.is_open {
            let id = self.turn_id();
            self.turn.close_work(&id);
            self.row.is_open = false;
        }
    }

    /// Takes its turn back from whoever waits to run it.
    pub(crate) fn withdraw(&mut self) {
        if self.row.is_open {
            self.close();
            self.turn.push(Wish::Closed.encode());
        }
    }

    /// Forgets all activities of this execution.
    pub(crate) fn drop_tasks(&mut self) {
        for number in self.row.tasks..self.row.tasks_end {
            self.turn.delete(TASKS, &numbered(&self.key, number));
            let id = task_id(&self.key, number);
            self.turn.close_work(&id);
        }
        self.row.tasks = self.row.tasks_end;
    }

    /// Whether a worker's turn would do something.
    fn is_runnable(&self) -> bool {
        let row = &self.row;
        let has_reason = row.is_turn_due || row.inbox < row.inbox_end;
        let is_early = row.status == Status::Pending
            && row
                .scheduled
                .is_some_and(|due| due.due() > self.turn.time());
        let is_resting = row.status.is_final() || row.status == Status::Suspended;
        has_reason && !is_early && !is_resting
    }

    /// Writes the row. If there is a reason for a turn, it is run in this process, in
    /// the same commit, or a worker is asked for it.
    pub(crate) fn save(mut self) -> Result<(), Halt> {
        if !self.row.is_open
            && self.is_runnable()
            && let Some(turned) = self.turn_here()?
        {
            return self.commit(&turned);
        }
        self.store();
        Ok(())
    }

    /// Writes the row, and asks for a worker if there is a reason for a turn.
    pub(crate) fn store(mut self) {
        let first = self.first_fresh();
        for (number, stored) in (first..).zip(std::mem::take(&mut self.fresh)) {
            let key = numbered(&self.key, number);
            self.turn.put(INBOX, &key, rows::encode(&stored));
        }
        if !self.row.is_open && self.is_runnable() {
            self.row.is_open = true;
            self.row.generation += 1;
            let wish = Wish::Turn {
                generation: self.row.generation,
                name: self.row.name.clone(),
                version: self.row.version.clone(),
            };
            let id = self.turn_id();
            self.turn.open_work(id, wish.encode());
        }
        if self.before != Some(self.row.status) {
            self.turn.push(Wish::Changed.encode());
        }
        self.turn.put(INSTANCES, &self.key, rows::encode(&self.row));
    }
}

/// An event in the inbox, and whom it is for.
#[derive(steadfast_collections::schema::Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Stored {
    #[n(0)]
    pub(crate) execution: Option<String>,
    #[n(1)]
    pub(crate) event: Event,
}

/// The name of an activity's work.
pub(crate) fn task_id(key: &[u8], number: u64) -> Vec<u8> {
    let mut id = marked(key, b'a');
    id.extend_from_slice(&number.to_be_bytes());
    id
}

/// Tags of timers; those of orchestrations are below.
pub(crate) const WAKE: u64 = 1 << 40;
pub(crate) const EXPIRE: u64 = 1 << 41;
