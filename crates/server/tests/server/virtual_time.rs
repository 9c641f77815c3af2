//! `steadfast dev --virtual-time`.
//!
//! Tests in every language move the time.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast::durable::{
    ActivityContext, Context, FailureDetails, Functions, InstanceStatus, NewInstance, Task,
    TaskHubClient, TaskHubWorker,
};
use steadfast::iso::parse_time;

use crate::running::{PATIENCE, Server, Start, said};

const DAY: Duration = Duration::from_secs(86_400);
const DAY_MS: i64 = 86_400_000;

/// A server on virtual time.
fn virtual_server() -> Server {
    let mut start = Start::new("dev").set("engine=memory");
    start.command.arg("--virtual-time");
    start.ready()
}

/// Moves the time; everything that is due ends.
fn advance(server: &Server, by: &str) -> Value {
    let (status, report) = server.post("/v1/time/advance", json!({"by": by}));
    assert_eq!(status, StatusCode::OK, "{report}");
    report
}

fn now(server: &Server) -> i64 {
    let (_, time) = server.get("/v1/time");
    parse_time(time["now"].as_str().unwrap()).unwrap().0
}

async fn work(_: ActivityContext, day: u32) -> Result<u32, FailureDetails> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(day)
}

/// Every day a night's sleep, and then an activity.
async fn days(cx: Context, days: u32) -> Result<u32, FailureDetails> {
    let mut sum = 0;
    for day in 1..=days {
        cx.sleep(DAY).await;
        sum += cx.activity::<_, u32>("work", &day).await?;
    }
    Ok(sum)
}

fn functions(all: Functions) -> Functions {
    all.orchestration("days", days).activity("work", work)
}

#[test]
fn a_worker_behind_grpc_sleeps_for_days_while_the_time_is_moved_over_rest() {
    let server = virtual_server();
    let connection = format!("Endpoint={};TaskHub=default", server.url);
    let begin = now(&server);
    let (client, _worker, id) = server.block(async {
        let worker = TaskHubWorker::connect(&connection).unwrap();
        let worker = worker.functions(functions).start().unwrap();
        worker.ready().await;
        let client = TaskHubClient::connect(&connection).unwrap();
        let task = Task::new("days", &3).unwrap();
        let id = client.start(NewInstance::of(task)).await.unwrap();
        (client, worker, id)
    });
    let report = advance(&server, "P2D");
    assert_eq!(report["moments"], 2, "{report}");
    let running = server.block(client.get(&id, true)).unwrap().unwrap();
    assert_eq!(running.status, InstanceStatus::Running);
    let report = advance(&server, "P1D");
    assert_eq!(report["fired"][0]["key"], id, "{report}");
    assert_eq!(report["fired"][0]["service"], "durable");
    let ended = server.block(client.get(&id, true)).unwrap().unwrap();
    assert_eq!(ended.status, InstanceStatus::Completed);
    assert_eq!(ended.output.as_deref(), Some("6"));
    // Each further turn of an orchestration takes a millisecond.
    let passed = now(&server) - begin;
    assert!((3 * DAY_MS..3 * DAY_MS + 20).contains(&passed), "{passed}");
}

#[test]
fn work_without_a_worker_is_reported_and_the_time_stays() {
    let server = virtual_server();
    let (code, _, err) = said(&server.run(&["workflow", "start", "days", "--id", "one"]));
    assert_eq!(code, 0, "{err}");
    let before = now(&server);
    let body = json!({"by": 1000, "limit_s": 1});
    let (status, problem) = server.post("/v1/time/advance", body);
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{problem}");
    assert_eq!(problem["error"]["code"], "STF-7072");
    let message = problem["error"]["message"].as_str().unwrap();
    let expected = "1 x turn of an orchestration waiting for a worker";
    assert!(message.contains(expected), "{message}");
    assert_eq!(now(&server), before);
}

