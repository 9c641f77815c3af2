//! Jobs that run, fail, wait and end, on a virtual clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::limits::HOST_CALLS;
use steadfast_jobs::recurrence::Frequency;
use steadfast_jobs::{
    ErrorKind, InFlight, JobAction, JobHistoryStatus, JobRetry, Misfire, Overlap, Precondition,
    RunPhase, State, SweepKind, Target,
};
use steadfast_partition::{
    Address, Service, ServiceKind, Services, Turn, TurnError, TurnOutcome, service_table,
};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;

use crate::lab::{BADLY, Lab, Manner, WELL, draft, every, outside, pass, time};

const NOON: &str = "2025-06-01T12:00:00Z";
const MINUTE: i64 = 60_000;

#[tokio::test(start_paused = true)]
async fn a_job_without_a_start_runs_at_once_and_is_complete() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("once").unwrap();
    node.make(draft(id.clone(), None, None)).await;
    pass(1).await;
    assert_eq!(lab.script.times().len(), 1);
    let job = node.jobs.job(&id).await.unwrap();
    assert_eq!(job.status.state, State::Completed);
    assert_eq!((job.status.executions, job.status.failures), (1, 0));
    assert_eq!(job.status.next, None);
    let error = node.jobs.run(&id, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Final);
}

