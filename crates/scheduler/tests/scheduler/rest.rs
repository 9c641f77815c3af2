//! The Scheduler's REST interface: wire, quotas, previews.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_core::clock::{Clock, SystemClock, Timestamp};
use steadfast_core::iso;
use steadfast_net::access::{AccessControl, Key, KeyRing, Secret};
use steadfast_scheduler::{Auth, Settings};

use crate::stage::{self, Answer, COLLECTION, Setup, Stage, Target, http_action, job, quick};

const PREVIEW: &str = "/subscriptions/sub/providers/Microsoft.Scheduler/previewRecurrence";

fn in_days(days: i64) -> String {
    let ms = SystemClock::new().now().0 / 1000 * 1000 + days * 86_400_000;
    iso::format_time(Timestamp(ms))
}

/// A job that does not run while a test lasts.
#[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
fn later(action: Value) -> Value {
    json!({"startTime": in_days(1), "action": action, "recurrence": {"frequency": "day"}})
}

fn quiet() -> Value {
    later(http_action("http://127.0.0.1:9/"))
}

#[tokio::test]
async fn jobs_02_words_come_in_any_case_and_go_out_in_one() {
    let stage = Stage::start().await;
    stage.collection("p20premium").await;
    let mut action = http_action("http://127.0.0.1:9/");
    action["type"] = "HTTP".into();
    action["request"]["method"] = "get".into();
    action["retryPolicy"] = json!({"retryType": "fixed"});
    let recurrence = json!({"frequency": "week", "schedule": {"weekDays": ["friday", "MONDAY"]}});
    let properties = json!({
        "startTime": in_days(1), "action": action, "recurrence": recurrence, "state": "disabled",
    });
    let made = stage.put("j", properties).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let found = &stage.get("j").await["properties"];
    assert_eq!(found["state"], "Disabled");
    assert_eq!(found["action"]["type"], "Http");
    assert_eq!(found["action"]["request"]["method"], "GET");
    assert_eq!(found["action"]["retryPolicy"]["retryType"], "Fixed");
    assert_eq!(found["recurrence"]["frequency"], "Week");
    assert_eq!(
        found["recurrence"]["schedule"]["weekDays"],
        json!(["Friday", "Monday"])
    );
    let home = stage.ask("GET", COLLECTION, None).await.body;
    assert_eq!(home["properties"]["sku"]["name"], "P20Premium");
    assert_eq!(home["properties"]["state"], "Enabled");
    assert_eq!(home["type"], "Microsoft.Scheduler/jobCollections");
}

#[tokio::test]
async fn jobs_03_occurrences_come_back_with_their_capital() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let list = json!([{"day": "friday", "Occurrence": -1}, {"day": "Monday", "occurrence": 2}, {"day": "Sunday"}]);
    let mut properties = quiet();
    properties["recurrence"] =
        json!({"frequency": "Month", "schedule": {"monthlyOccurrences": list}});
    assert_eq!(stage.put("j", properties).await.status, 201);
    let found = stage.get("j").await;
    let list = &found["properties"]["recurrence"]["schedule"]["monthlyOccurrences"];
    let expected = json!([{"day": "Friday", "Occurrence": -1}, {"day": "Monday", "Occurrence": 2}, {"day": "Sunday"}]);
    assert_eq!(*list, expected);
}

#[tokio::test]
async fn jobs_04_durations_come_in_two_forms_and_go_out_in_one() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for (given, shown) in [
        ("00:00:30", "PT30S"),
        ("PT30S", "PT30S"),
        ("1.00:00:30", "P1DT30S"),
        ("PT1D", "P1D"),
    ] {
        let mut action = http_action("http://127.0.0.1:9/");
        action["retryPolicy"] =
            json!({"retryType": "Fixed", "retryInterval": given, "retryCount": 2});
        stage.put("j", later(action)).await;
        let found = stage.get("j").await;
        assert_eq!(
            found["properties"]["action"]["retryPolicy"]["retryInterval"],
            shown
        );
    }
    for bad in ["PT10S", "nonsense", "P600D"] {
        let mut action = http_action("http://127.0.0.1:9/");
        action["retryPolicy"] = json!({"retryType": "Fixed", "retryInterval": bad});
        let stage = Stage::with(Setup {
            settings: Settings::default(),
            ..Setup::default()
        })
        .await;
        stage.collection("Standard").await;
        let refused = stage.put("j", later(action)).await;
        let target = "properties.action.retryPolicy.retryInterval";
        assert_eq!(refused.code(), (400, "BadRequest", target));
    }
}

/// An action of every type that holds a secret, each secret the same text.
fn secretive() -> Vec<(&'static str, Value)> {
    let with = |authentication: Value| {
        let mut action = http_action("http://127.0.0.1:9/");
        action["request"]["authentication"] = authentication;
        action
    };
    vec![
        (
            "basic",
            with(json!({"type": "basic", "username": "u", "password": "geheim"})),
        ),
        (
            "oauth",
            with(
                json!({"type": "activedirectoryoauth", "tenant": "t", "audience": "a", "clientId": "c", "secret": "geheim"}),
            ),
        ),
        (
            "queue",
            json!({"type": "StorageQueue", "queueMessage": {"storageAccount": "a", "queueName": "q", "sasToken": "geheim", "message": "m"}}),
        ),
        (
            "bus",
            json!({"type": "ServiceBusQueue", "serviceBusQueueMessage": {"namespace": "n", "queueName": "q", "message": "m", "authentication": {"type": "sharedAccessKey", "sasKeyName": "k", "sasKey": "geheim"}}}),
        ),
        (
            "topic",
            json!({"type": "ServiceBusTopic", "serviceBusTopicMessage": {"namespace": "n", "topicPath": "t", "message": "m", "authentication": {"type": "sharedAccessKey", "sasKeyName": "k", "sasKey": "geheim"}}}),
        ),
    ]
}

