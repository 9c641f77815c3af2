//! Jobs that would not do what their author sees are refused.

use serde_json::{Value, json};
use steadfast_scheduler::Settings;

use crate::stage::{COLLECTION, Setup, Stage, VERSION, http_action, job, quick};

/// A job that calls nothing before the year 2100.
fn quiet() -> Value {
    json!({"action": http_action("http://127.0.0.1:9/"), "state": "Disabled",
        "recurrence": {"frequency": "Day", "interval": 1}})
}

#[tokio::test]
async fn a_number_that_is_written_as_a_text_is_refused() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    for (place, name) in [
        ("recurrence", "interval"),
        ("recurrence", "count"),
        ("steadfast", "maxConsecutiveFaults"),
    ] {
        let mut properties = quiet();
        properties[place][name] = "1".into();
        let refused = stage.put("j", properties).await;
        let target = format!("properties.{place}.{name}");
        assert_eq!(refused.code(), (400, "BadRequest", &*target));
    }
    let mut properties = quiet();
    properties["action"]["retryPolicy"] = json!({"retryType": "Fixed", "retryCount": "3"});
    let refused = stage.put("j", properties).await;
    let target = "properties.action.retryPolicy.retryCount";
    assert_eq!(refused.code(), (400, "BadRequest", target));
}

#[tokio::test]
async fn a_body_that_says_something_twice_is_refused() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let action =
        r#""action": {"type": "Http", "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}}"#;
    let twice = [
        format!(r#"{{"properties": {{{action}, {action}}}}}"#),
        format!(r#"{{"properties": {{{action}, "state": "Disabled", "state": "Enabled"}}}}"#),
        format!(r#"{{"properties": {{{action}}}, "properties": {{{action}}}}}"#),
    ];
    for (method, path) in [
        ("PUT", job("j")),
        ("PATCH", job("j")),
        ("PUT", COLLECTION.into()),
    ] {
        for body in &twice {
            let url = format!("{}{path}?{VERSION}", stage.base);
            let request = stage.client.request(method.parse().unwrap(), url);
            let response = request.body(body.clone()).send().await.unwrap();
            assert_eq!(response.status(), 400, "{method} {path}");
            let text = response.text().await.unwrap();
            assert!(text.contains("stands twice in one object"), "{text}");
        }
    }
    assert_eq!(stage.ask("GET", &job("j"), None).await.status, 404);
}

#[tokio::test]
async fn a_frequency_of_seconds_needs_a_recurrence_and_no_cron() {
    let stage = Stage::with(Setup {
        settings: Settings {
            allow_seconds: true,
            enforce_quotas: false,
            ..quick()
        },
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let target = "properties.steadfast.frequency";
    let mut alone = quiet();
    alone.as_object_mut().unwrap().remove("recurrence");
    alone["steadfast"] = json!({"frequency": "Second"});
    let refused = stage.put("j", alone.clone()).await;
    assert_eq!(refused.code(), (400, "BadRequest", target));
    alone["steadfast"] = json!({"frequency": "Second", "cron": "0 5 * * *"});
    let refused = stage.put("j", alone).await;
    assert_eq!(refused.code(), (400, "BadRequest", target));

    let mut properties = quiet();
    properties["steadfast"] = json!({"frequency": "Second"});
    properties["recurrence"]["interval"] = 5.into();
    let made = stage.put("j", properties).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let shown = &made.body["properties"]["recurrence"];
    assert_eq!(*shown, json!({"frequency": "Second", "interval": 5}));
    // A PATCH cannot leave the frequency alone either.
    let patch = json!({"properties": {"recurrence": null}});
    let refused = stage.ask("PATCH", &job("j"), Some(patch)).await;
    assert_eq!(refused.code(), (400, "BadRequest", target));
}

#[tokio::test]
async fn a_preview_honours_a_frequency_of_seconds() {
    let stage = Stage::start().await;
    let path = "/subscriptions/sub/providers/Microsoft.Scheduler/previewRecurrence";
    let mut body = json!({"now": "2025-06-01T12:00:00Z", "startTime": "2025-06-01T12:00:00Z",
        "recurrence": {"frequency": "Minute", "interval": 20}, "top": 3,
        "steadfast": {"frequency": "Second"}});
    let answer = stage.ask("POST", path, Some(body.clone())).await;
    let runs = json!([
        "2025-06-01T12:00:00Z",
        "2025-06-01T12:00:20Z",
        "2025-06-01T12:00:40Z"
    ]);
    assert_eq!(answer.body["value"], runs);
    body.as_object_mut().unwrap().remove("recurrence");
    let refused = stage.ask("POST", path, Some(body)).await;
    assert_eq!(refused.code(), (400, "BadRequest", "steadfast.frequency"));
}

#[tokio::test]
async fn a_backfill_without_an_occurrence_is_refused() {
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let mut properties = quiet();
    properties["startTime"] = "2025-06-01T00:00:00Z".into();
    assert_eq!(stage.put("j", properties).await.status, 201);
    let backfill = async |from: &str, to: &str| {
        let body = json!({"from": from, "to": to});
        let path = format!("{}/backfill", job("j"));
        stage.ask("POST", &path, Some(body)).await
    };
    for (from, to) in [
        ("2025-05-01T00:00:00Z", "2025-05-31T23:59:59Z"),
        ("2025-06-01T01:00:00Z", "2025-06-01T02:00:00Z"),
        ("2025-06-03T00:00:00Z", "2025-06-02T00:00:00Z"),
        ("2999-01-01T00:00:00Z", "2999-02-01T00:00:00Z"),
    ] {
        let refused = backfill(from, to).await;
        assert_eq!(refused.code(), (400, "BadRequest", "from"), "{from}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("STF-5211: "), "{message}");
    }
    let found = backfill("2025-05-01T00:00:00Z", "2025-06-01T00:00:00Z").await;
    assert_eq!(found.status, 200, "{:?}", found.body);
    let history = stage.history_of("j", 1).await;
    let expected = &history[0]["properties"]["expectedExecutionTime"];
    assert_eq!(*expected, "2025-06-01T00:00:00Z");
}
