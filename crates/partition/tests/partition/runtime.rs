//! What a partition does with what comes to it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use steadfast_core::clock::{Clock, SystemClock, Timestamp};
use steadfast_core::limits::MAILBOX;
use steadfast_partition::ErrorKind;
use steadfast_storage::Engine;
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;

use crate::counting::{self, Ask, COUNTER, Counter, Say, Setup, counter};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_command_is_answered_when_it_is_durable() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    assert_eq!(
        handle.call(counter("a"), Ask::Add(2)).await.unwrap(),
        Say::Now(2)
    );
    assert_eq!(
        handle.call(counter("a"), Ask::Add(3)).await.unwrap(),
        Say::Now(5)
    );
    let partition = node.runtime.space().partition(&counter("a"));
    let door = node.runtime.router().mailbox(partition).unwrap();
    let key = counter("a").key;
    let stored = door.ledger().get(
        counting::COUNTS,
        &key,
        steadfast_storage::Visibility::Durable,
    );
    assert_eq!(stored.await.unwrap().unwrap()[..], 5u64.to_be_bytes());
}

#[tokio::test]
async fn a_refusal_changes_nothing_and_carries_the_services_code() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    handle.call(counter("a"), Ask::Add(2)).await.unwrap();
    let error = handle
        .call(counter("a"), Ask::AddAndRefuse(5))
        .await
        .unwrap_err();
    assert_eq!(error.code().0, "STF-9999");
    assert_eq!(
        handle.call(counter("a"), Ask::Get).await.unwrap(),
        Say::Now(2)
    );
}

#[tokio::test]
async fn cold_rows_are_loaded_and_the_command_runs_again() {
    let engine = Setup::new();
    let node = engine.start().await;
    let handle = node.runtime.handle::<Counter>();
    for name in ["a", "b", "c"] {
        handle.call(counter(name), Ask::Add(7)).await.unwrap();
    }
    node.runtime.drain(Vec::new(), SECOND).await;
    drop(node);
    let node = engine.start().await;
    let handle = node.runtime.handle::<Counter>();
    // Both come before the row is there; they keep their order.
    let (first, second) = tokio::join!(
        handle.call(counter("a"), Ask::Add(1)),
        handle.call(counter("a"), Ask::Add(1)),
    );
    assert_eq!(
        (first.unwrap(), second.unwrap()),
        (Say::Now(8), Say::Now(9))
    );
    let partition = node.runtime.space().partition(&counter("a"));
    let counts = node
        .runtime
        .router()
        .mailbox(partition)
        .unwrap()
        .metrics()
        .counts();
    assert!(counts.missed >= 1, "{counts:?}");
}

#[tokio::test]
async fn messages_arrive_once_and_in_order() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    for _ in 0..50 {
        let targets = (0..20).map(|n| format!("t{n}")).collect();
        handle
            .call(counter("source"), Ask::Tell(targets))
            .await
            .unwrap();
    }
    for n in 0..20 {
        let to = counter(&format!("t{n}"));
        let told = handle.call(to, Ask::Until(50)).await.unwrap();
        // Each message carries the count of its source: 1, 2, 3 ...
        assert_eq!(told, Say::Told((1..=50).collect()));
    }
}

#[tokio::test]
async fn timers_fire_once_and_not_early() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    let due = Timestamp(SystemClock::new().now().0 + 1000);
    handle
        .call(counter("a"), Ask::Schedule(due, 1))
        .await
        .unwrap();
    handle
        .call(counter("a"), Ask::Schedule(due, 2))
        .await
        .unwrap();
    handle
        .call(counter("a"), Ask::Cancel(due, 2))
        .await
        .unwrap();
    let Say::Told(fired) = handle.call(counter("a"), Ask::Until(1)).await.unwrap() else {
        panic!("no list");
    };
    assert_eq!(fired, [1]);
    assert!(SystemClock::new().now() >= due);
}

