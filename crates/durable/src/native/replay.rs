//! Replays an orchestration from its history.
//!
//! Events that can wake the code are applied one at a time, so every replay wakes it in
//! the order of the history. The actions of the code must match those in the history.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};

use parking_lot::Mutex;

use super::context::Context;
use super::functions::{Functions, Outcome};
use super::payload::{BoxFuture, panicked};
use super::shared::{Shared, Tag};
use crate::action::{Action, Deed};
use crate::event::{Event, What};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::status::Status;
use crate::work::{Past, TurnResult, TurnWork};

/// An orchestration in memory, at a point of its history.
pub(super) struct Replay {
    shared: Arc<Mutex<Shared>>,
    running: Option<BoxFuture<'static, Outcome>>,
    outcome: Option<Outcome>,
    /// The number of history events that it has seen.
    seen: usize,
    /// The time of its last turn.
    turn: Moment,
    is_rewound: bool,
}

/// The actions of the code do not match the history.
#[derive(Debug)]
pub(super) struct Mismatch {
    history: String,
    code: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { history, code } = self;
        write!(
            f,
            "the code does not match the history: the history says {history}, \
             the code {code}; deploy the code that wrote it and resume the instance"
        )
    }
}

impl Replay {
    pub(super) fn new(work: &TurnWork) -> Self {
        let shared = Shared::new(&work.instance, &work.execution);
        Self {
            shared: Arc::new(Mutex::new(shared)),
            running: None,
            outcome: None,
            seen: 0,
            turn: Moment::default(),
            is_rewound: false,
        }
    }

    /// Whether the work continues where this replay ended: the history has grown only by the
    /// turn that ran here.
    pub(super) fn fits(&self, work: &TurnWork) -> bool {
        let past = work.remembered.unwrap_or_else(|| past(work));
        self.stands_at(&work.execution, past)
    }

    /// Whether this replay has seen an execution up to `past`.
    pub(super) fn stands_at(&self, execution: &str, past: Past) -> bool {
        let is_there = self.seen as u64 == past.events && self.turn == past.turn;
        is_there && self.shared.lock().execution == execution
    }

    /// Runs one turn.
    pub(super) fn turn(
        &mut self,
        work: &TurnWork,
        functions: &Functions,
    ) -> Result<TurnResult, Mismatch> {
        if self.seen == 0 {
            self.shared.lock().is_replaying = true;
            for event in work.past.iter().flat_map(|turn| turn.iter()) {
                self.is_rewound |= matches!(event.what, What::Rewound(_));
            }
            for event in work.past.iter().flat_map(|turn| turn.iter()) {
                self.feed(event, functions)?;
                self.seen += 1;
            }
        }
        self.shared.lock().is_replaying = false;
        for event in &work.new {
            self.feed(event, functions)?;
        }
        let result = self.result();
        let written = result.actions.iter().filter(|action| is_written(action));
        self.seen += work.new.len() + written.count() + 1;
        Ok(result)
    }

    fn feed(&mut self, event: &Event, functions: &Functions) -> Result<(), Mismatch> {
        let resolve = |tag, outcome| self.shared.lock().resolve(tag, outcome);
        match &event.what {
            What::TurnStarted => {
                self.shared.lock().begin_turn(event.at);
                self.turn = event.at;
                return Ok(());
            }
            What::Started(start) => {
                let mut shared = self.shared.lock();
                shared.name.clone_from(&start.task.name);
                shared.version.clone_from(&start.task.version);
                shared.parent = start.parent.as_ref().map(|parent| parent.instance.clone());
                drop(shared);
                self.begin(&start.task.name, start.task.input.clone(), functions);
            }
            What::TaskCompleted { task, result } | What::ChildCompleted { task, result } => {
                resolve(Tag::Action(*task), Ok(result.clone()));
            }
            What::TaskFailed { task, failure } | What::ChildFailed { task, failure } => {
                resolve(Tag::Action(*task), Err(failure.clone()));
            }
            What::TimerFired { timer, .. } => resolve(Tag::Action(*timer), Ok(None)),
            What::EntityCompleted {
                request, output, ..
            } => resolve(Tag::Request(request.clone()), Ok(output.clone())),
            What::EntityFailed {
                request, failure, ..
            } => resolve(Tag::Request(request.clone()), Err(failure.clone())),
            What::LockGranted { section, .. } => resolve(Tag::Request(section.clone()), Ok(None)),
            What::EventRaised { name, input } => {
                self.shared.lock().raise(name, input.clone());
            }
            What::TurnCompleted => return self.check_all_written(),
            _ => return self.confirm(event),
        }
        self.go_on();
        Ok(())
    }

    fn begin(&mut self, name: &str, input: Option<String>, functions: &Functions) {
        let context = Context {
            shared: Arc::clone(&self.shared),
        };
        match functions.orchestrations.get(name) {
            Some(function) => self.running = Some(function(context, input)),
            None => {
                let message = format!("there is no orchestration {name:?} in this process");
                self.outcome = Some(Err(Failure::lasting("UnknownOrchestration", message)));
            }
        }
    }

