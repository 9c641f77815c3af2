//! Occurrences that are late, or were missed in a downtime.

use std::time::Duration;

use steadfast_jobs::recurrence::Frequency;
use steadfast_jobs::{JobHistoryStatus, JobId, Misfire, Overlap, State};

use crate::lab::{Lab, Manner, Node, draft, every, pass, time};

const NOON: &str = "2025-06-01T12:00:00Z";
const MINUTE: i64 = 60_000;

/// A job of every minute whose first run is under way at a kill after 150 s; the
/// second one waits for it, and the third has merged into that.
async fn killed(lab: &Lab, overlap: Overlap) -> JobId {
    let node = lab.start().await;
    lab.script.manners.lock().push_back(Manner {
        takes: Duration::from_secs(1000),
        is_success: true,
    });
    let id = node.collection().await.job("down").unwrap();
    let mut draft = draft(
        id.clone(),
        Some(time(NOON)),
        Some(every(Frequency::Minute, 1)),
    );
    draft.policy.overlap = overlap;
    node.make(draft).await;
    pass(150).await;
    node.kill();
    id
}

/// The minutes of all calls.
fn minutes(lab: &Lab) -> Vec<i64> {
    let found = lab.script.occurrences();
    found.iter().map(|at| (at - time(NOON)) / MINUTE).collect()
}

#[tokio::test(start_paused = true)]
async fn every_missed_occurrence_runs_once_and_in_order_behind_one_that_waits() {
    // How long it is down; whether it comes back where it was or elsewhere.
    for (seconds, expected) in [
        (460, vec![0, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10]),
        (90, vec![0, 0, 1, 3, 4]),
        // Only one was missed, by two seconds.
        (32, vec![0, 0, 1, 3]),
    ] {
        let lab = Lab::at(NOON);
        let id = killed(&lab, Overlap::BufferOne).await;
        pass(seconds).await;
        *lab.script.usual.lock() = Manner {
            takes: Duration::from_secs(1),
            is_success: true,
        };
        let node = lab.start().await;
        pass(15).await;
        assert_eq!(minutes(&lab), expected, "{seconds} s");
        assert_eq!(lab.script.most_at_once(), 2, "the killed one and one more");
        let status = node.jobs.job(&id).await.unwrap().status;
        assert_eq!(status.executions, expected.len() as u64 - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_comes_in_time_still_merges_into_one_that_waits() {
    let lab = Lab::at(NOON);
    let id = killed(&lab, Overlap::BufferOne).await;
    lab.script.manners.lock().push_back(Manner {
        takes: Duration::from_secs(200),
        is_success: true,
    });
    let node = lab.start().await;
    // Due at 180, 240 and 300 s; the repeated run ends at 350 s.
    pass(205).await;
    assert_eq!(minutes(&lab), [0, 0, 1]);
    let postponed = node.verdicts(&id).await;
    let postponed = postponed
        .iter()
        .filter(|v| **v == JobHistoryStatus::Postponed);
    assert_eq!(postponed.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn missed_occurrences_wait_their_turn_whatever_the_overlap_policy() {
    for (overlap, expected) in [
        (Overlap::Skip, vec![0, 0, 3, 4]),
        (Overlap::AllowAll, vec![0, 1, 2, 0, 3, 4]),
    ] {
        let lab = Lab::at(NOON);
        let _ = killed(&lab, overlap).await;
        pass(90).await;
        *lab.script.usual.lock() = Manner {
            takes: Duration::from_secs(1),
            is_success: true,
        };
        let _node = lab.start().await;
        pass(15).await;
        assert_eq!(minutes(&lab), expected, "{overlap:?}");
    }
}

/// A node with a job that skips what is late; `interval` of minutes, or once.
async fn skipping(lab: &Lab, recurs: bool, jitter_ms: u64) -> (Node, JobId) {
    let node = lab.start().await;
    let id = node.collection().await.job("skipping").unwrap();
    let recurrence = recurs.then(|| every(Frequency::Minute, 1));
    let mut draft = draft(id.clone(), Some(time(NOON) + 30_000), recurrence);
    draft.policy.misfire = Misfire::Skip;
    draft.timing.jitter_ms = jitter_ms;
    node.make(draft).await;
    (node, id)
}

#[tokio::test(start_paused = true)]
async fn what_is_more_than_five_seconds_late_is_skipped_if_the_job_says_so() {
    for (back_at, expected) in [(94, vec![0, 1]), (96, vec![0, 2])] {
        let lab = Lab::at(NOON);
        let (node, id) = skipping(&lab, true, 0).await;
        pass(40).await;
        node.kill();
        pass(back_at - 40).await;
        let node = lab.start().await;
        pass(151 - back_at).await;
        let mut expected: Vec<_> = expected
            .iter()
            .map(|k| time(NOON) + 30_000 + k * MINUTE)
            .collect();
        if back_at == 94 {
            expected.push(time(NOON) + 30_000 + 2 * MINUTE);
        }
        assert_eq!(lab.script.occurrences(), expected, "back after {back_at} s");
        let skipped = node.history(&id).await;
        let skipped: Vec<_> = skipped
            .iter()
            .filter(|item| item.verdict == JobHistoryStatus::Postponed)
            .collect();
        assert_eq!(skipped.len(), usize::from(back_at == 96));
        assert!(skipped.iter().all(|item| item.message.contains("5 s late")));
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_missed_occurrences_only_the_one_in_time_is_not_skipped() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let id = node.collection().await.job("often").unwrap();
    let mut draft = draft(id, Some(time(NOON)), Some(every(Frequency::Second, 1)));
    draft.policy.misfire = Misfire::Skip;
    node.make(draft).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    node.kill();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let _node = lab.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seconds: Vec<_> = lab.script.occurrences();
    let seconds: Vec<_> = seconds.iter().map(|at| (at - time(NOON)) / 1000).collect();
    assert_eq!(seconds, [0, 1, 2, 12, 13]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_by_jitter_is_not_late() {
    let lab = Lab::at(NOON);
    let (_node, _) = skipping(&lab, false, 20 * MINUTE as u64).await;
    pass(21 * 60).await;
    let found = lab.script.calls.lock().clone();
    assert_eq!(found.len(), 1);
    assert!(found[0].at - found[0].order.occurrence > 5000, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_single_run_that_is_skipped_completes_its_job() {
    let lab = Lab::at(NOON);
    let (node, id) = skipping(&lab, false, 0).await;
    node.kill();
    pass(60).await;
    let node = lab.start().await;
    pass(5).await;
    assert!(lab.script.occurrences().is_empty());
    assert_eq!(node.state(&id).await, State::Completed);
    assert_eq!(node.verdicts(&id).await, [JobHistoryStatus::Postponed]);
}
