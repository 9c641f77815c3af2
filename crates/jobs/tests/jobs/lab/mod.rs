//! Jobs on a virtual clock, with a target that obeys.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::id::Owner;
use steadfast_core::iso::parse_time;
use steadfast_jobs::recurrence::{Frequency, JobTiming, Recurrence};
use steadfast_jobs::{
    CollectionDraft, CollectionId, Deliverer, DeliveryRequest, Job, JobAction, JobClient, JobDraft,
    JobHistoryItem, JobHistoryStatus, JobId, JobPolicy, JobRetry, JobRunner, JobScheduler, Outcome,
    PageRequest, Precondition, State, Target,
};
use steadfast_partition::{
    Effect, Options, Performer, Router, Runtime, Services, SingleNode, Space,
};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Follows the paused time of the runtime, which a downtime moves on as well.
pub(crate) struct Paused {
    began: Instant,
    start: i64,
}

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp(self.start + self.began.elapsed().as_millis() as i64)
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A call as the target saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) at: i64,
    pub(crate) order: DeliveryRequest,
}

/// What the target does: so long, and well or not.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) takes: Duration,
    pub(crate) is_success: bool,
}

pub(crate) const WELL: Manner = Manner {
    takes: Duration::ZERO,
    is_success: true,
};
pub(crate) const BADLY: Manner = Manner {
    takes: Duration::ZERO,
    is_success: false,
};

/// Records calls and does what the test says, then the usual.
pub(crate) struct Script {
    clock: Arc<Paused>,
    pub(crate) calls: Mutex<Vec<Call>>,
    pub(crate) manners: Mutex<VecDeque<Manner>>,
    pub(crate) usual: Mutex<Manner>,
    running: Mutex<(usize, usize)>,
    called: Notify,
    /// In which tenure calls may be made.
    pub(crate) tenure: Mutex<Option<u64>>,
}

#[async_trait]
impl Deliverer for Script {
    /// Every target is a host of its own.
    fn lane(&self, order: &DeliveryRequest) -> String {
        order.target.clone()
    }

    fn tenure(&self) -> Option<u64> {
        *self.tenure.lock()
    }

    async fn deliver(&self, order: &DeliveryRequest, _: u64) -> Outcome {
        let (at, order) = (self.clock.now().0, order.clone());
        self.calls.lock().push(Call { at, order });
        {
            let mut running = self.running.lock();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        self.called.notify_waiters();
        let next = self.manners.lock().pop_front();
        let manner = next.unwrap_or(*self.usual.lock());
        tokio::time::sleep(manner.takes).await;
        self.running.lock().0 -= 1;
        let is_success = manner.is_success;
        let message = if is_success { "fine" } else { "not fine" }.into();
        Outcome {
            is_success,
            message,
        }
    }
}

impl Script {
    /// Waits until so many calls have come.
    pub(crate) async fn until_called(&self, count: usize) {
        let coming = async {
            loop {
                let next = self.called.notified();
                if self.calls.lock().len() >= count {
                    return;
                }
                next.await;
            }
        };
        let limit = Duration::from_secs(60);
        let come = tokio::time::timeout(limit, coming).await;
        assert!(come.is_ok(), "only {} calls came", self.calls.lock().len());
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.running.lock().1
    }

    pub(crate) fn times(&self) -> Vec<i64> {
        self.calls.lock().iter().map(|call| call.at).collect()
    }

    pub(crate) fn occurrences(&self) -> Vec<i64> {
        self.calls
            .lock()
            .iter()
            .map(|call| call.order.occurrence)
            .collect()
    }
}

/// A machine whose disk outlives its processes.
pub(crate) struct Lab {
    engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<Paused>,
    pub(crate) script: Arc<Script>,
}

/// A process.
pub(crate) struct Node {
    pub(crate) runtime: Runtime,
    pub(crate) jobs: JobClient,
    pub(crate) runner: JobRunner,
    _store: Arc<Store>,
}

/// The runner needs the router, and the runtime the runner.
struct Through(JobRunner);

impl Performer for Through {
    fn perform(&self, effect: Effect) {
        self.0.perform(effect);
    }
}

impl Lab {
    pub(crate) fn at(start: &str) -> Self {
        Self::on(Arc::new(MemoryEngine::new()), start)
    }

