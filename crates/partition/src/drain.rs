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
use steadfast_ownership::drain::{Action, Drain, Event, Mode, Options, Phase};

use crate::error::{Kind, Result};
use crate::runtime::{HandedOver, Runtime};

/// A hook of the application that runs before its node leaves.
pub type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
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
enum Done {
    Hook(u32),
    HandedOver(Partition, Result<HandedOver>),
    Limit,
}

/// A drain in progress.
struct Leaving<'a> {
    runtime: &'a Runtime,
    drain: Drain<Partition>,
    hooks: Vec<Option<Hook>>,
    steps: FuturesUnordered<Pin<Box<dyn Future<Output = Done> + Send + 'a>>>,
    sheet: Sheet,
}

impl Runtime {
    /// Hands over all partitions: goes offline, runs the hooks in order, hands every
    /// partition over, and cuts off what is left after `limit`.
    pub async fn drain(&self, hooks: Vec<Hook>, limit: Duration) -> Sheet {
        let options = Options {
            limit,
            hooks: hooks.len() as u32,
            ..Options::new(Mode::Migrate)
        };
        self.go_offline();
        let (drain, mut actions) = Drain::begin(options, self.serving(), self.now());
        let mut leaving = Leaving {
            runtime: self,
            drain,
            hooks: hooks.into_iter().map(Some).collect(),
            steps: FuturesUnordered::new(),
            sheet: Sheet::default(),
        };
        let end = async move {
            tokio::time::sleep(limit).await;
            Done::Limit
        };
        leaving.steps.push(Box::pin(end));
        while leaving.drain.phase() != Phase::Close {
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

    async fn move_away(&self, partition: Partition, rest: Duration) -> Done {
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
        Done::HandedOver(partition, commands)
    }
}

impl Leaving<'_> {
    /// Starts the action of the current phase.
    fn perform(&mut self, action: &Action<Partition>) -> Vec<Action<Partition>> {
        match *action {
            Action::GoOffline => {
                self.runtime.go_offline();
                return self.drain.on(Event::Offline, self.runtime.now());
            }
            Action::RunHook(index) => {
                let hook = self.hooks.get_mut(index as usize).and_then(Option::take);
                self.steps.push(Box::pin(run_hook(index, hook)));
            }
            Action::Move(partition) => {
                let deadline = self.drain.deadline().unwrap_or_default();
                let rest = deadline.saturating_sub(self.runtime.now());
                let step = self.runtime.move_away(partition, rest);
                self.steps.push(Box::pin(step));
            }
            // A drain moves partitions and adds none, and the end comes last.
            Action::End(_) | Action::Refuse(_) | Action::Close { .. } => {}
        }
        Vec::new()
    }

    /// Reports a finished step to the state machine.
    fn book(&mut self, done: Done) -> Vec<Action<Partition>> {
        let mut now = self.runtime.now();
        let event = match done {
            Done::Hook(index) => Event::HookEnded(index),
            Done::HandedOver(partition, Ok(commands)) => {
                self.sheet.completed += commands.completed;
                self.sheet.cut_off += commands.cut_off;
                Event::Moved(partition)
            }
            // It was not opened after all, or another call has handed it over in the
            // meantime.
            Done::HandedOver(partition, Err(error)) => match error.kind() {
                Kind::NotOwner { .. } => Event::Left(partition),
                _ => Event::Stayed(partition),
            },
            Done::Limit => {
                now = now.max(self.drain.deadline().unwrap_or_default());
                Event::Tick
            }
        };
        self.drain.on(event, now)
    }

    /// Cuts off what is left.
    fn close(mut self, actions: Vec<Action<Partition>>) -> Sheet {
        // Cancels hand-overs that are in progress.
        self.steps.clear();
        for action in actions {
            if let Action::Close { lost } = action {
                for partition in lost {
                    self.runtime.abandon(partition);
                }
            }
        }
        let booked = self.drain.sheet();
        (self.sheet.moved, self.sheet.left) = (booked.moved, booked.lost);
        self.sheet
    }
}

async fn run_hook(index: u32, hook: Option<Hook>) -> Done {
    if let Some(hook) = hook {
        hook.await;
    }
    Done::Hook(index)
}
