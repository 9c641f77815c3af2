//! Streams of services, and collections beside them.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_collections::Dictionary;
use steadfast_core::clock::SystemClock;
use steadfast_core::error::Code;
use steadfast_core::id::{Offset, Owner, Sequence};
use steadfast_partition::{
    Address, CollectionReplicas, Envelope, NoopPerformer, Options, ReadPosition, Router, Runtime,
    Service, ServiceError, ServiceKind, Services, SingleNode, Space, Turn, TurnError, TurnOutcome,
    service_stream,
};
use steadfast_storage::Store;
use steadfast_storage::memory::MemoryEngine;

const KIND: ServiceKind = ServiceKind(9);

/// Publishes each line of a command, and answers where they went.
struct Lines;

impl Service for Lines {
    type Command = Bytes;
    type Response = Bytes;

    fn kind(&self) -> ServiceKind {
        KIND
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        _: &Address,
        lines: &Bytes,
    ) -> Result<TurnOutcome<Bytes>, TurnError> {
        let stream = service_stream(KIND, 3).unwrap();
        let mut places = String::new();
        for line in lines.split(|byte| *byte == b'\n') {
            if line == b"no" {
                return Err(ServiceError::new(Code("STF-9999"), "no").into());
            }
            if line == b"trim" {
                let head = turn.staged_stream(stream);
                turn.trim(stream, head.next, head.end);
                assert_eq!(turn.staged_stream(stream).first, head.next);
                continue;
            }
            let place = turn.publish(stream, 2, Bytes::copy_from_slice(line));
            places += &format!("{}@{} ", place.first, place.offset);
        }
        Ok(TurnOutcome::Now(places.into()))
    }
}

async fn runtime() -> (Runtime, Arc<Store>) {
    let owner = Owner {
        node: 1,
        incarnation: 1,
    };
    let store = Arc::new(Store::start(
        Arc::new(MemoryEngine::new()),
        steadfast_storage::Options::new(owner),
    ));
    let space = Space {
        number: 0,
        name: "main".into(),
        partitions: 1,
        incarnation: 1,
    };
    let options = Options {
        services: Services::new().with(Lines),
        performer: Arc::new(NoopPerformer),
        router: Arc::new(Router::new(Arc::new(SingleNode))),
        clock: Arc::new(SystemClock::new()),
    };
    let runtime = Runtime::new(Arc::clone(&store), space, options);
    runtime.serve_all().await.unwrap();
    (runtime, store)
}

fn lines() -> Address {
    Address::new(KIND, "lines", "")
}

#[tokio::test]
async fn a_turn_learns_where_its_publications_go() {
    let (runtime, _store) = runtime().await;
    let handle = runtime.handle::<Lines>();
    let said = handle
        .call(lines(), Bytes::from_static(b"a\nbc"))
        .await
        .unwrap();
    assert_eq!(&said[..], b"0@0 2@41 ");
    let said = handle
        .call(lines(), Bytes::from_static(b"d"))
        .await
        .unwrap();
    assert_eq!(&said[..], b"4@83 ");
    let door = runtime
        .router()
        .mailbox(runtime.space().partition(&lines()))
        .unwrap();
    let stream = service_stream(KIND, 3).unwrap();
    let found = door
        .batches(stream, ReadPosition::Sequence(Sequence(2)), 1 << 20)
        .await
        .unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|b| (b.first.0, b.offset.0, &b.bytes[..]))
        .collect();
    assert_eq!(found, [(2, 41, &b"bc"[..]), (4, 83, b"d")]);
    handle
        .call(lines(), Bytes::from_static(b"trim\ne"))
        .await
        .unwrap();
    let head = door.stream(stream).unwrap().unwrap();
    assert_eq!((head.first, head.first_offset), (Sequence(6), Offset(124)));
    assert_eq!(head.next, Sequence(8));
}