#[tokio::test(start_paused = true)]
async fn jobs_27_a_hundred_runs_do_not_drift() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("steady").unwrap();
    let slow = Manner {
        takes: Duration::from_millis(700),
        is_success: true,
    };
    *lab.script.usual.lock() = slow;
    let start = time(NOON) + 500;
    node.make(draft(id, Some(start), Some(every(Frequency::Minute, 1))))
        .await;
    pass(100 * 60).await;
    let expected: Vec<_> = (0..100).map(|k| start + k * MINUTE).collect();
    assert_eq!(lab.script.occurrences()[..100], expected);
    for (call, expected) in lab.script.times().iter().zip(&expected) {
        assert!(
            (0..50).contains(&(call - expected)),
            "{call} for {expected}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_30_count_and_end_complete_a_job() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    let counted = home.job("counted").unwrap();
    let mut recurrence = every(Frequency::Minute, 1);
    recurrence.count = Some(3);
    node.make(draft(counted.clone(), None, Some(recurrence)))
        .await;
    let ending = home.job("ending").unwrap();
    let mut recurrence = every(Frequency::Minute, 1);
    recurrence.end = Some(time(NOON) + 4 * MINUTE);
    node.make(draft(ending.clone(), Some(time(NOON)), Some(recurrence)))
        .await;
    pass(10 * 60).await;
    for (id, runs) in [(&counted, 3), (&ending, 5)] {
        let job = node.jobs.job(id).await.unwrap();
        assert_eq!(
            (job.status.state, job.status.executions),
            (State::Completed, runs)
        );
        assert_eq!(job.status.next, None);
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_32_a_dead_target_is_tried_five_times() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    let id = node.collection().await.job("dead").unwrap();
    node.make(draft(id.clone(), None, None)).await;
    pass(3600).await;
    let attempts: Vec<_> = lab
        .script
        .calls
        .lock()
        .iter()
        .map(|call| call.order.attempt)
        .collect();
    assert_eq!(attempts, [0, 1, 2, 3, 4]);
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!(
        (status.executions, status.failures, status.faults),
        (1, 5, 1)
    );
    assert_eq!(status.state, State::Faulted);
}

#[tokio::test(start_paused = true)]
async fn jobs_33_a_retry_is_counted_from_the_end_of_an_attempt() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = Manner {
        takes: Duration::from_secs(20),
        is_success: false,
    };
    let id = node.collection().await.job("slow").unwrap();
    node.make(draft(id, None, None)).await;
    pass(3600).await;
    let times = lab.script.times();
    for pair in times.windows(2) {
        assert!((50_000..50_050).contains(&(pair[1] - pair[0])), "{times:?}");
    }
    assert_eq!(times.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn jobs_34_the_error_action_fires_once_and_last() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    lab.script.manners.lock().extend([BADLY; 3]);
    lab.script.manners.lock().push_back(WELL);
    let id = node.collection().await.job("alternate").unwrap();
    let mut draft = draft(id.clone(), None, None);
    draft.main.retry.count = 2;
    draft.error = Some(outside("another type"));
    node.make(draft).await;
    pass(3600).await;
    let calls = lab.script.calls.lock().clone();
    let phases: Vec<_> = calls
        .iter()
        .map(|call| (call.order.phase, call.order.target.clone()))
        .collect();
    let main = (RunPhase::Main, "main".to_string());
    let error = (RunPhase::Error, "another type".to_string());
    assert_eq!(phases, [main.clone(), main.clone(), main, error]);
    // Its success does not make the occurrence one.
    assert_eq!(node.state(&id).await, State::Faulted);
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!((status.failures, status.faults), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn the_error_action_is_retried_and_then_a_dead_letter_is_left() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    let id = node.collection().await.job("hopeless").unwrap();
    let mut draft = draft(id.clone(), None, None);
    let retry = JobRetry {
        count: 1,
        ..JobRetry::default()
    };
    draft.main.retry = retry;
    draft.error = Some(JobAction {
        retry,
        ..outside("error")
    });
    draft.dead_letter = Some(Target::Outside("letter".into()));
    node.make(draft).await;
    pass(3600).await;
    let calls = lab.script.calls.lock().clone();
    let phases: Vec<_> = calls.iter().map(|call| call.order.phase).collect();
    let (main, error, dead) = (RunPhase::Main, RunPhase::Error, RunPhase::DeadLetter);
    assert_eq!(
        phases,
        [main, main, error, error, dead, dead, dead, dead, dead]
    );
    assert_eq!(calls[4].order.last.as_deref(), Some("not fine"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_too_large_is_refused() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("large").unwrap();
    let mut large = draft(id.clone(), Some(time(NOON)), None);
    large.main.target = Target::Outside("x".repeat(16 << 20));
    let refused = node
        .jobs
        .put(large, Precondition::Nothing)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert_eq!(refused.code().0, "STF-5209");
    let found = node.jobs.job(&id).await.unwrap_err();
    assert_eq!(found.kind(), ErrorKind::NoJob);
}

#[tokio::test(start_paused = true)]
async fn jobs_35_a_job_that_failed_for_good_refuses_changes() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    let id = node.collection().await.job("failed").unwrap();
    let mut wanted = draft(id.clone(), None, None);
    wanted.main.retry = JobRetry::NONE;
    let job = node.make(wanted.clone()).await;
    pass(10).await;
    assert_eq!(node.state(&id).await, State::Faulted);
    let version = Precondition::Version(job.definition.version);
    let error = node.jobs.put(wanted, version).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Final);
    node.jobs.delete(&id).await.unwrap();
    assert_eq!(
        node.jobs.delete(&id).await.unwrap_err().kind(),
        ErrorKind::NoJob
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_40_an_occurrence_waits_for_the_one_before_it() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    lab.script.manners.lock().push_back(Manner {
        takes: Duration::from_secs(200),
        is_success: true,
    });
    let id = node.collection().await.job("overlapping").unwrap();
    node.make(draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Minute, 1)),
    ))
    .await;
    pass(230).await;
    // Due at 60, 120 and 180 s, while the first took 200 s: one ran instead.
    assert_eq!(lab.script.occurrences(), [time(NOON), time(NOON) + MINUTE]);
    assert_eq!(lab.script.most_at_once(), 1);
    let verdicts = node.verdicts(&id).await;
    assert_eq!(
        verdicts,
        [
            JobHistoryStatus::Completed,
            JobHistoryStatus::Completed,
            JobHistoryStatus::Postponed
        ]
    );
    pass(20).await;
    assert_eq!(lab.script.occurrences().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn other_overlap_policies_do_what_they_say() {
    for (overlap, expected, most) in [
        (Overlap::Skip, vec![0, 4], 1),
        (Overlap::AllowAll, vec![0, 1, 2, 3, 4], 4),
        (Overlap::CancelOther, vec![0, 1, 2, 3, 4], 1),
    ] {
        let lab = Lab::at(NOON);
        let node = lab.start().await;
        let slow = Manner {
            takes: Duration::from_secs(200),
            is_success: true,
        };
        *lab.script.usual.lock() = slow;
        let id = node.collection().await.job("overlapping").unwrap();
        let mut draft = draft(id, Some(time(NOON)), Some(every(Frequency::Minute, 1)));
        draft.policy.overlap = overlap;
        node.make(draft).await;
        pass(4 * 60 + 30).await;
        let found = lab.script.occurrences();
        let expected: Vec<_> = expected.iter().map(|k| time(NOON) + k * MINUTE).collect();
        assert_eq!(found, expected, "{overlap:?}");
        // A call that is given up is not counted down by the script.
        if overlap != Overlap::CancelOther {
            assert_eq!(lab.script.most_at_once(), most, "{overlap:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_42_disabling_stops_and_drops_retries() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    let home = node.collection().await;
    for name in ["a", "b", "c"] {
        let id = home.job(name).unwrap();
        node.make(draft(id, None, Some(every(Frequency::Minute, 1))))
            .await;
    }
    pass(5).await;
    assert_eq!(lab.script.times().len(), 3);
    let sweep = node.jobs.sweep(&home, SweepKind::Disable).await.unwrap();
    assert!(node.jobs.swept(&home, sweep).await.unwrap());
    pass(600).await;
    assert_eq!(lab.script.times().len(), 3, "nothing runs, no retry either");
    let job = node.jobs.job(&home.job("b").unwrap()).await.unwrap();
    assert_eq!((job.status.state, job.status.next), (State::Disabled, None));
    *lab.script.usual.lock() = WELL;
    let sweep = node.jobs.sweep(&home, SweepKind::Enable).await.unwrap();
    assert!(node.jobs.swept(&home, sweep).await.unwrap());
    let job = node.jobs.job(&home.job("b").unwrap()).await.unwrap();
    assert_eq!(job.status.state, State::Enabled);
    pass(59).await;
    // From now on, and nothing is made up for.
    assert_eq!(lab.script.times().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn jobs_43_retries_go_on_after_a_crash() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    let id = node.collection().await.job("interrupted").unwrap();
    node.make(draft(id.clone(), None, None)).await;
    pass(45).await;
    assert_eq!(lab.script.times().len(), 2);
    node.kill();
    let node = lab.start().await;
    pass(3600).await;
    let attempts: Vec<_> = lab
        .script
        .calls
        .lock()
        .iter()
        .map(|call| call.order.attempt)
        .collect();
    assert_eq!(attempts, [0, 1, 2, 3, 4]);
    let occurrences = lab.script.occurrences();
    assert!(
        occurrences
            .iter()
            .all(|occurrence| *occurrence == occurrences[0])
    );
    assert_eq!(node.state(&id).await, State::Faulted);
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_sending_repeats_that_attempt_and_nothing_else() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    lab.script.manners.lock().push_back(Manner {
        takes: Duration::from_secs(30),
        is_success: true,
    });
    let id = node.collection().await.job("sending").unwrap();
    node.make(draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Hour, 1)),
    ))
    .await;
    pass(10).await;
    node.kill();
    let node = lab.start().await;
    pass(100).await;
    let calls = lab.script.calls.lock().clone();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].order.occurrence, calls[1].order.occurrence);
    assert_eq!(calls[0].order.attempt, calls[1].order.attempt);
    assert!(calls[1].order.epoch > calls[0].order.epoch);
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!(status.executions, 1, "it is one occurrence");
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_sending_does_not_repeat_an_attempt_that_is_made_once() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    lab.script.manners.lock().push_back(Manner {
        takes: Duration::from_secs(30),
        is_success: true,
    });
    let id = node.collection().await.job("careful").unwrap();
    let recurrence = every(Frequency::Hour, 1);
    let mut draft = draft(id.clone(), Some(time(NOON)), Some(recurrence));
    draft.policy.in_flight = InFlight::Skip;
    draft.error = Some(outside("error handler"));
    node.make(draft).await;
    pass(10).await;
    node.kill();
    let node = lab.start().await;
    pass(1000).await;
    let phases = || -> Vec<_> {
        let calls = lab.script.calls.lock();
        calls.iter().map(|call| call.order.phase).collect()
    };
    // Neither repeated nor retried, and the error action runs.
    assert_eq!(phases(), [RunPhase::Main, RunPhase::Error]);
    let history = node.history(&id).await;
    let verdicts: Vec<_> = history.iter().map(|item| item.verdict).collect();
    assert_eq!(
        verdicts,
        [JobHistoryStatus::Completed, JobHistoryStatus::Failed]
    );
    assert!(history[1].message.contains("inFlight is skip"));
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!(
        (status.executions, status.failures, status.faults),
        (1, 1, 1)
    );
    // The next occurrence is a new one, and an attempt that failed is tried again.
    lab.script.manners.lock().push_back(BADLY);
    pass(3600).await;
    let (main, error) = (RunPhase::Main, RunPhase::Error);
    assert_eq!(phases(), [main, error, main, main]);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_made_once_and_were_not_begun_are_made_after_a_crash() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    lab.script.usual.lock().takes = Duration::from_secs(10);
    for number in 0..HOST_CALLS + 6 {
        let id = home.job(&format!("careful-{number:03}")).unwrap();
        let mut draft = draft(id, Some(time(NOON) + 1000), None);
        draft.policy.in_flight = InFlight::Skip;
        node.make(draft).await;
    }
    pass(5).await;
    assert_eq!(lab.script.times().len(), HOST_CALLS);
    node.kill();
    lab.script.usual.lock().takes = Duration::ZERO;
    let node = lab.start().await;
    pass(1000).await;
    let mut called = BTreeSet::new();
    for call in &*lab.script.calls.lock() {
        assert!(called.insert(call.order.job.name.clone()), "{call:?} twice");
    }
    assert_eq!(called.len(), HOST_CALLS + 6);
    let mut completed = 0;
    for name in &called {
        completed += usize::from(node.state(&home.job(name).unwrap()).await == State::Completed);
    }
    assert_eq!(completed, 6);
}

/// Attempts of a partition that is loaded find its door open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attempt_that_is_made_once_is_forgotten_when_its_partition_is_loaded() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    lab.script.usual.lock().takes = Duration::from_secs(1000);
    let mut ids = Vec::new();
    for number in 0..300 {
        let id = home.job(&format!("careful-{number:03}")).unwrap();
        let mut draft = draft(id.clone(), None, None);
        draft.policy.in_flight = InFlight::Skip;
        node.make(draft).await;
        ids.push(id);
    }
    lab.script.until_called(HOST_CALLS).await;
    node.kill();
    lab.script.usual.lock().takes = Duration::ZERO;
    let node = lab.start().await;
    lab.script.until_called(300).await;
    for id in &ids {
        let ended = async {
            while !node.state(id).await.is_final() {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        assert!(ended.is_ok(), "{id:?} is stuck");
    }
    assert_eq!(lab.script.times().len(), 300);
}

/// A partition that is released and reopened gets the results of its attempts, and its
/// next owner makes the attempts that were not started.
#[tokio::test(start_paused = true)]
async fn attempts_of_a_partition_that_goes_and_comes_back_are_made_once() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    lab.script.usual.lock().takes = Duration::from_secs(5);
    for number in 0..HOST_CALLS + 6 {
        let id = home.job(&format!("moving-{number:03}")).unwrap();
        node.make(draft(id, Some(time(NOON) + 1000), None)).await;
    }
    pass(3).await;
    node.lose_all();
    pass(6).await;
    // The calls have ended; nothing else was begun.
    assert_eq!(lab.script.times().len(), HOST_CALLS);
    node.runtime.serve_all().await.unwrap();
    pass(20).await;
    let calls = lab.script.calls.lock().clone();
    assert_eq!(calls.len(), HOST_CALLS + 6, "each was made once");
    let (former, later) = calls.split_at(HOST_CALLS);
    let epoch = former[0].order.epoch;
    assert!(former.iter().all(|call| call.order.epoch == epoch));
    assert!(later.iter().all(|call| call.order.epoch > epoch));
    for number in 0..HOST_CALLS + 6 {
        let id = home.job(&format!("moving-{number:03}")).unwrap();
        assert_eq!(node.state(&id).await, State::Completed, "{id:?}");
    }
}

/// Commits whose outcome has to be found out raise the epoch of a partition that stays
/// where it is: no attempt is forgotten by that.
#[tokio::test(start_paused = true)]
async fn commits_in_doubt_hold_nothing_up() {
    let faults = EngineFaults {
        unknown_applied: 15,
        unknown_dropped: 15,
        ..EngineFaults::default()
    };
    let engine = HostileEngine::new(Arc::new(MemoryEngine::new()), faults, 11);
    let lab = Lab::on(Arc::new(engine), NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    lab.script.usual.lock().takes = Duration::from_secs(3);
    let start = time(NOON) + MINUTE;
    for number in 0..HOST_CALLS + 10 {
        let id = home.job(&format!("doubtful-{number:03}")).unwrap();
        let mut draft = draft(id, Some(start), Some(every(Frequency::Minute, 1)));
        if number % 2 == 0 {
            draft.policy.in_flight = InFlight::Skip;
        }
        node.make(draft).await;
    }
    pass(30 * 60 + 30).await;
    let calls = lab.script.calls.lock().clone();
    for number in 0..HOST_CALLS + 10 {
        let name = format!("doubtful-{number:03}");
        let own = calls.iter().filter(|call| call.order.job.name == name);
        let times: Vec<_> = own.map(|call| call.order.occurrence).collect();
        let expected: Vec<_> = (0..30).map(|k| start + k * MINUTE).collect();
        assert_eq!(times, expected, "{name}");
    }
}

/// What fails while others may make it is not known as failed.
#[tokio::test(start_paused = true)]
async fn a_failure_across_tenures_is_not_counted() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    lab.script.manners.lock().push_back(Manner {
        takes: Duration::from_secs(5),
        is_success: false,
    });
    let id = node.collection().await.job("frozen").unwrap();
    node.make(draft(id.clone(), None, None)).await;
    pass(2).await;
    // The lease ends, and begins anew with the same partitions.
    *lab.script.tenure.lock() = None;
    node.lose_all();
    pass(1).await;
    *lab.script.tenure.lock() = Some(2);
    node.runtime.serve_all().await.unwrap();
    pass(10).await;
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!((status.failures, status.state), (0, State::Completed));
    let calls = lab.script.calls.lock().clone();
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[1].order.attempt, calls[0].order.attempt), (0, 0));
    assert!(calls[1].order.epoch > calls[0].order.epoch);
}

