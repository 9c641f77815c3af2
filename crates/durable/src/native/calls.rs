//! Calls of activities and children, with retries.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::payload::{BoxFuture, from_json, to_json};
use super::replay_state::{ResultFuture, ResultKey};
use crate::action::ActionKind;
use crate::event::Task;
use crate::failure::FailureDetails;

impl Context {
    /// Runs an activity.
    pub fn activity<I: Serialize + ?Sized, O: DeserializeOwned + 'static>(
        &self,
        name: &str,
        input: &I,
    ) -> TaskFuture<O> {
        TaskFuture::new(self, CallTarget::Activity, name, to_json(input))
    }

    /// Runs another orchestration.
    pub fn child<I: Serialize + ?Sized, O: DeserializeOwned + 'static>(
        &self,
        name: &str,
        input: &I,
    ) -> TaskFuture<O> {
        TaskFuture::new(self, CallTarget::Child(String::new()), name, to_json(input))
    }

    fn begin(&self, plan: &CallTarget, task: Task) -> Result<ResultFuture, FailureDetails> {
        let mut shared = self.shared.lock();
        let deed = match plan {
            CallTarget::Activity => ActionKind::Schedule(task),
            CallTarget::Child(instance) => {
                shared.section.check_child()?;
                let instance = instance.clone();
                ActionKind::Child { instance, task }
            }
        };
        let id = shared.request_action(deed);
        drop(shared);
        Ok(ResultFuture::new(&self.shared, ResultKey::Action(id)))
    }
}

/// What is run.
#[derive(Clone, Debug)]
enum CallTarget {
    Activity,
    /// A child, by its id; empty: an id is generated.
    Child(String),
}

/// The number of attempts, and the pauses between them.
#[derive(Clone, Copy, Debug)]
pub struct RetryOptions {
    attempts: u32,
    first: Duration,
    factor: f64,
    longest: Duration,
}

impl RetryOptions {
    /// `attempts` in all, with the same pause between them.
    pub fn fixed(attempts: u32, pause: Duration) -> Self {
        Self {
            attempts: attempts.max(1),
            first: pause,
            factor: 1.0,
            longest: pause,
        }
    }

    /// `attempts` in all; each pause is twice as long as the one before, up to an hour.
    pub fn doubling(attempts: u32, first: Duration) -> Self {
        Self {
            attempts: attempts.max(1),
            first,
            factor: 2.0,
            longest: Duration::from_secs(3600),
        }
    }

    fn pause(&self, attempt: u32) -> Duration {
        let power = self.factor.powi(i32::try_from(attempt).unwrap_or(i32::MAX));
        let seconds = self.first.as_secs_f64() * power;
        if seconds.is_finite() {
            Duration::from_secs_f64(seconds.min(self.longest.as_secs_f64()))
        } else {
            self.longest
        }
    }
}

/// An activity or a child. It begins when it is first awaited.
#[must_use = "it begins when it is awaited"]
pub struct TaskFuture<O> {
    state: State<O>,
}

enum State<O> {
    Planned(Box<PlannedCall>),
    Running(BoxFuture<'static, Result<O, FailureDetails>>),
    Done,
}

struct PlannedCall {
    context: Context,
    plan: CallTarget,
    task: Result<Task, FailureDetails>,
    retry: Option<RetryOptions>,
}

impl<O: DeserializeOwned + 'static> TaskFuture<O> {
    fn new(
        context: &Context,
        plan: CallTarget,
        name: &str,
        input: Result<Option<String>, FailureDetails>,
    ) -> Self {
        let task = input.map(|input| Task {
            name: name.to_owned(),
            input,
            ..Task::default()
        });
        let planned = PlannedCall {
            context: context.clone(),
            plan,
            task,
            retry: None,
        };
        Self {
            state: State::Planned(Box::new(planned)),
        }
    }

    /// Retries the call when it fails.
    pub fn retry(mut self, retry: RetryOptions) -> Self {
        if let State::Planned(planned) = &mut self.state {
            planned.retry = Some(retry);
        }
        self
    }

    /// Chooses the id of a child.
    pub fn id(mut self, instance: impl Into<String>) -> Self {
        if let State::Planned(planned) = &mut self.state
            && let CallTarget::Child(id) = &mut planned.plan
        {
            *id = instance.into();
        }
        self
    }

    /// Requests a version of the code.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        if let State::Planned(planned) = &mut self.state
            && let Ok(task) = &mut planned.task
        {
            task.version = Some(version.into());
        }
        self
    }
}

impl PlannedCall {
    async fn run<O: DeserializeOwned>(self) -> Result<O, FailureDetails> {
        let task = self.task?;
        let attempts = self.retry.map_or(1, |retry| retry.attempts);
        let mut attempt = 0;
        loop {
            let wait = self.context.begin(&self.plan, task.clone())?;
            let failure = match wait.await {
                Ok(output) => return from_json(output.as_deref()),
                Err(failure) => failure,
            };
            attempt += 1;
            if attempt >= attempts || failure.is_final {
                return Err(failure);
            }
            if let Some(retry) = self.retry {
                self.context.sleep(retry.pause(attempt - 1)).await;
            }
        }
    }
}

impl<O: DeserializeOwned + 'static> Future for TaskFuture<O> {
    type Output = Result<O, FailureDetails>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Self::Output> {
        if let State::Planned(_) = &self.state
            && let State::Planned(planned) = std::mem::replace(&mut self.state, State::Done)
        {
            self.state = State::Running(Box::pin(planned.run()));
        }
        match &mut self.state {
            State::Running(running) => running.as_mut().poll(poller),
            State::Planned(_) | State::Done => Poll::Pending,
        }
    }
}

impl<O> Unpin for TaskFuture<O> {}