    /// Polls the code until it waits.
    fn go_on(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        let mut poller = Poller::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut poller)));
        let outcome = match polled {
            Ok(Poll::Ready(outcome)) => outcome,
            Ok(Poll::Pending) if self.shared.lock().is_waiting() => return,
            Ok(Poll::Pending) => Err(Failure::lasting(
                "ForeignAwait",
                "an orchestration awaits something that does not come from its context; \
                 do outside work in an activity",
            )),
            Err(panic) => Err(panicked(&*panic)),
        };
        self.outcome = Some(outcome);
        self.shared.lock().is_over = true;
        self.running = None;
    }

    /// Checks that the code has requested an action of the history.
    fn confirm(&mut self, event: &Event) -> Result<(), Mismatch> {
        let Some(said) = described(&event.what) else {
            return Ok(());
        };
        let mut shared = self.shared.lock();
        let place = shared
            .wanted
            .iter()
            .position(|action| action.id == event.id);
        let Some(place) = place else {
            return Err(Mismatch {
                history: format!("{said} as action {}", event.id),
                code: "requests no action with that id".into(),
            });
        };
        let asked = asked(&shared.wanted[place].deed);
        if asked != said {
            return Err(Mismatch {
                history: format!("{said} as action {}", event.id),
                code: asked,
            });
        }
        shared.wanted.remove(place);
        Ok(())
    }

    /// Checks at the end of a past turn that all actions of the code are in the history.
    fn check_all_written(&mut self) -> Result<(), Mismatch> {
        let mut shared = self.shared.lock();
        shared.wanted.retain(is_written);
        match shared.wanted.first() {
            Some(action) if !self.is_rewound => Err(Mismatch {
                history: "nothing more".into(),
                code: format!("{} as action {}", asked(&action.deed), action.id),
            }),
            _ => Ok(()),
        }
    }

    /// The result of the turn.
    fn result(&mut self) -> TurnResult {
        let mut shared = self.shared.lock();
        let mut actions = std::mem::take(&mut shared.wanted);
        if let Some(outcome) = self.outcome.take() {
            let deed = match (shared.renewal.take(), outcome) {
                (Some(input), Err(failure)) if failure.kind == "ContinuedAsNew" => {
                    let at = shared.now;
                    let kept = std::mem::take(&mut shared.events);
                    let carry = kept.into_iter().flat_map(|(name, inputs)| {
                        inputs.into_iter().map(move |input| {
                            let name = name.clone();
                            Event::plain(at, What::EventRaised { name, input })
                        })
                    });
                    Deed::ContinueAsNew {
                        input,
                        version: None,
                        carry: carry.collect(),
                        tags: None,
                    }
                }
                (_, Ok(result)) => Deed::Complete {
                    status: Status::Completed,
                    result,
                    failure: None,
                },
                (_, Err(failure)) => Deed::Complete {
                    status: Status::Failed,
                    result: None,
                    failure: Some(failure),
                },
            };
            actions.push(Action { id: -1, deed });
        }
        TurnResult {
            actions,
            custom_status: shared.custom_status.clone(),
            ..TurnResult::default()
        }
    }
}

/// The end of the history of a turn's work.
fn past(work: &TurnWork) -> Past {
    let events = work.past.iter().map(|turn| turn.len() as u64).sum();
    let all = work.past.iter().flat_map(|turn| turn.iter());
    let last = all.rev().find(|event| event.what == What::TurnStarted);
    Past {
        events,
        turn: last.map(|event| event.at).unwrap_or_default(),
    }
}

/// Whether an action leaves an event in the history.
fn is_written(action: &Action) -> bool {
    !matches!(
        action.deed,
        Deed::Terminate { .. }
            | Deed::Complete { .. }
            | Deed::ContinueAsNew { .. }
            | Deed::Rewind(_)
    )
}

/// Describes the action of a history event.
fn described(what: &What) -> Option<String> {
    Some(match what {
        What::TaskScheduled(task) => format!("runs the activity {:?}", task.name),
        What::ChildCreated { task, .. } => format!("runs the orchestration {:?}", task.name),
        What::TimerCreated(_) => "waits for a time".into(),
        What::EventSent { instance, name, .. } => format!("raises {name:?} at {instance:?}"),
        What::EntitySignaled(o) => format!("signals {:?} to {:?}", o.name, o.target),
        What::EntityCalled(o) => format!("calls {:?} of {:?}", o.name, o.target),
        What::LockRequested(request) => format!("locks {:?}", request.set),
        What::UnlockSent(unlock) => format!("unlocks {:?}", unlock.target),
        _ => return None,
    })
}

/// Describes an action of the code, in the same words.
fn asked(deed: &Deed) -> String {
    match deed {
        Deed::Schedule(task) => format!("runs the activity {:?}", task.name),
        Deed::Child { task, .. } => format!("runs the orchestration {:?}", task.name),
        Deed::Timer(_) => "waits for a time".into(),
        Deed::Send { instance, name, .. } => format!("raises {name:?} at {instance:?}"),
        Deed::Signal(o) => format!("signals {:?} to {:?}", o.name, o.target),
        Deed::Call(o) => format!("calls {:?} of {:?}", o.name, o.target),
        Deed::Lock(request) => format!("locks {:?}", request.set),
        Deed::Unlock(unlock) => format!("unlocks {:?}", unlock.target),
        Deed::Terminate { instance, .. } => format!("ends {instance:?}"),
        Deed::Complete { .. } | Deed::ContinueAsNew { .. } | Deed::Rewind(_) => "ends".into(),
    }
}
