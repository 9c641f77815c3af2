//! Orchestrations from their start to their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::hall::{Hall, count, entity, task, with_accounts};
use futures_util::future::join_all;
use parking_lot::Mutex;
use steadfast_durable::native::{Context, FunctionHost, Functions, RetryOptions};
use steadfast_durable::{
    ErrorKind, EventKind, FailureDetails, InstanceListQuery, InstanceStatus, NewInstance,
    PurgeQuery,
};

fn twice() -> Functions {
    Functions::new().activity("double", |_, n: i64| async move { Ok(2 * n) })
}

#[tokio::test(start_paused = true)]
async fn durable_08_a_fan_out_of_1000_activities_joins() {
    let hall = Hall::new();
    let functions = twice().orchestration("fan", |cx: Context, n: i64| async move {
        let all = (0..n).map(|n| cx.activity::<_, i64>("double", &n));
        let done: Result<Vec<i64>, FailureDetails> = join_all(all).await.into_iter().collect();
        Ok(done?.iter().sum::<i64>())
    });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("fan", "f", "1000").await;
    assert_eq!(
        (end.status, end.output.as_deref()),
        (InstanceStatus::Completed, Some("999000"))
    );
    let events = node.history("f").await;
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskScheduled(_))),
        1000
    );
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskCompleted { .. })),
        1000
    );
}

#[tokio::test(start_paused = true)]
async fn durable_09_falsy_values_and_empty_texts_survive_every_hop() {
    let hall = Hall::new();
    let functions = Functions::new()
        .activity("same", |_, v: serde_json::Value| async move { Ok(v) })
        .orchestration("pass", |cx: Context, v: serde_json::Value| async move {
            let there: serde_json::Value = cx.activity("same", &v).await?;
            let back: serde_json::Value = cx.event("back").await?;
            assert_eq!(there, back);
            Ok(back)
        });
    let (node, _host) = hall.run(functions).await;
    for (number, value) in ["0", "false", "\"\"", "null", "[]", "{}"]
        .iter()
        .enumerate()
    {
        let id = format!("v{number}");
        node.begin("pass", &id, value).await;
        let raised = node.hub.raise(&id, "back", Some((*value).to_owned()));
        assert!(raised.await.unwrap());
        let end = node.hub.ended(&id, true).await.unwrap();
        assert_eq!(end.failure, None);
        assert_eq!(end.input.as_deref(), Some(*value));
        assert_eq!(end.output.as_deref(), Some(*value));
    }
    // No text at all and an empty text are two things.
    let new = NewInstance {
        instance: "none".into(),
        task: steadfast_durable::Task {
            name: "pass".into(),
            ..Default::default()
        },
        ..NewInstance::default()
    };
    node.hub.start(new).await.unwrap();
    assert_eq!(
        node.hub.get("none", true).await.unwrap().unwrap().input,
        None
    );
}