#[test]
fn a_server_on_the_systems_clock_refuses() {
    let server = Start::new("dev").set("engine=memory").ready();
    let (status, time) = server.get("/v1/time");
    assert_eq!(
        (status, &time["is_virtual"]),
        (StatusCode::OK, &json!(false))
    );
    let (status, problem) = server.post("/v1/time/advance", json!({"by": "P1D"}));
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(problem["error"]["code"], "STF-7070");
    let (code, _, err) = said(&server.run(&["time", "advance", "--by", "P1D"]));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("steadfast dev --virtual-time"), "{err}");
}

#[test]
fn moves_have_bounds() {
    let server = virtual_server();
    let before = now(&server);
    for (body, code) in [
        (json!({}), "STF-6020"),
        (json!({"by": 1, "to": "2030-01-01T00:00:00Z"}), "STF-6020"),
        (json!({"by": "3 days"}), "STF-6020"),
        (json!({"by": -1}), "STF-6020"),
        (json!({"by": 1, "limit_s": 601}), "STF-6020"),
        (json!({"by": 1, "more": 1}), "STF-6020"),
        (json!({"by": u64::MAX}), "STF-7071"),
        (json!({"by": "P11Y"}), "STF-7071"),
        (json!({"to": "2000-01-01T00:00:00Z"}), "STF-7071"),
    ] {
        let (status, problem) = server.post("/v1/time/advance", body.clone());
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {problem}");
        assert_eq!(problem["error"]["code"], code, "{body}");
    }
    assert_eq!(now(&server), before);
    assert_eq!(advance(&server, "P9Y")["moments"], 0);
}

#[test]
fn a_token_of_an_hour_is_valid_after_a_month() {
    let server = virtual_server();
    let real = Start::new("dev").set("engine=memory").ready();
    let soon = now(&real) / 1000 + 3600;
    let resource = format!("{}/v1/status", server.url);
    let key = "SAS_KEY_VALUE";
    let name = "RootManageSharedAccessKey";
    let token = steadfast_wire::sas::token(&resource, soon, name, key);
    let ask = || server.ask(Method::GET, "/v1/status", &token, None);
    assert_eq!(ask().0, StatusCode::OK, "{}", ask().1);
    advance(&server, "P1M");
    assert_eq!(ask().0, StatusCode::OK, "{}", ask().1);
}

#[test]
fn the_time_of_a_folder_never_goes_back() {
    let mut start = Start::new("dev");
    start.command.args(["--virtual-time", "--data", "data"]);
    let mut server = start.ready();
    let (code, _, err) = said(&server.run(&["eventhub", "create", "houses"]));
    assert_eq!(code, 0, "{err}");
    advance(&server, "P30D");
    let sent = server.run(&["eventhub", "send", "houses", "21 degrees"]);
    assert_eq!(said(&sent).0, 0);
    let before = now(&server);
    server.signal(rustix::process::Signal::TERM);
    server.process.wait(PATIENCE).unwrap();
    let mut again = Start::new("dev");
    let data = server.folder.path().join("data");
    again.command.arg("--virtual-time").arg("--data").arg(data);
    let again = again.ready();
    assert_eq!(now(&again), before);
}

/// The commands of the guide, in their order, and what they print.
#[test]
fn the_commands_of_the_guide_print_what_it_shows() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/testing.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let part = text.split("\n## Over the wire\n").nth(1).unwrap();
    let server = virtual_server();
    let (mut count, mut printed) = (0, String::new());
    for block in part.split("```").skip(1).step_by(2) {
        if let Some(expected) = block.strip_prefix("text\n") {
            assert_eq!(printed, expected, "command {count}");
            continue;
        }
        let Some(lines) = block.strip_prefix("sh\n") else {
            continue;
        };
        for line in lines.lines() {
            let Some(line) = line.strip_prefix("steadfast ") else {
                panic!("{line}");
            };
            if line.starts_with("dev ") {
                assert_eq!(line, "dev --set engine=memory --virtual-time");
                continue;
            }
            let words: Vec<_> = line.split_whitespace().collect();
            let (code, out, err) = said(&server.run(&words));
            assert_eq!(code, 0, "{line}: {out}{err}");
            printed = out;
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
}
