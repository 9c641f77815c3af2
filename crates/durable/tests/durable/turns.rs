//! Turns in the commit of their reason, without histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::hall::{Hall, Node, count, entity, with_accounts};
use futures_util::future::{join, join_all};
use steadfast_durable::native::{Context, Functions};
use steadfast_durable::{EventKind, FailureDetails, InstanceStatus};

fn functions() -> Functions {
    with_accounts(Functions::new())
        .activity("step", |_, n: u64| async move { Ok(n + 1) })
        .orchestration("sequence", sequence)
        .orchestration("transfer", transfer)
        .orchestration("patient", patient)
}

async fn sequence(cx: Context, n: u64) -> Result<u64, FailureDetails> {
    let mut n = n;
    for _ in 0..5 {
        n = cx.activity("step", &n).await?;
    }
    Ok(n)
}

async fn transfer(cx: Context, (from, to): (String, String)) -> Result<i64, FailureDetails> {
    let (from, to) = (entity("account", &from), entity("account", &to));
    let section = cx.lock([&from, &to]).await?;
    let take = cx.call::<_, i64>(&from, "add", &-1);
    let give = cx.call::<_, i64>(&to, "add", &1);
    let (taken, given) = join(take, give).await;
    taken?;
    drop(section);
    given
}

/// Waits for three events with a pause after each.
async fn patient(cx: Context, (): ()) -> Result<u64, FailureDetails> {
    let mut sum = 0;
    for _ in 0..3 {
        sum += cx.event::<u64>("go").await?;
        cx.sleep(Duration::from_secs(1)).await;
    }
    Ok(sum)
}

async fn transfers(node: &Node, most: usize) {
    let all = (0..most).map(|n| async move {
        let input = format!("[\"{}\",\"{}\"]", n % 7, 7 + n % 5);
        let end = node.run("transfer", &format!("t{n}"), &input).await;
        assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
    });
    join_all(all).await;
}

/// The newest row of a history, too, stays in memory as the events that it is.
#[tokio::test(start_paused = true)]
async fn turns_of_instances_in_memory_read_no_history() {
    let hall = Hall::new();
    let (node, host) = hall.run(functions()).await;
    for n in 0..5 {
        let end = node.run("sequence", &format!("s{n}"), "0").await;
        assert_eq!(end.output.as_deref(), Some("5"));
    }
    transfers(&node, 40).await;
    node.begin("patient", "p", "null").await;
    node.hub.raise("p", "go", Some("1".into())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(node.hub.history_rows_read(), 0);
    drop((node, host));

    // A new worker has nothing in memory, and reads the history once.
    let (node, _host) = hall.run(functions()).await;
    node.hub.raise("p", "go", Some("2".into())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let read = node.hub.history_rows_read();
    assert!(read > 0);
    node.hub.raise("p", "go", Some("3".into())).await.unwrap();
    let end = node.hub.ended("p", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("6"));
    assert_eq!(node.hub.history_rows_read(), read);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_in_the_commit_of_its_reason() {
    let hall = Hall::new();
    let (node, _host) = hall.run(functions()).await;
    let before = node.commands();
    let end = node.run("sequence", "s", "0").await;
    assert_eq!(end.output.as_deref(), Some("5"));
    // The start, and what each activity has brought.
    assert_eq!(node.commands() - before, 6);
    let history = node.history("s").await;
    assert_eq!(count(&history, |what| *what == EventKind::TurnStarted), 6);
    assert_eq!(count(&history, |what| *what == EventKind::TurnCompleted), 6);
}

#[tokio::test(start_paused = true)]
async fn a_locked_transfer_needs_ten_commands() {
    let hall = Hall::new();
    let (node, _host) = hall.run(functions()).await;
    let before = node.commands();
    transfers(&node, 1).await;
    while !node.hub.locks().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The start, two locks, the grant, two calls, two answers, and two unlocks.
    assert_eq!(node.commands() - before, 10);
    assert_eq!(node.state("@account@0").await.as_deref(), Some("-1"));
    assert_eq!(node.state("@account@7").await.as_deref(), Some("1"));
}

/// Code that was there when a turn began and is gone when it is committed, or the
/// other way round: nothing is lost and nothing runs twice.
#[tokio::test(start_paused = true)]
async fn code_that_comes_and_goes_loses_nothing() {
    let hall = Hall::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = || {
        let runs = Arc::clone(&runs);
        functions().activity("step", move |_, n: u64| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move { Ok(n + 1) }
        })
    };
    let node = hall.start().await;
    for n in 0..20 {
        node.begin("sequence", &format!("s{n}"), "0").await;
    }
    for _ in 0..5 {
        let host = steadfast_durable::native::FunctionHost::start(node.hub.clone(), counted());
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        drop(host);
    }
    let _host = steadfast_durable::native::FunctionHost::start(node.hub.clone(), counted());
    for n in 0..20 {
        let end = node.hub.ended(&format!("s{n}"), true).await.unwrap();
        assert_eq!(end.output.as_deref(), Some("5"), "s{n}");
        let history = node.history(&format!("s{n}")).await;
        let done = count(&history, |what| {
            matches!(what, EventKind::TaskCompleted { .. })
        });
        assert_eq!(done, 5, "s{n}");
    }
    assert!(runs.load(Ordering::SeqCst) >= 100);
}

/// A turn that panics fails its instance, not its worker.
#[tokio::test(start_paused = true)]
async fn a_turn_that_panics_fails_its_instance_only() {
    let hall = Hall::new();
    let functions = functions().orchestration("bad", |cx: Context, (): ()| async move {
        assert!(cx.is_replaying(), "there is nothing");
        Ok::<_, FailureDetails>(())
    });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("bad", "b", "null").await;
    assert_eq!(end.status, InstanceStatus::Failed);
    transfers(&node, 12).await;
}