#[tokio::test(start_paused = true)]
async fn jobs_44_three_minutes_of_downtime_give_three_late_runs_in_order() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("down").unwrap();
    let start = time(NOON) + 30_000;
    node.make(draft(
        id.clone(),
        Some(start),
        Some(every(Frequency::Minute, 1)),
    ))
    .await;
    pass(40).await;
    node.kill();
    pass(180).await;
    *lab.script.usual.lock() = Manner {
        takes: Duration::from_secs(2),
        is_success: true,
    };
    let began = lab.now();
    let node = lab.start().await;
    pass(7).await;
    let expected: Vec<_> = (0..4).map(|k| start + k * MINUTE).collect();
    assert_eq!(lab.script.occurrences(), expected);
    let times = lab.script.times();
    assert!(times[1] - began < 100 && times[2] - times[1] >= 2000 && times[3] - times[2] >= 2000);
    assert_eq!(lab.script.most_at_once(), 1);
    let history = node.history(&id).await;
    assert_eq!(history[0].expected, expected[3]);
}

#[tokio::test(start_paused = true)]
async fn jobs_45_an_hour_of_downtime_merges_what_is_old() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("down").unwrap();
    let start = time(NOON) + 30_000;
    node.make(draft(id, Some(start), Some(every(Frequency::Minute, 1))))
        .await;
    pass(40).await;
    node.kill();
    pass(3600).await;
    let node = lab.start().await;
    pass(5).await;
    // Back at 13:00:40: from 12:50:40 on each runs; the rest are one, the latest.
    let found = lab.script.occurrences();
    let expected: Vec<_> = [0]
        .into_iter()
        .chain(50..=60)
        .map(|k| start + k * MINUTE)
        .collect();
    assert_eq!(found, expected);
    drop(node);
}