#[tokio::test(start_paused = true)]
async fn durable_10_a_start_is_seen_when_the_first_turn_is_committed() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("idle", "i", "1").await;
    let before = node.hub.get("i", false).await.unwrap().unwrap();
    assert_eq!(before.status, InstanceStatus::Pending);
    let hub = node.hub.clone();
    let waiting = tokio::spawn(async move { hub.started("i", false).await.unwrap().status });
    let mut worker = node.hub.worker(Default::default());
    let item = worker.next().await.unwrap();
    assert_eq!(
        node.hub.get("i", false).await.unwrap().unwrap().status,
        InstanceStatus::Pending
    );
    assert!(!waiting.is_finished());
    assert!(
        node.hub
            .complete_turn(&item.token, "i", Default::default())
            .await
            .unwrap()
    );
    assert_eq!(waiting.await.unwrap(), InstanceStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn durable_11_12_13_ids_are_taken_once_unless_a_policy_says_otherwise() {
    let hall = Hall::new();
    let functions = Functions::new().orchestration("wait", |cx: Context, _: i64| async move {
        cx.event::<i64>("go").await
    });
    let (node, _host) = hall.run(functions).await;
    let new = |replaceable| NewInstance {
        instance: "one".into(),
        task: task("wait", "1"),
        replaceable,
        ..NewInstance::default()
    };
    node.hub.start(new(None)).await.unwrap();
    node.hub.started("one", false).await.unwrap();
    let again = node.hub.start(new(None)).await.unwrap_err();
    assert_eq!(
        (again.kind(), again.code().0),
        (ErrorKind::Exists, "STF-5102")
    );
    // Only what is listed is replaced.
    let finished = Some(vec![InstanceStatus::Completed, InstanceStatus::Terminated]);
    let refused = node.hub.start(new(finished.clone())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exists);
    node.hub.raise("one", "go", Some("5".into())).await.unwrap();
    let first = node.hub.ended("one", true).await.unwrap();
    node.hub.start(new(finished)).await.unwrap();
    let second = node.hub.started("one", false).await.unwrap();
    assert_ne!(first.execution, second.execution);
    // A live one is replaced only by a policy that says what becomes of it.
    let wrong = Some(vec![InstanceStatus::Running]);
    let wrong = node.hub.start(new(wrong)).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    assert!(
        wrong
            .message()
            .starts_with("Invalid reusable statuses: cannot exclude 'Terminated'")
    );
    // Nothing is there that such a policy would replace: it is no mistake.
    let fresh = NewInstance {
        instance: "two".into(),
        ..new(Some(vec![
            InstanceStatus::Running,
            InstanceStatus::Completed,
        ]))
    };
    node.hub.start(fresh).await.unwrap();
    let live = Some(vec![InstanceStatus::Running, InstanceStatus::Terminated]);
    node.hub.start(new(live)).await.unwrap();
    let third = node.hub.started("one", false).await.unwrap();
    assert_ne!(third.execution, second.execution);
    // The same request again is no second start.
    let same = NewInstance {
        execution: Some(third.execution.clone()),
        ..new(None)
    };
    node.hub.start(same).await.unwrap();
    assert_eq!(
        node.hub.get("one", false).await.unwrap().unwrap().execution,
        third.execution
    );
}

#[tokio::test(start_paused = true)]
async fn durable_14_15_delayed_starts_and_timers_keep_their_time_across_restarts() {
    let hall = Hall::new();
    let functions = || {
        Functions::new().orchestration("nap", |cx: Context, _: i64| async move {
            let began = cx.now();
            cx.sleep(Duration::from_millis(90_500)).await;
            Ok((began.seconds, cx.now().seconds))
        })
    };
    let (node, host) = hall.run(functions()).await;
    let begin = hall.now();
    let new = NewInstance {
        instance: "n".into(),
        task: task("nap", "0"),
        scheduled: Some(hall.later(30_000)),
        ..NewInstance::default()
    };
    node.hub.start(new).await.unwrap();
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(
        node.hub.get("n", false).await.unwrap().unwrap().status,
        InstanceStatus::Pending
    );
    drop((host, node));
    let (node, host) = hall.run(functions()).await;
    node.hub.started("n", false).await.unwrap();
    drop((host, node));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (node, _host) = hall.run(functions()).await;
    let end = node.hub.ended("n", true).await.unwrap();
    let waited = end.completed.unwrap().due().0 - begin.due().0;
    assert!((120_500..120_700).contains(&waited), "{waited} ms");
}

#[tokio::test(start_paused = true)]
async fn durable_16_events_before_the_wait_are_kept_in_order() {
    let hall = Hall::new();
    let functions = Functions::new().orchestration("three", |cx: Context, _: i64| async move {
        cx.sleep(Duration::from_secs(5)).await;
        let mut got = Vec::new();
        for _ in 0..3 {
            got.push(cx.event::<i64>("Number").await?);
        }
        Ok(got)
    });
    let (node, _host) = hall.run(functions).await;
    node.begin("three", "t", "0").await;
    for n in ["1", "2", "3"] {
        node.hub.raise("t", "number", Some(n.into())).await.unwrap();
    }
    let end = node.hub.ended("t", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("[1,2,3]"));
    // An event for a finished instance is dropped; one for an unknown id is an error.
    assert!(!node.hub.raise("t", "number", None).await.unwrap());
    let missing = node.hub.raise("x", "number", None).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoInstance);
}

