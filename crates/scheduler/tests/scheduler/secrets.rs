//! Stored secrets: to whom they belong, and where they go.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::stage::{Answer, Stage, Target, http_action, job};

const PASSWORD: &str = "properties.action.request.authentication.password";
const SECRET: &str = "properties.action.request.authentication.secret";
const TOKEN: &str = "properties.action.queueMessage.sasToken";
const BUS: &str = "properties.action.serviceBusQueueMessage.authentication.sasKey";
const TOPIC: &str = "properties.action.serviceBusTopicMessage.authentication.sasKey";

/// A job that runs only by hand.
fn idle(action: &Value) -> Value {
    json!({"action": action, "startTime": "2020-01-01T00:00:00Z",
        "recurrence": {"frequency": "Month", "interval": 1}})
}

fn authenticated(uri: &str, authentication: Value) -> Value {
    let mut action = http_action(uri);
    action["request"]["authentication"] = authentication;
    action["retryPolicy"] = json!({"retryType": "None"});
    action
}

/// Sets members below `action`, for instance `request.uri`.
fn change(action: &mut Value, members: &[(&str, &str)]) {
    for (path, value) in members {
        let place = path
            .split('.')
            .fold(&mut *action, |place, name| &mut place[name]);
        *place = (*value).into();
    }
}

async fn patch(stage: &Stage, name: &str, members: &[(&str, &str)]) -> Answer {
    let mut action = json!({});
    change(&mut action, members);
    let body = json!({"properties": {"action": action}});
    stage.ask("PATCH", &job(name), Some(body)).await
}

/// Puts back what was read, with changed members.
async fn put(stage: &Stage, name: &str, members: &[(&str, &str)]) -> Answer {
    let mut found = stage.get(name).await;
    change(&mut found["properties"]["action"], members);
    stage.ask("PUT", &job(name), Some(found)).await
}

/// Members that are set together.
type Change = Vec<(&'static str, &'static str)>;

/// Who a secret belongs to and where it goes: changes of either, without the secret.
fn moves() -> Vec<(&'static str, Value, &'static str, Vec<Change>)> {
    let basic = json!({"type": "Basic", "username": "u", "password": "geheim"});
    let oauth = json!({"type": "ActiveDirectoryOAuth", "tenant": "t", "audience": "a",
        "clientId": "c", "secret": "geheim"});
    let key = json!({"type": "SharedAccessKey", "sasKeyName": "k", "sasKey": "geheim"});
    let elsewhere = |host: &'static str| vec![("request.uri", host)];
    vec![
        (
            "basic",
            authenticated("http://127.0.0.1:9/", basic),
            PASSWORD,
            vec![
                vec![("request.authentication.username", "other")],
                vec![("request.authentication.username", "U")],
                elsewhere("http://127.0.0.2:9/"),
                elsewhere("http://127.0.0.1:8/"),
                vec![("type", "Https"), ("request.uri", "https://127.0.0.1:9/")],
            ],
        ),
        (
            "oauth",
            authenticated("http://127.0.0.1:9/", oauth),
            SECRET,
            vec![
                vec![("request.authentication.clientId", "other")],
                vec![("request.authentication.tenant", "other")],
                vec![("request.authentication.audience", "other")],
                elsewhere("http://127.0.0.1:8/"),
            ],
        ),
        (
            "queue",
            json!({"type": "StorageQueue", "queueMessage":
                {"storageAccount": "a", "queueName": "q", "sasToken": "geheim", "message": "m"}}),
            TOKEN,
            vec![
                vec![("queueMessage.storageAccount", "other")],
                vec![("queueMessage.queueName", "other")],
            ],
        ),
        (
            "bus",
            json!({"type": "ServiceBusQueue", "serviceBusQueueMessage":
                {"namespace": "n", "queueName": "q", "message": "m", "authentication": key}}),
            BUS,
            vec![
                vec![("serviceBusQueueMessage.namespace", "other")],
                vec![("serviceBusQueueMessage.queueName", "other")],
                vec![("serviceBusQueueMessage.authentication.sasKeyName", "other")],
            ],
        ),
        (
            "topic",
            json!({"type": "ServiceBusTopic", "serviceBusTopicMessage":
                {"namespace": "n", "topicPath": "t", "message": "m", "authentication": key}}),
            TOPIC,
            vec![
                vec![("serviceBusTopicMessage.namespace", "other")],
                vec![("serviceBusTopicMessage.topicPath", "other")],
                vec![("serviceBusTopicMessage.authentication.sasKeyName", "other")],
            ],
        ),
    ]
}