#[tokio::test(start_paused = true)]
async fn sixty_four_calls_to_one_host_are_under_way_and_others_do_not_wait() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    let due = time(NOON) + 30_000;
    lab.script.usual.lock().takes = Duration::from_secs(10);
    for number in 0..200 {
        let id = home.job(&format!("slow-{number:03}")).unwrap();
        node.make(draft(id, Some(due), None)).await;
    }
    let mut canary = draft(home.job("canary").unwrap(), Some(due), None);
    canary.main = outside("another host");
    node.make(canary).await;
    pass(31).await;
    let calls = lab.script.calls.lock().clone();
    let (slow, others): (Vec<_>, Vec<_>) = calls
        .into_iter()
        .partition(|call| call.order.target == "main");
    assert_eq!((slow.len(), others.len()), (64, 1));
    assert_eq!(others[0].at, due, "it does not wait behind 200 slow calls");
    pass(45).await;
    assert_eq!(lab.script.calls.lock().len(), 201);
    assert_eq!(lab.script.most_at_once(), 65);
}

#[tokio::test(start_paused = true)]
async fn what_was_put_back_for_a_rest_in_vain_is_begun_again() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    let due = time(NOON) + 30_000;
    lab.script.usual.lock().takes = Duration::from_secs(60);
    for number in 0..100 {
        let id = home.job(&format!("slow-{number:03}")).unwrap();
        node.make(draft(id, Some(due), None)).await;
    }
    // It is due while nothing is begun.
    let mut later = draft(home.job("later").unwrap(), Some(due + 10_000), None);
    later.main = outside("another host");
    node.make(later).await;
    pass(31).await;
    assert_eq!(lab.script.calls.lock().len(), 64);
    assert_eq!(node.runner.drain(Duration::from_secs(20)).await, 64);
    assert_eq!(lab.script.calls.lock().len(), 64, "nothing was begun");
    node.runner.resume();
    pass(1).await;
    assert_eq!(
        lab.script.calls.lock().len(),
        65,
        "the other host waits no longer"
    );
    pass(150).await;
    assert_eq!(lab.script.calls.lock().len(), 101, "each of them once");
    assert_eq!(node.runner.drain(Duration::from_secs(20)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_window_makes_up_for_days_and_is_bounded() {
    const DAY: i64 = 24 * 60 * MINUTE;
    for (frequency, expected) in [
        (Frequency::Day, (0..=5).map(|k| k * DAY).collect::<Vec<_>>()),
        // The first one ran; of all others the latest thousand.
        (
            Frequency::Minute,
            std::iter::once(0)
                .chain(5 * 24 * 60 - 999..=5 * 24 * 60)
                .map(|k| k * MINUTE)
                .collect(),
        ),
    ] {
        let lab = Lab::at(NOON);
        let node = lab.start().await;
        let id = node.collection().await.job("down").unwrap();
        let start = time(NOON) + 30_000;
        let mut draft = draft(id, Some(start), Some(every(frequency, 1)));
        draft.policy.catch_up_ms = 548 * DAY as u64;
        node.make(draft).await;
        pass(40).await;
        node.kill();
        pass(5 * 24 * 3600).await;
        let node = lab.start().await;
        pass(19).await;
        let expected: Vec<_> = expected.iter().map(|k| start + k).collect();
        assert_eq!(lab.script.occurrences(), expected, "{frequency:?}");
        drop(node);
    }
}

#[tokio::test(start_paused = true)]
async fn misfire_policies_do_what_they_say() {
    for (misfire, expected) in [(Misfire::RunOnce, vec![0, 5]), (Misfire::Skip, vec![0])] {
        let lab = Lab::at(NOON);
        let node = lab.start().await;
        let id = node.collection().await.job("down").unwrap();
        let start = time(NOON) + 30_000;
        let mut draft = draft(id, Some(start), Some(every(Frequency::Minute, 1)));
        draft.policy.misfire = misfire;
        node.make(draft).await;
        pass(40).await;
        node.kill();
        pass(300).await;
        let node = lab.start().await;
        pass(5).await;
        let expected: Vec<_> = expected.iter().map(|k| start + k * MINUTE).collect();
        assert_eq!(lab.script.occurrences(), expected, "{misfire:?}");
        drop(node);
    }
}

#[tokio::test(start_paused = true)]
async fn a_missed_daily_run_is_left_out_if_the_job_says_so() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("daily").unwrap();
    let mut draft = draft(
        id.clone(),
        Some(time(NOON) + MINUTE),
        Some(every(Frequency::Day, 1)),
    );
    draft.policy.misfire = Misfire::Skip;
    node.make(draft).await;
    node.kill();
    pass(3600).await;
    let node = lab.start().await;
    pass(5).await;
    assert_eq!(lab.script.times().len(), 0);
    let next = node.jobs.job(&id).await.unwrap().status.next;
    assert_eq!(next, Some(time("2025-06-02T12:01:00Z")));
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_uses_up_nothing_and_is_not_repeated() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("by-hand").unwrap();
    let mut recurrence = every(Frequency::Hour, 1);
    recurrence.count = Some(1);
    node.make(draft(
        id.clone(),
        Some(time(NOON) + MINUTE),
        Some(recurrence),
    ))
    .await;
    for _ in 0..3 {
        node.jobs.run(&id, Some("request".into())).await.unwrap();
    }
    node.jobs.run(&id, Some("another".into())).await.unwrap();
    pass(1).await;
    let occurrences = lab.script.occurrences();
    assert_eq!(occurrences.len(), 2);
    assert_ne!(occurrences[0], occurrences[1], "they do not share a key");
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!(
        (status.executions, status.next),
        (2, Some(time(NOON) + MINUTE))
    );
    pass(400).await;
    assert_eq!(node.state(&id).await, State::Completed);
    assert_eq!(lab.script.times().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn history_is_newest_first_and_bounded() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("long").unwrap();
    node.make(draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Minute, 1)),
    ))
    .await;
    pass(1100 * 60).await;
    let history = node.history(&id).await;
    assert_eq!(history.len(), 1000);
    assert!(
        history
            .windows(2)
            .all(|pair| pair[0].expected > pair[1].expected)
    );
    assert_eq!(history[0].repeat, 1101);
    // Two months later nothing of it is shown; what is new is.
    node.jobs.pause(&id, "holiday".into()).await.unwrap();
    pass(61 * 24 * 3600).await;
    assert_eq!(node.history(&id).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_go_after_sixty_days() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    let id = home.job("finished").unwrap();
    node.make(draft(id.clone(), None, None)).await;
    pass(59 * 24 * 3600).await;
    assert_eq!(node.state(&id).await, State::Completed);
    pass(2 * 24 * 3600).await;
    assert_eq!(
        node.jobs.job(&id).await.unwrap_err().kind(),
        ErrorKind::NoJob
    );
    assert_eq!(node.jobs.collection(&home).await.unwrap().jobs, 0);
}

