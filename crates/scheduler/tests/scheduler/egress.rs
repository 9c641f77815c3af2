//! What leaves the server: to which addresses, with what.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steadfast_jobs::{
    CollectionId, JobAction, JobDefinition, JobDraft, JobPolicy, JobRetry, Precondition,
    Target as Goal,
};
use steadfast_net::egress::EgressPolicy;

use crate::stage::{self, Setup, Stage, Target, http_action, job};

/// A password `geheim` for any job, as versions without places of secrets sealed it.
const OLD: &str = "AAECAwQFBgcICQoLWAIzkScmdJP4iho8sb1fW1ruZMeJ/Q==";

/// One attempt only.
fn single(mut action: Value) -> Value {
    action["retryPolicy"] = json!({"retryType": "None"});
    json!({"action": action})
}

/// A job that runs only by hand.
fn idle(action: Value) -> Value {
    let mut properties = single(action);
    properties["startTime"] = "2020-01-01T00:00:00Z".into();
    properties["recurrence"] = json!({"frequency": "Month", "interval": 1});
    properties
}

/// Makes a job that runs at once, and answers its first history item.
async fn run(stage: &Stage, name: &str, action: Value) -> Value {
    let made = stage.put(name, single(action)).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    stage.history_of(name, 1).await.remove(0)["properties"].clone()
}

/// Like `serve`, with these entries in `jobs.allow`.
async fn served(allow: &[String]) -> Stage {
    let allow = allow.iter().map(|entry| entry.parse().unwrap()).collect();
    let policy = EgressPolicy {
        allow,
        ..EgressPolicy::default()
    };
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| options.connect.guard.policy = policy),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    stage
}

fn entry(target: &Target) -> String {
    target.base.trim_start_matches("http://").to_owned()
}

fn message(item: &Value) -> &str {
    item["message"].as_str().unwrap()
}

#[tokio::test]
async fn headers_that_may_be_credentials_do_not_cross_origins() {
    let (stage, target, other) = (Stage::start().await, Target::start(), Target::start());
    stage.collection("Standard").await;
    let secrets = [
        "authorization",
        "cookie",
        "x-api-key",
        "x-functions-key",
        "x-own",
    ];
    for code in [302, 307] {
        // First inside the origin, then to another one, and back.
        let back = format!("{}/redirect/{code}/{}/end", other.base, target.base);
        let path = format!("/redirect/{code}/redirect/{code}/{back}");
        let mut action = http_action(&target.url(&path));
        action["request"]["headers"] = json!({"Authorization": "Bearer a", "Cookie": "c=1",
            "X-Api-Key": "k", "X-Functions-Key": "f", "X-Own": "o", "Accept": "text/plain"});
        let item = run(&stage, &format!("j{code}"), action).await;
        assert_eq!(item["status"], "Completed", "{item}");
        let own = target.seen().into_iter().rev().take(3).collect::<Vec<_>>();
        let away = other.seen().pop().unwrap();
        for name in secrets {
            let sent = |seen: &stage::Seen| seen.headers.contains_key(name);
            assert!(
                sent(&own[2]) && sent(&own[1]),
                "{name} left out at its origin"
            );
            assert!(!sent(&away), "{name} was sent to another origin");
            assert!(!sent(&own[0]), "{name} was sent after another origin");
        }
        assert_eq!(away.header("accept"), "text/plain");
        assert_eq!(
            away.header("idempotency-key"),
            own[2].header("idempotency-key")
        );
    }
}