#[tokio::test(start_paused = true)]
async fn durable_17_41_continue_as_new_loses_and_doubles_no_event() {
    let hall = Hall::new();
    let functions =
        Functions::new().orchestration("sum", |cx: Context, so_far: Vec<i64>| async move {
            let mut so_far = so_far;
            for _ in 0..7 {
                so_far.push(cx.event("n").await?);
                if so_far.len() == 1000 {
                    return Ok(so_far.len());
                }
            }
            cx.continue_as_new(&so_far)
        });
    let (node, _host) = hall.run(functions).await;
    node.begin("sum", "s", "[]").await;
    for n in 0..1000 {
        node.hub.raise("s", "n", Some(n.to_string())).await.unwrap();
    }
    let end = node.hub.ended("s", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("1000"), "{:?}", end.failure);
    let numbers: Vec<i64> = serde_json::from_str(end.input.as_deref().unwrap()).unwrap();
    assert!(
        numbers
            .iter()
            .enumerate()
            .all(|(place, n)| place as i64 == *n)
    );
    let events = node.history("s").await;
    let times: Vec<_> = events
        .iter()
        .filter(|event| event.what == EventKind::TurnStarted)
        .map(|event| event.at)
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
}

#[tokio::test(start_paused = true)]
async fn durable_18_a_late_result_of_an_old_execution_never_reaches_the_new_one() {
    let hall = Hall::new();
    let (node, _) = (hall.start().await, ());
    node.begin("o", "o", "1").await;
    let mut worker = node.hub.worker(Default::default());
    let action = |id, deed| steadfast_durable::TurnAction { id, kind: deed };
    let turn = |actions| steadfast_durable::TurnResult {
        actions,
        ..Default::default()
    };
    use steadfast_durable::ActionKind;
    let first = worker.next().await.unwrap();
    let scheduled = turn(vec![action(1, ActionKind::Schedule(task("a", "1")))]);
    node.hub
        .complete_turn(&first.token, "o", scheduled)
        .await
        .unwrap();
    let activity = worker.next().await.unwrap();
    node.hub.raise("o", "e", None).await.unwrap();
    let second = worker.next().await.unwrap();
    let renew = ActionKind::ContinueAsNew {
        input: Some("2".into()),
        version: None,
        carry: Vec::new(),
        tags: None,
    };
    node.hub
        .complete_turn(&second.token, "o", turn(vec![action(-1, renew)]))
        .await
        .unwrap();
    let third = worker.next().await.unwrap();
    let again = turn(vec![action(1, ActionKind::Schedule(task("a", "2")))]);
    node.hub
        .complete_turn(&third.token, "o", again)
        .await
        .unwrap();
    let newer = worker.next().await.unwrap();
    // Both activities have the same action id; only the newer one is wanted.
    let late = node
        .hub
        .complete_activity(&activity.token, "o", 1, Ok(Some("old".into())));
    assert!(!late.await.unwrap());
    let good = node
        .hub
        .complete_activity(&newer.token, "o", 1, Ok(Some("new".into())));
    assert!(good.await.unwrap());
    let item = worker.next().await.unwrap();
    let steadfast_durable::WorkPayload::Turn(work) = item.work else {
        panic!("a turn was expected");
    };
    let results: Vec<_> = work
        .new
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::TaskCompleted { result, .. } => result.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["new"]);
}

fn family() -> Functions {
    Functions::new()
        .orchestration("child", |cx: Context, how: String| async move {
            match how.as_str() {
                "well" => Ok(format!("well from {}", cx.parent().unwrap_or_default())),
                "badly" => Err(FailureDetails::new("Bad", "the child failed")),
                _ => cx.event::<String>("never").await,
            }
        })
        .orchestration("parent", |cx: Context, how: String| async move {
            cx.child::<_, String>("child", &how).await
        })
}

