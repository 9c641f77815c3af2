//! Commands that wait for rows or errands, by instance.
//!
//! A command whose rows are not in memory, or that waits for code outside, opens a
//! lane for its instance. Later commands to the same instance queue up behind it;
//! others pass.

use std::collections::{HashMap, VecDeque};

use crate::address::Address;
use crate::command::Command;
use crate::warm::Row;

#[derive(Default)]
pub(crate) struct Lanes {
    lanes: HashMap<Address, Lane>,
    waiting: usize,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<Command>,
    /// Rows that are kept for the command at the front.
    rows: Vec<Row>,
}

impl Lanes {
    /// The instance, of those the command is for, that others wait for already.
    pub(crate) fn blocking(&self, command: &Command) -> Option<Address> {
        if self.lanes.is_empty() {
            return None;
        }
        let mut blocked = command
            .steps()
            .filter(|step| self.lanes.contains_key(&step.to));
        blocked.next().map(|step| step.to.clone())
    }

    /// Queues a command behind others.
    pub(crate) fn join(&mut self, at: Address, command: Command) {
        self.lanes.entry(at).or_default().queue.push_back(command);
        self.waiting += 1;
    }

    /// The command goes to the front of its lane, and waits for more rows.
    pub(crate) fn wait(&mut self, at: Address, command: Command, rows: Vec<Row>) {
        let lane = self.lanes.entry(at).or_default();
        lane.queue.push_front(command);
        lane.rows.extend(rows);
        self.waiting += 1;
    }

    /// The command at the front of a lane, to be run again.
    pub(crate) fn front(&mut self, at: &Address) -> Option<Command> {
        let command = self.lanes.get_mut(at)?.queue.pop_front()?;
        self.waiting -= 1;
        Some(command)
    }

    /// The command at the front of a lane, as it waits.
    pub(crate) fn first(&mut self, at: &Address) -> Option<&mut Command> {
        self.lanes.get_mut(at)?.queue.front_mut()
    }

    /// The command that was at the front is done: these rows were kept for it.
    pub(crate) fn done(&mut self, at: &Address) -> Vec<Row> {
        let Some(lane) = self.lanes.get_mut(at) else {
            return Vec::new();
        };
        let rows = std::mem::take(&mut lane.rows);
        if lane.queue.is_empty() {
            self.lanes.remove(at);
        }
        rows
    }

    /// All commands that wait.
    pub(crate) fn drain(&mut self) -> Vec<Command> {
        self.waiting = 0;
        let lanes = std::mem::take(&mut self.lanes);
        lanes.into_values().flat_map(|lane| lane.queue).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }
}
