//! Event hubs, their policies and keys, by REST and AMQP.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast::client::amqp::{AmqpClient, write_event};
use steadfast_wire::amqp::delivery::FORMAT_EVENT;
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::{amqp::sasl, sas};
use tokio::net::TcpStream;

use super::{get, post};
use crate::running::{PATIENCE, Server};

const EVENTS: &str = "/v1/eventhubs/houses/events";
const FIRST: &str = "/v1/eventhubs/houses/events?partition=0&from=start";
const ANALYTICS: &str = "/v1/eventhubs/houses/groups/analytics";

/// Later than any run.
const EXPIRY: i64 = 4_000_000_000;

/// Keys of before open what they opened; events, checkpoints and dead letters go on where
/// they were.
pub(super) fn go_on(server: &Server, recorded: &Value, facts: &Value) {
    let events = recorded[FIRST]["events"].as_array().unwrap();
    let last = events.last().unwrap()["sequence"].as_i64().unwrap();
    assert_eq!(events.last().unwrap()["body"], "late");

    let sender = format!("Bearer {}", facts["sender"].as_str().unwrap());
    let order = json!({"partition": 0, "events": [{"body": "by a key of before"}]});
    let (status, sent) = server.ask(Method::POST, EVENTS, &sender, Some(order));
    assert_eq!(status, StatusCode::CREATED, "{sent}");
    assert_eq!(sent["sequence"], json!(last + 1), "{sent}");
    let (status, _) = server.ask(Method::GET, "/v1/keys", &sender, None);
    assert_eq!(status, StatusCode::FORBIDDEN);
    for secret in facts["operator"].as_array().unwrap() {
        let operator = format!("Bearer {}", secret.as_str().unwrap());
        let (status, _) = server.ask(Method::GET, "/v1/status", &operator, None);
        assert_eq!(status, StatusCode::OK, "both secrets of a rotated key");
    }

    server.block(by_policy(server.port_of("amqp"), facts));
    let page = get(
        server,
        &format!("{EVENTS}?partition=0&from_sequence={}", last + 1),
    );
    let bodies = page["events"].as_array().unwrap().iter();
    let bodies: Vec<_> = bodies.map(|event| &event["body"]).collect();
    assert_eq!(bodies, ["by a key of before", "by a policy of before"]);

    let group = get(server, ANALYTICS);
    assert_eq!(group["partitions"][0]["checkpoint"], json!(2), "{group}");
    let moved = post(
        server,
        &format!("{ANALYTICS}/reset"),
        json!({"partition": 0, "sequence": 9}),
    );
    assert_eq!(moved["partitions"][0]["next_sequence"], json!(9), "{moved}");
    let replayed = post(
        server,
        &format!("{ANALYTICS}/parked/replay"),
        json!({"partition": 0}),
    );
    assert_eq!(replayed["partitions"][0]["parked"], json!(2), "{replayed}");
}

/// Sends an event over AMQP, signed with the key of a policy.
async fn by_policy(port: u16, facts: &Value) {
    let strings = facts["strings"].to_string();
    let key = |name: &str| {
        let mark = format!("SharedAccessKeyName={name};SharedAccessKey=");
        let (_, rest) = strings.split_once(&mark).unwrap();
        rest.split([';', '"']).next().unwrap().to_owned()
    };
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let init = sasl::SaslInit {
        mechanism: "ANONYMOUS",
        response: b"",
    };
    let mut client = AmqpClient::connect(stream, &init).await.unwrap();
    let audience = "sb://localhost/houses";
    let wrong = sas::token(audience, EXPIRY, "writer", &key("reader"));
    assert_eq!(client.put_token(0, audience, &wrong).await.unwrap(), 401);
    let token = sas::token(audience, EXPIRY, "writer", &key("writer"));
    assert_eq!(client.put_token(1, audience, &token).await.unwrap(), 202);
    client.begin(2).await.unwrap();
    client.attach_sender(2, 0, "frozen", "houses/Partitions/0");
    client.flush().await.unwrap();
    let mut event = Vec::new();
    write_event(&mut event, b"by a policy of before");
    let mut is_sent = false;
    loop {
        let frame = tokio::time::timeout(PATIENCE, client.next()).await;
        let frame = frame.unwrap().unwrap();
        match performative::read(&frame.body) {
            Ok((Performative::Flow(_), _)) if !is_sent => {
                client.send(2, 0, 0, FORMAT_EVENT, &event);
                client.flush().await.unwrap();
                is_sent = true;
            }
            Ok((Performative::Disposition(_), _)) => return,
            Ok((Performative::Detach(detach), _)) => panic!("{detach:?}"),
            _ => {}
        }
    }
}

/// The moved checkpoint is there after another start.
pub(super) fn are_kept(server: &Server) {
    let group = get(server, ANALYTICS);
    assert_eq!(group["partitions"][0]["checkpoint"], json!(8), "{group}");
}