#[tokio::test(start_paused = true)]
async fn durable_19_33_results_failures_and_ends_of_children_reach_their_parent() {
    let hall = Hall::new();
    let (node, _host) = hall.run(family()).await;
    let well = node.run("parent", "p1", "\"well\"").await;
    assert_eq!(well.output.as_deref(), Some("\"well from p1\""));
    assert_eq!(well.parent, None);
    let badly = node.run("parent", "p2", "\"badly\"").await;
    let failure = badly.failure.unwrap();
    assert_eq!(
        (failure.kind.as_str(), failure.message.as_str()),
        ("Bad", "the child failed")
    );
    node.begin("parent", "p3", "\"wait\"").await;
    let child = node.hub.started("p3:0001", false).await.unwrap();
    assert_eq!(child.parent.unwrap().instance, "p3");
    node.hub
        .terminate("p3:0001", Some("enough".into()), false)
        .await
        .unwrap();
    let ended = node.hub.ended("p3", true).await.unwrap();
    let failure = ended.failure.unwrap();
    assert_eq!(failure.kind, "OrchestrationTerminated");
    assert_eq!(failure.message, "enough");
}

#[tokio::test(start_paused = true)]
async fn durable_20_21_ids_of_children_do_not_collide_and_may_be_used_again() {
    let hall = Hall::new();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let functions = Functions::new()
        .orchestration("slow", |cx: Context, _: i64| async move {
            cx.event::<i64>("go").await
        })
        .orchestration("round", |cx: Context, round: i64| async move {
            let child = cx.child::<_, i64>("slow", &round);
            let pause = cx.sleep(Duration::from_secs(1));
            futures_util::future::select(Box::pin(child), Box::pin(pause)).await;
            if round < 3 {
                return cx.continue_as_new(&(round + 1));
            }
            Ok(round)
        })
        .orchestration("flaky", move |_: Context, _: i64| {
            let counted = Arc::clone(&counted);
            async move {
                match counted.fetch_add(1, Ordering::SeqCst) {
                    2 => Ok("third".to_owned()),
                    _ => Err(FailureDetails::new("Flaky", "again")),
                }
            }
        })
        .orchestration("again", |cx: Context, _: i64| async move {
            let retry = RetryOptions::fixed(3, Duration::from_secs(1));
            cx.child::<_, String>("flaky", &0)
                .id("the-child")
                .retry(retry)
                .await
        });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("round", "r", "1").await;
    assert_eq!(end.output.as_deref(), Some("3"), "{:?}", end.failure);
    let children = InstanceListQuery {
        prefix: "r:".into(),
        ..InstanceListQuery::default()
    };
    let children = node.hub.query(&children).await.unwrap().items;
    assert_eq!(children.len(), 3);
    assert!(
        children
            .iter()
            .all(|child| child.status == InstanceStatus::Running)
    );
    let end = node.run("again", "a", "1").await;
    assert_eq!(
        end.output.as_deref(),
        Some("\"third\""),
        "{:?}",
        end.failure
    );
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn durable_22_an_action_id_may_be_used_again_three_times_in_a_row() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("o", "o", "1").await;
    let mut worker = node.hub.worker(Default::default());
    for round in 0..3 {
        let turn = worker.next().await.unwrap();
        let kind = steadfast_durable::ActionKind::Schedule(task("a", &round.to_string()));
        let result = steadfast_durable::TurnResult {
            actions: vec![steadfast_durable::TurnAction { id: 1, kind }],
            ..Default::default()
        };
        node.hub
            .complete_turn(&turn.token, "o", result)
            .await
            .unwrap();
        let activity = worker.next().await.unwrap();
        let failure = Err(FailureDetails::new("Flaky", "again"));
        assert!(
            node.hub
                .complete_activity(&activity.token, "o", 1, failure)
                .await
                .unwrap()
        );
    }
    let last = worker.next().await.unwrap();
    node.hub
        .complete_turn(&last.token, "o", Default::default())
        .await
        .unwrap();
    let events = node.history("o").await;
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskScheduled(_))),
        3
    );
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskFailed { .. })),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn durable_23_24_terminate_needs_no_worker_and_reaches_whom_it_should() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("unknown-code", "t", "1").await;
    assert!(
        node.hub
            .terminate("t", Some("\"over\"".into()), false)
            .await
            .unwrap()
    );
    let end = node.hub.ended("t", true).await.unwrap();
    assert_eq!(
        (end.status, end.output.as_deref()),
        (InstanceStatus::Terminated, Some("\"over\""))
    );
    assert!(!node.hub.terminate("t", None, false).await.unwrap());
    assert!(!node.hub.terminate("unknown", None, false).await.unwrap());
    drop(node);
    let functions = Functions::new()
        .orchestration("leaf", |cx: Context, _: i64| async move {
            cx.event::<i64>("never").await
        })
        .orchestration("mid", |cx: Context, n: i64| async move {
            cx.child::<_, i64>("leaf", &n).id(format!("leaf{n}")).await
        })
        .orchestration("top", |cx: Context, n: i64| async move {
            cx.child::<_, i64>("mid", &n).id(format!("mid{n}")).await
        });
    let (node, _host) = hall.run(functions).await;
    for n in ["1", "2"] {
        node.begin("top", &format!("top{n}"), n).await;
        node.hub.started(&format!("leaf{n}"), false).await.unwrap();
    }
    node.hub.terminate("top1", None, true).await.unwrap();
    for id in ["top1", "mid1", "leaf1"] {
        assert_eq!(
            node.hub.ended(id, false).await.unwrap().status,
            InstanceStatus::Terminated
        );
    }
    node.hub.terminate("top2", None, false).await.unwrap();
    node.hub.ended("top2", false).await.unwrap();
    let leaf = node.hub.get("leaf2", false).await.unwrap().unwrap();
    assert_eq!(leaf.status, InstanceStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn durable_25_a_suspended_instance_runs_nothing_and_misses_nothing() {
    let hall = Hall::new();
    let functions = Functions::new().orchestration("two", |cx: Context, _: i64| async move {
        let first: i64 = cx.event("n").await?;
        let second: i64 = cx.event("n").await?;
        Ok((first, second))
    });
    let (node, _host) = hall.run(functions).await;
    node.begin("two", "s", "0").await;
    node.hub.started("s", false).await.unwrap();
    assert!(node.hub.suspend("s", Some("lunch".into())).await.unwrap());
    assert!(!node.hub.suspend("s", None).await.unwrap());
    for n in ["1", "2"] {
        node.hub.raise("s", "n", Some(n.into())).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let resting = node.hub.get("s", false).await.unwrap().unwrap();
    assert_eq!(resting.status, InstanceStatus::Suspended);
    assert!(node.hub.resume("s", None).await.unwrap());
    let end = node.hub.ended("s", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("[1,2]"));
    let missing = node.hub.suspend("unknown", None).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoInstance);
}

#[tokio::test(start_paused = true)]
async fn durable_26_custom_status_is_what_the_last_turn_said() {
    let hall = Hall::new();
    let functions = Functions::new().orchestration("show", |cx: Context, _: i64| async move {
        for step in ["one", ""] {
            cx.set_status(step)?;
            cx.event::<i64>("next").await?;
        }
        Ok(())
    });
    let (node, _host) = hall.run(functions).await;
    node.begin("show", "s", "0").await;
    let shown = node.hub.started("s", false).await.unwrap();
    assert_eq!(shown.custom_status.as_deref(), Some("\"one\""));
    node.hub.raise("s", "next", Some("1".into())).await.unwrap();
    node.hub.raise("s", "next", Some("1".into())).await.unwrap();
    let end = node.hub.ended("s", false).await.unwrap();
    assert_eq!(end.custom_status.as_deref(), Some("\"\""));
}

#[tokio::test(start_paused = true)]
async fn durable_27_28_rewind_runs_only_what_failed_again() {
    let hall = Hall::new();
    let (good, bad) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counted, failing) = (Arc::clone(&good), Arc::clone(&bad));
    let functions = Functions::new()
        .activity("good", move |_, _: i64| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok(1) }
        })
        .activity("bad", move |_, _: i64| {
            let tries = failing.fetch_add(1, Ordering::SeqCst);
            async move {
                match tries {
                    0 | 1 => Err(FailureDetails::new("Bad", "not yet")),
                    _ => Ok(2),
                }
            }
        })
        .orchestration("inner", |cx: Context, _: i64| async move {
            let one: i64 = cx.activity("good", &0).await?;
            let two: i64 = cx.activity("bad", &0).await?;
            Ok(one + two)
        })
        .orchestration("outer", |cx: Context, _: i64| async move {
            let one: i64 = cx.activity("good", &0).await?;
            let rest: i64 = cx.child("inner", &0).id("inner").await?;
            Ok(one + rest)
        });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("outer", "o", "0").await;
    assert_eq!(end.status, InstanceStatus::Failed);
    node.hub.rewind("o", Some("try".into())).await.unwrap();
    let end = node.hub.ended("o", true).await.unwrap();
    assert_eq!(
        end.status,
        InstanceStatus::Failed,
        "the second attempt fails too"
    );
    // The child may have been purged: then it starts again.
    assert_eq!(node.hub.purge("inner", false).await.unwrap(), 1);
    node.hub.rewind("o", None).await.unwrap();
    let end = node.hub.ended("o", true).await.unwrap();
    assert_eq!(
        (end.status, end.output.as_deref()),
        (InstanceStatus::Completed, Some("4"))
    );
    assert_eq!(
        good.load(Ordering::SeqCst),
        3,
        "once outside, twice in the child"
    );
    assert_eq!(bad.load(Ordering::SeqCst), 3);
    let not_failed = node.hub.rewind("o", None).await.unwrap_err();
    assert_eq!(
        (not_failed.kind(), not_failed.code().0),
        (ErrorKind::State, "STF-5104")
    );
    let missing = node.hub.rewind("unknown", None).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoInstance);
}