#[tokio::test]
async fn jobs_05_no_answer_and_no_row_shows_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::with(Setup {
        data: Some(folder.path()),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    for (name, action) in secretive() {
        let mut properties = later(action.clone());
        properties["action"]["errorAction"] = action;
        let made = stage.put(name, properties).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
        let patched = stage
            .ask("PATCH", &job(name), Some(json!({"properties": {}})))
            .await;
        let listed = stage.ask("GET", &format!("{COLLECTION}/jobs"), None).await;
        for answer in [&made, &patched, &listed] {
            let text = answer.body.to_string();
            assert!(
                !text.contains("geheim") && !text.contains("$sealed"),
                "{text}"
            );
        }
        // It fails, and what it says about that tells nothing either.
        stage.ask("POST", &format!("{}/run", job(name)), None).await;
        let history = stage.history_of(name, 1).await;
        assert!(!json!(history).to_string().contains("geheim"));
    }
    let files = files_below(folder.path());
    assert!(files.len() > 3);
    let holds = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"geheim");
    let open: Vec<_> = files
        .iter()
        .filter(|file| holds(&std::fs::read(file).unwrap()))
        .collect();
    assert!(open.is_empty(), "{open:?}");
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path))
        } else {
            found.push(path)
        }
    }
    found
}

#[tokio::test]
async fn jobs_06_what_was_read_can_be_put_back_and_keeps_its_secrets() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for (name, action) in secretive() {
        assert_eq!(stage.put(name, later(action)).await.status, 201);
        let found = stage.get(name).await;
        let again = stage.ask("PUT", &job(name), Some(found.clone())).await;
        assert_eq!(again.status, 200, "{name}: {:?}", again.body);
        assert_eq!(
            again.body["properties"]["action"],
            found["properties"]["action"]
        );
    }
    // Another user has another password.
    let mut found = stage.get("basic").await;
    found["properties"]["action"]["request"]["authentication"]["username"] = "other".into();
    let refused = stage.ask("PUT", &job("basic"), Some(found)).await;
    let target = "properties.action.request.authentication.password";
    assert_eq!(refused.code(), (400, "BadRequest", target));
}

#[tokio::test]
async fn jobs_07_a_patch_merges_and_null_removes_authentication() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let (_, action) = secretive().remove(0);
    let mut properties = later(action);
    properties["action"]["request"]["headers"] = json!({"a": "1", "b": "2"});
    stage.put("j", properties).await;
    let patch = async |change: Value| {
        let answer = stage
            .ask("PATCH", &job("j"), Some(json!({"properties": change})))
            .await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        answer.body["properties"]["action"]["request"].clone()
    };
    let uri = "http://127.0.0.1:9/other";
    let request = patch(json!({"action": {"request": {"uri": uri, "headers": {"b": "3"}}}})).await;
    assert_eq!(request["uri"], uri);
    assert_eq!(request["headers"], json!({"a": "1", "b": "3"}));
    assert_eq!(
        request["authentication"],
        json!({"type": "Basic", "username": "u"})
    );
    let request = patch(json!({"action": {"request": {"authentication": null}}})).await;
    assert_eq!(request.get("authentication"), None);
    let absent = stage
        .ask("PATCH", &job("absent"), Some(json!({"properties": {}})))
        .await;
    assert_eq!(absent.code(), (404, "ResourceNotFound", ""));
}

#[tokio::test]
async fn jobs_08_a_put_makes_and_then_replaces() {
    let stage = Stage::start().await;
    let body = json!({"location": "West US", "tags": {"a": "b"}, "properties": {}});
    assert_eq!(
        stage
            .ask("PUT", COLLECTION, Some(body.clone()))
            .await
            .status,
        201
    );
    let again = stage.ask("PUT", COLLECTION, Some(body)).await;
    assert_eq!(
        (again.status, &again.body["tags"]),
        (200, &json!({"a": "b"}))
    );
    assert_eq!(stage.put("j", quiet()).await.status, 201);
    assert_eq!(stage.put("j", quiet()).await.status, 200);
    let elsewhere = COLLECTION.replace("jc", "nowhere");
    let body = json!({"properties": quiet()});
    let lost = stage
        .ask("PUT", &format!("{elsewhere}/jobs/j"), Some(body))
        .await;
    assert_eq!(lost.code(), (404, "ResourceNotFound", ""));
}

