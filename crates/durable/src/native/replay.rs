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
use super::replay_state::{ReplayState, ResultKey};
use crate::action::{ActionKind, TurnAction};
use crate::event::{EventKind, InstanceEvent};
use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::status::InstanceStatus;
use crate::work::{HistoryPosition, TurnResult, TurnWork};

/// An orchestration in memory, at a point of its history.
pub(super) struct Replay {
    shared: Arc<Mutex<ReplayState>>,
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
        let shared = ReplayState::new(&work.instance, &work.execution);
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
    pub(super) fn stands_at(&self, execution: &str, past: HistoryPosition) -> bool {
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
                self.is_rewound |= matches!(event.what, EventKind::Rewound(_));
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

    fn feed(&mut self, event: &InstanceEvent, functions: &Functions) -> Result<(), Mismatch> {
        let resolve = |tag, outcome| self.shared.lock().resolve(tag, outcome);
        match &event.what {
            EventKind::TurnStarted => {
                self.shared.lock().begin_turn(event.at);
                self.turn = event.at;
                return Ok(());
            }
            EventKind::Started(start) => {
                let mut shared = self.shared.lock();
                shared.name.clone_from(&start.task.name);
                shared.version.clone_from(&start.task.version);
                shared.parent = start.parent.as_ref().map(|parent| parent.instance.clone());
                drop(shared);
                self.begin(&start.task.name, start.task.input.clone(), functions);
            }
            EventKind::TaskCompleted { task, result }
            | EventKind::ChildCompleted { task, result } => {
                resolve(ResultKey::Action(*task), Ok(result.clone()));
            }
            EventKind::TaskFailed { task, failure } | EventKind::ChildFailed { task, failure } => {
                resolve(ResultKey::Action(*task), Err(failure.clone()));
            }
            EventKind::TimerFired { timer, .. } => resolve(ResultKey::Action(*timer), Ok(None)),
            EventKind::EntityCompleted {
                request, output, ..
            } => resolve(ResultKey::Request(request.clone()), Ok(output.clone())),
            EventKind::EntityFailed {
                request, failure, ..
            } => resolve(ResultKey::Request(request.clone()), Err(failure.clone())),
            EventKind::LockGranted { section, .. } => {
                resolve(ResultKey::Request(section.clone()), Ok(None))
            }
            EventKind::EventRaised { name, input } => {
                self.shared.lock().raise(name, input.clone());
            }
            EventKind::TurnCompleted => return self.check_all_written(),
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
                self.outcome = Some(Err(FailureDetails::lasting(
                    "UnknownOrchestration",
                    message,
                )));
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
            Ok(Poll::Pending) => Err(FailureDetails::lasting(
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
    fn confirm(&mut self, event: &InstanceEvent) -> Result<(), Mismatch> {
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
        let asked = asked(&shared.wanted[place].kind);
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
                code: format!("{} as action {}", asked(&action.kind), action.id),
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
                            InstanceEvent::plain(at, EventKind::EventRaised { name, input })
                        })
                    });
                    ActionKind::ContinueAsNew {
                        input,
                        version: None,
                        carry: carry.collect(),
                        tags: None,
                    }
                }
                (_, Ok(result)) => ActionKind::Complete {
                    status: InstanceStatus::Completed,
                    result,
                    failure: None,
                },
                (_, Err(failure)) => ActionKind::Complete {
                    status: InstanceStatus::Failed,
                    result: None,
                    failure: Some(failure),
                },
            };
            actions.push(TurnAction { id: -1, kind: deed });
        }
        TurnResult {
            actions,
            custom_status: shared.custom_status.clone(),
            ..TurnResult::default()
        }
    }
}

/// The end of the history of a turn's work.
fn past(work: &TurnWork) -> HistoryPosition {
    let events = work.past.iter().map(|turn| turn.len() as u64).sum();
    let all = work.past.iter().flat_map(|turn| turn.iter());
    let last = all.rev().find(|event| event.what == EventKind::TurnStarted);
    HistoryPosition {
        events,
        turn: last.map(|event| event.at).unwrap_or_default(),
    }
}

/// Whether an action leaves an event in the history.
fn is_written(action: &TurnAction) -> bool {
    !matches!(
        action.kind,
        ActionKind::Terminate { .. }
            | ActionKind::Complete { .. }
            | ActionKind::ContinueAsNew { .. }
            | ActionKind::Rewind(_)
    )
}

/// Describes the action of a history event.
fn described(what: &EventKind) -> Option<String> {
    Some(match what {
        EventKind::TaskScheduled(task) => format!("runs the activity {:?}", task.name),
        EventKind::ChildCreated { task, .. } => format!("runs the orchestration {:?}", task.name),
        EventKind::TimerCreated(_) => "waits for a time".into(),
        EventKind::EventSent { instance, name, .. } => format!("raises {name:?} at {instance:?}"),
        EventKind::EntitySignaled(o) => format!("signals {:?} to {:?}", o.name, o.target),
        EventKind::EntityCalled(o) => format!("calls {:?} of {:?}", o.name, o.target),
        EventKind::LockRequested(request) => format!("locks {:?}", request.set),
        EventKind::UnlockSent(unlock) => format!("unlocks {:?}", unlock.target),
        _ => return None,
    })
}

/// Describes an action of the code, in the same words.
fn asked(deed: &ActionKind) -> String {
    match deed {
        ActionKind::Schedule(task) => format!("runs the activity {:?}", task.name),
        ActionKind::Child { task, .. } => format!("runs the orchestration {:?}", task.name),
        ActionKind::Timer(_) => "waits for a time".into(),
        ActionKind::Send { instance, name, .. } => format!("raises {name:?} at {instance:?}"),
        ActionKind::Signal(o) => format!("signals {:?} to {:?}", o.name, o.target),
        ActionKind::Call(o) => format!("calls {:?} of {:?}", o.name, o.target),
        ActionKind::Lock(request) => format!("locks {:?}", request.set),
        ActionKind::Unlock(unlock) => format!("unlocks {:?}", unlock.target),
        ActionKind::Terminate { instance, .. } => format!("ends {instance:?}"),
        ActionKind::Complete { .. } | ActionKind::ContinueAsNew { .. } | ActionKind::Rewind(_) => {
            "ends".into()
        }
    }
}