/// Old code finishes what it began, new code begins what is new; and code that is both
/// asks for the version.
#[tokio::test(start_paused = true)]
async fn versions_of_code_run_beside_each_other() {
    let hall = Hall::new();
    let node = hall.start().await;
    let code = |what: &'static str| {
        Functions::new().orchestration("f", move |cx: Context, _: i64| async move {
            cx.event::<()>("go").await?;
            Ok(format!("{what} ran {:?}", cx.version()))
        })
    };
    let start = async |instance: &str, version: Option<&str>| {
        let new = NewInstance {
            instance: instance.into(),
            task: steadfast_durable::Task {
                version: version.map(Into::into),
                ..task("f", "0")
            },
            ..NewInstance::default()
        };
        node.hub.start(new).await.unwrap();
    };
    start("plain", None).await;
    start("one", Some("1")).await;
    start("two", Some("2")).await;
    let _old = FunctionHost::start(node.hub.clone(), code("old").versions(["", "1"]));
    let _new = FunctionHost::start(node.hub.clone(), code("new").versions(["2"]));
    for (instance, expected) in [
        ("plain", "\"old ran None\""),
        ("one", "\"old ran Some(\\\"1\\\")\""),
        ("two", "\"new ran Some(\\\"2\\\")\""),
    ] {
        node.hub.raise(instance, "go", None).await.unwrap();
        let end = node.hub.ended(instance, true).await.unwrap();
        assert_eq!(end.output.as_deref(), Some(expected));
    }
}