#[tokio::test]
async fn a_stored_secret_goes_to_no_other_user_and_no_other_address() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for (name, action, target, changes) in moves() {
        let mut properties = idle(&action);
        properties["action"]["errorAction"] = action;
        let made = stage.put(name, properties).await;
        assert_eq!(made.status, 201, "{name}: {:?}", made.body);
        let before = stage.get(name).await;
        for members in &changes {
            let patched = patch(&stage, name, members).await;
            let replaced = put(&stage, name, members).await;
            assert_eq!(patched.code(), (400, "BadRequest", target), "{members:?}");
            assert_eq!(patched.body, replaced.body, "{members:?}");
            let message = patched.body["error"]["message"].as_str().unwrap();
            assert!(message.contains("another user or address"), "{message}");
            assert_eq!(stage.get(name).await, before, "{members:?}");
            // The error action has secrets of its own.
            let nested: Vec<_> = members
                .iter()
                .map(|(path, value)| (format!("errorAction.{path}"), *value))
                .collect();
            let nested: Vec<_> = nested
                .iter()
                .map(|(path, value)| (&**path, *value))
                .collect();
            let refused = patch(&stage, name, &nested).await;
            let target = target.replace("action.", "action.errorAction.");
            assert_eq!(refused.code(), (400, "BadRequest", &*target), "{nested:?}");
        }
        // What says nothing about user and address keeps the secret.
        let kept = patch(&stage, name, &[("retryPolicy.retryType", "None")]).await;
        assert_eq!(kept.status, 200, "{:?}", kept.body);
    }
}

#[tokio::test]
async fn a_patch_with_the_secret_moves_a_job_to_another_user_and_address() {
    let (own, other) = (Target::start(), Target::start());
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let basic = json!({"type": "Basic", "username": "u", "password": "p"});
    let made = stage
        .put("j", idle(&authenticated(&own.url("/own"), basic)))
        .await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let run = async || {
        let ran = stage.ask("POST", &format!("{}/run", job("j")), None).await;
        assert_eq!(ran.status, 200);
    };
    let user = [("request.authentication.username", "other")];
    assert_eq!(patch(&stage, "j", &user).await.status, 400);
    let address = other.url("/stolen");
    assert_eq!(
        patch(&stage, "j", &[("request.uri", &address)])
            .await
            .status,
        400
    );
    run().await;
    let seen = own.wait(1).await;
    let sent = |text: &str| format!("Basic {}", STANDARD.encode(text));
    assert_eq!(seen[0].header("authorization"), sent("u:p"));
    assert!(other.seen().is_empty(), "{:?}", other.seen());
    // A path of the same host keeps it.
    let path = own.url("/path");
    assert_eq!(
        patch(&stage, "j", &[("request.uri", &path)]).await.status,
        200
    );
    run().await;
    assert_eq!(own.wait(2).await[1].header("authorization"), sent("u:p"));
    let moved = [
        ("request.uri", other.url("/moved")),
        ("request.authentication.username", "other".into()),
        ("request.authentication.password", "q".into()),
    ];
    let moved: Vec<_> = moved
        .iter()
        .map(|(path, value)| (*path, &**value))
        .collect();
    assert_eq!(patch(&stage, "j", &moved).await.status, 200);
    run().await;
    assert_eq!(
        other.wait(1).await[0].header("authorization"),
        sent("other:q")
    );
}