#[tokio::test]
async fn commands_that_were_begun_keep_their_order() {
    let (runtime, _store) = runtime().await;
    let door = runtime
        .router()
        .mailbox(runtime.space().partition(&lines()))
        .unwrap();
    let mut pending = Vec::new();
    for _ in 0..100 {
        let begun = door.begin::<Bytes, Bytes>(lines(), Bytes::from_static(b"x"));
        pending.push(begun.await.unwrap());
    }
    for (number, one) in pending.into_iter().enumerate() {
        let said = one.answer().await.unwrap();
        let expected = format!("{}@{} ", 2 * number, 41 * number);
        assert_eq!(said, expected.as_bytes());
    }
}

#[tokio::test]
async fn collections_and_commands_are_one_commit() {
    let (runtime, _store) = runtime().await;
    let partition = runtime.space().partition(&lines());
    let replicas = CollectionReplicas::new(Arc::clone(runtime.router()), Default::default());
    let replica = replicas.of(partition).await.unwrap();
    let counts: Dictionary<String, u64> = replica.state().get_or_add("counts").await.unwrap();
    let door = runtime.router().mailbox(partition).unwrap();
    let stream = service_stream(KIND, 3).unwrap();
    let end = || door.stream(stream).unwrap().map_or(0, |head| head.next.0);

    let mut tx = replica.begin();
    counts.set(&mut tx, "a", 1).await.unwrap();
    let command = Envelope::new(lines(), Bytes::from_static(b"x"));
    replicas.commit(partition, tx, vec![command]).await.unwrap();
    let mut tx = replica.begin();
    let found = counts.get(&mut tx, "a").await.unwrap();
    assert_eq!((found.map(|count| *count), end()), (Some(1), 2));
    drop(tx);

    // A service that refuses takes the transaction along.
    let mut tx = replica.begin();
    counts.set(&mut tx, "a", 2).await.unwrap();
    let command = Envelope::new(lines(), Bytes::from_static(b"x\nno"));
    let refused = replicas
        .commit(partition, tx, vec![command])
        .await
        .unwrap_err();
    assert_eq!(refused.code().0, "STF-9999");
    let mut tx = replica.begin();
    let found = counts.get(&mut tx, "a").await.unwrap();
    assert_eq!((found.map(|count| *count), end()), (Some(1), 2));
    // And its locks are free.
    counts.set(&mut tx, "a", 3).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(replica.locks(), 0);
}

#[test]
fn streams_of_services_never_meet() {
    let last = steadfast_partition::STREAMS_PER_SERVICE - 1;
    assert!(service_stream(ServiceKind(16), last) < service_stream(ServiceKind(17), 0));
    assert_eq!(service_stream(ServiceKind(16), last + 1), None);
    assert!(service_stream(ServiceKind(999), last).is_some());
}

#[tokio::test]
async fn a_partition_that_comes_back_has_another_replica() {
    let (runtime, _store) = runtime().await;
    let partition = runtime.space().partition(&lines());
    let replicas = CollectionReplicas::new(Arc::clone(runtime.router()), Default::default());
    let replica = replicas.of(partition).await.unwrap();
    let counts: Dictionary<String, u64> = replica.state().get_or_add("counts").await.unwrap();
    let mut tx = replica.begin();
    counts.set(&mut tx, "a", 1).await.unwrap();
    tx.commit().await.unwrap();
    let second = std::time::Duration::from_secs(1);
    runtime.hand_over(partition, second).await.unwrap();
    assert!(replicas.of(partition).await.is_err(), "it is not ours now");
    runtime.serve(partition).await.unwrap();
    let again = replicas.of(partition).await.unwrap();
    let counts: Dictionary<String, u64> = again.state().get_or_add("counts").await.unwrap();
    let mut tx = again.begin();
    let found = counts.get(&mut tx, "a").await.unwrap();
    assert_eq!(found.map(|count| *count), Some(1));
    assert_eq!(replica.role(), steadfast_collections::ReplicaRole::None);
}