#[tokio::test]
async fn an_address_that_is_closed_is_refused_when_the_job_is_written() {
    let stage = served(&["127.0.0.1:8080".to_owned()]).await;
    let uri = "properties.action.request.uri";
    for closed in [
        "http://127.0.0.1/",
        "http://127.1:8081/",
        "http://2130706433/",
        "http://10.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://168.63.129.16/",
        "http://[fd00:ec2::254]/",
        "http://[fd20:ce::254]/",
        "http://0.0.0.0/",
    ] {
        let refused = stage.put("j", single(http_action(closed))).await;
        assert_eq!(refused.code(), (400, "BadRequest", uri), "{closed}");
        let why = refused.body["error"]["message"].as_str().unwrap();
        assert!(why.contains("STF-6060"), "{why}");
    }
    let mut nested = single(http_action("http://127.0.0.1:8080/"));
    nested["action"]["errorAction"] = http_action("http://127.0.0.1:8081/");
    let refused = stage.put("j", nested).await;
    let at = "properties.action.errorAction.request.uri";
    assert_eq!(refused.code(), (400, "BadRequest", at));
    let mut letter = single(http_action("http://127.0.0.1:8080/"));
    letter["steadfast"] = json!({"deadLetter": "http://127.0.0.1:8081/"});
    let refused = stage.put("j", letter).await;
    let at = "properties.steadfast.deadLetter";
    assert_eq!(refused.code(), (400, "BadRequest", at));
    let taken = stage
        .put("j", idle(http_action("http://127.0.0.1:8080/")))
        .await;
    assert_eq!(taken.status, 201, "{:?}", taken.body);
}

#[tokio::test]
async fn names_and_redirects_are_judged_with_the_port_that_is_called() {
    let (open, closed) = (Target::start(), Target::start());
    let stage = served(&[entry(&open)]).await;
    let named = |target: &Target| target.url("/x").replace("127.0.0.1", "localhost");
    let item = run(&stage, "named", http_action(&named(&open))).await;
    assert_eq!(item["status"], "Completed", "{item}");
    let item = run(&stage, "port", http_action(&named(&closed))).await;
    assert!(message(&item).contains("STF-6060"), "{item}");
    for (name, to) in [("bare", closed.url("/x")), ("name", named(&closed))] {
        let path = format!("/redirect/307/{to}");
        let item = run(&stage, name, http_action(&open.url(&path))).await;
        assert_eq!(item["status"], "Failed", "{item}");
        assert!(message(&item).contains("STF-6060"), "{item}");
    }
    assert_eq!(open.seen().len(), 3);
    assert!(closed.seen().is_empty(), "{:?}", closed.seen());
}

#[tokio::test]
async fn queues_buses_and_token_authorities_are_judged_too() {
    let closed = Target::start();
    let base = closed.base.clone();
    let open = Target::start();
    let allow = entry(&open).parse().unwrap();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| {
            options.connect.guard.policy = EgressPolicy::default();
            options.connect.guard.policy.allow = vec![allow];
            options.authority.clone_from(&base);
            options.endpoints.insert("a".to_owned(), base);
        }),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let mut oauth = http_action(&open.url("/x"));
    oauth["request"]["authentication"] = json!({"type": "ActiveDirectoryOAuth",
        "tenant": "tenant", "audience": "a", "clientId": "c", "secret": "s"});
    let queue = json!({"type": "StorageQueue", "queueMessage":
        {"storageAccount": "a", "queueName": "q", "sasToken": "s", "message": "m"}});
    let bus = json!({"type": "ServiceBusQueue", "serviceBusQueueMessage":
        {"namespace": "a", "queueName": "q", "message": "m"}});
    for (name, action) in [("oauth", oauth), ("queue", queue), ("bus", bus)] {
        let item = run(&stage, name, action).await;
        assert_eq!(item["status"], "Failed", "{name}: {item}");
        assert!(message(&item).contains("STF-6060"), "{name}: {item}");
    }
    assert!(closed.seen().is_empty(), "{:?}", closed.seen());
    assert!(open.seen().is_empty(), "it was called without a token");
}