#[tokio::test]
async fn timers_survive_a_change_of_owner() {
    let engine = Setup::new();
    let node = engine.start().await;
    let due = Timestamp(SystemClock::new().now().0 + 100);
    let handle = node.runtime.handle::<Counter>();
    handle
        .call(counter("a"), Ask::Schedule(due, 9))
        .await
        .unwrap();
    let sheet = node.runtime.drain(Vec::new(), SECOND).await;
    assert_eq!(
        (sheet.moved, sheet.cut_off),
        (u64::from(counting::PARTITIONS), 0)
    );
    drop(node);
    let node = engine.start().await;
    let handle = node.runtime.handle::<Counter>();
    let fired = handle.call(counter("a"), Ask::Until(1)).await.unwrap();
    assert_eq!(fired, Say::Told(vec![9]));
}

#[tokio::test]
async fn work_is_performed_after_the_commit_and_again_after_a_load() {
    let engine = Setup::new();
    let mut node = engine.start().await;
    let handle = node.runtime.handle::<Counter>();
    handle
        .call(counter("a"), Ask::Open("job".into()))
        .await
        .unwrap();
    let effect = node.effects.recv().await.unwrap();
    assert_eq!(effect.work.as_deref(), Some(b"job".as_slice()));
    // The node goes away without having finished the work.
    drop(node);
    let mut node = engine.start().await;
    let again = node.effects.recv().await.unwrap();
    assert_eq!((again.work, again.from), (effect.work, counter("a")));
    let handle = node.runtime.handle::<Counter>();
    handle
        .call(counter("a"), Ask::Close("job".into()))
        .await
        .unwrap();
    drop(node);
    let mut node = engine.start().await;
    let handle = node.runtime.handle::<Counter>();
    handle.call(counter("a"), Ask::Get).await.unwrap();
    assert!(
        node.effects.try_recv().is_err(),
        "ended work is not performed again"
    );
}

#[tokio::test]
async fn a_refused_message_is_put_aside_and_the_next_one_is_handled() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    handle
        .call(counter("s"), Ask::TellNonsense("t1".into()))
        .await
        .unwrap();
    handle
        .call(counter("s"), Ask::Tell(vec!["t1".into()]))
        .await
        .unwrap();
    let told = handle.call(counter("t1"), Ask::Until(1)).await.unwrap();
    assert_eq!(told, Say::Told(vec![1]));
    let partition = node.runtime.space().partition(&counter("t1"));
    let counts = node
        .runtime
        .router()
        .mailbox(partition)
        .unwrap()
        .metrics()
        .counts();
    assert_eq!(counts.poisoned, 1);
}

#[tokio::test]
async fn a_transaction_and_its_commands_share_one_commit() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    let partition = node.runtime.space().partition(&counter("a"));
    let door = node.runtime.router().mailbox(partition).unwrap();
    let table = steadfast_core::id::TableId(70_000);
    let mut writes = steadfast_storage::Writes::new();
    writes.put(table, b"k", b"v");
    let add = counting::envelope("a", &Ask::Add(4));
    door.commit(writes.clone(), vec![add.clone()], Vec::new())
        .await
        .unwrap();
    assert_eq!(
        handle.call(counter("a"), Ask::Get).await.unwrap(),
        Say::Now(4)
    );
    // One command says no: nothing of it happens.
    writes.put(table, b"other", b"v");
    let no = counting::envelope("a", &Ask::AddAndRefuse(1));
    let error = door
        .commit(writes, vec![add, no], Vec::new())
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Refused(_)));
    assert_eq!(
        handle.call(counter("a"), Ask::Get).await.unwrap(),
        Say::Now(4)
    );
    let view = steadfast_storage::Visibility::Durable;
    assert_eq!(
        door.ledger().get(table, b"other", view).await.unwrap(),
        None
    );
    assert!(
        door.ledger()
            .get(table, b"k", view)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_drained_partition_turns_callers_away() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    handle.call(counter("a"), Ask::Add(1)).await.unwrap();
    let partition = node.runtime.space().partition(&counter("a"));
    let door = node.runtime.router().mailbox(partition).unwrap();
    node.runtime.hand_over(partition, SECOND).await.unwrap();
    let late: Result<Say, _> = door.call(counter("a"), Ask::Get).await;
    assert_eq!(late.unwrap_err().code().0, "STF-4002");
    let unknown = handle.call(counter("a"), Ask::Get).await.unwrap_err();
    assert_eq!(unknown.code().0, "STF-4001");
    let error = node.runtime.hand_over(partition, SECOND).await.unwrap_err();
    assert_eq!(error.code().0, "STF-4001");
}

