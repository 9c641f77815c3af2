//! Events by plain HTTP: taken, refused, and readable by AMQP.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use steadfast_client::amqp::ReaderLinkOptions;
use steadfast_eventhubs::publish;
use steadfast_events::{AccessPolicy, EventHubDefinition, Rights};
use steadfast_wire::amqp::message::{MessageSections, SectionKind};
use steadfast_wire::amqp::value::AmqpValue;
use steadfast_wire::sas;
use tower::Service as _;

use crate::amqp_setup::talk::{Heard, LATER, ask_to_read, connect, hear, opened, place};
use crate::amqp_setup::{self, KEY, KEY_NAME, Node};

async fn houses() -> (Node, tempfile::TempDir) {
    let (node, folder) = amqp_setup::start().await;
    let mut definition = EventHubDefinition::new("houses", 16);
    let rights = Rights {
        send: true,
        ..Rights::default()
    };
    definition.policies.push(AccessPolicy {
        name: "meters".to_owned(),
        rights,
        primary: "meter secret".to_owned(),
        secondary: "old secret".to_owned(),
    });
    node.hubs.create(definition).await.unwrap();
    (node, folder)
}

fn good() -> String {
    sas::token("https://localhost/houses/messages", LATER, KEY_NAME, KEY)
}

async fn post(
    node: &Node,
    path: &str,
    token: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> StatusCode {
    let mut request = Request::post(path).header("authorization", token);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body)).unwrap();
    let mut routes = publish::routes(node.context.clone());
    routes.call(request).await.unwrap().status()
}

#[tokio::test]
async fn events_46_a_posted_event_is_read_by_amqp_with_its_headers() {
    let (node, _folder) = houses().await;
    let headers = [
        ("content-type", "application/json"),
        ("brokerproperties", r#"{"PartitionKey":"house-42"}"#),
        ("colour", "\"green\""),
        ("user-agent", "not a property"),
    ];
    let path = "/houses/messages?timeout=60&api-version=2014-01";
    let status = post(&node, path, &good(), &headers, b"{}".to_vec()).await;
    assert_eq!(status, StatusCode::CREATED);
    let mut peer = connect(node.listen(), "houses").await;
    ask_to_read(
        &mut peer,
        0,
        &place("houses", 15),
        &ReaderLinkOptions::default(),
    )
    .await;
    peer.grant(1, 0, 0, 1, 0);
    peer.flush().await.unwrap();
    let Heard::Transfer(message) = hear(&mut peer).await else {
        panic!("an event");
    };
    assert_eq!(opened(&message), (0, b"{}".to_vec()));
    let mut sections = MessageSections::new(&message);
    while let Some(section) = sections.next().unwrap() {
        match section.part {
            SectionKind::MessageAnnotations => {
                let key = section.map().unwrap().find("x-opt-partition-key").unwrap();
                assert_eq!(key, Some(AmqpValue::String("house-42")));
            }
            SectionKind::ApplicationProperties => {
                let map = section.map().unwrap();
                assert_eq!(map.count(), 2, "one property");
                assert_eq!(
                    map.find("colour").unwrap(),
                    Some(AmqpValue::String("green"))
                );
            }
            SectionKind::Properties => {
                let mut fields = section.list().unwrap();
                (0..6).for_each(|_| assert!(fields.next_raw().is_ok()));
                assert_eq!(fields.next().unwrap().as_text(), Some("application/json"));
            }
            _ => {}
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_batch_goes_to_one_partition_and_publishers_have_their_own() {
    let (node, _folder) = houses().await;
    let many = [("content-type", "application/vnd.microsoft.servicebus.json")];
    let body = br#"[{"Body":"a"},{"Body":"b","UserProperties":{"n":1}}]"#.to_vec();
    let token = sas::token("sb://localhost/houses", LATER, KEY_NAME, KEY);
    let path = "/houses/partitions/3/messages";
    assert_eq!(
        post(&node, path, &token, &many, body).await,
        StatusCode::CREATED
    );
    assert_eq!(
        node.hubs
            .partition("houses", 3)
            .await
            .unwrap()
            .last_sequence,
        1
    );
    let path = "/houses/publishers/house-99999/messages";
    assert_eq!(
        post(&node, path, &token, &[], b"x".to_vec()).await,
        StatusCode::CREATED
    );
    assert_eq!(
        node.hubs
            .partition("houses", 3)
            .await
            .unwrap()
            .last_sequence,
        2
    );
    node.stop().await;
}

#[tokio::test]
async fn events_46_bad_requests_have_their_status() {
    let (node, _folder) = houses().await;
    let everywhere = sas::token("sb://localhost/", LATER, KEY_NAME, KEY);
    let cases = [
        ("/houses/messages", "".to_owned(), 10, 401),
        ("/houses/messages", good().replace("skn=", "skn=x"), 10, 401),
        (
            "/houses/messages",
            sas::token("/houses", 1000, KEY_NAME, KEY),
            10,
            401,
        ),
        (
            "/houses/messages",
            sas::token("/cars", LATER, KEY_NAME, KEY),
            10,
            401,
        ),
        (
            "/houses/messages",
            "Bearer bGlzdGVuIHNlY3JldA==".to_owned(),
            10,
            401,
        ),
        ("/none/messages", everywhere.clone(), 10, 404),
        (
            "/houses/partitions/16/messages",
            everywhere.clone(),
            10,
            404,
        ),
        ("/houses/partitions/x/messages", everywhere.clone(), 10, 400),
        ("/houses/messages", everywhere.clone(), 1_100_000, 413),
        ("/houses/messages", everywhere, 5_000_000, 413),
        ("/houses/messages", "Bearer send secret".to_owned(), 10, 201),
        (
            "/houses/messages",
            sas::token("/houses", LATER, "meters", "old secret"),
            10,
            201,
        ),
        (
            "/houses/messages",
            sas::token("/houses", LATER, "meters", "wrong"),
            10,
            401,
        ),
    ];
    for (path, token, size, expected) in cases {
        let status = post(&node, path, &token, &[], vec![b'x'; size]).await;
        assert_eq!(status.as_u16(), expected, "{path} {token}");
    }
    node.stop().await;
}