#[tokio::test]
async fn jobs_09_what_is_deleted_is_gone() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    stage.put("j", quiet()).await;
    assert_eq!(stage.ask("DELETE", &job("j"), None).await.status, 200);
    assert_eq!(stage.ask("DELETE", &job("j"), None).await.status, 404);
    stage.put("k", quiet()).await;
    assert_eq!(stage.ask("DELETE", COLLECTION, None).await.status, 200);
    assert_eq!(stage.ask("DELETE", COLLECTION, None).await.status, 404);
    assert_eq!(stage.ask("GET", &job("k"), None).await.status, 404);
}

#[tokio::test]
async fn jobs_10_a_long_sweep_is_polled_to_its_end() {
    let settings = Settings {
        synchronous_jobs: 0,
        ..quick()
    };
    let stage = Stage::with(Setup {
        settings,
        ..Setup::default()
    })
    .await;
    stage.collection("P20Premium").await;
    for number in 0..40 {
        stage.put(&format!("j{number}"), quiet()).await;
    }
    for (verb, method, path) in [("disable", "POST", "/disable"), ("delete", "DELETE", "")] {
        let begun = stage
            .ask(method, &format!("{COLLECTION}{path}"), None)
            .await;
        assert_eq!(
            (begun.status, &begun.headers["retry-after"]),
            (202, &"1".parse().unwrap()),
            "{verb}"
        );
        let place = begun.headers["location"].to_str().unwrap().to_string();
        assert!(place.starts_with(&stage.base), "{place}");
        let mut polled = stage.ask_raw("GET", &place, None, &[]).await;
        for _ in 0..200 {
            if polled.status != 202 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            polled = stage.ask_raw("GET", &place, None, &[]).await;
        }
        assert_eq!(polled.status, 200, "{verb}");
        if verb == "disable" {
            assert_eq!(stage.get("j17").await["properties"]["state"], "Disabled");
        }
    }
    assert_eq!(stage.ask("GET", COLLECTION, None).await.status, 404);
}

#[tokio::test]
async fn jobs_11_top_is_bounded() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for (query, name) in [
        ("$top=0", "$top"),
        ("$top=101", "$top"),
        ("$top=x", "$top"),
        ("$skip=-1", "$skip"),
    ] {
        let refused = stage
            .ask("GET", &format!("{COLLECTION}/jobs?{query}"), None)
            .await;
        let code = "MissingOrInvalidRequiredQueryParameter";
        assert_eq!(refused.code(), (400, code, name), "{query}");
    }
}

async fn names(stage: &Stage, url: &str) -> (Vec<String>, Option<String>) {
    let page = stage.ask_raw("GET", url, None, &[]).await;
    assert_eq!(page.status, 200, "{:?}", page.body);
    let name = |item: &Value| item["name"].as_str().unwrap().to_string();
    let list = page.body["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    (list, page.body["nextLink"].as_str().map(Into::into))
}

#[tokio::test]
async fn jobs_13_paging_is_stable_under_inserts() {
    let settings = Settings {
        page: 10,
        ..quick()
    };
    let stage = Stage::with(Setup {
        settings,
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    for number in 0..25 {
        stage.put(&format!("m{number:02}"), quiet()).await;
    }
    let first = format!("{COLLECTION}/jobs?api-version=2016-03-01");
    let (mut all, mut next) = names(&stage, &first).await;
    let mut round = 0;
    while let Some(link) = next {
        // One before what was read, one behind all.
        stage.put(&format!("a{round}"), quiet()).await;
        stage.put(&format!("z{round}"), quiet()).await;
        round += 1;
        let (list, following) = names(&stage, &link).await;
        all.extend(list);
        next = following;
    }
    let old: Vec<_> = all
        .iter()
        .filter(|name| name.starts_with("jc/m"))
        .cloned()
        .collect();
    let expected: Vec<_> = (0..25).map(|number| format!("jc/m{number:02}")).collect();
    assert_eq!(old, expected);
    assert!(!all.iter().any(|name| name.starts_with("jc/a")));
    let (five, next) = names(&stage, &format!("{first}&$top=5&$skip=3")).await;
    assert_eq!((five.len(), next), (5, None));
}

#[tokio::test]
async fn jobs_14_lists_are_filtered_by_state_and_status() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    for (name, state) in [("a", "Enabled"), ("b", "Disabled"), ("c", "Disabled")] {
        let mut properties = quiet();
        properties["state"] = state.into();
        stage.put(name, properties).await;
    }
    let count = async |path: &str| {
        let found = stage.ask("GET", path, None).await;
        assert_eq!(found.status, 200, "{path} {:?}", found.body);
        found.body["value"].as_array().unwrap().len()
    };
    for (filter, expected) in [
        ("state eq Disabled", 2),
        ("STATE eq 'enabled'", 1),
        ("state eq Faulted", 0),
    ] {
        assert_eq!(
            count(&format!("{COLLECTION}/jobs?$filter={filter}")).await,
            expected
        );
    }
    for path in ["/status/200", "/status/500"] {
        let mut action = http_action(&target.url(path));
        action["retryPolicy"] = json!({"retryType": "None"});
        let name = path.replace('/', "-");
        stage.put(&name, json!({"action": action})).await;
        stage.history_of(&name, 1).await;
    }
    let history = format!("{}/history", job("-status-500"));
    assert_eq!(
        count(&format!("{history}?$filter=status eq Failed")).await,
        1
    );
    assert_eq!(
        count(&format!("{history}?$filter=state eq 'completed'")).await,
        0
    );
    for filter in [
        "status ne Failed",
        "name eq x",
        "status eq",
        "status eq 'Failed",
        "status eq Maybe",
    ] {
        let refused = stage
            .ask("GET", &format!("{history}?$filter={filter}"), None)
            .await;
        assert_eq!(refused.status, 400, "{filter}");
    }
}

#[tokio::test]
async fn jobs_15_ids_have_any_case_and_names_have_two_parts() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    stage.put("j%2F%C3%BC", quiet()).await;
    let shouted = format!("{}/JOBS/J%2F%C3%9C", COLLECTION.to_uppercase());
    let found = stage.ask("GET", &shouted, None).await;
    assert_eq!(found.status, 200, "{:?}", found.body);
    assert_eq!(found.body["name"], "JC/J/Ü");
    assert_eq!(
        found.body["type"],
        "Microsoft.Scheduler/jobCollections/jobs"
    );
    let id = found.body["id"].as_str().unwrap();
    assert!(id.starts_with("/subscriptions/SUB/resourceGroups/RG/providers/Microsoft.Scheduler/jobCollections/JC/jobs/"), "{id}");
    assert_eq!(
        stage.put("J%2F%C3%9C", quiet()).await.status,
        200,
        "it is the same job"
    );
}

#[tokio::test]
async fn jobs_16_a_version_that_is_not_known_is_refused() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for query in ["", "?api-version=2020-01-01", "?api-version="] {
        let refused = stage
            .ask_raw("GET", &format!("{COLLECTION}{query}"), None, &[])
            .await;
        let code = "MissingOrInvalidRequiredQueryParameter";
        assert_eq!(refused.code(), (400, code, "api-version"), "{query}");
    }
    for version in ["2016-03-01", "2016-01-01", "2014-08-01-preview"] {
        let found = stage
            .ask_raw(
                "GET",
                &format!("{COLLECTION}?api-version={version}"),
                None,
                &[],
            )
            .await;
        assert_eq!(found.status, 200);
        for name in ["x-ms-request-id", "x-ms-correlation-request-id"] {
            assert!(found.headers.contains_key(name), "{name}");
        }
        assert_eq!(found.headers["cache-control"], "no-cache");
    }
}