/// A call whose refusal costs work waits for room in the log, but not at an owner that
/// leaves.
#[tokio::test]
async fn a_full_log_does_not_hold_up_a_partition_that_leaves() {
    let mut setup = Setup::new();
    setup.log = Some((u64::MAX, 10_000));
    let node = setup.start().await;
    let handle = node.runtime.handle::<Counter>();
    let partition = node.runtime.space().partition(&counter("a"));
    handle
        .call(counter("a"), Ask::Put(1, 20_000))
        .await
        .unwrap();
    let mut waiting = pin!(handle.call_when_room(counter("a"), Ask::Add(1)));
    let early = tokio::time::timeout(SECOND / 10, &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    let left = node.runtime.hand_over(partition, 20 * SECOND);
    let left = tokio::time::timeout(5 * SECOND, left).await.unwrap();
    assert_eq!(left.unwrap().cut_off, 0);
    assert_eq!(waiting.await.unwrap_err().code().0, "STF-4002");
}

/// What waits for room never ran: it runs on the rows that are left.
#[tokio::test]
async fn a_call_that_waits_for_room_outlives_a_rollback() {
    let faults = EngineFaults {
        delay: 90,
        ..EngineFaults::default()
    };
    let memory = Arc::new(MemoryEngine::new());
    let hostile = Arc::new(HostileEngine::new(memory, faults, 1));
    let mut setup = Setup::on(Arc::clone(&hostile) as Arc<dyn Engine>);
    setup.log = Some((0, 10_000));
    let node = setup.start().await;
    let handle = node.runtime.handle::<Counter>();
    // Its row is in memory now.
    handle.call(counter("a"), Ask::Add(1)).await.unwrap();
    hostile.set_faults(EngineFaults {
        refused: 100,
        ..faults
    });
    let lost = async {
        let lost = handle.call(counter("a"), Ask::Put(1, 20_000)).await;
        hostile.stop_faults();
        lost
    };
    // It arrives while the commit before it is on its way.
    let waits = handle.call_when_room(counter("a"), Ask::Add(1));
    let (lost, waited) = tokio::join!(lost, waits);
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(waited.unwrap(), Say::Now(2));
}

/// The caller has died, or waits no longer.
#[tokio::test]
async fn a_partition_is_given_up_whole_also_if_nobody_waits() {
    let node = Setup::new().start().await;
    let runtime = &node.runtime;
    let partition = runtime.space().partition(&counter("a"));
    let parted = Arc::new(tokio::sync::Notify::new());
    let parting = Arc::clone(&parted);
    runtime.on_hand_over(Box::new(move |_| {
        parting.notify_one();
        Box::pin(async {})
    }));
    let broken_off = runtime.hand_over_detached(partition, SECOND).now_or_never();
    assert!(broken_off.is_none());
    let told = tokio::time::timeout(10 * SECOND, parted.notified()).await;
    told.expect("it comes to its end");
}

#[tokio::test]
async fn what_is_being_taken_when_a_node_leaves_is_given_up_too() {
    let node = Setup::new().start().await;
    let runtime = &node.runtime;
    let partition = runtime.space().partition(&counter("a"));
    runtime.hand_over(partition, SECOND).await.unwrap();
    let mut taking = pin!(runtime.serve(partition));
    // It has begun, and did not come to its end.
    assert!(futures_util::poll!(taking.as_mut()).is_pending());
    assert!(runtime.serving().contains(&partition));
    assert!(runtime.router().mailbox(partition).is_none());
    let sheet = runtime.drain(Vec::new(), 5 * SECOND).await;
    assert_eq!(
        (sheet.moved, sheet.left),
        (u64::from(counting::PARTITIONS), 0)
    );
    taking.await.unwrap();
    assert_eq!(runtime.serving(), []);
    let refused = runtime.serve(partition).await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Draining { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn a_drain_runs_its_hooks_before_partitions_go_and_ends_by_its_limit() {
    let node = Setup::new().start().await;
    let handle = node.runtime.handle::<Counter>();
    let (told, mut tell) = tokio::sync::mpsc::unbounded_channel();
    let hook = |name: &'static str| -> steadfast_partition::DrainHook {
        let (handle, told) = (handle.clone(), told.clone());
        Box::pin(async move {
            // Partitions are still there while hooks run.
            let said = handle.call(counter("a"), Ask::Add(1)).await.unwrap();
            told.send((name, said)).unwrap();
        })
    };
    let sheet = node
        .runtime
        .drain(vec![hook("first"), hook("second")], SECOND)
        .await;
    assert_eq!(tell.recv().await, Some(("first", Say::Now(1))));
    assert_eq!(tell.recv().await, Some(("second", Say::Now(2))));
    assert_eq!(sheet.moved, u64::from(counting::PARTITIONS));
    assert!(node.runtime.serving().is_empty());
    let refused = node
        .runtime
        .serve(steadfast_core::id::Partition::new(0, 0))
        .await;
    assert_eq!(refused.unwrap_err().code().0, "STF-4002");
    // A hook that never ends does not keep the node.
    let node = Setup::new().start().await;
    let limit = Duration::from_millis(50);
    let endless: steadfast_partition::DrainHook = Box::pin(std::future::pending());
    let sheet = node.runtime.drain(vec![endless], limit).await;
    assert_eq!(sheet.left, u64::from(counting::PARTITIONS));
    assert!(node.runtime.router().mailboxes().is_empty());
}

#[tokio::test]
async fn callers_wait_at_the_door_when_too_many_have_come() {
    let node = Setup::new().start().await;
    let partition = node.runtime.space().partition(&counter("a"));
    let door = node.runtime.router().mailbox(partition).unwrap();
    let add = || door.call::<Ask, Say>(counter("a"), Ask::Add(1));
    // The loop has no chance to run until this test waits.
    let mut calls: Vec<_> = (0..MAILBOX).map(|_| Box::pin(add())).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none());
    }
    let more = door.try_call::<Ask, Say>(counter("a"), Ask::Add(1));
    let refused = more.now_or_never().unwrap();
    assert_eq!(refused.unwrap_err().code().0, "STF-4003");
    let patient = add();
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(patient.await.unwrap(), Say::Now(MAILBOX as u64 + 1));
}

#[tokio::test]
async fn an_unknown_service_is_refused() {
    let node = Setup::new().start().await;
    let to = steadfast_partition::Address::new(steadfast_partition::ServiceKind(77), "x", "y");
    let partition = node.runtime.space().partition(&to);
    let door = node.runtime.router().mailbox(partition).unwrap();
    let answer: Result<Say, _> = door.call(to, Ask::Get).await;
    assert_eq!(answer.unwrap_err().code().0, "STF-4004");
    let _ = COUNTER;
}

#[tokio::test]
async fn a_space_keeps_its_number_of_partitions() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let space = counting::space(4);
    let made = steadfast_partition::Space::open(&*engine, space.clone())
        .await
        .unwrap();
    let again = steadfast_partition::Space {
        incarnation: 99,
        ..space.clone()
    };
    let found = steadfast_partition::Space::open(&*engine, again)
        .await
        .unwrap();
    assert_eq!(found, made);
    let other = steadfast_partition::Space {
        partitions: 8,
        ..space
    };
    let error = steadfast_partition::Space::open(&*engine, other)
        .await
        .unwrap_err();
    assert_eq!(error.code().0, "STF-4007");
}