#[tokio::test(start_paused = true)]
async fn a_paused_job_keeps_its_note_and_goes_on_later() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("paused").unwrap();
    node.make(draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Minute, 1)),
    ))
    .await;
    pass(10).await;
    node.jobs
        .pause(&id, "the target moves house".into())
        .await
        .unwrap();
    pass(600).await;
    let status = node.jobs.job(&id).await.unwrap().status;
    assert_eq!(status.paused.as_deref(), Some("the target moves house"));
    assert_eq!((status.state, status.executions), (State::Enabled, 1));
    node.jobs.resume(&id).await.unwrap();
    pass(60).await;
    assert_eq!(
        lab.script.occurrences(),
        [time(NOON), time(NOON) + 11 * MINUTE]
    );
}

#[tokio::test(start_paused = true)]
async fn a_backfill_runs_what_lies_in_the_past_in_order() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("backfilled").unwrap();
    let start = time("2025-06-01T00:00:00Z");
    node.make(draft(
        id.clone(),
        Some(start),
        Some(every(Frequency::Hour, 1)),
    ))
    .await;
    pass(1).await;
    let (from, until) = (time("2025-06-01T03:00:00Z"), time("2025-06-01T06:30:00Z"));
    node.jobs.backfill(&id, from, until).await.unwrap();
    pass(10).await;
    let hours = |list: &[i64]| -> Vec<_> { list.iter().map(|h| start + h * 60 * MINUTE).collect() };
    assert_eq!(lab.script.occurrences(), hours(&[12, 3, 4, 5, 6]));
    let next = node.jobs.job(&id).await.unwrap().status.next;
    assert_eq!(next, Some(start + 13 * 60 * MINUTE));
    let long = node.jobs.backfill(&id, 0, i64::MAX).await;
    long.unwrap();
}

