//! Blocked commands, by instance.
//!
//! A command whose rows are not in memory, or that is suspended on code outside the
//! loop, blocks its instance. Later commands to the same instance queue behind it;
//! commands to other instances pass.

use std::collections::{HashMap, VecDeque};

use crate::execution::pinned_rows::RowAddress;
use crate::ingress::address::Address;
use crate::ingress::command::Command;

#[derive(Default)]
pub(crate) struct BlockedCommands {
    lanes: HashMap<Address, BlockedInstance>,
    waiting: usize,
}

#[derive(Default)]
struct BlockedInstance {
    queue: VecDeque<Command>,
    /// Rows that are pinned for the command at the front.
    rows: Vec<RowAddress>,
}

impl BlockedCommands {
    /// The first instance of the command that is blocked.
    pub(crate) fn blocking(&self, command: &Command) -> Option<Address> {
        if self.lanes.is_empty() {
            return None;
        }
        let mut blocked = command
            .steps()
            .filter(|step| self.lanes.contains_key(&step.to));
        blocked.next().map(|step| step.to.clone())
    }

    /// Queues a command behind others of its instance.
    pub(crate) fn join(&mut self, at: Address, command: Command) {
        self.lanes.entry(at).or_default().queue.push_back(command);
        self.waiting += 1;
    }

    /// Puts a command at the front of its queue; it waits for more rows.
    pub(crate) fn wait(&mut self, at: Address, command: Command, rows: Vec<RowAddress>) {
        let lane = self.lanes.entry(at).or_default();
        lane.queue.push_front(command);
        lane.rows.extend(rows);
        self.waiting += 1;
    }

    /// Takes the command at the front of a queue, to run it again.
    pub(crate) fn front(&mut self, at: &Address) -> Option<Command> {
        let command = self.lanes.get_mut(at)?.queue.pop_front()?;
        self.waiting -= 1;
        Some(command)
    }

    /// The command at the front of a queue.
    pub(crate) fn first(&mut self, at: &Address) -> Option<&mut Command> {
        self.lanes.get_mut(at)?.queue.front_mut()
    }

    /// The command at the front is done; answers the rows that were pinned for it.
    pub(crate) fn done(&mut self, at: &Address) -> Vec<RowAddress> {
        let Some(lane) = self.lanes.get_mut(at) else {
            return Vec::new();
        };
        let rows = std::mem::take(&mut lane.rows);
        if lane.queue.is_empty() {
            self.lanes.remove(at);
        }
        rows
    }

    /// All blocked commands.
    pub(crate) fn drain(&mut self) -> Vec<Command> {
        self.waiting = 0;
        let lanes = std::mem::take(&mut self.lanes);
        lanes.into_values().flat_map(|lane| lane.queue).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }
}