#[tokio::test]
async fn jobs_18_a_repeated_request_runs_a_job_once() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    stage.put("j", later(http_action(&target.url("/x")))).await;
    let before = stage.get("j").await["properties"]["status"].clone();
    let path = format!("{}/run?{}", job("j"), stage::VERSION);
    for id in ["one", "one", "one", "two"] {
        let headers = [("x-ms-client-request-id", id)];
        let run = stage.ask_raw("POST", &path, None, &headers).await;
        assert_eq!((run.status, &run.body), (200, &Value::Null));
    }
    stage.history_of("j", 2).await;
    assert_eq!(target.seen().len(), 2);
    let after = stage.get("j").await["properties"]["status"].clone();
    assert_eq!(after["executionCount"], 2);
    assert_eq!(after["nextExecutionTime"], before["nextExecutionTime"]);
}

#[tokio::test]
async fn jobs_19_a_standard_collection_has_fifty_jobs() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for number in 0..50 {
        assert_eq!(stage.put(&format!("j{number}"), quiet()).await.status, 201);
    }
    assert_eq!(
        stage.put("one-more", quiet()).await.code(),
        (409, "ConflictError", "")
    );
    assert_eq!(
        stage.put("j7", quiet()).await.status,
        200,
        "it is there already"
    );
    stage.ask("DELETE", &job("j7"), None).await;
    assert_eq!(stage.put("one-more", quiet()).await.status, 201);
    let more = json!({"properties": {"quota": {"maxJobCount": 51}}});
    let refused = stage.ask("PATCH", COLLECTION, Some(more)).await;
    assert_eq!(
        refused.code(),
        (400, "BadRequest", "properties.quota.maxJobCount")
    );
}

#[tokio::test]
async fn jobs_20_a_free_collection_has_no_job_every_minute() {
    let stage = Stage::start().await;
    stage.collection("Free").await;
    let mut properties = quiet();
    properties["recurrence"] = json!({"frequency": "minute", "interval": 59});
    let refused = stage.put("j", properties.clone()).await;
    assert_eq!(
        refused.code(),
        (409, "ConflictError", "properties.recurrence")
    );
    properties["recurrence"] = json!({"frequency": "minute", "interval": 60});
    assert_eq!(stage.put("j", properties).await.status, 201);
    let lifted = Settings {
        enforce_quotas: false,
        ..quick()
    };
    let stage = Stage::with(Setup {
        settings: lifted,
        ..Setup::default()
    })
    .await;
    stage.collection("Free").await;
    let mut properties = quiet();
    properties["recurrence"] = json!({"frequency": "minute"});
    for number in 0..6 {
        assert_eq!(
            stage
                .put(&format!("j{number}"), properties.clone())
                .await
                .status,
            201
        );
    }
}