    pub(crate) fn on(engine: Arc<dyn Engine>, start: &str) -> Self {
        let clock = Arc::new(Paused {
            began: Instant::now(),
            start: time(start),
        });
        let script = Script {
            clock: Arc::clone(&clock),
            calls: Mutex::default(),
            manners: Mutex::default(),
            usual: Mutex::new(WELL),
            running: Mutex::default(),
            called: Notify::new(),
            tenure: Mutex::new(Some(1)),
        };
        Self {
            engine,
            clock,
            script: Arc::new(script),
        }
    }

    pub(crate) async fn start(&self) -> Node {
        self.start_with(Services::new().with(JobScheduler)).await
    }

    pub(crate) async fn start_with(&self, services: Services) -> Node {
        let owner = Owner {
            node: 1,
            incarnation: fastrand::u128(..),
        };
        let mut options = steadfast_storage::Options::new(owner);
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        options.clock = Arc::clone(&clock);
        let store = Arc::new(Store::start(Arc::clone(&self.engine), options));
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let deliver = Arc::clone(&self.script) as Arc<dyn Deliverer>;
        let runner = JobRunner::new(Arc::clone(&router), deliver, Arc::clone(&clock));
        let options = Options {
            services,
            performer: Arc::new(Through(runner.clone())),
            router,
            clock,
        };
        let wanted = Space {
            number: 0,
            name: "main".into(),
            partitions: 4,
            incarnation: 1,
        };
        let space = Space::open(&*self.engine, wanted).await.unwrap();
        let runtime = Runtime::new(Arc::clone(&store), space, options);
        runtime.serve_all().await.unwrap();
        let jobs = JobClient::new(&runtime, runner.clone());
        Node {
            runtime,
            jobs,
            runner,
            _store: store,
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now().0
    }
}

impl Node {
    /// Its partitions are taken from it, without a word.
    pub(crate) fn lose_all(&self) {
        for partition in self.runtime.serving() {
            self.runtime.abandon(partition);
        }
    }

    /// The process is killed: nothing is said to anybody.
    pub(crate) fn kill(self) {
        drop(self);
    }

    pub(crate) async fn collection(&self) -> CollectionId {
        let id = CollectionId::new("sub", "rg", "jc").unwrap();
        let draft = CollectionDraft {
            id: id.clone(),
            document: "{}".into(),
            most_jobs: None,
            is_enabled: None,
        };
        self.jobs
            .put_collection(draft, Precondition::Nothing)
            .await
            .unwrap();
        id
    }

    pub(crate) async fn make(&self, draft: JobDraft) -> Job {
        self.jobs.put(draft, Precondition::Nothing).await.unwrap()
    }

    pub(crate) async fn history(&self, id: &JobId) -> Vec<JobHistoryItem> {
        let wanted = PageRequest::first(1000);
        self.jobs.history(id, &wanted).await.unwrap().items
    }

    pub(crate) async fn verdicts(&self, id: &JobId) -> Vec<JobHistoryStatus> {
        self.history(id)
            .await
            .iter()
            .map(|item| item.verdict)
            .collect()
    }

    pub(crate) async fn state(&self, id: &JobId) -> State {
        self.jobs.job(id).await.unwrap().status.state
    }
}

pub(crate) fn time(text: &str) -> i64 {
    parse_time(text).unwrap().0
}

pub(crate) fn outside(what: &str) -> JobAction {
    JobAction {
        target: Target::Outside(what.into()),
        retry: JobRetry::default(),
    }
}

pub(crate) fn every(frequency: Frequency, interval: u32) -> Recurrence {
    Recurrence {
        frequency,
        interval,
        count: None,
        end: None,
        schedule: None,
    }
}

pub(crate) fn draft(id: JobId, start: Option<i64>, recurrence: Option<Recurrence>) -> JobDraft {
    JobDraft {
        id,
        document: "{}".into(),
        timing: JobTiming {
            start,
            recurrence,
            ..JobTiming::default()
        },
        main: outside("main"),
        error: None,
        dead_letter: None,
        policy: JobPolicy::default(),
        state: None,
    }
}

pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
