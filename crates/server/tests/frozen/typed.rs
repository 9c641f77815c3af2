//! State that only a program can write.
//!
//! Typed collections, dead letters, ownerships, numbered producers, blobs and blocks.

use std::time::Duration;

use serde_json::Value;
use steadfast::clock::Timestamp;
use steadfast::collections::schema::Msgpack;
use steadfast::collections::{
    ConcurrentQueue, Dictionary, DictionaryQuery, Log, PartitionKey, Queue, Scheme,
};
use steadfast::config::{Config, Layers};
use steadfast::durable::FailureDetails;
use steadfast::events::{
    BlockChoice, CheckpointCondition, ClaimOutcome, Conditions, EventDataBatch, EventHubs,
    LeaseState, ProducerOptions, ProducerSequence, PutBlobRequest,
};
use steadfast::{Node, Record, ServicePartition};

/// The same types as in the program that wrote the fixture.
#[derive(Record, Clone, Debug, PartialEq)]
#[record(closed)]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    rooms: Vec<u32>,
    #[n(2)]
    warmth: Option<f64>,
    #[n(3)]
    shade: Shade,
    #[n(4)]
    built: Timestamp,
}

#[derive(Record, Clone, Debug, PartialEq)]
#[record(closed)]
enum Shade {
    #[n(0)]
    Open,
    #[n(1)]
    Shut(u8),
    #[n(2)]
    Part {
        #[n(0)]
        of: u8,
    },
}

fn house(number: u32) -> House {
    House {
        name: format!("house {number}"),
        rooms: (0..number).collect(),
        warmth: number.is_multiple_of(2).then_some(20.5 + f64::from(number)),
        shade: match number % 3 {
            0 => Shade::Open,
            1 => Shade::Shut(number as u8),
            _ => Shade::Part { of: number as u8 },
        },
        built: Timestamp(1_000_000_000_000 + i64::from(number)),
    }
}

/// Opens the state in a node of this process.
pub(super) async fn goes_on(sets: &[String], producer: &Value) {
    let layers = sets
        .iter()
        .fold(Layers::new(), |layers, set| layers.flag(set).unwrap());
    let config = Config::new(&layers).unwrap();
    let node = Node::builder().config(config).start().await.unwrap();
    let scheme = Scheme::Named(vec!["one".into()]);
    let service = node.partitioned("typed", scheme).await.unwrap();
    let partition = service.partition(PartitionKey::Name("one")).await.unwrap();
    dictionaries(&partition).await;
    queues(&partition).await;
    groups(node.event_hubs()).await;
    numbers(node.event_hubs(), producer).await;
    blobs(&node).await;
    node.drain(Duration::from_secs(20)).await;
}