#[tokio::test]
async fn jobs_21_the_smallest_gap_of_a_schedule_counts() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let hourly =
        json!({"properties": {"quota": {"maxRecurrence": {"frequency": "hour", "interval": 1}}}});
    assert_eq!(
        stage.ask("PATCH", COLLECTION, Some(hourly)).await.status,
        200
    );
    let mut properties = quiet();
    properties["recurrence"] =
        json!({"frequency": "Day", "interval": 1, "schedule": {"minutes": [0, 1]}});
    let refused = stage.put("j", properties.clone()).await;
    assert_eq!(
        refused.code(),
        (409, "ConflictError", "properties.recurrence")
    );
    properties["recurrence"]["schedule"]["minutes"] = json!([0]);
    assert_eq!(stage.put("j", properties).await.status, 201);
}

#[tokio::test]
async fn jobs_22_a_job_that_is_too_large_is_refused() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let mut properties = quiet();
    properties["action"]["request"]["body"] = "x".repeat(17 * 1024).into();
    assert_eq!(
        stage.put("j", properties.clone()).await.code(),
        (400, "BadRequest", "properties")
    );
    properties["action"]["request"]["body"] = "x".repeat(8193).into();
    let target = "properties.action.request.body";
    assert_eq!(
        stage.put("j", properties.clone()).await.code(),
        (400, "BadRequest", target)
    );
    properties["action"]["request"]["body"] = "ü".repeat(4000).into();
    assert_eq!(stage.put("j", properties).await.status, 201);
    let long = http_action(&format!("http://127.0.0.1:9/{}", "x".repeat(2048)));
    let target = "properties.action.request.uri";
    assert_eq!(
        stage.put("k", later(long)).await.code(),
        (400, "BadRequest", target)
    );
}

#[tokio::test]
async fn jobs_23_headers_are_bounded() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let with = |headers: Value| {
        let mut action = http_action("http://127.0.0.1:9/");
        action["request"]["headers"] = headers;
        later(action)
    };
    let many = |count: usize| -> Value {
        let pairs = (0..count).map(|n| (format!("h{n}"), json!("v")));
        pairs.collect::<serde_json::Map<_, _>>().into()
    };
    let target = "properties.action.request.headers";
    assert_eq!(
        stage.put("j", with(many(51))).await.code(),
        (400, "BadRequest", target)
    );
    assert_eq!(stage.put("j", with(many(50))).await.status, 201);
    let long = with(json!({"a": "x".repeat(4096)}));
    assert_eq!(
        stage.put("k", long).await.code(),
        (400, "BadRequest", target)
    );
    for name in ["Host", "content-length", "Connection", "Transfer-Encoding"] {
        let refused = stage.put("k", with(json!({name: "x"}))).await;
        assert_eq!(refused.status, 400, "{name}");
    }
}

#[tokio::test]
async fn jobs_24_a_start_is_eighteen_months_ahead_at_most() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let mut properties = quiet();
    properties["startTime"] = in_days(19 * 31).into();
    assert_eq!(
        stage.put("j", properties.clone()).await.code(),
        (400, "BadRequest", "properties.startTime")
    );
    properties["startTime"] = in_days(540).into();
    assert_eq!(stage.put("j", properties).await.status, 201);
}

async fn preview(stage: &Stage, body: Value) -> Answer {
    stage.ask("POST", PREVIEW, Some(body)).await
}

#[tokio::test]
async fn jobs_25_a_preview_gives_the_vectors() {
    let stage = Stage::start().await;
    let vectors = include_str!("../../../jobs/tests/vectors.txt");
    let mut count = 0;
    for line in vectors.lines().filter(|line| line.starts_with('R')) {
        let parts: Vec<_> = line.split('|').map(str::trim).collect();
        let [id, now, start, rule, runs] = parts.as_slice() else {
            panic!("{line}");
        };
        let mut body = json!({"now": now, "top": 1000});
        match *start {
            "-" => {}
            "=" => body["startTime"] = (*now).into(),
            start => body["startTime"] = start.into(),
        }
        if !rule.is_empty() {
            body["recurrence"] = rule_json(rule);
        }
        let (runs, is_end) = match runs.strip_suffix(";end") {
            Some(runs) => (runs, true),
            None => (*runs, false),
        };
        let expected: Vec<_> = runs.split(' ').map(full).collect();
        if !is_end {
            body["top"] = expected.len().into();
        }
        let answer = preview(&stage, body).await;
        assert_eq!(answer.body["value"], json!(expected), "{id}");
        count += 1;
    }
    assert_eq!(count, 28);
}

fn full(time: &str) -> String {
    iso::format_time(iso::parse_time(time).unwrap())
}