#[tokio::test(start_paused = true)]
async fn jitter_is_the_same_after_a_restart() {
    let mut seen = Vec::new();
    for crash in [false, true] {
        let lab = Lab::at(NOON);
        let mut node = lab.start().await;
        let id = node.collection().await.job("jittered").unwrap();
        let mut draft = draft(id, Some(time(NOON)), Some(every(Frequency::Hour, 1)));
        draft.timing.jitter_ms = 20 * MINUTE as u64;
        node.make(draft).await;
        if crash {
            node.kill();
            node = lab.start().await;
        }
        pass(4 * 3600).await;
        assert_eq!(
            lab.script.occurrences()[1] - lab.script.occurrences()[0],
            60 * MINUTE
        );
        seen.push(lab.script.times());
        drop(node);
    }
    let delays: Vec<_> = seen[0]
        .iter()
        .map(|at| (at - time(NOON)) % (60 * MINUTE))
        .collect();
    assert!(delays.iter().all(|delay| *delay <= 20 * MINUTE + 50));
    assert!(delays.iter().any(|delay| *delay > 1000), "{delays:?}");
    for (one, two) in seen[0].iter().zip(&seen[1]) {
        assert!((one - two).abs() < 100);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_faults_in_a_row_fault_the_job() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    *lab.script.usual.lock() = BADLY;
    let id = node.collection().await.job("faulty").unwrap();
    let mut draft = draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Minute, 1)),
    );
    draft.main.retry = JobRetry::NONE;
    draft.policy.faults = Some(3);
    node.make(draft).await;
    pass(3600).await;
    assert_eq!(node.state(&id).await, State::Faulted);
    assert_eq!(lab.script.times().len(), 3);
}