/// What an entity answered before the failure is not asked for again.
#[tokio::test(start_paused = true)]
async fn a_rewind_keeps_answers_of_entities_and_ids() {
    let hall = Hall::new();
    let (tries, ids) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (failing, seen) = (Arc::clone(&tries), Arc::clone(&ids));
    let functions = with_accounts(Functions::new())
        .activity("second_time", move |_, id: String| {
            seen.lock().push(id);
            let number = failing.fetch_add(1, Ordering::SeqCst);
            async move {
                match number {
                    0 => Err(FailureDetails::new("Bad", "not yet")),
                    _ => Ok(()),
                }
            }
        })
        .orchestration("f", |cx: Context, _: i64| async move {
            let balance: i64 = cx.call(&entity("account", "a"), "add", &5).await?;
            cx.activity::<_, ()>("second_time", &cx.guid()).await?;
            Ok(balance)
        });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("f", "i", "0").await;
    assert_eq!(end.status, InstanceStatus::Failed);
    node.hub.rewind("i", None).await.unwrap();
    let end = node.hub.ended("i", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("5"), "{:?}", end.failure);
    assert_eq!(node.state("@account@a").await.as_deref(), Some("5"));
    let ids = ids.lock();
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]));
}

#[tokio::test(start_paused = true)]
async fn durable_29_restart_keeps_the_input_under_the_same_id_or_another() {
    let hall = Hall::new();
    let functions = Functions::new()
        .orchestration("echo", |_: Context, text: String| async move { Ok(text) })
        .orchestration("wait", |cx: Context, _: i64| async move {
            cx.event::<i64>("go").await
        });
    let (node, _host) = hall.run(functions).await;
    let first = node.run("echo", "e", "\"hello\"").await;
    assert_eq!(node.hub.restart("e", false).await.unwrap(), "e");
    let second = node.hub.ended("e", true).await.unwrap();
    assert_eq!(second.output, first.output);
    assert_ne!(second.execution, first.execution);
    let other = node.hub.restart("e", true).await.unwrap();
    assert_ne!(other, "e");
    let third = node.hub.ended(&other, true).await.unwrap();
    assert_eq!(third.output, first.output);
    node.begin("wait", "w", "0").await;
    let live = node.hub.restart("w", false).await.unwrap_err();
    assert_eq!(live.kind(), ErrorKind::State);
    node.hub.restart("w", true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn durable_30_purge_forgets_finished_instances_and_no_others() {
    let hall = Hall::new();
    let (node, _host) = hall.run(family()).await;
    node.run("parent", "p", "\"well\"").await;
    node.begin("parent", "live", "\"wait\"").await;
    node.hub.started("live:0001", false).await.unwrap();
    assert_eq!(node.hub.purge("live", true).await.unwrap(), 0);
    assert_eq!(node.hub.purge("unknown", true).await.unwrap(), 0);
    assert_eq!(node.hub.purge("p", true).await.unwrap(), 2);
    for id in ["p", "p:0001"] {
        assert_eq!(node.hub.get(id, false).await.unwrap(), None);
    }
    for number in 0..5 {
        node.run("child", &format!("c{number}"), "\"well\"").await;
    }
    node.run("child", "failed", "\"badly\"").await;
    let only_failed = PurgeQuery {
        statuses: vec![InstanceStatus::Failed],
        ..PurgeQuery::default()
    };
    let purged = node.hub.purge_all(&only_failed, None, false).await.unwrap();
    assert_eq!((purged.count, purged.is_complete), (1, true));
    let all = PurgeQuery::default();
    let hurried = node.hub.purge_all(&all, Some(Duration::ZERO), false);
    let hurried = hurried.await.unwrap();
    assert_eq!((hurried.count, hurried.is_complete), (0, false));
    let rest = node
        .hub
        .purge_all(&PurgeQuery::default(), None, false)
        .await
        .unwrap();
    assert_eq!((rest.count, rest.is_complete), (5, true));
    let left = node.hub.query(&InstanceListQuery::default()).await.unwrap();
    let left: Vec<_> = left
        .items
        .iter()
        .map(|found| found.instance.as_str())
        .collect();
    assert_eq!(left, ["live", "live:0001"]);
}

#[tokio::test(start_paused = true)]
async fn durable_31_pages_show_each_instance_once_while_others_start() {
    let hall = Hall::new();
    let node = hall.start().await;
    for number in 0..1000 {
        node.begin("o", &format!("i{number:04}"), "0").await;
        if number % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut query = InstanceListQuery {
        prefix: "i".into(),
        limit: 64,
        ..InstanceListQuery::default()
    };
    let (mut seen, mut extra) = (Vec::new(), 0);
    loop {
        let page = node.hub.query(&query).await.unwrap();
        assert!(page.items.len() <= 64);
        seen.extend(page.items.into_iter().map(|found| found.instance));
        node.begin("o", &format!("x{extra}"), "0").await;
        extra += 1;
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((seen.len(), sorted.len()), (1000, 1000));
    let wrong = InstanceListQuery {
        cursor: Some("zz".into()),
        ..InstanceListQuery::default()
    };
    let wrong = node.hub.query(&wrong).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn durable_32_a_history_is_in_order_and_ends_with_its_end() {
    let hall = Hall::new();
    let functions = twice().orchestration("steps", |cx: Context, n: i64| async move {
        let n: i64 = cx.activity("double", &n).await?;
        cx.sleep(Duration::from_secs(1)).await;
        cx.activity::<_, i64>("double", &n).await
    });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("steps", "s", "3").await;
    assert_eq!(end.output.as_deref(), Some("12"));
    let events = node.history("s").await;
    let ids: Vec<_> = events
        .iter()
        .map(|event| event.id)
        .filter(|id| *id >= 0)
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    assert!(matches!(events[0].what, EventKind::TurnStarted));
    assert!(matches!(events[1].what, EventKind::Started(_)));
    assert!(matches!(
        events.last().unwrap().what,
        EventKind::Completed { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn finished_instances_are_forgotten_in_time() {
    let mut hall = Hall::new();
    hall.kept
        .insert("default".into(), Duration::from_secs(3600));
    let (node, _host) = hall.run(family()).await;
    node.run("child", "c", "\"well\"").await;
    tokio::time::sleep(Duration::from_secs(3500)).await;
    assert!(node.hub.get("c", false).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(101)).await;
    assert_eq!(node.hub.get("c", false).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn changed_code_suspends_the_instance_and_old_code_rescues_it() {
    let hall = Hall::new();
    let code = |name: &'static str| {
        twice().orchestration("o", move |cx: Context, n: i64| async move {
            let n: i64 = cx.activity(name, &n).await?;
            cx.event::<i64>("go").await?;
            Ok(n)
        })
    };
    let (node, host) = hall.run(code("double")).await;
    node.begin("o", "o", "4").await;
    node.hub.started("o", false).await.unwrap();
    while count(&node.history("o").await, |w| {
        matches!(w, EventKind::TaskCompleted { .. })
    }) == 0
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop((host, node));
    let (node, host) = hall.run(code("triple")).await;
    node.hub.raise("o", "go", Some("1".into())).await.unwrap();
    while node.hub.get("o", false).await.unwrap().unwrap().status != InstanceStatus::Suspended {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop((host, node));
    let (node, _host) = hall.run(code("double")).await;
    node.hub.resume("o", None).await.unwrap();
    let end = node.hub.ended("o", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("8"), "{:?}", end.failure);
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_awaits_something_foreign_or_panics_fails() {
    let hall = Hall::new();
    let functions = Functions::new()
        .orchestration("foreign", |_: Context, _: i64| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        })
        .orchestration("panic", |_: Context, n: i64| async move {
            assert!(n > 0, "n is not positive");
            Ok(())
        });
    let (node, _host) = hall.run(functions).await;
    let end = node.run("foreign", "f", "0").await;
    assert_eq!(end.failure.unwrap().kind, "ForeignAwait");
    let end = node.run("panic", "p", "0").await;
    let failure = end.failure.unwrap();
    assert_eq!(
        (failure.kind.as_str(), failure.message.as_str()),
        ("Panic", "n is not positive")
    );
}