/// `Week/2 h[17] m[0] wd[Mo,We] end 2025-06-08T08:00 count 5` as JSON.
fn rule_json(text: &str) -> Value {
    let mut words = text.split_whitespace();
    let (frequency, interval) = words.next().unwrap().split_once('/').unwrap();
    let mut rule = json!({"frequency": frequency, "interval": interval.parse::<u32>().unwrap()});
    let day = |text: &str| {
        let days = [
            "Monday",
            "Tuesday",
            "Wednesday",
            "Thursday",
            "Friday",
            "Saturday",
            "Sunday",
        ];
        days.into_iter().find(|day| day.starts_with(text)).unwrap()
    };
    while let Some(word) = words.next() {
        match word {
            "end" => rule["endTime"] = words.next().unwrap().into(),
            "count" => rule["count"] = words.next().unwrap().parse::<u32>().unwrap().into(),
            _ => {
                let (name, list) = word.strip_suffix(']').unwrap().split_once('[').unwrap();
                let numbers = || -> Value {
                    list.split(',')
                        .map(|n| json!(n.parse::<i32>().unwrap()))
                        .collect()
                };
                let schedule = &mut rule["schedule"];
                match name {
                    "h" => schedule["hours"] = numbers(),
                    "m" => schedule["minutes"] = numbers(),
                    "md" => schedule["monthDays"] = numbers(),
                    "wd" => schedule["weekDays"] = list.split(',').map(day).collect(),
                    _ => {
                        let item = |text: &str| match text.split_at(2) {
                            (name, "") => json!({"day": day(name)}),
                            (name, n) => {
                                json!({"day": day(name), "Occurrence": n.parse::<i32>().unwrap()})
                            }
                        };
                        schedule["monthlyOccurrences"] = list.split(',').map(item).collect();
                    }
                }
            }
        }
    }
    rule
}

#[tokio::test]
async fn jobs_26_the_next_execution_is_the_first_of_the_preview() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let recurrences = [
        json!({"frequency": "Month", "schedule": {"monthDays": [-1], "hours": [6]}}),
        json!({"frequency": "Week", "interval": 2, "schedule": {"weekDays": ["Sunday"], "minutes": [30]}}),
        json!({"frequency": "Hour", "interval": 7}),
    ];
    for recurrence in recurrences {
        let start = in_days(2);
        let properties = json!({"startTime": start, "recurrence": recurrence, "action": http_action("http://127.0.0.1:9/")});
        let made = stage.put("j", properties.clone()).await;
        let body = json!({"startTime": start, "recurrence": recurrence, "top": 1});
        let first = preview(&stage, body).await.body["value"][0].clone();
        assert_eq!(
            made.body["properties"]["status"]["nextExecutionTime"],
            first
        );
    }
}

#[tokio::test]
async fn jobs_28_bad_combinations_name_their_member() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let cases = [
        (json!({}), "frequency"),
        (json!({"frequency": "year"}), "frequency"),
        (json!({"frequency": "second"}), "frequency"),
        (json!({"frequency": "day", "interval": 0}), "interval"),
        (json!({"frequency": "day", "count": 0}), "count"),
        (
            json!({"frequency": "day", "endTime": "2020-01-01"}),
            "endTime",
        ),
        (
            json!({"frequency": "day", "schedule": {"hours": [24]}}),
            "schedule.hours",
        ),
        (
            json!({"frequency": "day", "schedule": {"hours": []}}),
            "schedule.hours",
        ),
        (
            json!({"frequency": "day", "schedule": {"minutes": [60]}}),
            "schedule.minutes",
        ),
        (
            json!({"frequency": "day", "schedule": {"weekDays": ["Monday"]}}),
            "schedule.weekDays",
        ),
        (
            json!({"frequency": "week", "schedule": {"weekDays": ["Mon"]}}),
            "schedule.weekDays",
        ),
        (
            json!({"frequency": "week", "schedule": {"monthDays": [1]}}),
            "schedule.monthDays",
        ),
        (
            json!({"frequency": "month", "schedule": {"monthDays": [0]}}),
            "schedule.monthDays",
        ),
        (
            json!({"frequency": "month", "schedule": {"monthlyOccurrences": [{"Occurrence": 1}]}}),
            "schedule.monthlyOccurrences.day",
        ),
        (
            json!({"frequency": "month", "schedule": {"monthlyOccurrences": [{"day": "Friday", "Occurrence": 0}]}}),
            "schedule.monthlyOccurrences.Occurrence",
        ),
    ];
    for (recurrence, target) in cases {
        let mut properties = quiet();
        properties["recurrence"] = recurrence.clone();
        let refused = stage.put("j", properties).await;
        let target = format!("properties.recurrence.{target}");
        assert_eq!(
            refused.code(),
            (400, "BadRequest", target.as_str()),
            "{recurrence}"
        );
    }
    let mut never = quiet();
    never["startTime"] = in_days(1).into();
    never["recurrence"] =
        json!({"frequency": "minute", "interval": 60, "schedule": {"minutes": [-1]}});
    assert_eq!(stage.put("j", never).await.status, 400);
    let mut bare = quiet();
    bare["recurrence"] = json!({"frequency": "day", "schedule": {"hours": 5}});
    assert_eq!(
        stage.put("j", bare).await.status,
        201,
        "a bare number is a list of one"
    );
}

#[tokio::test]
async fn jobs_29_a_start_with_an_offset_is_read_as_utc() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let day = &in_days(30)[..10];
    let properties = json!({
        "startTime": format!("{day}T23:30:00.1234567890123456-02:00"),
        "recurrence": {"frequency": "day", "schedule": {"hours": [5], "minutes": [0]}},
        "action": http_action("http://127.0.0.1:9/"),
    });
    let made = stage.put("j", properties).await;
    let next = &in_days(31)[..10];
    assert_eq!(
        made.body["properties"]["startTime"],
        format!("{next}T01:30:00.123Z")
    );
    let status = &made.body["properties"]["status"];
    assert!(
        status["nextExecutionTime"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{next}T05:00:00"))
    );
}

