//! Idempotent producers, frame by frame as clients write them.

use std::net::SocketAddr;

use steadfast_client::amqp::write_event;
use steadfast_events::EventHubDefinition;
use steadfast_wire::amqp::code::descriptor;
use steadfast_wire::amqp::delivery::FORMAT_BATCH;
use steadfast_wire::amqp::event::{PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE};
use steadfast_wire::amqp::link::{self, Attach, LinkRole};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::write;

use crate::amqp_setup::talk::{Heard, Peer, connect, hear};
use crate::amqp_setup::{self, Node};

async fn hub() -> (Node, tempfile::TempDir, SocketAddr) {
    let (node, folder) = amqp_setup::start().await;
    let definition = EventHubDefinition::new("houses", 1);
    node.hubs.create(definition).await.unwrap();
    let address = node.listen();
    (node, folder, address)
}

/// Owner level, group and last number, as the properties of a link say them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Properties {
    epoch: Option<i64>,
    id: Option<i64>,
    last: Option<i64>,
}

const NONE: Properties = Properties {
    epoch: None,
    id: None,
    last: None,
};

impl Properties {
    /// As the SDK for JavaScript writes them: all three, null where it has none; none
    /// at all the first time.
    fn write(self, out: &mut Vec<u8>) {
        if self == NONE {
            return write::map(out, 0, |_| {});
        }
        write::map(out, 3, |out| {
            write::symbol(out, PRODUCER_EPOCH);
            match self.epoch {
                Some(epoch) => write::short(out, epoch as i16),
                None => write::null(out),
            }
            write::symbol(out, PRODUCER_ID);
            match self.id {
                Some(id) => write::long(out, id),
                None => write::null(out),
            }
            write::symbol(out, PRODUCER_SEQUENCE);
            match self.last {
                Some(last) => write::int(out, last as i32),
                None => write::null(out),
            }
        });
    }
}

/// Attaches a producer to the only partition; what it is told, or why it is refused.
async fn produce(peer: &mut Peer, asked: Properties) -> Result<Properties, (String, String)> {
    let address = "houses/Partitions/0";
    let (mut source, mut target) = (Vec::new(), Vec::new());
    link::write_source(&mut source, Some("producer"), EncodedValue::NULL);
    link::write_target(&mut target, Some(address));
    let (mut desired, mut properties) = (Vec::new(), Vec::new());
    let capabilities = [
        "com.microsoft:georeplication",
        "com.microsoft:idempotent-producer",
    ];
    write::array_of_symbols(&mut desired, capabilities.into_iter());
    asked.write(&mut properties);
    let attach = Attach {
        name: address,
        handle: 0,
        role: LinkRole::Sender,
        snd_settle: None,
        rcv_settle: None,
        source: EncodedValue::new(&source).unwrap(),
        target: EncodedValue::new(&target).unwrap(),
        initial_count: Some(0),
        max_message: None,
        offered: EncodedValue::NULL,
        desired: EncodedValue::new(&desired).unwrap(),
        properties: EncodedValue::new(&properties).unwrap(),
    };
    peer.put(1, &Performative::Attach(attach), &[]);
    peer.flush().await.unwrap();
    let frame = peer.next().await.unwrap();
    let Ok((Performative::Attach(answer), _)) = performative::read(&frame.body) else {
        panic!("an attach");
    };
    let told = |name| {
        let value = answer.property(name).unwrap();
        value.and_then(|value| value.as_i64())
    };
    match hear(peer).await {
        Heard::Flow { .. } => Ok(Properties {
            epoch: told(PRODUCER_EPOCH),
            id: told(PRODUCER_ID),
            last: told(PRODUCER_SEQUENCE),
        }),
        Heard::Detach {
            condition, words, ..
        } => Err((condition, words)),
        other => panic!("credit or a detach, not {other:?}"),
    }
}

/// Sends a batch of numbered events; the server has it when this returns, whatever
/// becomes of its answer.
async fn publish(
    peer: &mut Peer,
    producer: Properties,
    delivery: u32,
    first: i64,
    bodies: &[&str],
) -> Heard {
    let mut batch = Vec::new();
    for (index, body) in bodies.iter().enumerate() {
        let mut event = Vec::new();
        write::descriptor(&mut event, descriptor::MESSAGE_ANNOTATIONS);
        write::map(&mut event, 3, |out| {
            write::symbol(out, PRODUCER_EPOCH);
            write::short(out, producer.epoch.unwrap() as i16);
            write::symbol(out, PRODUCER_ID);
            write::long(out, producer.id.unwrap());
            write::symbol(out, PRODUCER_SEQUENCE);
            write::int(out, (first + index as i64) as i32);
        });
        write_event(&mut event, body.as_bytes());
        write_event(&mut batch, &event);
    }
    peer.send(1, 0, delivery, FORMAT_BATCH, &batch);
    peer.flush().await.unwrap();
    hear(peer).await
}

async fn stored(node: &Node) -> i64 {
    let end = node.hubs.partition("houses", 0).await.unwrap();
    end.last_sequence + 1
}