#[tokio::test]
async fn a_token_with_the_longest_time_is_used() {
    let target = Target::start();
    let base = target.base.clone();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| options.authority = base),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    for name in ["first", "second"] {
        let mut action = http_action(&target.url("/x"));
        action["request"]["authentication"] = json!({"type": "ActiveDirectoryOAuth",
            "tenant": "longest", "audience": "a", "clientId": "c", "secret": "s"});
        let item = run(&stage, name, action).await;
        assert_eq!(item["status"], "Completed", "{item}");
    }
    let seen = target.seen();
    let paths: Vec<_> = seen.iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(paths, ["/longest/oauth2/token", "/x", "/x"]);
    assert_eq!(seen[2].header("authorization"), "Bearer longest");
}

/// A job as a writer of the database could store it: the stored one under another name
/// or with another action.
fn forged(stored: &JobDefinition, name: &str, action: &Value) -> JobDraft {
    let mut document: Value = serde_json::from_str(&stored.document).unwrap();
    document["action"] = action.clone();
    JobDraft {
        id: stored.id.collection.job(name).unwrap(),
        document: document.to_string(),
        timing: stored.timing.clone(),
        main: JobAction {
            target: Goal::Outside(action.to_string()),
            retry: JobRetry::NONE,
        },
        error: None,
        dead_letter: None,
        policy: JobPolicy::default(),
        state: None,
    }
}

async fn stored(stage: &Stage, name: &str) -> JobDefinition {
    let collection = CollectionId::new("sub", "rg", "jc").unwrap();
    let id = collection.job(name).unwrap();
    stage.jobs.job(&id).await.unwrap().definition
}

async fn run_now(stage: &Stage, name: &str) {
    let ran = stage.ask("POST", &format!("{}/run", job(name)), None).await;
    assert_eq!(ran.status, 200, "{:?}", ran.body);
}

#[tokio::test]
async fn a_stored_secret_that_is_copied_to_another_job_or_address_does_not_open() {
    let (stage, target, other) = (Stage::start().await, Target::start(), Target::start());
    stage.collection("Standard").await;
    let mut action = http_action(&target.url("/x"));
    let basic = json!({"type": "Basic", "username": "u", "password": "geheim"});
    action["request"]["authentication"] = basic;
    let made = stage.put("own", idle(action)).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let own = stored(&stage, "own").await;
    let document: Value = serde_json::from_str(&own.document).unwrap();
    let copied = document["action"].clone();
    let mut moved = copied.clone();
    moved["request"]["uri"] = other.url("/x").into();
    for (name, action, expect) in [
        ("copy", copied, Precondition::Nothing),
        ("own", moved, Precondition::Version(own.version)),
    ] {
        let draft = forged(&own, name, &action);
        stage.jobs.put(draft, expect).await.unwrap();
        run_now(&stage, name).await;
        let item = stage.history_of(name, 1).await.remove(0)["properties"].clone();
        assert!(message(&item).contains("cannot be opened"), "{item}");
    }
    assert!(target.seen().is_empty() && other.seen().is_empty());
}

#[tokio::test]
async fn a_secret_of_an_earlier_version_is_used_and_bound_when_its_job_is_written() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    let mut action = http_action(&target.url("/x"));
    let made = stage.put("own", idle(action.clone())).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    action["request"]["authentication"] =
        json!({"type": "Basic", "username": "u", "password": {"$sealed": OLD}});
    let draft = forged(&stored(&stage, "own").await, "old", &action);
    stage.jobs.put(draft, Precondition::Nothing).await.unwrap();
    let expected = format!("Basic {}", STANDARD.encode("u:geheim"));
    run_now(&stage, "old").await;
    assert_eq!(target.wait(1).await[0].header("authorization"), expected);
    let label = json!({"properties": {"steadfast": {"labels": {"a": "b"}}}});
    let patched = stage.ask("PATCH", &job("old"), Some(label)).await;
    assert_eq!(patched.status, 200, "{:?}", patched.body);
    let document = stored(&stage, "old").await.document;
    assert!(
        document.contains("$sealed") && !document.contains(OLD),
        "{document}"
    );
    run_now(&stage, "old").await;
    assert_eq!(target.wait(2).await[1].header("authorization"), expected);
}