async fn dictionaries(partition: &ServicePartition) {
    let houses: Dictionary<(u32, String), House> =
        partition.state().get_or_add("houses").await.unwrap();
    let failures: Dictionary<String, FailureDetails> =
        partition.state().get_or_add("failures").await.unwrap();
    let packed: Dictionary<i64, Msgpack<Vec<(String, u8)>>> =
        partition.state().get_or_add("packed").await.unwrap();
    let mut tx = partition.replica().begin();
    let entries = houses
        .entries(&mut tx, DictionaryQuery::all())
        .await
        .unwrap();
    assert_eq!(entries.len(), 6);
    for number in 0..6u32 {
        let key = (number, format!("k{number}"));
        let found = houses.get(&mut tx, &key).await.unwrap().unwrap();
        assert_eq!(*found, house(number));
        let found = failures.get(&mut tx, &format!("f{number}")).await.unwrap();
        let failure = FailureDetails::new("Planned", format!("failure {number}"));
        assert_eq!(*found.unwrap(), failure);
        let found = packed.get(&mut tx, &-i64::from(number)).await.unwrap();
        let value = vec![(format!("p{number}"), number as u8)];
        assert_eq!(found.unwrap().open().unwrap(), value);
    }
    let key = (6, "k6".to_owned());
    houses.add(&mut tx, key.clone(), house(6)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = partition.replica().begin();
    let found = houses.get(&mut tx, &key).await.unwrap().unwrap();
    assert_eq!(*found, house(6));
    tx.commit().await.unwrap();
}

async fn queues(partition: &ServicePartition) {
    let waiting: Queue<Vec<u8>> = partition.state().get_or_add("waiting").await.unwrap();
    let shared: ConcurrentQueue<String> = partition.state().get_or_add("shared").await.unwrap();
    let log: Log<House> = partition.state().get_or_add("log").await.unwrap();
    let mut tx = partition.replica().begin();
    let mut items = Vec::new();
    for number in 0..6u8 {
        let found = waiting.try_dequeue(&mut tx).await.unwrap().unwrap();
        assert_eq!(*found, vec![number; 3]);
        items.push((*shared.try_dequeue(&mut tx).await.unwrap().unwrap()).clone());
    }
    items.sort();
    let expected: Vec<_> = (0..6).map(|number| format!("item {number}")).collect();
    assert_eq!(items, expected);
    assert!(waiting.try_dequeue(&mut tx).await.unwrap().is_none());
    log.append(&mut tx, &house(6)).await.unwrap();
    tx.commit().await.unwrap();
    let events = log.read(0, 10).await.unwrap();
    let values: Vec<_> = events.into_iter().map(|event| event.value).collect();
    assert_eq!(values, (0..7).map(house).collect::<Vec<_>>());
}

async fn groups(hubs: &EventHubs) {
    let letters = hubs
        .dead_letters("houses", "analytics", 0, 0, 100)
        .await
        .unwrap();
    let found: Vec<_> = letters.iter().map(|l| (l.sequence, &l.body[..])).collect();
    assert_eq!(found, [(1, &b"bad"[..]), (2, &b"worse"[..])]);
    let letter = &letters[0];
    assert_eq!((letter.attempts, &letter.reason[..]), (3, "it was bad"));
    assert_eq!(letter.enqueued, Timestamp(1_700_000_000_000));
    hubs.remove_dead_letter("houses", "analytics", 0, 1)
        .await
        .unwrap();
    let rest = hubs
        .dead_letters("houses", "analytics", 0, 0, 100)
        .await
        .unwrap();
    assert_eq!(rest.len(), 1);

    let owned = hubs.ownerships("houses", "exact").await.unwrap();
    assert_eq!((owned.len(), &owned[0].owner[..]), (1, "the owner"));
    let claimed = hubs
        .claim("houses", "exact", 1, owned[0].version, "another")
        .await;
    let ClaimOutcome::Written(own) = claimed.unwrap() else {
        panic!("the version of before does not count");
    };
    assert_eq!(own.version, owned[0].version + 1);
    let checkpoint = hubs
        .checkpoint("houses", "exact", 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((checkpoint.sequence, checkpoint.offset), (0, 0));
    let forward = CheckpointCondition::At(0);
    let moved = hubs
        .advance("houses", "exact", 1, (1, 1), forward)
        .await
        .unwrap();
    assert_eq!(moved.sequence, 1);
}

/// A producer goes on with its numbers; what it sends twice counts once.
async fn numbers(hubs: &EventHubs, recorded: &Value) {
    let number = |name: &str| recorded[name].as_i64().unwrap();
    let sender = hubs.sender("houses", Some(1)).await.unwrap();
    let options = ProducerOptions {
        id: Some(number("id")),
        epoch: Some(number("epoch") as i16),
        ..ProducerOptions::default()
    };
    let state = sender.producer(options).await.unwrap();
    assert_eq!(i64::from(state.last), number("last"));
    let send = async |first: i32, body: &[u8]| {
        let sequence = ProducerSequence {
            id: state.id,
            epoch: state.epoch,
            first,
        };
        let mut batch = EventDataBatch::new();
        batch.push(body).unwrap();
        let pending = sender.submit_as(Some(sequence), batch).await.unwrap();
        pending.published().await.unwrap()
    };
    let repeated = send(state.last, b"numbered").await;
    assert!(repeated.is_repeated, "{repeated:?}");
    let last = hubs.partition("houses", 1).await.unwrap().last_sequence;
    let next = send(state.last + 1, b"the next one").await;
    assert_eq!((next.sequence, next.is_repeated), (last + 1, false));
}

async fn blobs(node: &Node) {
    let (blobs, place) = (node.blobs(), "devstoreaccount1/checkpoints");
    let container = blobs.container(place).await.unwrap();
    assert_eq!(container.metadata, [("of".to_owned(), "houses".to_owned())]);
    let (blob, body) = blobs.read(place, "notes/a.txt", None).await.unwrap();
    assert_eq!(
        (&blob.content_type[..], &body[..]),
        ("text/plain", &b"the body"[..])
    );
    assert_eq!(blob.metadata, [("kind".to_owned(), "plain".to_owned())]);
    assert_eq!(blob.properties[0].1, "de");
    let name = "localhost/houses/$default/checkpoint/0";
    let mark = blobs.get(place, name).await.unwrap();
    assert_eq!(
        mark.metadata,
        [("sequencenumber".to_owned(), "2".to_owned())]
    );
    let known = blobs
        .checkpoint_store_entries("houses", "$Default")
        .await
        .unwrap();
    assert_eq!(known.len(), 1, "{known:?}");

    let leased = blobs.get(place, "leased").await.unwrap();
    assert_eq!(leased.lease_state(Timestamp(i64::MAX)), LeaseState::Leased);
    let put = |name: &str| PutBlobRequest {
        name: name.into(),
        body: "new".into(),
        ..PutBlobRequest::default()
    };
    let refused = blobs.put(place, put("leased"), Conditions::default()).await;
    assert_eq!(refused.unwrap_err().code().0, "STF-5030");

    let (_, body) = blobs.read(place, "blocks", None).await.unwrap();
    assert_eq!(&body[..], b"first block, second block");
    let lists = blobs.blocks(place, "blocks").await.unwrap();
    let ids = |list: &[steadfast::events::Block]| {
        list.iter()
            .map(|block| block.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&lists.committed), ["AAAA", "BBBB"]);
    // A block that no list names goes after a week.
    if !lists.uncommitted.is_empty() {
        assert_eq!(ids(&lists.uncommitted), ["CCCC"]);
    }
    let choices = vec![BlockChoice::Committed("BBBB".into())];
    let request = put("blocks");
    blobs
        .put_blocks(place, request, choices, Conditions::default())
        .await
        .unwrap();
    let (_, body) = blobs.read(place, "blocks", None).await.unwrap();
    assert_eq!(&body[..], b"second block");
}