#[tokio::test]
async fn jobs_31_zones_have_their_clock_changes() {
    let stage = Stage::start().await;
    let ask = async |now: &str, gap: Option<&str>| {
        let mut body = json!({
            "now": now, "startTime": "2025-01-01", "top": 3,
            "recurrence": {"frequency": "Day", "schedule": {"hours": [2], "minutes": [30]}},
            "steadfast": {"timeZone": "Europe/Berlin"},
        });
        if let Some(gap) = gap {
            body["steadfast"]["dstGap"] = gap.into();
        }
        preview(&stage, body).await.body["value"].clone()
    };
    let spring = json!([
        "2025-03-29T01:30:00Z",
        "2025-03-30T01:00:00Z",
        "2025-03-31T00:30:00Z"
    ]);
    assert_eq!(ask("2025-03-28T12:00:00Z", None).await, spring);
    let autumn = json!([
        "2025-10-25T00:30:00Z",
        "2025-10-26T00:30:00Z",
        "2025-10-27T01:30:00Z"
    ]);
    assert_eq!(ask("2025-10-24T12:00:00Z", None).await, autumn);
    let skipped = json!([
        "2025-03-29T01:30:00Z",
        "2025-03-31T00:30:00Z",
        "2025-04-01T00:30:00Z"
    ]);
    assert_eq!(ask("2025-03-28T12:00:00Z", Some("skip")).await, skipped);
}

#[tokio::test]
async fn extensions_are_kept_by_a_put_that_does_not_know_them() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let extension = json!({"timeZone": "Europe/Berlin", "overlapPolicy": "Skip", "inFlight": "SKIP", "labels": {"team": "a"}, "jitter": "00:00:30"});
    let mut properties = quiet();
    properties["steadfast"] = extension;
    let made = stage.put("j", properties.clone()).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let shown = json!({"timeZone": "Europe/Berlin", "overlapPolicy": "Skip", "inFlight": "skip", "labels": {"team": "a"}, "jitter": "PT30S"});
    assert_eq!(made.body["properties"]["steadfast"], shown);
    let again = stage.put("j", quiet()).await;
    assert_eq!(again.body["properties"]["steadfast"], shown);
    properties["steadfast"] = Value::Null;
    let removed = stage.put("j", properties.clone()).await;
    assert_eq!(removed.body["properties"].get("steadfast"), None);
    for (name, value) in [("overlap", "Skip"), ("inFlight", "forget")] {
        properties["steadfast"] = json!({name: value});
        let refused = stage.put("j", properties.clone()).await;
        let member = format!("properties.steadfast.{name}");
        assert_eq!(refused.code(), (400, "BadRequest", &*member));
    }
    let paused = stage
        .ask(
            "POST",
            &format!("{}/pause", job("j")),
            Some(json!({"reason": "why not"})),
        )
        .await;
    assert_eq!(paused.status, 200);
    assert_eq!(
        stage.get("j").await["properties"]["steadfast"]["pause"]["reason"],
        "why not"
    );
    assert_eq!(
        stage
            .ask("POST", &format!("{}/resume", job("j")), None)
            .await
            .status,
        200
    );
    assert!(stage.get("j").await["properties"]["status"]["nextExecutionTime"].is_string());
}

#[tokio::test]
async fn exported_jobs_are_imported() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let exported = json!({"value": [
        {
            "id": "/subscriptions/x/resourceGroups/y/providers/Microsoft.Scheduler/jobCollections/old/jobs/one",
            "type": "Microsoft.Scheduler/jobCollections/jobs",
            "name": "old/one",
            "properties": {
                "startTime": "2015-07-13T00:00:00Z",
                "action": {"request": {"uri": "http://127.0.0.1:9/", "method": "GET"}, "type": "http",
                           "retryPolicy": {"retryType": "fixed", "retryInterval": "00:00:30", "retryCount": 3}},
                "recurrence": {"frequency": "minute", "interval": 30},
                "state": "enabled",
                "status": {"executionCount": 17, "nextExecutionTime": "2016-03-30T19:36:08Z"},
            },
        },
        {"name": "old/two", "type": "Microsoft.Scheduler/jobCollections/jobs", "properties": {
            "action": {"type": "https", "request": {"uri": "https://127.0.0.1:9/", "method": "POST",
                       "authentication": {"type": "basic", "username": "u"}}},
            "state": "completed"}},
        {"name": "old/three", "type": "Microsoft.Scheduler/jobCollections/jobs", "properties": {
            "action": {"type": "http", "request": {"uri": "http://127.0.0.1:9/"}}, "state": "completed"}},
        {"name": "old", "type": "Microsoft.Scheduler/jobCollections", "properties": {}},
    ]});
    let told = stage
        .ask("POST", &format!("{COLLECTION}/import"), Some(exported))
        .await;
    assert_eq!(told.status, 200, "{:?}", told.body);
    let results: Vec<_> = told.body["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            (
                item["name"].as_str().unwrap(),
                item["result"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        results,
        [("one", "created"), ("two", "refused"), ("three", "created")]
    );
    let target = &told.body["value"][1]["target"];
    assert_eq!(*target, "properties.action.request.authentication.password");
    let one = stage.get("one").await;
    assert_eq!(one["properties"]["status"]["executionCount"], 0);
    assert_eq!(
        one["properties"]["action"]["retryPolicy"]["retryInterval"],
        "PT30S"
    );
    assert_eq!(stage.get("three").await["properties"]["state"], "Disabled");
}

