//! Drains a node of its partitions.
//!
//! `steadfast_ownership::drain` decides the four phases; this module executes them: the
//! node opens no more partitions, hooks run, every partition is handed over, and what
//! is left at the limit is cut off. Nothing that was acknowledged is lost either way:
//! what is cut off was not acknowledged.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use steadfast_core::id::Partition;
use steadfast_ownership::drain::{
    DrainAction, DrainEvent, DrainMachine, DrainMode, DrainPhase, Options,
};

use crate::error::{ErrorKind, Result};
use crate::owner::runtime::{HandOverReport, Runtime};

/// A hook of the application that runs before its node leaves.
pub type DrainHook = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainSummary {
    /// Partitions that were handed over, with their timers, messages and work.
    pub moved: u64,
    /// Partitions that were not handed over in time; their next owner recovers
    /// them from the log.
    pub left: u64,
    /// Commands that were completed during the drain.
    pub completed: u64,
    /// Commands that were cut off; their callers got an error.
    pub cut_off: u64,
}

/// One step of a drain that took time.
enum DrainStep {
    Hook(u32),
    HandedOver(Partition, Result<HandOverReport>),
    Limit,
}

/// A drain in progress.
struct DrainRun<'a> {
    runtime: &'a Runtime,
    drain: DrainMachine<Partition>,
    hooks: Vec<Option<DrainHook>>,
    steps: FuturesUnordered<Pin<Box<dyn Future<Output = DrainStep> + Send + 'a>>>,
    summary: DrainSummary,
}

impl Runtime {
    /// Hands over all partitions: goes offline, runs the hooks in order, hands every
    /// partition over, and cuts off what is left after `limit`.
    pub async fn drain(&self, hooks: Vec<DrainHook>, limit: Duration) -> DrainSummary {
        let options = Options {
            limit,
            hooks: hooks.len() as u32,
            ..Options::new(DrainMode::Migrate)
        };
        self.go_offline();
        let (drain, mut actions) = DrainMachine::begin(options, self.serving(), self.now());
        let mut leaving = DrainRun {
            runtime: self,
            drain,
            hooks: hooks.into_iter().map(Some).collect(),
            steps: FuturesUnordered::new(),
            summary: DrainSummary::default(),
        };
        let end = async move {
            tokio::time::sleep(limit).await;
            DrainStep::Limit
        };
        leaving.steps.push(Box::pin(end));
        while leaving.drain.phase() != DrainPhase::Close {
            for action in std::mem::take(&mut actions) {
                actions.extend(leaving.perform(&action));
            }
            if actions.is_empty()
                && let Some(done) = leaving.steps.next().await
            {
                actions = leaving.book(done);
            }
        }
        leaving.close(actions)
    }

    async fn move_away(&self, partition: Partition, rest: Duration) -> DrainStep {
        // Reserves some of the time for the last flush.
        let commands = self.hand_over(partition, rest * 4 / 5).await;
        if let Err(error) = &commands {
            tracing::warn!(
                event = "partition.not_handed_over",
                %partition,
                %error,
                "a partition was not handed over",
            );
        }
        DrainStep::HandedOver(partition, commands)
    }
}

impl DrainRun<'_> {
    /// Starts the action of the current phase.
    fn perform(&mut self, action: &DrainAction<Partition>) -> Vec<DrainAction<Partition>> {
        match *action {
            DrainAction::GoOffline => {
                self.runtime.go_offline();
                return self.drain.on(DrainEvent::Offline, self.runtime.now());
            }
            DrainAction::RunHook(index) => {
                let hook = self.hooks.get_mut(index as usize).and_then(Option::take);
                self.steps.push(Box::pin(run_hook(index, hook)));
            }
            DrainAction::Move(partition) => {
                let deadline = self.drain.deadline().unwrap_or_default();
                let rest = deadline.saturating_sub(self.runtime.now());
                let step = self.runtime.move_away(partition, rest);
                self.steps.push(Box::pin(step));
            }
            // A drain moves partitions and adds none, and the end comes last.
            DrainAction::End(_) | DrainAction::Refuse(_) | DrainAction::Close { .. } => {}
        }
        Vec::new()
    }

    /// Reports a finished step to the state machine.
    fn book(&mut self, done: DrainStep) -> Vec<DrainAction<Partition>> {
        let mut now = self.runtime.now();
        let event = match done {
            DrainStep::Hook(index) => DrainEvent::HookEnded(index),
            DrainStep::HandedOver(partition, Ok(commands)) => {
                self.summary.completed += commands.completed;
                self.summary.cut_off += commands.cut_off;
                DrainEvent::Moved(partition)
            }
            // It was not opened after all, or another call has handed it over in the
            // meantime.
            DrainStep::HandedOver(partition, Err(error)) => match error.kind() {
                ErrorKind::NotOwner { .. } => DrainEvent::Left(partition),
                _ => DrainEvent::Stayed(partition),
            },
            DrainStep::Limit => {
                now = now.max(self.drain.deadline().unwrap_or_default());
                DrainEvent::Tick
            }
        };
        self.drain.on(event, now)
    }

    /// Cuts off what is left.
    fn close(mut self, actions: Vec<DrainAction<Partition>>) -> DrainSummary {
        // Cancels hand-overs that are in progress.
        self.steps.clear();
        for action in actions {
            if let DrainAction::Close { lost } = action {
                for partition in lost {
                    self.runtime.abandon(partition);
                }
            }
        }
        let booked = self.drain.counts();
        (self.summary.moved, self.summary.left) = (booked.moved, booked.lost);
        self.summary
    }
}

async fn run_hook(index: u32, hook: Option<DrainHook>) -> DrainStep {
    if let Some(hook) = hook {
        hook.await;
    }
    DrainStep::Hook(index)
}
