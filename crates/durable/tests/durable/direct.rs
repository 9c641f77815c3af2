//! Requests to idle entities, run where they come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::hall::{Hall, entity, operation, with_accounts};
use futures_util::future::{join, join_all};
use steadfast_durable::native::{Context, Functions};
use steadfast_durable::{EntityOperation, InstanceStatus};

fn accounts() -> Functions {
    with_accounts(Functions::new())
}

#[tokio::test(start_paused = true)]
async fn a_call_to_an_idle_entity_is_one_command_and_a_look_writes_nothing() {
    let hall = Hall::new();
    let (node, _host) = hall.run(accounts()).await;
    let call = |name: &'static str, input: &'static str| {
        let hub = node.hub.clone();
        async move {
            hub.call(operation("@account@a", name, input))
                .await
                .unwrap()
        }
    };
    assert_eq!(call("add", "5").await, Ok(Some("5".into())));
    let before = node.commands();
    for number in 6..16 {
        assert_eq!(call("add", "1").await, Ok(Some(number.to_string())));
    }
    assert_eq!(
        node.commands() - before,
        10,
        "one command, so one commit, each"
    );
    let modified = node.hub.entity("@account@a", false).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(call("get", "null").await, Ok(Some("15".into())));
    let now = node.hub.entity("@account@a", false).await.unwrap().unwrap();
    assert_eq!(now.modified, modified.modified);
    assert_eq!(now.backlog, 0);
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_was_acknowledged_has_run_or_is_in_the_queue() {
    let hall = Hall::new();
    let (node, host) = hall.run(accounts()).await;
    node.signal("@account@a", "add", "5").await;
    drop((node, host));
    let node = hall.start().await;
    assert_eq!(node.state("@account@a").await.as_deref(), Some("5"));
    // Without its code it waits.
    node.signal("@account@a", "add", "2").await;
    let found = node.hub.entity("@account@a", true).await.unwrap().unwrap();
    assert_eq!((found.backlog, found.state.as_deref()), (1, Some("5")));
    drop(node);
    let (node, _host) = hall.run(accounts()).await;
    while node.state("@account@a").await.as_deref() != Some("7") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What an operation does outside is not done twice, although it was begun before it
/// was known that it would have to wait.
#[tokio::test(start_paused = true)]
async fn an_operation_that_waits_is_begun_once() {
    let hall = Hall::new();
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let functions = Functions::new().entity("door", move |context| {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let rings: u64 = context.state()?;
            context.set_state(&(rings + 1))?;
            Ok(Some((rings + 1).to_string()))
        })
    });
    let (node, _host) = hall.run(functions).await;
    for number in 1..4usize {
        let rung = node.hub.call(operation("@door@a", "ring", "null")).await;
        assert_eq!(rung.unwrap(), Ok(Some(number.to_string())));
        assert_eq!(begun.load(Ordering::SeqCst), number);
    }
    // A signal is acknowledged when it is certain to be run, not when it has run.
    let began = tokio::time::Instant::now();
    node.signal("@door@b", "ring", "null").await;
    assert!(
        began.elapsed() < Duration::from_millis(50),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_request_twice_at_once_counts_once() {
    let hall = Hall::new();
    let (node, _host) = hall.run(accounts()).await;
    let request = EntityOperation {
        request: "3b241101-e2bb-4255-8caf-4136c566a962".into(),
        ..operation("@account@a", "add", "5")
    };
    let (one, two) = join(
        node.hub.call(request.clone()),
        node.hub.call(request.clone()),
    )
    .await;
    assert_eq!(one.unwrap(), Ok(Some("5".into())));
    assert_eq!(two.unwrap(), Ok(Some("5".into())));
    node.hub.signal(request).await.unwrap();
    assert_eq!(node.state("@account@a").await.as_deref(), Some("5"));
}

/// Clients, orchestrations and deletions at the same entities: nothing is lost,
/// nothing counts twice, and no operation runs on a deleted state.
#[tokio::test(start_paused = true)]
async fn both_ways_into_an_entity_share_one_state() {
    let hall = Hall::new();
    let functions = accounts().orchestration("walk", |cx: Context, rounds: u64| async move {
        for round in 0..rounds {
            let account = entity("account", &(round % 3).to_string());
            if round % 5 == 0 {
                let section = cx.lock([&account]).await?;
                cx.call::<_, i64>(&account, "add", &1).await?;
                drop(section);
            } else {
                cx.call::<_, i64>(&account, "add", &1).await?;
            }
        }
        Ok(rounds)
    });
    let (node, _host) = hall.run(functions).await;
    let walks = join_all((0..8).map(|walk| {
        let node = &node;
        async move { node.run("walk", &format!("w{walk}"), "30").await }
    }));
    let clients = join_all((0..8u64).map(|client| {
        let hub = node.hub.clone();
        async move {
            for round in 0..60u64 {
                let target = format!("@account@{}", (client + round) % 3);
                let add = operation(&target, "add", "1");
                match round % 2 {
                    0 => hub.signal(add).await.unwrap(),
                    _ => drop(hub.call(add).await.unwrap().unwrap()),
                }
            }
        }
    }));
    let (walks, _) = join(walks, clients).await;
    for end in walks {
        assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
    }
    let mut sum = 0;
    for key in 0..3 {
        let get = operation(&format!("@account@{key}"), "get", "null");
        let balance = node.hub.call(get).await.unwrap().unwrap().unwrap();
        sum += balance.parse::<u64>().unwrap();
    }
    assert_eq!(sum, 8 * 30 + 8 * 60);
    // An entity that was deleted and made anew begins from nothing.
    for _ in 0..4 {
        node.signal("@account@0", "delete", "null").await;
        let added = node.hub.call(operation("@account@0", "add", "3")).await;
        assert_eq!(added.unwrap(), Ok(Some("3".into())));
        let end = node.run("walk", "", "1").await;
        assert_eq!(end.status, InstanceStatus::Completed);
        let got = node.hub.call(operation("@account@0", "get", "null")).await;
        assert_eq!(got.unwrap(), Ok(Some("4".into())));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_comes_back_into_a_task_hub_that_was_emptied() {
    let hall = Hall::new();
    let (node, _host) = hall.run(accounts()).await;
    let at = |ms| EntityOperation {
        scheduled: Some(hall.later(ms)),
        ..operation("@account@late", "add", "5")
    };
    node.hub.signal(at(60_000)).await.unwrap();
    node.hub.wipe().await.unwrap();
    // What is sent afterwards counts, even in the same moment.
    node.hub.signal(at(90_000)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(node.hub.entity("@account@late", true).await.unwrap(), None);
    tokio::time::sleep(Duration::from_secs(30)).await;
    while node.state("@account@late").await.as_deref() != Some("5") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Also before it waits for anything for the first time.
#[tokio::test(start_paused = true)]
async fn code_that_panics_at_once_holds_up_nobody() {
    let hall = Hall::new();
    let functions = Functions::new().entity("bomb", |_| panic!("at once"));
    let (node, _host) = hall.run(functions).await;
    for _ in 0..2 {
        let called = node.hub.call(operation("@bomb@a", "touch", "1"));
        let called = tokio::time::timeout(Duration::from_secs(10), called).await;
        let failure = called.expect("it is answered").unwrap().unwrap_err();
        assert!(failure.message.contains("at once"), "{failure}");
    }
}