#[tokio::test]
async fn whoever_has_no_key_is_not_let_in() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut ring = KeyRing::new();
    for (name, right, secret) in [
        ("all", "manage jobs", "s1"),
        ("reader", "listen jobs", "s2"),
        ("other", "manage events", "s3"),
    ] {
        ring.add(Key {
            name: name.into(),
            grants: vec![right.parse().unwrap()],
            primary: Secret::new(secret),
            secondary: None,
        });
    }
    let auth = Auth::Keys(Arc::new(AccessControl::new(ring, clock)));
    let stage = Stage::with(Setup {
        auth,
        ..Setup::default()
    })
    .await;
    let path = format!("{COLLECTION}?{}", stage::VERSION);
    let ask = async |method: &str, token: Option<&str>| {
        let header = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = header
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        let body = (method == "PUT").then(|| json!({}));
        stage.ask_raw(method, &path, body, &headers).await
    };
    assert_eq!(
        ask("GET", None).await.code(),
        (401, "AuthenticationFailed", "")
    );
    assert_eq!(
        ask("GET", Some("wrong")).await.code(),
        (401, "AuthenticationFailed", "")
    );
    assert_eq!(ask("GET", Some("s3")).await.status, 403);
    assert_eq!(ask("PUT", Some("s2")).await.status, 403);
    assert_eq!(ask("PUT", Some("s1")).await.status, 201);
    assert_eq!(ask("GET", Some("s2")).await.status, 200);
}

#[tokio::test]
async fn a_change_of_something_unseen_is_refused() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let made = stage.put("j", quiet()).await;
    let tag = made.headers["etag"].to_str().unwrap().to_string();
    let path = format!("{}?{}", job("j"), stage::VERSION);
    let body = json!({"properties": {"state": "Disabled"}});
    let good = stage
        .ask_raw("PATCH", &path, Some(body.clone()), &[("if-match", &tag)])
        .await;
    assert_eq!(good.status, 200);
    let stale = stage
        .ask_raw("PATCH", &path, Some(body), &[("if-match", &tag)])
        .await;
    assert_eq!(stale.code(), (409, "ConflictError", ""));
}

#[tokio::test]
async fn bad_input_is_told_in_the_clients_own_form() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let action = |change: &dyn Fn(&mut Value)| {
        let mut action = http_action("http://127.0.0.1:9/");
        change(&mut action);
        later(action)
    };
    let cases: Vec<(Value, &str, &str)> = vec![
        (json!({}), "BadRequest", "properties.action"),
        (
            action(&|a| a["type"] = "Ftp".into()),
            "BadRequest",
            "properties.action.type",
        ),
        (
            action(&|a| a["type"] = "Https".into()),
            "BadRequest",
            "properties.action.request.uri",
        ),
        (
            action(&|a| a["request"]["uri"] = "nowhere".into()),
            "BadRequest",
            "properties.action.request.uri",
        ),
        (
            action(&|a| a["request"]["method"] = "FETCH".into()),
            "InvalidHttpVerb",
            "properties.action.request.method",
        ),
        (
            action(&|a| a["request"] = Value::Null),
            "BadRequest",
            "properties.action.request",
        ),
        (
            action(&|a| a["retryPolicy"] = json!({"retryCount": 21})),
            "BadRequest",
            "properties.action.retryPolicy.retryCount",
        ),
        (
            action(&|a| a["type"] = "Internal".into()),
            "BadRequest",
            "properties.action.internal",
        ),
        (
            action(&|a| {
                a["request"]["authentication"] =
                    json!({"type": "Basic", "username": "u", "password": {"$sealed": "x"}})
            }),
            "BadRequest",
            "properties.action.request.authentication.password",
        ),
    ];
    for (properties, code, target) in cases {
        assert_eq!(stage.put("j", properties).await.code(), (400, code, target));
    }
    // A sealed secret is refused also where it would stand for one that is stored.
    let basic = |password: Value| {
        let basic = json!({"type": "Basic", "username": "u", "password": password});
        action(&|a| a["request"]["authentication"] = basic.clone())
    };
    let made = stage.put("sealed", basic("geheim".into())).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    assert_eq!(
        stage
            .put("sealed", basic(json!({"$sealed": "x"})))
            .await
            .code(),
        (
            400,
            "BadRequest",
            "properties.action.request.authentication.password"
        )
    );
    let mut faulted = quiet();
    faulted["state"] = "Faulted".into();
    assert_eq!(
        stage.put("j", faulted).await.code(),
        (400, "BadRequest", "properties.state")
    );
    let path = format!("{}{}?{}", stage.base, job("j"), stage::VERSION);
    let nonsense = stage
        .client
        .put(path)
        .body("{nonsense")
        .send()
        .await
        .unwrap();
    assert_eq!(nonsense.status().as_u16(), 400);
    assert_eq!(stage.ask("POST", &job("j"), None).await.status, 405);
    assert_eq!(
        stage
            .ask("POST", &format!("{COLLECTION}/explode"), None)
            .await
            .status,
        404
    );
}
