//! Entities and their locks, with workers in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::hall::{Hall, Node, entity, operation, with_accounts};
use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use steadfast_durable::native::{Context, CriticalSectionError, Functions};
use steadfast_durable::{
    EntityId, EntityListQuery, EntityOperation, EntityView, ErrorKind, FailureDetails,
    InstanceStatus, NewInstance, Task,
};

fn accounts() -> Functions {
    with_accounts(Functions::new())
}

/// Waits until an entity has a state.
async fn until(node: &Node, entity: &str, state: Option<&str>) {
    while node.state(entity).await.as_deref() != state {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn durable_42_49_a_signal_makes_an_entity_and_no_state_is_no_entity() {
    let hall = Hall::new();
    let (node, _host) = hall.run(accounts()).await;
    assert_eq!(node.hub.entity("@account@a", true).await.unwrap(), None);
    node.signal("@Account@a", "add", "5").await;
    until(&node, "@account@a", Some("5")).await;
    node.signal("@account@a", "delete", "null").await;
    until(&node, "@account@a", None).await;
    assert_eq!(node.hub.entity("@account@a", true).await.unwrap(), None);
    node.signal("@account@a", "add", "3").await;
    until(&node, "@account@a", Some("3")).await;
    // Keys are not folded.
    assert_eq!(node.hub.entity("@account@A", true).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn durable_43_44_ten_thousand_signals_run_once_each_and_in_order_per_sender() {
    let hall = Hall::new();
    let seen: Arc<Mutex<BTreeMap<u64, Vec<u64>>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let functions = Functions::new().entity("log", move |context| {
        let noted = Arc::clone(&noted);
        Box::pin(async move {
            let (sender, number): (u64, u64) = context.input()?;
            noted.lock().entry(sender).or_default().push(number);
            let count: u64 = context.state()?;
            context.set_state(&(count + 1))?;
            Ok(None)
        })
    });
    let (node, _host) = hall.run(functions).await;
    let senders = (0..10u64).map(|sender| {
        let hub = node.hub.clone();
        async move {
            for number in 0..1000u64 {
                let input = format!("[{sender},{number}]");
                hub.signal(operation("@log@x", "note", &input))
                    .await
                    .unwrap();
            }
        }
    });
    join_all(senders).await;
    until(&node, "@log@x", Some("10000")).await;
    for (sender, numbers) in seen.lock().iter() {
        let expected: Vec<u64> = (0..1000).collect();
        assert_eq!(*numbers, expected, "sender {sender}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_client_repeats_counts_once() {
    let hall = Hall::new();
    let (node, _host) = hall.run(accounts()).await;
    let request = EntityOperation {
        request: "3b241101-e2bb-4255-8caf-4136c566a962".into(),
        ..operation("@account@a", "add", "5")
    };
    for _ in 0..3 {
        let answer = node.hub.call(request.clone()).await.unwrap();
        assert_eq!(answer, Ok(Some("5".into())));
    }
    node.hub.signal(request.clone()).await.unwrap();
    assert_eq!(node.state("@account@a").await.as_deref(), Some("5"));
    // Ten minutes later its record is deleted.
    tokio::time::sleep(Duration::from_secs(601)).await;
    let answer = node.hub.call(request).await.unwrap();
    assert_eq!(answer, Ok(Some("10".into())));
}

#[tokio::test(start_paused = true)]
async fn durable_45_46_a_failing_operation_leaves_no_trace_and_its_caller_hears_of_it() {
    let hall = Hall::new();
    let functions = accounts().orchestration("try", |cx: Context, _: i64| async move {
        let account = entity("account", "a");
        cx.call::<_, i64>(&account, "add", &1).await?;
        let failure = cx.call::<_, i64>(&account, "fail", &0).await.unwrap_err();
        assert_eq!(
            (failure.kind.as_str(), failure.message.as_str()),
            ("Refused", "no")
        );
        cx.call::<_, i64>(&account, "add", &1).await
    });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("try", "t", "0").await;
    assert_eq!(end.output.as_deref(), Some("2"), "{:?}", end.failure);
    assert_eq!(node.state("@account@a").await.as_deref(), Some("2"));
    assert_eq!(node.hub.entity("@account@other", true).await.unwrap(), None);
    let panic = node
        .hub
        .call(operation("@account@a", "nonsense", "0"))
        .await
        .unwrap();
    assert_eq!(panic.unwrap_err().message, "what is nonsense?");
    assert_eq!(node.state("@account@a").await.as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn durable_47_entities_signal_entities_and_start_orchestrations() {
    let hall = Hall::new();
    let functions = accounts()
        .entity("clerk", |context| {
            Box::pin(async move {
                let account = EntityId::new("account", "a").unwrap();
                context.signal(&account, "add", &4)?;
                context.start("note", "the-note", &"hello")?;
                Ok(None)
            })
        })
        .orchestration("note", |_: Context, text: String| async move { Ok(text) });
    let (node, _host) = hall.run(functions).await;
    let answer = node
        .hub
        .call(operation("@clerk@1", "go", "null"))
        .await
        .unwrap();
    assert_eq!(answer, Ok(None));
    until(&node, "@account@a", Some("4")).await;
    let note = node.hub.ended("the-note", true).await.unwrap();
    assert_eq!(note.output.as_deref(), Some("\"hello\""));
    assert_eq!(note.parent.unwrap().instance, "@clerk@1");
}

#[tokio::test(start_paused = true)]
async fn durable_48_delayed_signals_wait_and_survive_restarts() {
    let hall = Hall::new();
    let (node, host) = hall.run(accounts()).await;
    let late = EntityOperation {
        scheduled: Some(hall.later(60_000)),
        ..operation("@account@a", "add", "5")
    };
    node.hub.signal(late).await.unwrap();
    drop((host, node));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (node, _host) = hall.run(accounts()).await;
    node.signal("@account@a", "add", "1").await;
    until(&node, "@account@a", Some("1")).await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(node.state("@account@a").await.as_deref(), Some("1"));
    until(&node, "@account@a", Some("6")).await;
}

#[tokio::test(start_paused = true)]
async fn durable_51_ids_that_are_too_long_or_no_entities_are_refused() {
    let hall = Hall::new();
    let node = hall.start().await;
    let long = format!("@account@{}", "k".repeat(100));
    for bad in [long.as_str(), "account", "@account", "@@k"] {
        let refused = node
            .hub
            .signal(operation(bad, "add", "1"))
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{bad}");
    }
    let nameless = node
        .hub
        .signal(operation("@account@a", "", "1"))
        .await
        .unwrap_err();
    assert_eq!(nameless.kind(), ErrorKind::Invalid);
    let large = "x".repeat(16 * 1024 * 1024 + 1);
    let large = node
        .hub
        .signal(operation("@account@a", "add", &large))
        .await
        .unwrap_err();
    assert_eq!(
        (large.kind(), large.code().0),
        (ErrorKind::TooLarge, "STF-5106")
    );
}

#[tokio::test(start_paused = true)]
async fn durable_52_queries_find_entities_by_prefix_and_time() {
    let hall = Hall::new();
    let functions = accounts().entity("counter", |context| {
        Box::pin(async move {
            context.set_state(&1)?;
            Ok(None)
        })
    });
    let (node, _host) = hall.run(functions).await;
    for key in ["a1", "a2", "b1"] {
        let added = node
            .hub
            .call(operation(&format!("@account@{key}"), "add", "1"));
        added.await.unwrap().unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let between = hall.now();
    node.hub
        .call(operation("@counter@c", "set", "1"))
        .await
        .unwrap()
        .unwrap();
    let names = async |query: EntityListQuery| -> Vec<String> {
        let page = node.hub.entities(&query).await.unwrap();
        page.items.into_iter().map(|found| found.entity).collect()
    };
    let with = |prefix: &str| EntityListQuery {
        prefix: prefix.into(),
        ..EntityListQuery::default()
    };
    let all = ["@account@a1", "@account@a2", "@account@b1", "@counter@c"];
    assert_eq!(names(with("")).await, all);
    assert_eq!(names(with("Account")).await, all[..3]);
    assert_eq!(names(with("@account@a")).await, all[..2]);
    let early = EntityListQuery {
        to: Some(between),
        ..EntityListQuery::default()
    };
    assert_eq!(names(early).await, all[..3]);
    let late = EntityListQuery {
        from: Some(between),
        ..EntityListQuery::default()
    };
    assert_eq!(names(late).await, all[3..]);
    let (mut pages, mut query) = (
        Vec::new(),
        EntityListQuery {
            limit: 1,
            ..with("")
        },
    );
    loop {
        let page = node.hub.entities(&query).await.unwrap();
        pages.extend(page.items.iter().map(|found| found.entity.clone()));
        assert!(page.items.iter().all(|found| found.state.is_none()));
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, all);
    let full = EntityListQuery {
        has_state: true,
        ..with("@counter")
    };
    let full = node.hub.entities(&full).await.unwrap();
    assert_eq!(full.items[0].state.as_deref(), Some("1"));
}

/// An orchestration that locks an account, says so, and waits for an event.
fn holder() -> Functions {
    accounts().orchestration("hold", |cx: Context, end: String| async move {
        let account = entity("account", "a");
        let section = cx.lock([&account]).await?;
        cx.call::<_, i64>(&account, "add", &100).await?;
        cx.set_status("inside")?;
        let said: i64 = cx.event("leave").await?;
        let balance: i64 = cx.call(&account, "get", &0).await?;
        match end.as_str() {
            "fail" => return Err(FailureDetails::new("Planned", "as planned")),
            "renew" if said == 0 => return cx.continue_as_new(&"end"),
            "end" if said == 1 => return Ok(balance),
            _ => {}
        }
        drop(section);
        Ok(balance)
    })
}

/// Waits until an instance says that it is inside.
async fn inside(node: &Node, id: &str) {
    loop {
        let found = node.hub.get(id, false).await.unwrap();
        if found.is_some_and(|found| found.custom_status.as_deref() == Some("\"inside\"")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The release is a message behind the end, with a commit of its own.
#[tokio::test(start_paused = true)]
async fn durable_54_58_no_lock_is_shown_of_an_orchestration_whose_end_was_seen() {
    let functions = accounts().orchestration("once", |cx: Context, key: String| async move {
        let account = entity("account", &key);
        let _section = cx.lock([&account]).await?;
        cx.call::<_, i64>(&account, "add", &1).await
    });
    let hall = Hall::slow();
    let (node, _host) = hall.run(functions).await;
    for key in 0..10 {
        let end = node.run("once", "", &format!("\"{key}\"")).await;
        assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
        let view = node.hub.entity(&format!("@account@{key}"), false).await;
        assert_eq!(view.unwrap().unwrap().locked_by, None, "{key}");
        let listed = node
            .hub
            .entities(&EntityListQuery::default())
            .await
            .unwrap();
        let is_free = |view: &EntityView| view.locked_by.is_none();
        assert!(listed.items.iter().all(is_free), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn durable_53_54_57_others_wait_until_the_lock_is_given_back() {
    let hall = Hall::new();
    let (node, host) = hall.run(holder()).await;
    node.begin("hold", "h", "\"well\"").await;
    inside(&node, "h").await;
    node.signal("@account@a", "add", "1").await;
    let view = node.hub.entity("@account@a", true).await.unwrap().unwrap();
    assert_eq!(view.locked_by.as_deref(), Some("h"));
    // Reads are not blocked, and show what is committed.
    assert_eq!((view.state.as_deref(), view.backlog), (Some("100"), 1));
    // The lock outlives the process.
    drop((host, node));
    let (node, _host) = hall.run(holder()).await;
    let hub = node.hub.clone();
    let call = tokio::spawn(async move { hub.call(operation("@account@a", "add", "10")).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!call.is_finished());
    assert_eq!(node.state("@account@a").await.as_deref(), Some("100"));
    let locks = node.hub.locks().await.unwrap();
    assert_eq!(locks.len(), 1);
    assert_eq!((locks[0].holder.as_str(), locks[0].waiting), ("h", 2));
    node.hub
        .raise("h", "leave", Some("0".into()))
        .await
        .unwrap();
    let end = node.hub.ended("h", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("100"), "the lock was broken");
    assert_eq!(call.await.unwrap().unwrap(), Ok(Some("111".into())));
    assert!(node.hub.locks().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn durable_56_duplicates_in_a_set_are_harmless() {
    let hall = Hall::new();
    let functions = accounts().orchestration("both", |cx: Context, _: i64| async move {
        let a = entity("account", "a");
        let section = cx.lock([&a, &a, &a]).await?;
        let balance: i64 = cx.call(&a, "add", &1).await?;
        drop(section);
        Ok(balance)
    });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("both", "b", "0").await;
    assert_eq!(end.output.as_deref(), Some("1"), "{:?}", end.failure);
    assert!(node.hub.locks().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn durable_58_every_kind_of_end_gives_the_locks_back() {
    for how in ["fail", "renew", "terminate", "replace", "erase"] {
        let hall = Hall::new();
        let (node, _host) = hall.run(holder()).await;
        let input = format!("\"{how}\"");
        node.begin("hold", "h", &input).await;
        inside(&node, "h").await;
        node.signal("@account@a", "add", "1").await;
        match how {
            "terminate" => drop(node.hub.terminate("h", None, false).await.unwrap()),
            "replace" => {
                let new = NewInstance {
                    instance: "h".into(),
                    task: Task {
                        name: "unknown-code".into(),
                        ..Task::default()
                    },
                    replaceable: Some(vec![InstanceStatus::Running, InstanceStatus::Terminated]),
                    ..NewInstance::default()
                };
                node.hub.start(new).await.unwrap();
            }
            "erase" => node.hub.wipe().await.unwrap(),
            _ => drop(
                node.hub
                    .raise("h", "leave", Some("0".into()))
                    .await
                    .unwrap(),
            ),
        }
        match how {
            "erase" => {
                while !node.hub.locks().await.unwrap().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            "renew" => {
                // The next execution takes the lock again, behind the signal.
                loop {
                    let view = node.hub.entity("@account@a", true).await.unwrap().unwrap();
                    if view.state.as_deref() == Some("201") {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                node.hub
                    .raise("h", "leave", Some("1".into()))
                    .await
                    .unwrap();
                assert_eq!(node.hub.ended("h", true).await.unwrap().failure, None);
                while !node.hub.locks().await.unwrap().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            _ => {
                until(&node, "@account@a", Some("101")).await;
                assert!(node.hub.locks().await.unwrap().is_empty(), "{how}");
            }
        }
        assert_eq!(node.hub.clean().await.unwrap(), (0, 0), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn durable_59_a_wish_that_was_taken_back_never_locks() {
    let hall = Hall::new();
    let functions = holder().orchestration("both", |cx: Context, _: i64| async move {
        let (a, b) = (entity("account", "a"), entity("account", "b"));
        let section = cx.lock([&a, &b]).await?;
        drop(section);
        Ok(())
    });
    let (node, _host) = hall.run(functions).await;
    node.begin("hold", "h", "\"well\"").await;
    inside(&node, "h").await;
    // These wait for the first lock; one is ended before it gets it.
    node.begin("both", "gone", "0").await;
    node.begin("both", "stays", "0").await;
    while node
        .hub
        .entity("@account@a", false)
        .await
        .unwrap()
        .unwrap()
        .backlog
        < 2
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    node.hub.terminate("gone", None, false).await.unwrap();
    node.hub
        .raise("h", "leave", Some("0".into()))
        .await
        .unwrap();
    assert_eq!(node.hub.ended("stays", true).await.unwrap().failure, None);
    while !node.hub.locks().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let answer = node
        .hub
        .call(operation("@account@b", "add", "1"))
        .await
        .unwrap();
    assert_eq!(answer, Ok(Some("1".into())));
    assert_eq!(
        node.hub
            .entity("@account@a", false)
            .await
            .unwrap()
            .unwrap()
            .backlog,
        0
    );
}

fn bank() -> Functions {
    accounts().orchestration(
        "transfer",
        |cx: Context, (from, to, amount): (String, String, i64)| async move {
            let (from, to) = (entity("account", &from), entity("account", &to));
            let section = cx.lock([&from, &to]).await?;
            let balance: i64 = cx.call(&from, "get", &0).await?;
            if balance < amount {
                return Ok(false);
            }
            let take = cx.call::<_, i64>(&from, "add", &-amount);
            let give = cx.call::<_, i64>(&to, "add", &amount);
            let (taken, given) = join(take, give).await;
            taken?;
            given?;
            drop(section);
            Ok(true)
        },
    )
}

#[tokio::test(start_paused = true)]
async fn durable_55_60_transfers_in_opposite_orders_conserve_money_across_restarts() {
    let hall = Hall::new();
    let (node, host) = hall.run(bank()).await;
    for key in 0..20 {
        let account = format!("@account@{key}");
        node.hub
            .call(operation(&account, "add", "100"))
            .await
            .unwrap()
            .unwrap();
    }
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..300 {
        let from = random.u32(0..20);
        let to = (from + random.u32(1..20)) % 20;
        let input = format!("[\"{from}\",\"{to}\",{}]", random.u32(1..60));
        node.begin("transfer", &format!("t{number}"), &input).await;
    }
    let mut life = Some((node, host));
    for _ in 0..3 {
        let (node, host) = life.take().unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
        drop((host, node));
        life = Some(hall.run(bank()).await);
    }
    let (node, _host) = life.unwrap();
    for number in 0..300 {
        let end = node.hub.ended(&format!("t{number}"), true).await.unwrap();
        assert_eq!(end.failure, None);
    }
    let mut sum = 0;
    for key in 0..20 {
        let state = node.state(&format!("@account@{key}")).await.unwrap();
        let balance: i64 = state.parse().unwrap();
        assert!(balance >= 0);
        sum += balance;
    }
    assert_eq!(sum, 2000);
    while !node.hub.locks().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn durable_61_each_rule_of_critical_sections_has_its_error() {
    let hall = Hall::new();
    let functions = accounts()
        .orchestration("child", |_: Context, _: i64| async move { Ok(()) })
        .orchestration("rules", |cx: Context, _: i64| async move {
            let (a, b) = (entity("account", "a"), entity("account", "b"));
            let empty = cx.lock([]).await.map(drop).unwrap_err();
            assert!(CriticalSectionError::EmptySet.is(&empty));
            let entering = Box::pin(cx.lock([&a]));
            let early = Box::pin(cx.call::<_, i64>(&a, "get", &0));
            let (section, early) = join(entering, early).await;
            let section = section?;
            assert!(CriticalSectionError::AcquirePending.is(&early.unwrap_err()));
            let nested = cx.lock([&b]).await.map(drop).unwrap_err();
            assert!(CriticalSectionError::Nested.is(&nested));
            let outside = cx.call::<_, i64>(&b, "get", &0).await.unwrap_err();
            assert!(CriticalSectionError::NotLocked.is(&outside));
            let signal = cx.signal(&a, "add", &1).unwrap_err();
            assert!(CriticalSectionError::SignalLocked.is(&signal));
            cx.signal(&b, "add", &1)?;
            let child = cx.child::<_, ()>("child", &0).await.unwrap_err();
            assert!(CriticalSectionError::SubOrchestration.is(&child));
            let (one, two) = join(
                cx.call::<_, i64>(&a, "add", &1),
                cx.call::<_, i64>(&a, "add", &1),
            )
            .await;
            assert_eq!(one?, 1);
            assert!(CriticalSectionError::CallPending.is(&two.unwrap_err()));
            // The section is usable all the same.
            let balance: i64 = cx.call(&a, "add", &1).await?;
            drop(section);
            cx.child::<_, ()>("child", &0).await?;
            Ok(balance)
        });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("rules", "r", "0").await;
    assert_eq!(end.output.as_deref(), Some("2"), "{:?}", end.failure);
}