#[tokio::test]
async fn what_a_client_had_in_flight_is_recognised_after_it_comes_back() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    let mut own = produce(&mut peer, NONE).await.unwrap();
    assert_eq!((own.epoch, own.last), (Some(0), Some(0)));
    let bodies = ["a", "b", "c"];
    for round in 0..12 {
        let first = own.last.unwrap() + 1;
        let heard = publish(&mut peer, own, round, first, &bodies).await;
        assert_eq!(heard, Heard::Accepted(round, round));
        if round % 3 == 1 {
            // The acknowledgement is lost with the connection. The client attaches with
            // the last number that was acknowledged, numbers the same events by the
            // answer, and sends them again.
            peer = connect(address, "houses").await;
            let told = produce(&mut peer, own).await.unwrap();
            assert_eq!(told, own);
            let first = told.last.unwrap() + 1;
            let heard = publish(&mut peer, told, round, first, &bodies).await;
            assert_eq!(heard, Heard::Accepted(round, round));
        }
        own.last = own.last.map(|last| last + 3);
    }
    assert_eq!(stored(&node).await, 36);
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_the_number_to_the_server_goes_on_with_its_own() {
    // The .NET SDK gives no number when it comes back, and looks at no answer.
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    let own = produce(&mut peer, NONE).await.unwrap();
    publish(&mut peer, own, 0, 1, &["a", "b"]).await;
    let mut peer = connect(address, "houses").await;
    let told = produce(&mut peer, Properties { last: None, ..own }).await;
    assert_eq!(
        told.unwrap(),
        Properties {
            last: Some(2),
            ..own
        }
    );
    for (delivery, first) in [(0, 1), (1, 3)] {
        let heard = publish(&mut peer, own, delivery, first, &["c", "d"]).await;
        assert_eq!(heard, Heard::Accepted(delivery, delivery));
    }
    assert_eq!(stored(&node).await, 4);
    node.stop().await;
}

#[tokio::test]
async fn a_wrong_number_at_the_same_owner_level_is_refused() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    let own = produce(&mut peer, NONE).await.unwrap();
    publish(&mut peer, own, 0, 1, &["1", "2", "3", "4", "5"]).await;
    // In the middle of what was published, across its end, and beyond it.
    for last in [1, 3, 7] {
        let mut peer = connect(address, "houses").await;
        let asked = Properties {
            last: Some(last),
            ..own
        };
        let told = produce(&mut peer, asked).await.unwrap();
        assert_eq!(told, asked);
        let bodies = ["x", "y", "z"];
        let heard = publish(&mut peer, told, 0, last + 1, &bodies).await;
        let Heard::Rejected(0, condition, words) = heard else {
            panic!("a rejection, not {heard:?}");
        };
        assert_eq!(condition, "com.microsoft:out-of-order-sequence");
        assert_eq!(words.contains("old sequence"), last == 1, "{words}");
    }
    assert_eq!(stored(&node).await, 5);
    node.stop().await;
}

#[tokio::test]
async fn a_producer_that_was_taken_over_is_told_both_levels() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    let own = produce(&mut peer, NONE).await.unwrap();
    publish(&mut peer, own, 0, 1, &["one"]).await;
    let mut other = connect(address, "houses").await;
    let asked = Properties {
        epoch: Some(1),
        last: Some(1),
        ..own
    };
    assert_eq!(produce(&mut other, asked).await.unwrap(), asked);
    publish(&mut other, asked, 0, 2, &["two"]).await;
    let heard = publish(&mut peer, own, 1, 2, &["late"]).await;
    let Heard::Rejected(1, condition, words) = heard else {
        panic!("a rejection, not {heard:?}");
    };
    assert_eq!(condition, "com.microsoft:producer-epoch-stolen");
    assert!(words.contains("Received:0 Current:1"), "{words}");
    let mut back = connect(address, "houses").await;
    let (condition, words) = produce(&mut back, own).await.unwrap_err();
    assert_eq!(condition, "com.microsoft:producer-epoch-stolen");
    assert!(words.contains("Received:0 Current:1"), "{words}");
    node.stop().await;
}

#[tokio::test]
async fn negative_state_is_out_of_range() {
    let (node, _folder, address) = hub().await;
    let state = |epoch, id, last| Properties { epoch, id, last };
    for asked in [
        state(Some(-1), None, None),
        state(Some(0), Some(-1), Some(1)),
        state(Some(0), Some(7), Some(-2)),
    ] {
        let mut peer = connect(address, "houses").await;
        let (condition, words) = produce(&mut peer, asked).await.unwrap_err();
        assert_eq!(
            condition, "com.microsoft:argument-out-of-range",
            "{asked:?}"
        );
        let expected = "Invalid range for idempotent producer state. Producer Id, Epoch, and \
                        Sequence Number must be zero or positive.";
        assert!(words.starts_with(expected), "{words}");
    }
    let mut peer = connect(address, "houses").await;
    let partial = produce(&mut peer, state(Some(1), None, None)).await;
    assert_eq!(partial.unwrap().epoch, Some(1));
    node.stop().await;
}

#[tokio::test]
async fn ids_of_producers_are_numbers_that_javascript_can_hold() {
    let (node, _folder, address) = hub().await;
    for _ in 0..50 {
        let mut peer = connect(address, "houses").await;
        let told = produce(&mut peer, NONE).await.unwrap();
        assert!((1..1 << 53).contains(&told.id.unwrap()), "{told:?}");
    }
    node.stop().await;
}