/// Counts what it is sent, to see what leaves with a commit.
struct Sink;

const SINK: ServiceKind = ServiceKind(999);

impl Service for Sink {
    type Command = bytes::Bytes;
    type Response = bytes::Bytes;

    fn kind(&self) -> ServiceKind {
        SINK
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        body: &bytes::Bytes,
    ) -> Result<TurnOutcome<bytes::Bytes>, TurnError> {
        let table = service_table(SINK, 0);
        let mut told = turn.get(table, &to.key)?.unwrap_or_default().to_vec();
        if !body.is_empty() {
            told.extend_from_slice(body);
            turn.put(table, &to.key, told.clone());
        }
        Ok(TurnOutcome::Now(told.into()))
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_target_gets_each_occurrence_exactly_once() {
    let lab = Lab::at(NOON);
    let services = || {
        Services::new()
            .with(steadfast_jobs::JobScheduler)
            .with(Sink)
    };
    let mut node = lab.start_with(services()).await;
    let id = node.collection().await.job("inner").unwrap();
    let mut draft = draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Minute, 1)),
    );
    draft.main.target = Target::Inside {
        kind: SINK.0,
        name: "sink".into(),
        key: "k".into(),
        body: b"<....................>".to_vec(),
        // The second one has no room and is left alone.
        times: vec![1, 3],
    };
    node.make(draft).await;
    for _ in 0..10 {
        pass(60).await;
        node.kill();
        node = lab.start_with(services()).await;
    }
    pass(1).await;
    let to = Address::new(SINK, "sink", "k");
    let told = node
        .runtime
        .handle::<Sink>()
        .call(to, bytes::Bytes::new())
        .await
        .unwrap();
    let status = node.jobs.job(&id).await.unwrap().status;
    let told: Vec<_> = told.chunks(22).map(String::from_utf8_lossy).collect();
    assert_eq!(told.len() as u64, status.executions);
    let expected = (0..11).map(|n| format!("<2025-06-01T12:{n:02}:00Z>"));
    assert_eq!(told, expected.collect::<Vec<_>>());
    assert_eq!(
        node.verdicts(&id).await,
        vec![JobHistoryStatus::Completed; 11]
    );
}
